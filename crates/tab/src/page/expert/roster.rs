//! The people in the room, and the teacher's actions on each.

use leptos::prelude::*;
use unmask_core::ClientId;
use unmask_wire::view::{ClientState, ClientView, Control, RoomView};

use crate::page::{
    logic::{self, names, names::NICKNAME_LENGTH},
    widgets::{
        feed::Feed,
        holds, optional, part,
        session::{Problem, Teacher},
    },
};

/// Makes the menu of a client, from the number of clients at its address and its nickname. A recorded room has none, and
/// its page does not carry the code.
pub type Menu = Callback<(ClientId, Signal<u32>, Signal<String>), AnyView>;

/// Up to this many clients each have a row; with more there are two in a row, without details.
const COMPACT_FROM: usize = 10;

/// One row for each client. The teacher can attack a client by a click, rename or remove it, and lock the room.
#[component]
pub fn Roster(
    feed: Feed,
    teacher: Teacher,
    /// What the teacher does at the door of a live room.
    door: ViewFn,
    /// What the teacher does with one client of a live room.
    menu: Option<Menu>,
) -> impl IntoView {
    // Those who left are folded away, since a projector cannot scroll.
    let ids = |is_one: fn(ClientState) -> bool| {
        let ids = feed.part(move |room| {
            let is_one = |client: &&ClientView| is_one(client.state);
            let mut ids: Vec<ClientId> = room.clients.iter().filter(is_one).map(|client| client.id).collect();
            ids.sort();
            ids
        });
        move || ids.get().unwrap_or_default()
    };
    let gone = ids(|state| state == ClientState::Gone);
    let waiting = ids(|state| state == ClientState::Waiting);
    let ids = ids(ClientState::is_here);
    view! {
        <section class="card roster" aria-label="Room">
            <h2>"In the room " <span class="count" data-testid="clients-here">{move || ids().len()}</span></h2>
            <Listed feed/>
            <Show when=move || teacher.is_here()>
                {door.run()}
            </Show>
            // The class learns no name before the teacher has seen it.
            <Show when=move || teacher.is_here() && !waiting().is_empty()>
                <ul class="compact" aria-label="Clients who wait to be let in">
                    <For each=waiting key=|id| *id let:id>
                        <Client feed teacher id menu/>
                    </For>
                </ul>
            </Show>
            <p class="hint" hidden=move || !ids().is_empty()>"Nobody yet. Scan the code to join."</p>
            <p class="hint" hidden=move || ids().is_empty() || !teacher.is_here()>"Click a name to attack that client."</p>
            <ul class:compact=move || { ids().len() > COMPACT_FROM } tabindex="0" aria-label="Clients in the room">
                <For each=ids key=|id| *id let:id>
                    <Client feed teacher id menu/>
                </For>
            </ul>
            <details class="gone" data-testid="gone" hidden=move || gone().is_empty()>
                <summary>{move || format!("Left ({})", gone().len())}</summary>
                <ul class="compact" tabindex="0" aria-label="Clients who left">
                    <For each=gone key=|id| *id let:id>
                        <Client feed teacher id menu/>
                    </For>
                </ul>
            </details>
        </section>
    }
}

/// Who may come in: the lock, approval, another key, and a way to readmit people who were banned.
#[component]
pub fn Door(feed: Feed, teacher: Teacher) -> impl IntoView {
    let is_locked = feed.part(|room| room.is_locked);
    let is_locked = move || is_locked.get() == Some(true);
    let approves = feed.part(|room| room.approves);
    let approves = move || approves.get() == Some(true);
    let is_careful = feed.part(|room| room.is_careful);
    let is_careful = move || is_careful.get() == Some(true);
    let waiting = feed.part(RoomView::newcomers_waiting);
    let waiting = move || waiting.get().unwrap_or(0);
    let pictures = feed.part(RoomView::pictures_waiting);
    let pictures = move || pictures.get().unwrap_or(0);
    let banned = feed.part(|room| room.banned);
    let banned = move || banned.get().unwrap_or(0);
    view! {
        <div class="row door">
            <button
                type="button"
                class="button small"
                data-testid="lock"
                aria-pressed=move || is_locked().to_string()
                title="People in the room stay and can come back"
                on:click=move |_| teacher.send(Control::Lock { on: !untrack(is_locked) })
            >
                {move || if is_locked() { "Unlock joining" } else { "Lock joining" }}
            </button>
            <button
                type="button"
                class="button small"
                data-testid="approve-first"
                aria-pressed=move || approves().to_string()
                title="Newcomers wait until you let them in"
                on:click=move |_| teacher.send(Control::ApproveFirst { on: !untrack(approves) })
            >
                {move || if approves() { "Let in at once" } else { "Approve first" }}
            </button>
            <Dishonest feed teacher/>
            <button
                type="button"
                class="button small"
                data-testid="careful-room"
                aria-pressed=move || is_careful().to_string()
                title="Before training, devices look for doctored weights; each student decides what follows"
                on:click=move |_| teacher.send(Control::Careful { on: !untrack(is_careful) })
            >
                {move || if is_careful() { "End careful training" } else { "Train carefully" }}
            </button>
            <button
                type="button"
                class="button small"
                data-testid="approve-all"
                hidden=move || waiting() == 0
                on:click=move |_| teacher.send(Control::Approve { client: None })
            >
                {move || format!("Let in all who wait ({})", waiting())}
            </button>
            <button
                type="button"
                class="button small"
                data-testid="show-all-pictures"
                title="The class then sees them, and what leaks from them"
                hidden=move || pictures() == 0
                on:click=move |_| teacher.send(Control::ShowPicture { client: None })
            >
                {move || format!("Show all pictures that wait ({})", pictures())}
            </button>
            <button
                type="button"
                class="button small"
                data-testid="new-key"
                title="Another QR code and PIN. Who is in the room stays and can come back"
                on:click=move |_| teacher.send(Control::NewKey)
            >
                "New key"
            </button>
            <button
                type="button"
                class="button small"
                data-testid="lift-bans"
                hidden=move || banned() == 0
                on:click=move |_| teacher.send(Control::LiftBans)
            >
                {move || format!("Lift bans ({})", banned())}
            </button>
        </div>
    }
}

#[component]
fn Client(feed: Feed, teacher: Teacher, id: ClientId, menu: Option<Menu>) -> impl IntoView {
    let client = feed.optional(move |room| room.clients.iter().find(|client| client.id == id).cloned());
    let is_target = Memo::new(move |_| feed.room.with(|room| room.as_ref().and_then(|room| room.target) == Some(id)));
    let nickname = part(client, |client| client.nickname.clone());
    let detail = part(client, |client| {
        let loss = client.loss.map_or(String::new(), |loss| format!(" · loss {loss:.2}"));
        let sent =
            if client.bytes_sent > 0 { format!(" · {}", logic::bytes(client.bytes_sent)) } else { String::new() };
        format!("{}{loss}{sent}", client.device)
    });
    let refusal = optional(client, |client| client.refusal.clone());
    let is_private = holds(client, |client| !client.may_show);
    // Its owner has agreed, and the button below says what is left to do.
    let has_refused = holds(client, |client| !client.may_show && !client.picture_waits);
    let neighbours = Signal::derive(move || part(client, |client| client.neighbours)().unwrap_or(0));
    view! {
        <li>
            <button
                type="button"
                class="client"
                data-testid="client"
                data-client=id.to_string()
                data-state=part(client, |client| logic::key(client.state))
                data-nickname=nickname
                data-may-show=part(client, |client| client.may_show.to_string())
                aria-pressed=move || is_target.get().to_string()
                disabled=move || !teacher.is_here() || is_private()
                on:click=move |_| teacher.send(Control::Target { client: id })
            >
                <span class="client-name">{nickname}</span>
                <span class="client-state">{part(client, |client| logic::client_state(client.state))}</span>
                <span class="client-detail">{detail}</span>
                <span class="client-target" hidden=move || !is_target.get()>"under attack"</span>
                <span
                    class="client-private"
                    title="Has not agreed that the class sees what leaks from this picture, and is never attacked"
                    hidden=move || !has_refused()
                >
                    "⊝ not to be shown"
                </span>
                <span class="client-refusal" hidden=move || refusal().is_none()>{move || refusal().map(|refusal| format!("refused: {refusal}"))}</span>
            </button>
            <Show when=move || teacher.is_here()>
                {menu.map(|menu| menu.run((id, neighbours, Signal::derive(move || nickname().unwrap_or_default()))))}
            </Show>
        </li>
    }
}

/// Take a client in, and show its picture, if they wait for it. Rename, remove or ban it; folded by default.
#[component]
pub fn ClientMenu(
    feed: Feed,
    teacher: Teacher,
    id: ClientId,
    /// Number of clients that come from the same address, itself included.
    neighbours: Signal<u32>,
    #[prop(into)] nickname: Signal<String>,
) -> impl IntoView {
    let is = move |is_so: fn(&ClientView) -> bool| {
        let part = feed.part(move |room| room.clients.iter().any(|client| client.id == id && is_so(client)));
        move || part.get() == Some(true)
    };
    let is_excluded = is(|client| client.state == ClientState::Excluded);
    let is_waiting = is(|client| client.state == ClientState::Waiting);
    let picture_waits = is(|client| client.picture_waits);
    let typed = RwSignal::new(String::new());
    let problem = RwSignal::new(None);
    let rename = move || {
        let nickname = typed.get_untracked().trim().to_owned();
        if !nickname.is_empty() {
            teacher.ask(Control::Rename { client: id, nickname }, problem);
        }
    };
    view! {
        <button
            type="button"
            class="button small readmit"
            data-testid="readmit"
            hidden=move || !is_excluded()
            on:click=move |_| teacher.send(Control::Readmit { client: id })
        >
            "Take in again"
        </button>
        <button
            type="button"
            class="button small readmit"
            data-testid="approve"
            hidden=move || !is_waiting()
            on:click=move |_| teacher.send(Control::Approve { client: Some(id) })
        >
            "Let in"
        </button>
        <button
            type="button"
            class="button small readmit"
            data-testid="show-picture"
            hidden=move || !picture_waits()
            on:click=move |_| teacher.send(Control::ShowPicture { client: Some(id) })
        >
            "Show picture"
        </button>
        <details class="client-menu" on:toggle=move |_| typed.set(nickname.get_untracked())>
            <summary data-testid="client-menu" aria-label=move || format!("Manage {}", nickname.get())>"Manage"</summary>
            <form
                class="row"
                on:submit=move |event| {
                    event.prevent_default();
                    rename();
                }
            >
                <input
                    class="client-name-field"
                    aria-label="New nickname"
                    data-testid="client-new-name"
                    autocomplete="off"
                    maxlength=NICKNAME_LENGTH.to_string()
                    bind:value=typed
                />
                <button type="submit" class="button small" data-testid="client-rename">"Rename"</button>
            </form>
            <div class="row">
                <button
                    type="button"
                    class="button small"
                    data-testid="client-remove"
                    title="Disconnect; the client can join again as someone new"
                    on:click=move |_| teacher.ask(Control::Remove { client: id }, problem)
                >
                    "Remove"
                </button>
                <button
                    type="button"
                    class="button small danger"
                    data-testid="client-ban"
                    title="Disconnect, and keep out until the bans are lifted"
                    on:click=move |_| teacher.ask(Control::Ban { client: id }, problem)
                >
                    "Ban"
                </button>
                <button
                    type="button"
                    class="button small danger"
                    data-testid="client-remove-from"
                    title="Disconnect everybody who comes from this client's address; they can join again"
                    hidden=move || neighbours.get() < 2
                    on:click=move |_| teacher.ask(Control::RemoveFrom { client: id }, problem)
                >
                    {move || format!("Remove all {} from there", neighbours.get())}
                </button>
            </div>
            <Problem problem/>
        </details>
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use unmask_wire::view::RoomView;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::page::widgets::mounted::{Mounted, Viewer};

    /// The buttons for who or what waits, each with its control.
    const BUTTONS: [(&str, Control); 5] = [
        ("approve", Control::Approve { client: Some(ClientId(1)) }),
        ("show-picture", Control::ShowPicture { client: Some(ClientId(2)) }),
        ("readmit", Control::Readmit { client: ClientId(3) }),
        ("approve-all", Control::Approve { client: None }),
        ("show-all-pictures", Control::ShowPicture { client: None }),
    ];

    /// Client 1 waits to be let in, the picture of client 2 waits, client 3 is left out, and client 4 shows nothing.
    fn room() -> RoomView {
        let client = |id, state| ClientView { id: ClientId(id), state, ..ClientView::default() };
        let clients = vec![
            client(1, ClientState::Waiting),
            ClientView { picture_waits: true, ..client(2, ClientState::Joined) },
            client(3, ClientState::Excluded),
            client(4, ClientState::Joined),
        ];
        RoomView { clients, approves: true, ..RoomView::default() }
    }

    /// The roster as the pages make it, and the feed that it follows.
    fn roster(viewer: Viewer) -> (Mounted, Feed) {
        let feed = Rc::new(Cell::new(None));
        let mounted = Mounted::new({
            let kept = Rc::clone(&feed);
            move || {
                let (feed, teacher) = viewer.sees(room());
                kept.set(Some(feed));
                let menu = Menu::new(move |(id, neighbours, nickname)| {
                    view! { <ClientMenu feed teacher id neighbours nickname/> }.into_any()
                });
                let (door, menu) = match viewer {
                    Viewer::Replay => (ViewFn::default(), None),
                    _ => (ViewFn::from(move || view! { <Door feed teacher/> }), Some(menu)),
                };
                view! { <Roster feed teacher door menu/> }
            }
        });
        (mounted, feed.get().expect("the view is made"))
    }

    #[wasm_bindgen_test]
    async fn who_and_what_waits_needs_one_tap_of_the_teacher() {
        let (roster, feed) = roster(Viewer::Teacher);
        for (id, control) in BUTTONS {
            assert_eq!(roster.tap(id).await, control, "{id}");
        }
        assert_eq!(roster.says("[data-testid=approve-all]").await, ["Let in all who wait (1)"]);
        assert_eq!(roster.says("[data-testid=show-all-pictures]").await, ["Show all pictures that wait (1)"]);
        let mut room = room();
        for client in &mut room.clients {
            (client.state, client.picture_waits) = (ClientState::Joined, false);
        }
        feed.show(room);
        assert_eq!(roster.shown("[data-testid=client]").await.len(), 4);
        for (id, _) in BUTTONS {
            assert!(roster.shown(&format!("[data-testid={id}]")).await.is_empty(), "{id}");
        }
    }

    #[wasm_bindgen_test]
    async fn the_class_and_a_replay_have_no_buttons_at_the_door() {
        for viewer in [Viewer::Class, Viewer::Replay] {
            let (roster, _) = roster(viewer);
            assert_eq!(roster.shown("[data-testid=client]").await.len(), 3, "{viewer:?}");
            assert!(roster.shown("button:not([data-testid=client])").await.is_empty(), "{viewer:?}");
        }
    }

    #[wasm_bindgen_test]
    async fn only_who_has_not_agreed_is_not_to_be_shown() {
        let (roster, _) = roster(Viewer::Teacher);
        let says = |id| format!("[data-testid=client][data-client=\"{id}\"] .client-private");
        assert!(roster.shown(&says("2")).await.is_empty());
        assert_eq!(roster.says(&says("4")).await, ["⊝ not to be shown"]);
    }
}

/// The published list of the last round, as four words that students compare with those on their devices.
#[component]
fn Listed(feed: Feed) -> impl IntoView {
    let listed = feed.optional(|room| room.listed.clone());
    view! {
        <p
            class="sub"
            data-testid="listed"
            data-round=part(listed, |listed| listed.round)
            title="Root of the list of this round's updates: the same words must be on every device"
            hidden=move || listed.with(Option::is_none)
        >
            {part(listed, |listed| format!("Round {}: {}", listed.round, listed.words))}
        </p>
    }
}

/// Lets the relay cheat and fish for a class.
#[component]
fn Dishonest(feed: Feed, teacher: Teacher) -> impl IntoView {
    let fishes_for = feed.part(|room| room.fishes_for);
    let fishes = move || fishes_for.get().flatten();
    let names = feed.part(names::classes_in_force);
    let chosen = RwSignal::new(0_u16);
    let choices = move || {
        let names = names.get().unwrap_or_default();
        let choice =
            |(class, name): (usize, &String)| view! { <option value=class.to_string()>{name.clone()}</option> };
        names.iter().enumerate().map(choice).collect_view()
    };
    let change = move |_| {
        let class = if untrack(fishes).is_some() { None } else { Some(chosen.get_untracked()) };
        teacher.send(Control::Fish { class });
    };
    view! {
        <select
            aria-label="Class to fish for"
            data-testid="fish-class"
            disabled=move || fishes().is_some()
            on:change=move |event| chosen.set(event_target_value(&event).parse().unwrap_or_default())
        >
            {choices}
        </select>
        <button
            type="button"
            class="button small"
            class:danger=move || fishes().is_some()
            data-testid="fish"
            aria-pressed=move || fishes().is_some().to_string()
            title="Sends weights under which only pictures of this class leave a trace; every page says so, and the model stays as it is"
            on:click=change
        >
            {move || if fishes().is_some() { "End dishonest relay" } else { "Dishonest relay" }}
        </button>
    }
}
