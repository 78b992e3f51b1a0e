//! Everybody in the room.

use leptos::prelude::*;
use unmask_core::ClientId;
use unmask_wire::view::{ClientState, ClientView, Control};

use super::{feed::Feed, projector::Teacher};
use crate::page::words;

/// Clients up to which each has a row of its own; more stand two abreast, without details.
const COMPACT_FROM: usize = 10;

/// One row for each client; with the teacher's token a click puts a client under attack.
#[component]
pub fn Roster(
    /// The room.
    feed: Feed,
    /// Whether and how a client can be chosen.
    teacher: Teacher,
) -> impl IntoView {
    let ids = Memo::new(move |_| {
        feed.room.with(|room| {
            let mut clients: Vec<&ClientView> = room.iter().flat_map(|room| &room.clients).collect();
            // Those who left sink to the bottom; a projector has no room to scroll.
            clients.sort_by_key(|client| (client.state == ClientState::Gone, client.id));
            clients.iter().map(|client| client.id).collect::<Vec<_>>()
        })
    });
    let here = Memo::new(move |_| {
        feed.room.with(|room| {
            room.iter().flat_map(|room| &room.clients).filter(|client| client.state != ClientState::Gone).count()
        })
    });
    view! {
        <section class="card roster" aria-label="Room">
            <h2>"In the room " <span class="count" data-testid="clients-here">{move || here.get()}</span></h2>
            <p class="hint" hidden=move || !ids.with(Vec::is_empty)>"Nobody yet. Scan the code above."</p>
            <p class="hint" hidden=move || ids.with(Vec::is_empty) || !teacher.may_drive()>"Click a name to attack it."</p>
            <ul class:compact=move || ids.with(|ids| ids.len() > COMPACT_FROM)>
                <For each=move || ids.get() key=|id| *id let:id>
                    <Client feed teacher id/>
                </For>
            </ul>
        </section>
    }
}

#[component]
fn Client(feed: Feed, teacher: Teacher, id: ClientId) -> impl IntoView {
    let client = Memo::new(move |_| {
        feed.room.with(|room| room.iter().flat_map(|room| &room.clients).find(|client| client.id == id).cloned())
    });
    let is_target = Memo::new(move |_| feed.room.with(|room| room.as_ref().and_then(|room| room.target) == Some(id)));
    let state = move || client.with(|client| client.as_ref().map(|client| words::client_state(client.state)));
    let nickname = move || client.with(|client| client.as_ref().map(|client| client.nickname.clone()));
    let detail = move || {
        client.with(|client| {
            client.as_ref().map(|client| {
                let loss = client.loss.map_or(String::new(), |loss| format!(" · loss {loss:.2}"));
                let sent = if client.bytes_sent > 0 {
                    format!(" · {}", words::bytes(client.bytes_sent))
                } else {
                    String::new()
                };
                format!("{}{loss}{sent}", client.device)
            })
        })
    };
    view! {
        <li>
            <button
                type="button"
                class="client"
                data-testid="client"
                data-client=id.to_string()
                data-state=move || state().map(|state| state.0)
                data-nickname=nickname
                aria-pressed=move || is_target.get().to_string()
                disabled=move || !teacher.may_drive()
                on:click=move |_| teacher.send(Control::Target { client: id })
            >
                <span class="client-name">{nickname}</span>
                <span class="client-state">{move || state().map(|state| format!("{} {}", state.2, state.1))}</span>
                <span class="client-detail">{detail}</span>
                <span class="client-target" hidden=move || !is_target.get()>"under attack"</span>
            </button>
        </li>
    }
}
