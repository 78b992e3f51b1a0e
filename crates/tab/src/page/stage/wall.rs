//! The end of scene 2: what leaks of everybody who agreed, turning over one by one.

use std::cmp::Reverse;

use leptos::prelude::*;
use unmask_core::ClientId;
use unmask_wire::view::{ClientView, LeakView, RoomView};
use unmask_words::{say, shown_nickname};

use super::parts::{Stage, why_empty};
use crate::page::logic::wall::layout;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tile {
    client: ClientId,
    name: String,
    /// `None` if the attack made no picture.
    picture: Option<String>,
}

/// The tiles in the order in which they turn over: robots first, so that people are the climax.
fn tiles(room: &RoomView) -> Vec<Tile> {
    let of = |client: ClientId| room.clients.iter().find(|entry| entry.id == client && entry.may_show);
    let mut leaks: Vec<_> = room.leaks.iter().filter_map(|leak| Some((of(leak.client)?, leak))).collect();
    leaks.sort_by_key(|(owner, leak)| (Reverse(owner.is_robot), leak.client));
    let tile = |(owner, leak): (&ClientView, &LeakView)| Tile {
        client: leak.client,
        name: shown_nickname(&owner.nickname),
        picture: leak.picture.clone().map(String::from),
    };
    leaks.into_iter().map(tile).collect()
}

/// Every volunteer's reconstruction with its name.
#[component]
pub fn Everybody(stage: Stage) -> impl IntoView {
    let tiles = stage.feed.part(tiles);
    let tiles = Memo::new(move |_| tiles.get().unwrap_or_default());
    let why_empty = stage.feed.part(why_empty);
    let size = move || {
        let (columns, side) = layout(tiles.with(Vec::len));
        format!("--columns: {columns}; --tile: {side}")
    };
    let turned = move |(place, Tile { name, picture, .. }): (usize, Tile)| {
        let back = match picture {
            Some(picture) => view! { <img src=picture alt=say::wall::leak(&name)/> }.into_any(),
            None => view! { <p class="shot-empty">{say::empty::no_picture()}</p> }.into_any(),
        };
        view! {
            <li class="tile-turned" data-testid="everybody" style=format!("--place: {place}")>
                <div class="tile-faces"><span class="tile-front" aria-hidden="true">"?"</span><div class="tile-back">{back}</div></div>
                <span class="tile-name">{name}</span>
            </li>
        }
    };
    view! {
        <ul class="everybody" style=size hidden=move || tiles.with(Vec::is_empty)>
            <For each=move || tiles.get().into_iter().enumerate() key=|(_, tile)| tile.clone() children=turned/>
        </ul>
        <p class="shot-empty" hidden=move || !tiles.with(Vec::is_empty)>{move || why_empty.get()}</p>
    }
}
