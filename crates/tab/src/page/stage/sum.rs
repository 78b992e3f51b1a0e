//! The scene that adds the updates of a few clients and takes the sum apart.

use leptos::prelude::*;
use unmask_lesson::Beat;
use unmask_wire::view::{RoomView, SumView};
use unmask_words::{say, shown_nickname};

use super::parts::{Shot, Stage, why_empty};

/// A client in the sum: its name and the picture that it shows.
type Member = (String, Option<String>);

/// The clients in the sum or, before it is made, those that would be.
fn members(room: &RoomView) -> Vec<Member> {
    let coming = || room.situation().suspects().into_iter().map(|suspect| suspect.client).collect();
    let ids = room.sum.as_ref().map_or_else(coming, |sum| sum.clients.clone());
    let clients = ids.into_iter().filter_map(|id| room.clients.iter().find(|client| client.id == id));
    clients.map(|client| (shown_nickname(&client.nickname), client.original.clone().map(String::from))).collect()
}

/// What came out of the sum, in words.
fn told(sum: Option<&SumView>, otherwise: &str) -> String {
    match sum {
        None => otherwise.to_owned(),
        Some(sum) if sum.pictures.is_empty() => say::sum::working().to_owned(),
        Some(sum) if sum.has_failed() => say::sum::nothing().to_owned(),
        Some(sum) => {
            let seconds = sum.seconds.map_or(0, |seconds| seconds.ceil().max(0.0) as u32);
            let found = sum.pictures.iter().flatten().count() as u32;
            say::sum::found(found, sum.clients.len() as u32, sum.certain as u32, seconds)
        }
    }
}

/// The pictures that go into the sum, above what comes out of it: at first a mixture, then each picture.
#[component]
pub fn SumOfUpdates(stage: Stage) -> impl IntoView {
    let members = stage.feed.part(members);
    let members = Memo::new(move |_| members.get().unwrap_or_default());
    let sum = stage.feed.optional(|room| room.sum.clone());
    let is_apart = Memo::new(move |_| stage.place.get().beat() == Beat::TakeApart);
    let why_empty = stage.feed.part(why_empty);
    let why_empty = move || match members.with(Vec::len) {
        0 | 1 => say::sum::too_few(),
        _ if sum.with(Option::is_some) => say::sum::working(),
        _ => why_empty.get().unwrap_or(say::empty::waiting()),
    };
    let member = |(name, picture): Member| {
        view! {
            <figure class="shot" data-testid="sum-member">
                <figcaption>{name.clone()}</figcaption>
                {match picture {
                    Some(picture) => view! { <img src=picture alt=name/> }.into_any(),
                    None => view! { <p class="shot-empty">{say::empty::not_shown()}</p> }.into_any(),
                }}
            </figure>
        }
    };
    let piece = |(place, picture): (usize, Option<String>)| {
        view! {
            <li class="tile-turned" data-testid="sum-piece" style=format!("--place: {place}")>
                <div class="tile-faces">
                    <span class="tile-front" aria-hidden="true">"?"</span>
                    <div class="tile-back">
                        {match picture {
                            Some(picture) => view! { <img src=picture alt=say::shot::from_numbers()/> }.into_any(),
                            None => view! { <p class="shot-empty">{say::empty::no_picture()}</p> }.into_any(),
                        }}
                    </div>
                </div>
            </li>
        }
    };
    let pieces = move || {
        let pictures = sum.with(|sum| sum.as_ref().map(|sum| sum.pictures.clone())).unwrap_or_default();
        pictures.into_iter().map(|picture| picture.map(String::from)).enumerate()
    };
    let found = move || sum.with(|sum| sum.as_ref().map(|sum| sum.pictures.iter().flatten().count().to_string()));
    view! {
        <div class="sum" data-testid="sum" data-found=found data-certain=move || sum.with(|sum| sum.as_ref().map(|sum| sum.certain.to_string()))>
            <div class="shots">{move || members.get().into_iter().map(member).collect_view()}</div>
            <Show
                when=move || is_apart.get()
                fallback=move || view! {
                    <div class="shots">
                        <Shot
                            testid="mixture"
                            title=Signal::derive(|| say::sum::mixture().to_owned())
                            picture=Signal::derive(move || sum.with(|sum| sum.as_ref()?.mixture.clone()).map(String::from))
                            empty=Signal::derive(move || why_empty().to_owned())
                        />
                    </div>
                }
            >
                <ul class="everybody"><For each=pieces key=Clone::clone children=piece/></ul>
                <p class="sum-told" role="status" data-testid="sum-told">{move || sum.with(|sum| told(sum.as_ref(), why_empty()))}</p>
            </Show>
        </div>
    }
}
