//! What the scenes share: the lesson as this page sees and drives it, the pictures that arrived while it was open, and
//! pieces that several scenes show.

use std::{pin::pin, time::Duration};

use futures_util::future::select;
use gloo_file::ObjectUrl;
use gloo_timers::future::sleep;
use leptos::prelude::*;
use unmask_core::{AttackMethod, ClientId, Defence};
use unmask_data::metrics::Level;
use unmask_lesson::{Change, Place, Plan, Question, Scene, Situation, plan};
use unmask_wire::view::{Control, Phase, RoomView};
use unmask_words::{say, shown_nickname};
use wasm_bindgen_futures::spawn_local;
use web_sys::{HtmlElement, PointerEvent};

use crate::page::{
    logic::attacks,
    widgets::{api, feed::Feed, session::Teacher},
};

/// How long a step may take before the presenter's next one is heard.
const PATIENCE: Duration = Duration::from_secs(10);

/// The rounds that going to a place would lose. The presenter is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    pub place: Place,
    pub rounds: u32,
}

/// The lesson as this page shows it and the presenter drives it.
#[derive(Clone, Copy)]
pub struct Stage {
    pub feed: Feed,
    pub teacher: Teacher,
    pub is_presenting: Memo<bool>,
    /// Whether the room's state has arrived. Until then `place` is the lobby, and keys do nothing.
    pub is_known: Memo<bool>,
    pub place: Memo<Place>,
    pub reel: Reel,
    /// The loss that the presenter is being asked about.
    pub loss: RwSignal<Option<Loss>>,
    /// The place to which the changes under way take the lesson.
    going: RwSignal<Option<Place>>,
    /// Where the presenter wants to go after that.
    wanted: RwSignal<Option<Place>>,
    /// The [`basis`] of the last plan.
    planned: RwSignal<u32>,
    coming: Memo<Option<Defence>>,
    /// A chosen defence that the room has not confirmed, so that fast key presses add up.
    chosen: RwSignal<Option<Defence>>,
    /// Whether the chosen defence is on its way to the relay.
    is_choosing: RwSignal<bool>,
}

impl Stage {
    pub fn new(feed: Feed, teacher: Teacher, is_presenting: Memo<bool>) -> Self {
        let place = feed.part(|room| room.lesson.place());
        let coming = feed.part(RoomView::coming_defence);
        let stage = Self {
            feed,
            teacher,
            is_presenting,
            is_known: Memo::new(move |_| feed.room.with(Option::is_some)),
            place: Memo::new(move |_| place.get().unwrap_or_default()),
            reel: Reel::collect(feed),
            loss: RwSignal::new(None),
            going: RwSignal::new(None),
            wanted: RwSignal::new(None),
            planned: RwSignal::new(0),
            coming,
            chosen: RwSignal::new(None),
            is_choosing: RwSignal::new(false),
        };
        // What a scene on secure sums needs may come while it is shown.
        Effect::new(move |_| {
            let now = feed.room.with(|room| room.as_ref().map_or(0, |room| basis(room, room.lesson.place())));
            let planned = stage.planned.get_untracked();
            // A page that was loaded in the middle of a scene did not plan it.
            if planned == 0 && is_presenting.get() && stage.going.get().is_none() {
                return stage.planned.set(now);
            }
            let is_news = stage.going.get().is_none() && now != planned && now >> PLACE == planned >> PLACE;
            let place = stage.place.get_untracked();
            if is_news && stage.plan(place).is_some_and(|plan| plan.loses_rounds.is_none()) {
                stage.go(place);
            }
        });
        Effect::new(move |_| {
            let has_failed = teacher.problem.with(Option::is_some);
            let is_there = |chosen: Defence| Some(chosen) == coming.get();
            if stage.chosen.get().is_some_and(|chosen| is_there(chosen) || has_failed) {
                stage.chosen.set(None);
            }
        });
        stage
    }

    /// Reads part of the room's present state without tracking it.
    pub fn now<T>(self, of: impl FnOnce(&RoomView) -> T) -> Option<T> {
        self.feed.room.with_untracked(|room| room.as_ref().map(of))
    }

    /// Goes to a place, or first asks whether the rounds that this costs may be lost.
    pub fn go(self, place: Place) {
        // One step at a time: the next plan depends on the room after this one.
        if let Some(going) = self.going.get_untracked() {
            self.wanted.set(Some(place).filter(|place| *place != going));
            return;
        }
        let Some(plan) = self.plan(place) else { return };
        match plan.loses_rounds {
            Some(rounds) => self.loss.set(Some(Loss { place, rounds })),
            None => self.make(place, plan.changes),
        }
    }

    /// Goes to the place asked about, accepting the loss.
    pub fn lose(self) {
        let Some(loss) = self.loss.get_untracked() else { return };
        self.loss.set(None);
        if let Some(plan) = self.plan(loss.place) {
            self.make(loss.place, plan.changes);
        }
    }

    fn plan(self, place: Place) -> Option<Plan> {
        self.now(|room| plan(&room.situation(), place))
    }

    /// Makes the changes that lead to a place. The next plan waits for the room after them.
    fn make(self, place: Place, changes: Vec<Change>) {
        self.going.set(Some(place));
        self.planned.set(self.now(|room| basis(room, place)).unwrap_or_default());
        let work = async move {
            self.teacher.send_together(changes.into_iter().map(Control::from).collect()).await;
            self.feed.refresh().await;
        };
        spawn_local(async move {
            // A request that hangs must not take the keys from the presenter.
            select(pin!(work), pin!(sleep(PATIENCE))).await;
            self.going.set(None);
            let has_failed = self.teacher.problem.with_untracked(Option::is_some);
            let wanted = self.wanted.get_untracked().filter(|_| !has_failed);
            self.wanted.set(None);
            wanted.into_iter().for_each(|place| self.go(place));
        });
    }

    pub fn next(self) {
        if let Some(next) = self.place.get_untracked().next() {
            self.go(next);
        }
    }

    /// The defence from the next round on.
    pub fn defence(self) -> Defence {
        self.chosen.get().or_else(|| self.coming.get()).unwrap_or_default()
    }

    /// Chooses the defence from the next round on. Requests go one at a time, since two at once could arrive in the
    /// wrong order; of the choices made during a request only the last is sent.
    pub fn choose(self, defence: Defence) {
        self.chosen.set(Some(defence));
        if self.is_choosing.get_untracked() {
            return;
        }
        self.is_choosing.set(true);
        spawn_local(async move {
            let mut sent = None;
            while let Some(defence) = self.chosen.get_untracked().filter(|chosen| Some(*chosen) != sent) {
                let sending = self.teacher.send_together(vec![Control::Defence { defence }]);
                select(pin!(sending), pin!(sleep(PATIENCE))).await;
                sent = Some(defence);
            }
            self.is_choosing.set(false);
        });
    }

    /// Attacks the next volunteer. If the class is guessing whose picture it is, the question is asked again.
    pub fn next_volunteer(self) {
        let controls = self.now(|room| {
            let mut situation = room.situation();
            let Some(client) = situation.next_volunteer() else { return Vec::new() };
            let mut changes = vec![Change::Target(client)];
            let asked = situation
                .place
                .question()
                .filter(|question| question.asks_whose() && *question != Question::WhoseUpdate);
            let asks = |place: &Place| Some(place.beat()) == asked.map(Question::asked_at);
            if let Some(place) = Place::all().find(asks) {
                (situation.target, situation.asked) = (Some(client), None);
                changes.extend(plan(&situation, place).changes);
            }
            changes.into_iter().map(Control::from).collect()
        });
        self.teacher.send_all(controls.unwrap_or_default());
    }

    /// Whether the present beat is about a question.
    pub fn is_asking(self) -> Memo<bool> {
        Memo::new(move |_| {
            let place = self.place.get();
            place.question().is_some_and(|question| place.is_about(question))
        })
    }

    /// The attack behind the picture of this number in the present beat.
    pub fn attack(self, picture: usize) -> Signal<AttackMethod> {
        let attack = Memo::new(move |last: Option<&AttackMethod>| {
            let beat = self.place.get().beat();
            let shown = self.feed.room.with(|room| attacks::shown(room.as_ref()?, beat, picture));
            // A scene that is about to go keeps its attack.
            shown.or(last.copied()).unwrap_or_default()
        });
        attack.into()
    }

    pub fn toggle_rounds(self) {
        if let Some(is_paused) = self.now(|room| room.phase == Phase::Paused) {
            self.teacher.send(if is_paused { Control::Start } else { Control::Pause });
        }
    }
}

/// A picture that an attack produced while this page was open.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// In order of arrival.
    number: u64,
    pub attack: AttackMethod,
    pub client: ClientId,
    /// The scene that showed it; `None` if the beat showed other attacks.
    pub scene: Option<Scene>,
    pub nickname: String,
    pub round: u32,
    /// Seconds since the search began by the clock; for other attacks their computing time.
    pub seconds: f64,
    pub ssim: Option<f32>,
    /// Its address on the relay, which may have deleted it since.
    address: String,
    /// Its address in this page.
    pub source: String,
}

/// The maximum number of pictures kept from searches and from other attacks.
const SEARCH_FRAMES: usize = 240;
const OTHER_FRAMES: usize = 60;

/// The pictures that arrived while this page was open. The relay keeps only a few for each attack.
#[derive(Clone, Copy)]
pub struct Reel {
    pub frames: RwSignal<Vec<Frame>>,
    /// Keeps the addresses in this page valid.
    held: StoredValue<Vec<(String, ObjectUrl)>, LocalStorage>,
}

impl Reel {
    fn collect(feed: Feed) -> Self {
        let reel = Self { frames: RwSignal::new(Vec::new()), held: StoredValue::new_local(Vec::new()) };
        let asked = StoredValue::new(Vec::<String>::new());
        let count = StoredValue::new(0);
        Effect::new(move |_| {
            feed.room.with(|room| {
                let Some(room) = room else { return };
                reel.forget_who_left(room);
                for result in &room.attacks {
                    let Some(address) = result.picture.as_deref() else { continue };
                    if asked.with_value(|asked| asked.iter().any(|known| known == address)) {
                        reel.score(address, result.ssim);
                        continue;
                    }
                    asked.update_value(|asked| {
                        asked.push(address.to_owned());
                        let surplus = asked.len().saturating_sub(SEARCH_FRAMES + OTHER_FRAMES);
                        asked.drain(..surplus);
                    });
                    count.update_value(|count| *count += 1);
                    let frame = Frame {
                        number: count.get_value(),
                        attack: result.attack,
                        client: result.client,
                        scene: shown_in(room, result.attack),
                        nickname: shown_nickname(&result.nickname),
                        round: result.round,
                        seconds: result.search.as_ref().map_or(result.seconds, |search| search.elapsed),
                        ssim: result.ssim,
                        address: address.to_owned(),
                        source: String::new(),
                    };
                    spawn_local(reel.hold(frame));
                }
            });
        });
        reel
    }

    /// Fetches a picture while the relay still has it. Deleted pictures are skipped.
    async fn hold(self, frame: Frame) {
        // A recorded picture's address contains it.
        let source = if frame.address.starts_with("data:") {
            frame.address.clone()
        } else {
            let Ok(blob) = api::file(&frame.address).await else { return };
            let url = ObjectUrl::from(blob);
            let source = url.to_string();
            self.held.update_value(|held| held.push((source.clone(), url)));
            source
        };
        self.frames.update(|frames| {
            // Fetches may finish out of order.
            let place = frames.partition_point(|other| other.number < frame.number);
            frames.insert(place, Frame { source, ..frame });
            for (is_search, most) in [(true, SEARCH_FRAMES), (false, OTHER_FRAMES)] {
                thin(frames, is_search, most);
            }
        });
        self.release();
    }

    /// Deletes pictures of people who left or withdrew their consent.
    fn forget_who_left(self, room: &RoomView) {
        let may_stay = |frame: &Frame| {
            let owner = room.clients.iter().find(|client| client.id == frame.client);
            owner.is_some_and(|owner| owner.may_show && owner.state.is_here())
        };
        if self.frames.with_untracked(|frames| frames.iter().all(may_stay)) {
            return;
        }
        self.frames.update(|frames| frames.retain(may_stay));
        self.release();
    }

    /// Adds a score, which arrives after its picture.
    fn score(self, address: &str, ssim: Option<f32>) {
        let is_news = |frame: &Frame| frame.address == address && frame.ssim != ssim;
        if self.frames.with_untracked(|frames| frames.iter().any(is_news)) {
            self.frames
                .update(|frames| frames.iter_mut().filter(|frame| is_news(frame)).for_each(|frame| frame.ssim = ssim));
        }
    }

    fn release(self) {
        let used =
            |source: &String| self.frames.with_untracked(|frames| frames.iter().any(|frame| frame.source == *source));
        self.held.update_value(|held| held.retain(|(source, _)| used(source)));
    }
}

/// The scene of the lesson, if its beat shows this attack on the present target.
fn shown_in(room: &RoomView, attack: AttackMethod) -> Option<Scene> {
    let place = room.lesson.place();
    let shown = (0..place.beat().attacks().len())
        .find_map(|picture| attacks::shown(room, place.beat(), picture).filter(|shown| *shown == attack));
    shown.map(|_| place.scene)
}

/// The picture of a scene that came closest to the original; of equal ones, and without scores, the last.
pub fn clearest(frames: &[Frame], scene: Scene) -> Option<&Frame> {
    let ssim = |frame: &Frame| frame.ssim.unwrap_or(f32::NEG_INFINITY);
    let of_scene = frames.iter().filter(|frame| frame.scene == Some(scene));
    of_scene.max_by(|one, other| ssim(one).total_cmp(&ssim(other)))
}

/// Drops every second picture of a search that has too many, so that the time-lapse keeps its ends; for other attacks,
/// drops the oldest, but not the clearest of a scene, which the end of the lesson shows again.
fn thin(frames: &mut Vec<Frame>, is_search: bool, most: usize) {
    let is_one = |frame: &Frame| frame.attack.is_search() == is_search;
    let count = frames.iter().filter(|frame| is_one(frame)).count();
    if count <= most {
        return;
    }
    let clearest: Vec<u64> =
        Scene::ALL.into_iter().filter_map(|scene| clearest(frames, scene)).map(|frame| frame.number).collect();
    let mut place = 0;
    frames.retain(|frame| {
        if !is_one(frame) {
            return true;
        }
        place += 1;
        if is_search {
            place % 2 == 1 || place == count
        } else {
            place > count - most || clearest.contains(&frame.number)
        }
    });
}

/// Returns keyboard focus to the lesson after a slider was moved by hand.
pub fn let_go(event: &PointerEvent) {
    let slider: HtmlElement = event_target(event);
    // This fails only if the slider does not have the focus.
    let _ = slider.blur();
}

/// A picture with its name above and a caption below, or a text if there is no picture.
#[component]
pub fn Shot(
    #[prop(into)] title: Signal<String>,
    #[prop(into)] picture: Signal<Option<String>>,
    /// Shown as long as there is no picture.
    #[prop(into)]
    empty: Signal<String>,
    #[prop(into, optional)] level: Signal<Option<Level>>,
    /// Whether a line says how recognisable it is.
    #[prop(optional)]
    has_level: bool,
    /// Its test id.
    testid: &'static str,
) -> impl IntoView {
    let picture = Memo::new(move |_| picture.get());
    view! {
        <figure class="shot" data-testid=testid data-level=move || level.get().map(Level::name)>
            <figcaption>{title}</figcaption>
            <Show
                when=move || picture.with(Option::is_some)
                fallback=move || view! { <p class="shot-empty" role="status">{empty}</p> }
            >
                <img src=move || picture.get() alt=title/>
            </Show>
            <p class="shot-level" hidden=!has_level>
                {move || level.get().map_or("\u{a0}".to_owned(), |level| format!("{} {}", sign(level), attacks::level(level)))}
            </p>
        </figure>
    }
}

/// A symbol whose shape differs, not only its colour.
pub fn sign(level: Level) -> &'static str {
    match level {
        Level::Hidden => "✓",
        Level::Outlines => "◐",
        Level::Recognisable => "✕",
    }
}

/// The picture of the client under attack, if its owner shows it.
#[component]
pub fn Original(stage: Stage) -> impl IntoView {
    let target = stage.feed.optional(|room| {
        let target = room.target?;
        room.clients.iter().find(|client| client.id == target).cloned()
    });
    let title = move || {
        target
            .with(|target| target.as_ref().map_or(say::shot::original().to_owned(), |it| shown_nickname(&it.nickname)))
    };
    let empty = stage.feed.part(|room| match (room.clients.is_empty(), room.target) {
        (true, _) => say::empty::nobody(),
        (false, None) => say::empty::nobody_agreed(),
        (false, Some(_)) => say::empty::not_shown(),
    });
    view! {
        <Shot
            testid="original"
            title=Signal::derive(title)
            picture=Signal::derive(move || target.with(|target| target.as_ref()?.original.clone()).map(String::from))
            empty=Signal::derive(move || empty.get().unwrap_or(say::empty::waiting()).to_owned())
            has_level=true
        />
    }
}

/// What an attack now reconstructs, and how recognisable that is.
#[component]
pub fn Attacked(
    stage: Stage,
    #[prop(into)] attack: Signal<AttackMethod>,
    #[prop(into)] title: Signal<String>,
) -> impl IntoView {
    let result = Memo::new(move |_| {
        let attack = attack.get();
        stage.feed.room.with(|room| attacks::result(room.as_ref()?, attack).cloned())
    });
    let why_empty = stage.feed.part(why_empty);
    let empty = move || {
        if result.with(Option::is_some) {
            say::empty::no_picture()
        } else {
            why_empty.get().unwrap_or(say::empty::waiting())
        }
        .to_owned()
    };
    let level = move || {
        result.with(|result| {
            let result = result.as_ref()?;
            // Without a picture nothing is recognisable.
            if result.picture.is_none() && result.search.is_none() {
                Some(Level::Hidden)
            } else {
                Level::of(&result.recent)
            }
        })
    };
    view! {
        <Shot
            testid="attacked"
            title
            picture=Signal::derive(move || result.with(|result| result.as_ref()?.picture.clone()).map(String::from))
            empty=Signal::derive(empty)
            level=Signal::derive(level)
            has_level=true
        />
    }
}

/// Bits of a [`basis`] before the place.
const PLACE: u32 = 18;

/// What the plan of a scene on secure sums depends on, as a number: the place, whether enough people agree, and the class
/// of the picture. 0 in other scenes.
fn basis(room: &RoomView, place: Place) -> u32 {
    if !place.scene.asks_only_volunteers() {
        return 0;
    }
    let situation = Situation { place, ..room.situation() };
    let class = situation.class_of_aim().map_or(0, |class| 1 + u32::from(class));
    let step = u32::from(place.scene.number()) << 8 | u32::from(place.beat);
    step << PLACE | u32::from(situation.can_add_secretly()) << 17 | class
}

pub fn why_empty(room: &RoomView) -> &'static str {
    obstacle(room).unwrap_or(say::empty::waiting())
}

/// Why no picture comes, unless one is on the way.
pub fn obstacle(room: &RoomView) -> Option<&'static str> {
    if !room.clients.iter().any(|client| client.state.is_here()) {
        Some(say::empty::nobody())
    } else if room.target.is_none() {
        Some(say::empty::nobody_agreed())
    } else {
        (room.phase == Phase::Paused).then(say::empty::paused)
    }
}
