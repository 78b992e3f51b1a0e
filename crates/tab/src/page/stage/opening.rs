//! Scenes 0 and 1: how to join and who is there; what federated learning promises.

use leptos::prelude::*;
use unmask_core::ClientId;
use unmask_wire::view::{Control, RoomView};
use unmask_words::{say, shown_nickname};

use super::{parts::Stage, vote::VoteLine};
use crate::page::{
    logic::{self, count, input::grouped_pin},
    widgets::feed::{Feed, Link},
};

/// The number of names that fit beside the code.
const NAMES: usize = 18;

/// Makes the [`LobbyDoor`] of a live room. A recorded one has none, and its page does not carry the code.
pub type MakeDoor = Callback<Stage, AnyView>;

/// A large code, PIN and address, and the names as they arrive. The presenter can remove people.
#[component]
pub fn Lobby(stage: Stage, door: Option<MakeDoor>) -> impl IntoView {
    let feed = stage.feed;
    let pin = feed.part(|room| room.pin.clone());
    let address = feed.part(|room| room.https_address.clone());
    let federation = feed.optional(|room| room.federation.as_ref().map(logic::federation));
    let here = feed.part(|room| {
        let here = room.clients.iter().filter(|client| client.state.is_here());
        here.map(|client| (client.id, client.nickname.clone())).collect::<Vec<_>>()
    });
    let here = Memo::new(move |_| here.get().unwrap_or_default());
    let newest = move || here.with(|here| here.iter().rev().take(NAMES).cloned().collect::<Vec<_>>());
    let surplus = move || here.with(|here| here.len().saturating_sub(NAMES));
    let is_recorded = move || feed.link.get() == Link::Recorded;
    // Nobody can join a room without an address, recorded or in this browser.
    let has_no_address = move || address.with(|address| address.as_ref().is_some_and(String::is_empty));
    view! {
        <div class="lobby">
            <Show when=has_no_address fallback=move || view! { <QrCode feed/> }>
                <Company feed/>
            </Show>
            <div class="lobby-side">
                <p class="lobby-recorded" hidden=move || !is_recorded()>{say::lobby::recorded()}</p>
                <p class="lobby-pin" hidden=move || pin.with(|pin| pin.as_ref().is_none_or(String::is_empty))>
                    <span>{say::lobby::pin()} " "</span>
                    <b data-testid="pin" data-pin=move || pin.get()>{move || pin.get().map(|pin| grouped_pin(&pin))}</b>
                </p>
                <p class="lobby-address" data-testid="https-address">{move || address.get()}</p>
                <p class="lobby-federation" data-testid="federation" hidden=move || federation.with(Option::is_none)>
                    {move || federation.get()}
                </p>
                <div class="lobby-door">
                    <p data-testid="clients-here" data-count=move || here.with(Vec::len)>
                        {move || match here.with(Vec::len) {
                            0 => say::empty::nobody().to_owned(),
                            count => say::lobby::here(count),
                        }}
                    </p>
                    {door.map(|door| door.run(stage))}
                </div>
                <ul class="lobby-names" data-testid="names">
                    <For each=newest key=Clone::clone let:client>
                        <Name stage client/>
                    </For>
                    <li hidden=move || surplus() == 0>{move || say::lobby::more(surplus())}</li>
                </ul>
            </div>
        </div>
    }
}

/// What waits for the presenter's tap, and the lock. The class reads how many pictures wait.
#[component]
pub fn LobbyDoor(stage: Stage) -> impl IntoView {
    let feed = stage.feed;
    let is_presenting = stage.is_presenting;
    let send = move |control| stage.teacher.send(control);
    let is_locked = feed.part(|room| room.is_locked);
    let is_locked = move || is_locked.get() == Some(true);
    let waiting = feed.part(RoomView::newcomers_waiting);
    let waiting = move || waiting.get().unwrap_or(0);
    let pictures = feed.part(RoomView::pictures_waiting);
    let pictures = move || pictures.get().unwrap_or(0);
    view! {
        <Show when=move || is_presenting.get() && waiting() != 0>
            <button
                type="button"
                class="key"
                data-testid="stage-approve"
                on:click=move |_| send(Control::Approve { client: None })
            >
                {move || say::lobby::let_in(waiting())}
            </button>
        </Show>
        <p role="status" data-testid="pictures-wait" hidden=move || is_presenting.get() || pictures() == 0>
            {move || say::lobby::pictures_wait(pictures())}
        </p>
        <Show when=move || is_presenting.get() && pictures() != 0>
            <button
                type="button"
                class="key"
                data-testid="stage-show-pictures"
                on:click=move |_| send(Control::ShowPicture { client: None })
            >
                {move || say::lobby::show_pictures(pictures())}
            </button>
        </Show>
        <p class="locked-note" role="status" data-testid="locked" hidden=move || !is_locked()>{say::lobby::locked()}</p>
        <Show when=move || is_presenting.get()>
            <button
                type="button"
                class="key"
                data-testid="stage-lock"
                aria-pressed=move || is_locked().to_string()
                on:click=move |_| send(Control::Lock { on: !untrack(is_locked) })
            >
                {move || if is_locked() { say::lobby::unlock() } else { say::lobby::lock() }}
            </button>
        </Show>
    }
}

/// In a room in this browser, its only visitor may be a student too.
#[component]
pub fn OwnDoor(is_phone_shown: RwSignal<bool>) -> impl IntoView {
    view! {
        <button type="button" class="key" data-testid="be-student" on:click=move |_| is_phone_shown.set(true)>
            {say::lobby::be_student()}
        </button>
    }
}

/// A person in the room, with the presenter's button to remove them.
#[component]
fn Name(stage: Stage, client: (ClientId, String)) -> impl IntoView {
    let (id, nickname) = client;
    let nickname = shown_nickname(&nickname);
    let label = say::lobby::remove(&nickname);
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

/// The number of pictures that fit in the code's place.
const PICTURES: usize = 9;

/// The people in a lesson that nobody can join, each with their shown picture or an initial. It replaces the code.
#[component]
fn Company(feed: Feed) -> impl IntoView {
    let company = feed.part(|room| {
        let here = room.clients.iter().filter(|client| client.state.is_here()).take(PICTURES);
        here.map(|client| (client.nickname.clone(), client.original.clone().map(String::from))).collect::<Vec<_>>()
    });
    let company = Memo::new(move |_| company.get().unwrap_or_default());
    let member = move |(nickname, picture): (String, Option<String>)| {
        let shown = match picture {
            Some(picture) => view! { <img src=picture alt=shown_nickname(&nickname)/> }.into_any(),
            None => {
                let initial = nickname.chars().next().map(|initial| initial.to_uppercase().to_string());
                view! { <span class="lobby-initial" aria-hidden="true">{initial}</span> }.into_any()
            }
        };
        view! { <li data-testid="company">{shown}</li> }
    };
    view! {
        <ul class="lobby-company">
            {move || company.get().into_iter().map(member).collect_view()}
            <li class="brand" hidden=move || !company.with(Vec::is_empty)>"un" <em>"mask"</em></li>
        </ul>
    }
}

#[component]
fn QrCode(feed: Feed) -> impl IntoView {
    let code = feed.optional(|room| {
        // As an image, the document cannot run scripts in this page.
        let encoded = String::from(js_sys::encode_uri_component(&room.qr_svg));
        (!encoded.is_empty()).then(|| format!("data:image/svg+xml;charset=utf-8,{encoded}"))
    });
    view! {
        <div class="lobby-code" data-testid="qr">
            {move || code.get().map(|code| view! { <img src=code alt=say::lobby::code()/> })}
        </div>
    }
}

/// Rows and columns of the drawn numbers.
const ROWS: u32 = 6;
const COLUMNS: u32 = 12;
/// The side of one number's cell, in SVG units.
const CELL: u32 = 18;

/// Phone, numbers and server. The second step sends the numbers; the third tries to send the picture.
#[component]
pub fn Promise(stage: Stage) -> impl IntoView {
    let numbers = stage.feed.part(|room| room.parameters);
    let numbers =
        move || numbers.get().filter(|numbers| *numbers > 0).map(|numbers| say::promise::numbers(count(numbers)));
    let step = move || stage.place.get().beat;
    let is_asking = stage.is_asking();
    let cells = (0..ROWS * COLUMNS).map(|place| {
        let (row, column) = (place / COLUMNS, place % COLUMNS);
        // This is not a real update; the signs are only as evenly spread as in one.
        let sign = ["minus", "plus", "zero"][((place * place + 7 * place + row) % 11 % 3) as usize];
        view! { <rect class=format!("cell-{sign}") x=column * CELL y=row * CELL width=CELL - 2 height=CELL - 2></rect> }
    });
    view! {
        <div class="promised">
        <svg class="promise" viewBox="0 0 1200 520" role="img" aria-label=say::promise::drawing() data-step=step>
            <rect class="device" x="40" y="20" width="270" height="440" rx="36"></rect>
            <rect class="screen" x="62" y="64" width="226" height="352" rx="10"></rect>
            <rect class="device" x="870" y="60" width="290" height="110" rx="14"></rect>
            <rect class="device" x="870" y="190" width="290" height="110" rx="14"></rect>
            <rect class="device" x="870" y="320" width="290" height="110" rx="14"></rect>
            <circle class="lamp" cx="905" cy="115" r="10"></circle>
            <circle class="lamp" cx="905" cy="245" r="10"></circle>
            <circle class="lamp" cx="905" cy="375" r="10"></circle>
            <g class="photograph">
                <rect class="paper" x="85" y="100" width="180" height="180" rx="8"></rect>
                <circle class="sun" cx="220" cy="145" r="22"></circle>
                <path class="hills" d="M85 262 L140 190 L180 236 L212 206 L265 262 V272 Q265 280 257 280 H93 Q85 280 85 272 Z"></path>
            </g>
            <line class="wall" x1="345" x2="345" y1="20" y2="460"></line>
            <g class="numbers" transform="translate(67 300)">
                <g class="travels">{cells.collect_view()}</g>
            </g>
            <text x="175" y="500" text-anchor="middle">{say::promise::phone()}</text>
            <text x="600" y="500" text-anchor="middle">{numbers}</text>
            <text x="1015" y="500" text-anchor="middle">{say::promise::server()}</text>
        </svg>
        <Show when=move || is_asking.get()>
            <VoteLine stage/>
        </Show>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use unmask_wire::view::{ClientState, ClientView};
    use unmask_words::Language;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::page::widgets::mounted::{Mounted, Viewer};

    /// Two pictures and one newcomer wait.
    fn lobby(viewer: Viewer) -> Mounted {
        let client =
            |id, state, picture_waits| ClientView { id: ClientId(id), state, picture_waits, ..ClientView::default() };
        let clients = vec![
            client(1, ClientState::Joined, true),
            client(2, ClientState::Joined, true),
            client(3, ClientState::Waiting, false),
        ];
        Mounted::new(move || {
            let (feed, teacher) = viewer.sees(RoomView { clients, is_locked: true, ..RoomView::default() });
            let stage = Stage::new(feed, teacher, Memo::new(move |_| teacher.is_here()));
            let door = MakeDoor::new(|stage| view! { <LobbyDoor stage/> }.into_any());
            view! { <Lobby stage door=Some(door).filter(|_| viewer != Viewer::Replay)/> }
        })
    }

    #[wasm_bindgen_test]
    async fn the_presenter_lets_in_and_shows_all_with_one_tap() {
        let lobby = lobby(Viewer::Teacher);
        assert_eq!(lobby.says(".lobby-door button").await, ["Let 1 in", "Show 2 pictures", "Unlock"]);
        assert_eq!(lobby.tap("stage-approve").await, Control::Approve { client: None });
        assert_eq!(lobby.tap("stage-show-pictures").await, Control::ShowPicture { client: None });
        assert_eq!(lobby.tap("stage-lock").await, Control::Lock { on: false });
        assert!(lobby.shown("[data-testid=pictures-wait]").await.is_empty());
    }

    #[wasm_bindgen_test]
    async fn the_class_reads_how_many_pictures_wait() {
        let german = include_str!("../../../../words/translations/de.ftl");
        let japanese = include_str!("../../../../words/translations/ja.ftl");
        assert_eq!((Language::German.learn(german), Language::Japanese.learn(japanese)), (Ok(()), Ok(())));
        for (language, said) in [
            (Language::English, "2 pictures wait for the teacher"),
            (Language::German, "2 Bilder warten auf die Lehrkraft"),
            (Language::Japanese, "2枚の写真が先生の許可を待っています"),
        ] {
            language.speak();
            let lobby = lobby(Viewer::Class);
            let (says, buttons) = (lobby.says("[data-testid=pictures-wait]").await, lobby.shown("button").await);
            Language::English.speak();
            assert_eq!(says, [said]);
            assert!(buttons.is_empty(), "{}", language.own_name());
        }
    }

    #[wasm_bindgen_test]
    async fn a_recorded_lobby_has_no_door() {
        let lobby = lobby(Viewer::Replay);
        assert_eq!(lobby.says("[data-testid=clients-here]").await, ["2 here"]);
        assert!(lobby.shown("button").await.is_empty());
        assert!(lobby.shown(".lobby-door :not([data-testid=clients-here])").await.is_empty());
    }
}
