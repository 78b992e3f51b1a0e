//! Scene 0: how to get in, and who is there.

use leptos::prelude::*;
use unmask_wire::view::{ClientState, Control};

use super::parts::Stage;
use crate::page::{
    text::{input::grouped_pin, scenes::empty},
    widgets::feed::Feed,
};

/// Names that fit beside the code.
const NAMES: usize = 18;

/// Code, PIN and address large, and names as they come. The presenter locks the room and removes who should not be there.
#[component]
pub fn Lobby(stage: Stage) -> impl IntoView {
    let feed = stage.feed;
    let pin = feed.part(|room| room.pin.clone());
    let address = feed.part(|room| room.https_address.clone());
    let is_locked = feed.part(|room| room.is_locked);
    let is_locked = move || is_locked.get() == Some(true);
    let here = feed.part(|room| {
        let here = room.clients.iter().filter(|client| client.state != ClientState::Gone);
        here.map(|client| (client.id, client.nickname.clone())).collect::<Vec<_>>()
    });
    let here = Memo::new(move |_| here.get().unwrap_or_default());
    let newest = move || here.with(|here| here.iter().rev().take(NAMES).cloned().collect::<Vec<_>>());
    let surplus = move || here.with(|here| here.len().saturating_sub(NAMES));
    view! {
        <div class="lobby">
            <QrCode feed/>
            <div class="lobby-side">
                <p class="lobby-pin" hidden=move || pin.with(|pin| pin.as_ref().is_none_or(String::is_empty))>
                    <span>"PIN "</span>
                    <b data-testid="pin" data-pin=move || pin.get()>{move || pin.get().map(|pin| grouped_pin(&pin))}</b>
                </p>
                <p class="lobby-address" data-testid="https-address">{move || address.get()}</p>
                <div class="lobby-door">
                    <p data-testid="clients-here" data-count=move || here.with(Vec::len)>
                        {move || match here.with(Vec::len) {
                            0 => empty::NOBODY.to_owned(),
                            count => format!("{count} here"),
                        }}
                    </p>
                    <p class="locked-note" role="status" data-testid="locked" hidden=move || !is_locked()>"⊘ Locked"</p>
                    <Show when=move || stage.is_presenting.get()>
                        <button
                            type="button"
                            class="key"
                            data-testid="stage-lock"
                            aria-pressed=move || is_locked().to_string()
                            on:click=move |_| stage.teacher.send(Control::Lock { on: !untrack(is_locked) })
                        >
                            {move || if is_locked() { "Unlock" } else { "Lock" }}
                        </button>
                    </Show>
                </div>
                <ul class="lobby-names" data-testid="names">
                    <For each=newest key=Clone::clone let:client>
                        <Name stage client/>
                    </For>
                    <li hidden=move || surplus() == 0>{move || format!("and {} more", surplus())}</li>
                </ul>
            </div>
        </div>
    }
}

/// Somebody in the room, whom the presenter can send out.
#[component]
fn Name(stage: Stage, client: (unmask_core::ClientId, String)) -> impl IntoView {
    let (id, nickname) = client;
    let label = format!("Remove {nickname}");
    view! {
        <li data-testid="name">
            <span>{nickname}</span>
            <Show when=move || stage.is_presenting.get()>
                <button type="button" class="name-remove" aria-label=label.clone() title=label.clone() on:click=move |_| stage.teacher.send(Control::Remove { client: id })>
                    "✕"
                </button>
            </Show>
        </li>
    }
}

/// The students' link as a picture.
#[component]
fn QrCode(feed: Feed) -> impl IntoView {
    let code = feed.optional(|room| {
        // As an image the document can run nothing in this page.
        let encoded = String::from(js_sys::encode_uri_component(&room.qr_svg));
        (!encoded.is_empty()).then(|| format!("data:image/svg+xml;charset=utf-8,{encoded}"))
    });
    view! {
        <div class="lobby-code" data-testid="qr">
            {move || code.get().map(|code| view! { <img src=code alt="QR code of the address beside it"/> })}
        </div>
    }
}
