//! The projector's page: the stage for the class, with a presenter's bar for the teacher, or the expert view.

mod anatomy;
mod attack;
mod contest;
mod guess;
mod membership;
mod opening;
mod parts;
mod sum;
mod suspects;
mod swarm;
mod trade_off;
mod vote;
mod wall;

use gloo_events::EventListener;
use leptos::{html::Button, prelude::*};
use unmask_core::Defence;
use unmask_lesson::{Place, Scene};
use unmask_wire::view::Phase;
use unmask_words::{Language, say};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Element, Event, KeyboardEvent, MouseEvent};

use self::{
    attack::{April, Attackers, MaskSlider, Patience},
    guess::Guess,
    membership::Membership,
    opening::{Lobby, LobbyDoor, MakeDoor, OwnDoor, Promise},
    parts::Stage,
    sum::SumOfUpdates,
    trade_off::TradeOff,
};
use super::{
    expert::{CheckNetwork, ClientMenu, Door, EraseEverything, Expert, Menu, OwnControls},
    logic::{
        self,
        address::Address,
        decimal,
        input::from_fragment,
        keys::{self, Action, Focus},
    },
    widgets::{
        InLanguage, LanguageSwitch, Tongue,
        feed::{Feed, Link},
        part, relay,
        session::{Session, Teacher},
    },
};

/// The storage key that synchronises blanking between windows of one browser, such as the teacher's laptop and its
/// projector.
const BLANK_KEY: &str = "unmask-blank";

#[component]
pub fn Projector() -> impl IntoView {
    let fragment = hash();
    let address = Address::read(&fragment);
    // A view link shows no bar, even in the teacher's browser, whose windows share a session.
    let is_audience = address.is_audience || from_fragment(&fragment, "view").is_some();
    let session = Session::open();
    let feed = Feed::open(session);
    let teacher = Teacher::new(session);
    let may_watch = Memo::new(move |_| session.may_watch());
    let menu = Menu::new(move |(id, neighbours, nickname)| {
        view! { <ClientMenu feed teacher id neighbours nickname/> }.into_any()
    });
    let phone = relay::phone();
    let is_phone_shown = RwSignal::new(false);
    let is_alone = phone.is_some();
    let lobby_door = Callback::new(move |stage| {
        if is_alone { view! { <OwnDoor is_phone_shown/> }.into_any() } else { view! { <LobbyDoor stage/> }.into_any() }
    });
    view! {
        {phone.map(|address| view! { <Phone address is_shown=is_phone_shown/> })}
        <Show when=move || may_watch.get() fallback=move || view! { <NotShown session/> }>
            <Room
                feed
                teacher
                address=Address { is_audience, ..address }
                lobby_door
                door=move || (!is_alone).then(|| view! { <Door feed teacher/> })
                menu
                controls=move || view! { <OwnControls feed teacher/> }
                end=move || (!is_alone).then(|| view! { <CheckNetwork teacher/><EraseEverything teacher/> })
            />
        </Show>
    }
}

/// The phone of the person at this device, beside the stage. It stays in the room while it is hidden.
#[component]
fn Phone(address: String, is_shown: RwSignal<bool>) -> impl IntoView {
    let was_shown = Memo::new(move |before: Option<&bool>| is_shown.get() || before == Some(&true));
    view! {
        <Show when=move || was_shown.get()>
            <aside class="own-phone" data-testid="own-phone" hidden=move || !is_shown.get()>
                <InLanguage>
                    <button type="button" class="key" data-testid="own-phone-close" on:click=move |_| is_shown.set(false)>
                        {say::page::close()}
                    </button>
                </InLanguage>
                <iframe src=address.clone() title=say::lobby::phone()></iframe>
            </aside>
        </Show>
    }
}

/// What to open if the relay does not show the room to this page.
#[component]
fn NotShown(session: Session) -> impl IntoView {
    let title = move || match (session.is_settled(), session.is_lost.get()) {
        (false, _) => say::shut::asking(),
        (true, true) => say::shut::lost(),
        (true, false) => say::shut::title(),
    };
    view! {
        <div class="projector">
            <header class="top"><h1 class="brand">"un" <em>"mask"</em></h1><LanguageSwitch/></header>
            <InLanguage>
            <section class="card not-shown" role="status" data-testid="not-shown" data-settled=move || session.is_settled().to_string()>
                <h2>{title}</h2>
                <p hidden=move || !session.is_settled()>{say::shut::open()}</p>
                <p hidden=move || !session.is_settled()>{say::shut::part()} " " <a href="/">{say::shut::students()}</a></p>
                <p class="problem" role="alert" data-testid="session-problem">{move || session.problem.get()}</p>
            </section>
            </InLanguage>
        </div>
    }
}

/// The stage or the expert view of a live or recorded room, with keys and an address that leads back to either.
#[component]
pub fn Room(
    feed: Feed,
    teacher: Teacher,
    address: Address,
    /// What the teacher does at the door of a live room and in it, and what ends it. A recorded one has none of these, and
    /// its page does not carry the code.
    #[prop(optional)]
    lobby_door: Option<MakeDoor>,
    #[prop(optional, into)] door: ViewFn,
    #[prop(optional)] menu: Option<Menu>,
    #[prop(optional, into)] controls: ViewFn,
    #[prop(optional, into)] end: ViewFn,
) -> impl IntoView {
    let is_presenting = Memo::new(move |_| teacher.is_here() && !address.is_audience);
    let stage = Stage::new(feed, teacher, is_presenting);
    let is_expert = RwSignal::new(address.is_expert);
    let has_notes = RwSignal::new(false);
    let is_blank = RwSignal::new(read_blank());
    let tongue = Tongue::spoken();
    follow_address(stage, is_expert, address);
    EventListener::new(&window(), "storage", move |_| is_blank.set(read_blank())).forget();
    let act = obey(stage, is_expert, has_notes, is_blank);
    listen_to_keys(stage, is_expert, act);
    on_cleanup(move || tongue.keep_english(false));
    view! {
        <Show
            when=move || is_expert.get()
            fallback=move || {
                tongue.keep_english(false);
                view! { <InLanguage><StageView stage lobby_door has_notes is_blank act/></InLanguage> }
            }
        >
            {
                tongue.keep_english(true);
                view! { <Expert feed teacher on_stage=move |()| is_expert.set(false) door=door.clone() menu controls=controls.clone() end=end.clone()/> }
            }
        </Show>
    }
}

/// Does what a key or a button of the bar asks for. Only the presenter drives the lesson, and only on the stage.
fn obey(
    stage: Stage,
    is_expert: RwSignal<bool>,
    has_notes: RwSignal<bool>,
    is_blank: RwSignal<bool>,
) -> Callback<Action> {
    let tongue = Tongue::spoken();
    Callback::new(move |action: Action| match action {
        Action::Expert => is_expert.update(|is_expert| *is_expert = !*is_expert),
        Action::Language => tongue.choose_next(),
        _ if is_expert.get_untracked() || !stage.is_presenting.get_untracked() => {}
        Action::Next => stage.next(),
        Action::NextScene => {
            if let Some(next) = stage.place.get_untracked().next_scene() {
                stage.go(next);
            }
        }
        Action::PreviousScene => {
            if let Some(previous) = stage.place.get_untracked().previous_scene() {
                stage.go(previous);
            }
        }
        Action::RateDown | Action::RateUp => {
            if let Some(defence) = unmask_lesson::stepped(untrack(|| stage.defence()), action == Action::RateUp) {
                stage.choose(defence);
            }
        }
        Action::Mask => stage.choose(unmask_lesson::flipped(untrack(|| stage.defence()))),
        Action::NextVolunteer => stage.next_volunteer(),
        Action::Pause => stage.toggle_rounds(),
        Action::Blank => blank(is_blank, !is_blank.get_untracked()),
        Action::Notes => has_notes.update(|has_notes| *has_notes = !*has_notes),
        Action::Confirm => stage.lose(),
        Action::Cancel => stage.loss.set(None),
    })
}

fn listen_to_keys(stage: Stage, is_expert: RwSignal<bool>, act: Callback<Action>) {
    let handle = window_event_listener(leptos::ev::keydown, move |event| {
        let is_asked = stage.loss.with_untracked(Option::is_some) && !is_expert.get_untracked();
        if let Some(action) = keys::action(&event.key(), focus(&event, is_asked)) {
            // Space would also scroll the page.
            if !matches!(action, Action::Expert | Action::Language) && !is_expert.get_untracked() {
                event.prevent_default();
            }
            act.run(action);
        }
    });
    on_cleanup(move || handle.remove());
}

/// Blanks or shows every window of this browser.
fn blank(is_blank: RwSignal<bool>, now: bool) {
    is_blank.set(now);
    if let Ok(Some(storage)) = window().local_storage() {
        // If the browser refuses, only this window goes blank.
        let _ = storage.set_item(BLANK_KEY, if now { "1" } else { "0" });
    }
}

/// Synchronises the address and the lesson. If this page drives the lesson, an address that differs from the room moves
/// the room once; from then on the address follows the room.
fn follow_address(stage: Stage, is_expert: RwSignal<bool>, opened: Address) {
    let is_known = stage.is_known;
    Effect::new(move |has_led: Option<bool>| {
        if has_led == Some(true) || !is_known.get() || !stage.is_presenting.get() {
            return has_led.unwrap_or(false);
        }
        if let Some(place) = opened.place.filter(|place| *place != stage.place.get_untracked()) {
            stage.go(place);
        }
        true
    });
    Effect::new(move |_| {
        let place = is_known.get().then(|| stage.place.get()).or(opened.place);
        let fragment = Address { place, is_expert: is_expert.get(), is_audience: opened.is_audience }.fragment();
        if fragment != hash() {
            let location = window().location();
            let (path, search) = (location.pathname().unwrap_or_default(), location.search().unwrap_or_default());
            if let Ok(history) = window().history() {
                // The page works without this.
                let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&format!("{path}{search}{fragment}")));
            }
        }
    });
    let handle = window_event_listener(leptos::ev::hashchange, move |_| {
        let asked = Address::read(&hash());
        is_expert.set(asked.is_expert);
        if let Some(place) = asked.place.filter(|place| *place != stage.place.get_untracked())
            && stage.is_presenting.get_untracked()
        {
            stage.go(place);
        }
    });
    on_cleanup(move || handle.remove());
}

pub fn hash() -> String {
    window().location().hash().unwrap_or_default()
}

fn read_blank() -> bool {
    let storage = window().local_storage().ok().flatten();
    storage.and_then(|storage| storage.get_item(BLANK_KEY).ok().flatten()).as_deref() == Some("1")
}

/// Prevents a click on a button from taking the focus. Otherwise Space would press that button again.
fn keep_focus(event: &MouseEvent) {
    if is_within(event, "button") {
        event.prevent_default();
    }
}

/// Whether an event's target matches this selector or is inside an element that does.
fn is_within(event: &Event, selector: &str) -> bool {
    let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
    target.is_some_and(|target| target.closest(selector).is_ok_and(|it| it.is_some()))
}

fn focus(event: &KeyboardEvent, is_asked: bool) -> Focus {
    let is = |selector: &str| is_within(event, selector);
    Focus {
        is_typing: is("input, textarea, select"),
        is_pressable: is("button, a, summary, label"),
        is_asked,
        has_modifier: event.ctrl_key() || event.alt_key() || event.meta_key(),
    }
}

/// The slide and, for the presenter, the bar and the notes.
#[component]
fn StageView(
    stage: Stage,
    lobby_door: Option<MakeDoor>,
    has_notes: RwSignal<bool>,
    is_blank: RwSignal<bool>,
    act: Callback<Action>,
) -> impl IntoView {
    let place = stage.place;
    let scene = Memo::new(move |_| place.get().scene);
    let words = move || unmask_words::scene(scene.get());
    let is_presenting = stage.is_presenting;
    let federation = stage.feed.optional(|room| room.federation.as_ref().map(logic::federation));
    // The lobby shows it beside the address.
    let federation = move || federation.get().filter(|_| scene.get() != Scene::Lobby);
    view! {
        <div class="theatre" class:with-notes=move || has_notes.get() && is_presenting.get()>
            <div class="house">
                <div class="frame">
                    <main
                        class="slide"
                        data-testid="stage"
                        data-scene=move || place.get().scene.number()
                        data-beat=move || place.get().beat
                        aria-busy=move || (!stage.is_known.get()).to_string()
                    >
                        <button type="button" class="skip" on:click=move |_| act.run(Action::Expert)>{say::bar::expert_title()}</button>
                        <Headline stage scene/>
                        <div class="scene" data-testid="scene" on:mousedown=|event| keep_focus(&event)>
                            <SceneView stage lobby_door scene/>
                        </div>
                        <Show when=move || is_presenting.get() fallback=move || view! {
                            <footer class="bar quiet">
                                <p class="federation" data-testid="stage-federation">{federation}</p>
                                <LanguageKey act/>
                            </footer>
                        }>
                            <Bar stage has_notes is_blank act/>
                        </Show>
                        <Show when=move || is_presenting.get()>
                            <Alarm stage/>
                            <LossQuestion stage act/>
                        </Show>
                        <div class="blank" data-testid="blank" hidden=move || !is_blank.get()></div>
                    </main>
                </div>
            </div>
            <Show when=move || has_notes.get() && is_presenting.get()>
                <aside class="notes" aria-label=say::bar::notes_title() data-testid="notes">
                    <p><b>{say::bar::say()}</b> " " {move || words().say}</p>
                    <p><b>{say::bar::ask()}</b> " " {move || words().ask}</p>
                    <p data-testid="notes-answer"><b>{say::bar::answer()}</b> " " {move || words().answer}</p>
                </aside>
            </Show>
        </div>
    }
}

#[component]
fn Headline(stage: Stage, scene: Memo<Scene>) -> impl IntoView {
    let has_no_address = stage.feed.part(|room| room.https_address.is_empty());
    // Nobody can join a recorded lesson, or one in this browser from another device.
    let headline = move || match scene.get() {
        Scene::Lobby if stage.feed.link.get() != Link::Recorded && has_no_address.get() == Some(true) => {
            say::lobby::alone_headline()
        }
        scene => unmask_words::scene(scene).headline,
    };
    let line = move || match scene.get() {
        Scene::Lobby if stage.feed.link.get() == Link::Recorded => say::lobby::took_part(),
        Scene::Lobby if has_no_address.get() == Some(true) => say::lobby::alone_line(),
        _ => unmask_words::line(stage.place.get().beat()),
    };
    let fishes = stage.feed.part(|room| room.fishes_for);
    // Words that change every round are for a class that compares them.
    let listed = stage.feed.optional(|room| {
        room.listed.as_ref().filter(|_| room.is_careful).map(|listed| (listed.round, listed.words.clone()))
    });
    view! {
        <header class="slide-head">
            <h1 data-testid="headline">{headline}</h1>
            <p data-testid="line" role="status">{line}</p>
            <p class="ribbon" data-testid="stage-doctored" hidden=move || fishes.get().flatten().is_none()>
                {say::careful::doctored()}
            </p>
            <p class="listed" data-testid="stage-listed" hidden=move || listed.with(Option::is_none)>
                {part(listed, |(round, _)| say::careful::wall(*round))}
                " "
                <b lang="en" translate="no">{part(listed, |(_, words)| words.clone())}</b>
            </p>
        </header>
    }
}

#[component]
fn SceneView(stage: Stage, lobby_door: Option<MakeDoor>, scene: Memo<Scene>) -> impl IntoView {
    move || match scene.get() {
        Scene::Lobby => view! { <Lobby stage door=lobby_door/> }.into_any(),
        Scene::Promise => view! { <Promise stage/> }.into_any(),
        Scene::Guess | Scene::Debrief => view! { <Guess stage/> }.into_any(),
        Scene::April => view! { <April stage/> }.into_any(),
        Scene::Mask => view! { <MaskSlider stage/> }.into_any(),
        Scene::Attackers => view! { <Attackers stage/> }.into_any(),
        Scene::Patience => view! { <Patience stage/> }.into_any(),
        Scene::TradeOff => view! { <TradeOff stage/> }.into_any(),
        Scene::Membership => view! { <Membership stage/> }.into_any(),
        Scene::SecureSum | Scene::Sum | Scene::Dishonest | Scene::Checks => view! { <SumOfUpdates stage/> }.into_any(),
    }
}

/// The presenter's bar, with a button for every key.
#[component]
fn Bar(stage: Stage, has_notes: RwSignal<bool>, is_blank: RwSignal<bool>, act: Callback<Action>) -> impl IntoView {
    let is_paused = stage.feed.part(|room| room.phase == Phase::Paused);
    let is_paused = move || is_paused.get() == Some(true);
    let is_masked = move || stage.defence() != Defence::None;
    let rate =
        move || unmask_lesson::uniform_rate(stage.defence()).map_or("–".to_owned(), |rate| decimal(rate.to_string()));
    let dot = move |scene: Scene| {
        let is_here = move || stage.place.get().scene == scene;
        let title = format!("{}: {}", scene.number(), unmask_words::scene(scene).title);
        view! {
            <button
                type="button"
                class="dot"
                data-testid=format!("scene-{}", scene.number())
                title=title.clone()
                aria-label=title
                aria-current=move || is_here().then_some("step")
                on:click=move |_| stage.go(Place::start(scene))
            >
                {scene.number()}
            </button>
        }
    };
    view! {
        <div class="bar" role="toolbar" aria-label=say::bar::presenter() data-testid="bar" on:mousedown=|event| keep_focus(&event)>
            <span class="dots" role="group" aria-label=say::bar::scenes()>{Scene::ALL.map(dot).collect_view()}</span>
            <Key act action=Action::Next key="Space" testid="next-beat" title=say::bar::next_title()>{say::bar::next()}</Key>
            <Key act action=Action::RateDown key="[" testid="rate-down" title=say::bar::less_title()>"R−"</Key>
            <output class="rate" data-testid="stage-rate">{rate}</output>
            <Key act action=Action::RateUp key="]" testid="rate-up" title=say::bar::more_title()>"R+"</Key>
            <Key act action=Action::Mask key="M" testid="mask" title=say::bar::mask_title() pressed=Signal::derive(is_masked)>{say::bar::mask()}</Key>
            <Key act action=Action::NextVolunteer key="T" testid="next-volunteer" title=say::bar::who_title()>{say::bar::who()}</Key>
            <Key act action=Action::Pause key="P" testid="stage-pause" title=say::bar::pause_title()>
                {move || if is_paused() { say::bar::run() } else { say::bar::pause() }}
            </Key>
            <Key act action=Action::Blank key="B" testid="blank-key" title=say::bar::blank_title() pressed=is_blank>{say::bar::blank()}</Key>
            <Key act action=Action::Notes key="N" testid="notes-key" title=say::bar::notes_title() pressed=has_notes>{say::bar::notes()}</Key>
            <Key act action=Action::Expert key="E" testid="expert" title=say::bar::expert_title()>{say::bar::expert()}</Key>
            <LanguageKey act/>
        </div>
    }
}

/// Shows the language of this page and switches to the next one.
#[component]
fn LanguageKey(act: Callback<Action>) -> impl IntoView {
    view! {
        <Key act action=Action::Language key="L" testid="language" title=say::bar::language_title()>
            {Language::now().short_name()}
        </Key>
    }
}

/// A button that does the same as a key.
#[component]
fn Key(
    act: Callback<Action>,
    action: Action,
    /// The key's name for screen readers.
    key: &'static str,
    testid: &'static str,
    title: &'static str,
    /// Whether it is on, for keys that switch something.
    #[prop(into, optional)]
    pressed: Option<Signal<bool>>,
    children: Children,
) -> impl IntoView {
    view! {
        <button
            type="button"
            class="key"
            data-testid=testid
            title=format!("{title} ({key})")
            aria-keyshortcuts=key
            aria-pressed=move || pressed.map(|pressed| pressed.get().to_string())
            on:click=move |_| act.run(action)
        >
            {children()}
        </button>
    }
}

/// The error of the last step, until the next step.
#[component]
fn Alarm(stage: Stage) -> impl IntoView {
    let problem = stage.teacher.problem;
    view! {
        <p class="alarm" role="alert" data-testid="stage-problem" hidden=move || problem.with(Option::is_none)>
            {move || problem.get()}
            <button type="button" class="key" aria-label=say::page::close() on:click=move |_| problem.set(None)>"✕"</button>
        </p>
    }
}

/// Asks before the class's model loses rounds.
#[component]
fn LossQuestion(stage: Stage, act: Callback<Action>) -> impl IntoView {
    let loss = stage.loss;
    let begin = NodeRef::<Button>::new();
    // The question covers the element that had the focus.
    Effect::new(move |_| {
        if let Some(begin) = begin.get() {
            let _ = begin.focus();
        }
    });
    view! {
        <Show when=move || loss.with(Option::is_some)>
            <div class="veil">
                <section class="question" role="alertdialog" aria-modal="true" aria-labelledby="loss" data-testid="loses-rounds" data-rounds=move || loss.get().map(|loss| loss.rounds)>
                    <h2 id="loss">{move || loss.get().map(|loss| say::bar::loses(loss.rounds))}</h2>
                    <p>
                        <button node_ref=begin type="button" class="key accent" data-testid="loses-rounds-yes" on:click=move |_| act.run(Action::Confirm)>
                            {say::bar::begin()}
                        </button>
                        <button type="button" class="key" data-testid="loses-rounds-no" on:click=move |_| act.run(Action::Cancel)>
                            {say::bar::stay()}
                        </button>
                    </p>
                </section>
            </div>
        </Show>
    }
}
