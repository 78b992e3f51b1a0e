//! Controls the course of a lesson, without a browser: the steps of each scene, what each needs from the room, the
//! controls that achieve it, the keys, and the part of the address that stores the place.

use unmask_core::{
    Architecture, AttackMethod, ClientId, Defence, GroupRates, InitialWeights, Rule, Scene, TrainOn, VitPreset,
    ZeroRate,
};
pub use unmask_data::metrics::Level;
use unmask_wire::view::{Answers, AttackView, ClientState, ClientView, Control, Phase, Poll, PollView, RoomView};

use super::{input::from_fragment, say, scenes};

/// A place in the lesson: a scene and a step of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub scene: Scene,
    /// The step, counted from 0.
    pub beat: u8,
}

impl Place {
    pub fn start(scene: Scene) -> Self {
        Self { scene, beat: 0 }
    }

    /// The room's current place.
    pub fn of(view: &RoomView) -> Self {
        Self { scene: view.lesson.scene, beat: view.lesson.beat }
    }

    /// The next step, in this scene or the following one; `None` at the end of the lesson.
    pub fn next(self) -> Option<Self> {
        if self.beat + 1 < beats(self.scene) {
            return Some(Self { beat: self.beat + 1, ..self });
        }
        self.next_scene()
    }

    pub fn next_scene(self) -> Option<Self> {
        Scene::from_number(self.scene.number() + 1).map(Self::start)
    }

    /// The start of this scene if it is under way, otherwise the start of the previous scene.
    pub fn previous_scene(self) -> Option<Self> {
        let before = self.scene.number().checked_sub(1).and_then(Scene::from_number).map(Self::start);
        if self.beat > 0 { Some(Self::start(self.scene)) } else { before }
    }
}

/// The number of steps in a scene, which is the number of its lines.
pub fn beats(scene: Scene) -> u8 {
    scenes::lines(scene).len() as u8
}

/// What has to happen before the room is at a place of the lesson.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// In sending order.
    pub controls: Vec<Control>,
    /// The number of rounds that the class's model loses.
    pub loses_rounds: Option<u32>,
}

/// The model that a scene needs for its demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    Any,
    Vit,
    /// A ViT whose first block APRIL can solve.
    AprilBlock,
    Ordinary,
    /// A ViT with so few patches for its width that a rank argument defeats a mask.
    FewPatches,
    /// A model on which the search succeeds.
    Searched,
}

impl Model {
    /// The model to switch to from `coming`; `None` if `coming` is suitable.
    fn instead_of(self, coming: Architecture) -> Option<Architecture> {
        let preset = coming.vit().and_then(|config| config.preset());
        let april = coming.april_block();
        let few = matches!(preset, Some(VitPreset::NanoPatch8 | VitPreset::LabPatch8 | VitPreset::SmallPatch32));
        let searched = matches!(preset, Some(VitPreset::Nano | VitPreset::Lab));
        let (will_do, other) = match self {
            Self::Any => (true, coming),
            Self::Vit => (coming.vit().is_some(), VitPreset::Nano.into()),
            // If the room's model is a preset, keep it and change only the block.
            Self::AprilBlock => {
                let own = if preset.is_some() { coming } else { VitPreset::Nano.into() };
                (april, own.with_april_block(true))
            }
            Self::Ordinary => (coming.vit().is_some() && !april, VitPreset::NanoPatch8.into()),
            Self::FewPatches => (few && !april, VitPreset::NanoPatch8.into()),
            Self::Searched => (searched && !april, VitPreset::Nano.into()),
        };
        (!will_do).then_some(other)
    }
}

/// The defence that a scene demonstrates.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Any,
    /// A defence under which the relay can answer a membership question: neither noise nor encryption.
    Readable,
    /// A random mask with one rate for all groups.
    Masked,
    Exactly(Defence),
}

impl Wanted {
    /// The defence to switch to from `coming`; `None` if `coming` is suitable.
    fn instead_of(self, coming: Defence) -> Option<Defence> {
        let (will_do, other) = match self {
            Self::Any => (true, coming),
            Self::Readable => (!coming.is_encrypted() && coming.noise().is_none(), Defence::None),
            Self::Masked => (uniform_rate(coming).is_some_and(|rate| rate.get() > 0.0), masked(HALF)),
            Self::Exactly(defence) => (coming == defence, defence),
        };
        (!will_do).then_some(other)
    }
}

/// Whether the scene needs rounds to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounds {
    AsTheyAre,
    /// One round if none has run so far.
    Any,
    /// As `Any`, but no further rounds may follow.
    Alone,
    One,
    On,
    Paused,
}

/// What a place of the lesson needs from the room.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Needs {
    model: Model,
    /// Whether no round may have changed the weights.
    is_fresh: bool,
    defence: Wanted,
    /// Whether an update must be the gradient of one private picture.
    is_one_picture: bool,
    /// Whether a client must be under attack.
    has_target: bool,
    rounds: Rounds,
    /// Whether the relay must be searching; `None` if it does not matter.
    search: Option<bool>,
}

/// The zero rate of the papers' tests, and the first rate of every scene with a mask.
const HALF: f64 = 0.5;

/// A random mask with this zero rate; no defence at 0.
pub fn masked(rate: f64) -> Defence {
    if rate <= 0.0 {
        return Defence::None;
    }
    Defence::RandomBinary { rates: GroupRates::uniform(ZeroRate::nearest(rate)) }
}

/// The single rate of a random mask: 0 without a defence, `None` for any other defence.
pub fn uniform_rate(defence: Defence) -> Option<ZeroRate> {
    match defence {
        Defence::None => Some(ZeroRate::default()),
        Defence::RandomBinary { rates } => rates.single(),
        _ => None,
    }
}

/// The defence from the next round on.
pub fn coming_defence(view: &RoomView) -> Defence {
    view.next.as_ref().and_then(|next| next.defence).unwrap_or(view.defence)
}

fn coming_architecture(view: &RoomView) -> Architecture {
    view.next.as_ref().and_then(|next| next.architecture).unwrap_or(view.architecture)
}

fn needs(view: &RoomView, Place { scene, beat }: Place) -> Needs {
    let nothing = Needs {
        model: Model::Any,
        is_fresh: false,
        defence: Wanted::Any,
        is_one_picture: false,
        has_target: false,
        rounds: Rounds::AsTheyAre,
        search: None,
    };
    let pictures = Needs {
        model: Model::Vit,
        is_one_picture: true,
        has_target: true,
        rounds: Rounds::On,
        search: Some(false),
        ..nothing
    };
    // The scene `April` needs this block, and a model without rounds loses nothing by the change.
    let first = if view.round == 0 { Model::AprilBlock } else { Model::Vit };
    let open = Wanted::Exactly(Defence::None);
    match scene {
        Scene::Lobby => nothing,
        Scene::Promise => {
            let rounds = if beat == 1 { Rounds::One } else { Rounds::AsTheyAre };
            Needs { model: first, defence: open, rounds, ..pictures }
        }
        Scene::Guess => Needs { model: first, defence: open, ..pictures },
        Scene::April => match beat {
            0 => Needs { model: Model::AprilBlock, defence: open, ..pictures },
            1 => Needs { model: Model::AprilBlock, defence: Wanted::Masked, ..pictures },
            _ => Needs { model: Model::Ordinary, defence: open, ..pictures },
        },
        Scene::Mask => Needs { defence: Wanted::Masked, ..pictures },
        Scene::Attackers => {
            let defence = match beat {
                0 | 1 => masked(HALF),
                2 => Defence::FixedPosition,
                _ => Defence::RandomBinary { rates: GroupRates::papers_hint() },
            };
            Needs { model: Model::FewPatches, defence: Wanted::Exactly(defence), ..pictures }
        }
        Scene::Patience => Needs {
            model: Model::Searched,
            is_fresh: true,
            defence: Wanted::Exactly(masked(HALF)),
            rounds: if beat == 0 { Rounds::Paused } else { Rounds::Alone },
            search: (beat > 0).then_some(true),
            ..pictures
        },
        Scene::TradeOff if beat < 2 => Needs { search: Some(false), ..nothing },
        Scene::TradeOff => {
            let defence = chosen_rate(view).map_or(Wanted::Any, |rate| Wanted::Exactly(masked(rate)));
            Needs { model: Model::Vit, defence, rounds: Rounds::On, search: Some(false), ..nothing }
        }
        Scene::Membership => Needs {
            defence: Wanted::Readable,
            rounds: Rounds::Any,
            has_target: true,
            ..Needs { model: Model::Vit, ..nothing }
        },
        Scene::Debrief if beat == 0 => Needs { defence: Wanted::Masked, ..pictures },
        Scene::Debrief => nothing,
    }
}

/// The median of the rates that the class voted for, as a share.
fn chosen_rate(view: &RoomView) -> Option<f64> {
    let poll = view.lesson.poll.as_ref().filter(|poll| matches!(poll.poll.answers, Answers::Number { .. }))?;
    let votes = &poll.votes;
    votes.get(votes.len() / 2).map(|percent| f64::from(*percent) / 100.0)
}

/// Whether a search can start from unchanged weights: no round has run, or only the one that is searched.
fn is_fresh(view: &RoomView) -> bool {
    let is_searched = view.search == Some(true) || has_searched(view);
    view.initial_weights == InitialWeights::Scratch && (view.round == 0 || view.round == 1 && is_searched)
}

/// Whether there is a search result for the first update.
fn has_searched(view: &RoomView) -> bool {
    view.attacks.iter().any(|attack| attack.search.is_some() && attack.round == 1)
}

/// The controls that bring the room to `place`, and the rounds lost. Settings that suit the place stay as they are.
pub fn plan(view: &RoomView, place: Place) -> Plan {
    let needs = needs(view, place);
    let mut controls = Vec::new();
    // Comes first, so that everybody sees the new place while the room is still changing.
    if Place::of(view) != place {
        controls.push(Control::Lesson { scene: place.scene, beat: place.beat });
    }
    if needs.rounds == Rounds::Paused && view.phase != Phase::Paused {
        controls.push(Control::Pause);
    }
    if needs.search == Some(false) && view.search == Some(true) {
        controls.push(Control::Search { on: false });
    }
    let coming = coming_architecture(view);
    let other = needs.model.instead_of(coming).or_else(|| (needs.is_fresh && !is_fresh(view)).then_some(coming));
    let defence = needs.defence.instead_of(coming_defence(view));
    // The relay cannot decrypt an encrypted room's model.
    let leaves_encryption = defence.is_some_and(|defence| view.defence.is_encrypted() && !defence.is_encrypted());
    if let Some(other) = other {
        controls.push(Control::Architecture {
            name: other.name().into_owned(),
            april_block: other.april_block(),
            initial_weights: InitialWeights::Scratch,
        });
    }
    if let Some(defence) = defence {
        controls.push(Control::Defence { defence });
    }
    if needs.is_one_picture {
        controls.extend(one_picture(view));
    }
    if needs.has_target {
        controls.extend(target(view).map(|client| Control::Target { client }));
    }
    controls.extend(poll(view, place));
    if needs.search == Some(true) && view.search == Some(false) && (other.is_some() || !has_searched(view)) {
        controls.push(Control::Search { on: true });
    }
    let is_untrained = view.round == 0 || other.is_some();
    // A new model pauses the room.
    let is_paused = view.phase == Phase::Paused || needs.rounds == Rounds::Paused || other.is_some();
    match needs.rounds {
        Rounds::On if is_paused => controls.push(Control::Start),
        // Only on arrival.
        Rounds::One if is_paused && Place::of(view) != place => controls.push(Control::OneRound),
        Rounds::Any if is_paused && is_untrained => controls.push(Control::OneRound),
        Rounds::Alone if is_untrained => controls.push(Control::OneRound),
        _ => {}
    }
    let resets = other.is_some() || leaves_encryption;
    Plan { controls, loses_rounds: (resets && view.round > 0).then_some(view.round) }
}

/// The controls that make an update the gradient of one private picture.
fn one_picture(view: &RoomView) -> impl Iterator<Item = Control> {
    let next = view.next.clone().unwrap_or_default();
    let is_shared = view.data.as_ref().is_some_and(|data| next.train_on.unwrap_or(data.train_on) == TrainOn::Shared);
    let is_averaged = next.rule.unwrap_or(view.rule).is_fedavg();
    let is_batch = next.batch.unwrap_or(view.batch) > 1;
    [
        is_shared.then_some(Control::TrainOn { pictures: TrainOn::Private }),
        is_averaged.then_some(Control::Rule { rule: Rule::FedSgd }),
        is_batch.then_some(Control::Batch { samples: 1 }),
    ]
    .into_iter()
    .flatten()
}

/// Clients that may be attacked in front of the class. Those who also show their picture come first, then in order of
/// id.
pub fn volunteers(view: &RoomView) -> Vec<&ClientView> {
    let is_here = |client: &&ClientView| client.may_show && client.state != ClientState::Gone;
    let mut all: Vec<&ClientView> = view.clients.iter().filter(is_here).collect();
    all.sort_by_key(|client| (client.original.is_none(), client.id));
    all
}

/// The client to attack instead of the present one, if any: somebody who is here, preferably with a picture to compare
/// with.
fn target(view: &RoomView) -> Option<ClientId> {
    let volunteers = volunteers(view);
    let first = volunteers.first()?;
    let now = volunteers.iter().find(|client| Some(client.id) == view.target);
    let will_do = now.is_some_and(|now| now.original.is_some() || first.original.is_none());
    (!will_do).then_some(first.id)
}

/// The volunteer after the one under attack.
pub fn next_volunteer(view: &RoomView) -> Option<ClientId> {
    let volunteers = volunteers(view);
    let place = volunteers.iter().position(|client| Some(client.id) == view.target);
    let next = place.map_or(0, |place| (place + 1) % volunteers.len());
    volunteers.get(next).map(|client| client.id).filter(|next| Some(*next) != view.target)
}

/// The maximum number of pictures to guess from.
const SUSPECTS: usize = 4;

/// The clients whose pictures the class guesses from: at most four of those who show theirs, including the one under
/// attack.
pub fn suspects(view: &RoomView) -> Vec<&ClientView> {
    let aim = target(view).or(view.target);
    let mut shown: Vec<&ClientView> = volunteers(view).into_iter().filter(|client| client.original.is_some()).collect();
    // Sort the one under attack first so that `truncate` keeps it.
    shown.sort_by_key(|client| (Some(client.id) != aim, client.id));
    shown.truncate(SUSPECTS);
    shown.sort_by_key(|client| client.id);
    shown
}

/// The attack that reveals whose picture it is: APRIL on the block made for it, since embedding inversion loses dark
/// photographs there.
pub fn telling_attack(view: &RoomView) -> AttackMethod {
    if view.architecture.april_block() { AttackMethod::April } else { AttackMethod::Embedding }
}

/// Asks or closes the question that belongs to a place of the lesson.
fn poll(view: &RoomView, place: Place) -> Option<Control> {
    let is_there = Place::of(view).scene == place.scene;
    let asked = view.lesson.poll.as_ref().filter(|_| is_there);
    let asks = scenes::question(place.scene).map(|(_, beat)| beat);
    match (asks, asked) {
        (Some(beat), None) if beat == place.beat => Some(Control::AskPoll { poll: question(view, place.scene)? }),
        (Some(beat), Some(asked)) if place.beat > beat && asked.is_open => Some(Control::ClosePoll),
        _ => None,
    }
}

/// The question of a scene; `None` if there are too few pictures to choose from.
fn question(view: &RoomView, scene: Scene) -> Option<Poll> {
    let question = scenes::question(scene)?.0.to_owned();
    let number = |least, most, unit: &str| Answers::Number { least, most, unit: unit.to_owned() };
    let answers = match scene {
        Scene::Guess | Scene::Debrief => {
            let suspects = suspects(view);
            if suspects.len() < 2 {
                return None;
            }
            let aim = target(view).or(view.target);
            let correct = suspects.iter().position(|client| Some(client.id) == aim);
            let names = suspects.iter().enumerate().map(|(place, client)| scenes::answer(place, &client.nickname));
            let correct = correct.and_then(|place| u16::try_from(place).ok());
            return Some(Poll { question, answers: Answers::Choice(names.collect()), correct });
        }
        Scene::Mask => Answers::Choice(scenes::yes_or_no().to_vec()),
        Scene::Patience => number(0, 300, say::patience::unit()),
        Scene::TradeOff => number(0, 95, say::trade::unit()),
        _ => return None,
    };
    Some(Poll { question, answers, correct: None })
}

/// The room's question and answers in this page's language.
pub fn worded(view: &RoomView) -> Option<PollView> {
    let mut asked = view.lesson.poll.clone()?;
    let (question, answers) = scenes::worded(view.lesson.scene, &asked.poll.question, &asked.poll.answers);
    (asked.poll.question, asked.poll.answers) = (question, answers);
    Some(asked)
}

/// The maximum number of bars that fit beside a picture.
const BARS: usize = 6;

/// The names and lengths of the bars for the votes, one for each answer. Neighbouring numbers share a bar if there are
/// too many.
pub fn vote_bars(view: &PollView) -> Vec<(String, u32)> {
    let counts = view.poll.answers.counts(&view.votes);
    match &view.poll.answers {
        Answers::Choice(answers) => answers.iter().cloned().zip(counts).collect(),
        Answers::Number { least, most, unit } => {
            let width = view.poll.answers.bin_width();
            let together = counts.len().div_ceil(BARS).max(1);
            let bar = |(place, bins): (usize, &[u32])| {
                let from = u32::from(*least) + (place * together) as u32 * width;
                let to = (from + together as u32 * width - 1).min(u32::from(*most));
                (say::bins::range(from, to, unit), bins.iter().sum())
            };
            counts.chunks(together).enumerate().map(bar).collect()
        }
    }
}

/// The last result of an attack on the client under attack, unless the defence is about to change.
pub fn result(view: &RoomView, attack: AttackMethod) -> Option<&AttackView> {
    let is_now = |result: &&AttackView| {
        result.attack == attack && Some(result.client) == view.target && result.defence == coming_defence(view)
    };
    view.attacks.iter().find(is_now)
}

/// The rates that the keys step through.
const RATES: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// The mask one step up or down from the coming one; `None` at the ends and for any other defence.
pub fn stepped(defence: Defence, is_up: bool) -> Option<Defence> {
    let now = uniform_rate(defence)?.get();
    // A rate between two steps moves to the next step.
    let next = if is_up {
        RATES.into_iter().find(|rate| *rate > now + 1e-3)
    } else {
        RATES.into_iter().rev().find(|rate| *rate < now - 1e-3)
    };
    next.map(masked)
}

/// Switches the mask: any defence becomes none, and none becomes the papers' mask.
pub fn flipped(defence: Defence) -> Defence {
    if defence == Defence::None { masked(HALF) } else { Defence::None }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Next,
    NextScene,
    PreviousScene,
    RateDown,
    RateUp,
    Mask,
    NextVolunteer,
    /// Pause or resume the rounds.
    Pause,
    Blank,
    Notes,
    Expert,
    /// Switch the page to the next language.
    Language,
    /// Agree to lose rounds.
    Confirm,
    Cancel,
}

/// What has the keyboard focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Focus {
    /// A field, in which keys type letters or move a slider.
    pub is_typing: bool,
    /// A button or link, which Space and Enter press.
    pub is_pressable: bool,
    /// The question whether rounds may be lost is open.
    pub is_asked: bool,
    /// Control, Alt or Meta is held, as in the browser's own shortcuts.
    pub has_modifier: bool,
}

/// The action of `key`, which has the name that browsers give it.
pub fn action(key: &str, focus: Focus) -> Option<Action> {
    if focus.has_modifier || focus.is_typing {
        return None;
    }
    if focus.is_asked {
        return match key {
            "Enter" if !focus.is_pressable => Some(Action::Confirm),
            "Escape" => Some(Action::Cancel),
            _ => None,
        };
    }
    Some(match key {
        " " if !focus.is_pressable => Action::Next,
        // Presenter remotes send these keys.
        "PageDown" => Action::Next,
        "PageUp" | "ArrowLeft" => Action::PreviousScene,
        "ArrowRight" => Action::NextScene,
        "[" => Action::RateDown,
        "]" => Action::RateUp,
        "m" | "M" => Action::Mask,
        "t" | "T" => Action::NextVolunteer,
        "p" | "P" => Action::Pause,
        "b" | "B" => Action::Blank,
        "n" | "N" => Action::Notes,
        "e" | "E" => Action::Expert,
        "l" | "L" => Action::Language,
        _ => return None,
    })
}

/// The state of the page that the fragment of its address stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// The place in the lesson.
    pub place: Option<Place>,
    /// Whether the expert view is shown.
    pub is_expert: bool,
    /// Whether the page is only for viewing, even if its browser is the teacher's.
    pub is_audience: bool,
}

impl Address {
    /// Reads `#scene=4&beat=1&expert`. Unknown scenes and beats are ignored.
    pub fn read(fragment: &str) -> Self {
        let number = |name| from_fragment(fragment, name).and_then(|value| value.parse::<u8>().ok());
        let place = number("scene").and_then(Scene::from_number).map(|scene| {
            let beat = number("beat").filter(|beat| *beat < beats(scene)).unwrap_or(0);
            Place { scene, beat }
        });
        let has = |flag| fragment.trim_start_matches('#').split('&').any(|part| part == flag);
        Self { place, is_expert: has("expert"), is_audience: has("audience") }
    }

    /// Returns the fragment with its `#`; empty if there is nothing to store.
    pub fn fragment(self) -> String {
        let scene = self.place.map(|place| format!("scene={}", place.scene.number()));
        let beat = self.place.filter(|place| place.beat > 0).map(|place| format!("beat={}", place.beat));
        let expert = self.is_expert.then(|| "expert".to_owned());
        let audience = self.is_audience.then(|| "audience".to_owned());
        let parts: Vec<String> = [scene, beat, expert, audience].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!("#{}", parts.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{EncryptionStart, ResnetPreset};
    use unmask_wire::view::{DataView, LessonView, SearchView};

    use super::*;

    fn places() -> impl Iterator<Item = Place> {
        Scene::ALL.into_iter().flat_map(|scene| (0..beats(scene)).map(move |beat| Place { scene, beat }))
    }

    fn client(id: u16, original: bool) -> ClientView {
        ClientView {
            id: ClientId(id.into()),
            nickname: format!("robot {id}"),
            device: "CPU".to_owned(),
            state: ClientState::Joined,
            loss: None,
            bytes_sent: 0,
            updates: 0,
            refusal: None,
            may_show: true,
            original: original.then(|| format!("/api/original/{id}")),
        }
    }

    /// A room at the start of a lesson.
    fn room() -> RoomView {
        RoomView {
            search: Some(false),
            batch: 1,
            clients: vec![client(1, true), client(2, true), client(3, false)],
            target: Some(ClientId(1)),
            ..RoomView::default()
        }
    }

    /// The room after it has applied the controls and closed a round.
    fn after(view: &RoomView, plan: &Plan) -> RoomView {
        let mut view = view.clone();
        for control in &plan.controls {
            match control.clone() {
                Control::Lesson { scene, beat } => {
                    let poll = view.lesson.poll.take().filter(|_| view.lesson.scene == scene);
                    view.lesson = LessonView { scene, beat, poll };
                }
                Control::Pause => view.phase = Phase::Paused,
                Control::Start => view.phase = Phase::Training,
                Control::OneRound => view.round += 1,
                Control::Search { on } => view.search = Some(on),
                Control::Architecture { name, april_block, initial_weights } => {
                    let named = Architecture::named(&name, view.architecture.classes()).expect("a model's name");
                    view.architecture = named.with_april_block(april_block);
                    view.initial_weights = initial_weights;
                    (view.round, view.phase) = (0, Phase::Paused);
                    view.attacks.clear();
                }
                Control::Defence { defence } => view.defence = defence,
                Control::TrainOn { pictures } => view.data.as_mut().expect("a data set").train_on = pictures,
                Control::Rule { rule } => view.rule = rule,
                Control::Batch { samples } => view.batch = samples,
                Control::Target { client } => view.target = Some(client),
                Control::AskPoll { poll } => {
                    poll.check().expect("a poll that the relay takes");
                    view.lesson.poll = Some(PollView { number: 1, poll, is_open: true, votes: Vec::new(), voters: 0 });
                }
                Control::ClosePoll => view.lesson.poll.as_mut().expect("a poll").is_open = false,
                other => panic!("a scene sends {other:?}"),
            }
        }
        if view.phase == Phase::Training {
            view.round += 3;
        }
        view
    }

    #[test]
    fn space_goes_through_the_whole_lesson() {
        let mut place = Place::default();
        let mut seen = vec![place];
        while let Some(next) = place.next() {
            assert!(next.beat == 0 || next.scene == place.scene && next.beat == place.beat + 1);
            place = next;
            seen.push(place);
        }
        assert_eq!(seen, places().collect::<Vec<_>>());
        assert_eq!(place.scene, Scene::Debrief);
    }

    #[test]
    fn scenes_are_left_and_entered_at_their_first_step() {
        let inside = Place { scene: Scene::Mask, beat: 1 };
        assert_eq!(inside.previous_scene(), Some(Place::start(Scene::Mask)));
        assert_eq!(Place::start(Scene::Mask).previous_scene(), Some(Place::start(Scene::April)));
        assert_eq!(inside.next_scene(), Some(Place::start(Scene::Attackers)));
        assert_eq!((Place::default().previous_scene(), Place::start(Scene::Debrief).next_scene()), (None, None));
    }

    #[test]
    fn a_room_that_is_there_needs_nothing() {
        let mut view = room();
        for place in places() {
            view = after(&view, &plan(&view, place));
            let again = plan(&view, place);
            assert_eq!(again, Plan::default(), "{place:?}");
        }
    }

    /// Goes from every place to every other: rounds are lost exactly when a control discards the model.
    #[test]
    fn what_is_lost_is_said_before() {
        for from in places() {
            let view = after(&room(), &plan(&room(), from));
            for to in places() {
                let plan = plan(&view, to);
                let discards = plan.controls.iter().any(|control| matches!(control, Control::Architecture { .. }));
                let lost = (discards && view.round > 0).then_some(view.round);
                assert_eq!(plan.loses_rounds, lost, "{from:?} to {to:?}: {:?}", plan.controls);
                let after = after(&view, &plan);
                assert!(lost.is_some() || after.round >= view.round, "{from:?} to {to:?}");
                assert_eq!(Place::of(&after), to);
            }
        }
    }

    #[test]
    fn the_lesson_in_its_order_asks_twice() {
        let mut view = room();
        let mut asked = Vec::new();
        for place in places() {
            let plan = plan(&view, place);
            if plan.loses_rounds.is_some() {
                asked.push(place);
            }
            view = after(&view, &plan);
        }
        assert_eq!(asked, [Place { scene: Scene::April, beat: 2 }, Place::start(Scene::Patience)]);
    }

    #[test]
    fn an_encrypted_model_is_lost_with_its_defence() {
        let encrypted = Defence::Encrypted { start: EncryptionStart::Plain };
        let view = RoomView { round: 7, defence: encrypted, ..room() };
        assert_eq!(plan(&view, Place::start(Scene::Mask)).loses_rounds, Some(7));
        assert_eq!(plan(&view, Place::start(Scene::Lobby)).loses_rounds, None);
        assert_eq!(plan(&RoomView { round: 0, ..view }, Place::start(Scene::Mask)).loses_rounds, None);
    }

    #[test]
    fn the_search_begins_on_fresh_weights_and_is_not_begun_twice() {
        let trained = RoomView { round: 40, phase: Phase::Training, lesson: LessonView::default(), ..room() };
        let before = plan(&trained, Place::start(Scene::Patience));
        assert_eq!(before.loses_rounds, Some(40));
        let position = |of: fn(&Control) -> bool| before.controls.iter().position(of);
        let pause = position(|control| *control == Control::Pause).expect("a pause");
        let anew = position(|control| matches!(control, Control::Architecture { .. })).expect("a model");
        assert!(pause < anew);
        let paused = after(&trained, &before);
        let begun = plan(&paused, Place { scene: Scene::Patience, beat: 1 });
        assert!(begun.controls.ends_with(&[Control::Search { on: true }, Control::OneRound]), "{:?}", begun.controls);
        assert_eq!(begun.loses_rounds, None);
        let searched = RoomView {
            attacks: vec![AttackView { round: 1, search: Some(SearchView::default()), ..AttackView::default() }],
            search: Some(false),
            ..after(&paused, &begun)
        };
        assert_eq!(plan(&searched, Place { scene: Scene::Patience, beat: 1 }), Plan::default());
    }

    #[test]
    fn a_scene_undoes_nothing_that_it_need_not() {
        // A mask with another rate, a model with the block that the scene needs, and running rounds.
        let april = Architecture::from(VitPreset::Pico).with_april_block(true);
        let lesson = LessonView { scene: Scene::April, beat: 1, poll: None };
        let view =
            RoomView { architecture: april, defence: masked(0.8), phase: Phase::Training, round: 5, lesson, ..room() };
        assert_eq!(plan(&view, Place { scene: Scene::April, beat: 1 }), Plan::default());
        let on = plan(&view, Place::start(Scene::Mask));
        assert!(on.controls.iter().all(|control| matches!(control, Control::Lesson { .. } | Control::AskPoll { .. })));
    }

    #[test]
    fn an_update_becomes_that_of_one_private_picture() {
        let data = DataView { train_on: TrainOn::Shared, ..DataView::default() };
        let view = RoomView { data: Some(data), rule: Rule::FED_AVG, batch: 16, ..room() };
        let controls = plan(&view, Place::start(Scene::Guess)).controls;
        for needed in [
            Control::TrainOn { pictures: TrainOn::Private },
            Control::Rule { rule: Rule::FedSgd },
            Control::Batch { samples: 1 },
        ] {
            assert!(controls.contains(&needed), "{needed:?} in {controls:?}");
        }
    }

    #[test]
    fn a_network_without_attention_gives_way_to_one_with() {
        let view = RoomView { architecture: ResnetPreset::Nano.into(), round: 3, ..room() };
        assert_eq!(plan(&view, Place::start(Scene::Lobby)).loses_rounds, None);
        assert_eq!(plan(&view, Place::start(Scene::Guess)).loses_rounds, Some(3));
    }

    #[test]
    fn only_who_agreed_and_is_here_is_attacked() {
        let shy = ClientView { may_show: false, ..client(1, true) };
        let gone = ClientView { state: ClientState::Gone, ..client(2, true) };
        let view = RoomView { clients: vec![shy, gone, client(3, false), client(4, true)], ..room() };
        assert_eq!(target(&view), Some(ClientId(4)));
        assert_eq!(next_volunteer(&RoomView { target: Some(ClientId(4)), ..view.clone() }), Some(ClientId(3)));
        assert_eq!(next_volunteer(&RoomView { target: Some(ClientId(3)), ..view.clone() }), Some(ClientId(4)));
        assert_eq!(next_volunteer(&RoomView { clients: Vec::new(), ..view }), None);
    }

    #[test]
    fn the_class_guesses_among_four_and_the_answer_is_one_of_them() {
        let clients: Vec<ClientView> = (1..=6).map(|id| client(id, true)).collect();
        let view = RoomView { clients, target: Some(ClientId(6)), ..room() };
        let poll = question(&view, Scene::Guess).expect("a question");
        let Answers::Choice(answers) = &poll.answers else { panic!("a choice") };
        assert_eq!(answers.len(), SUSPECTS);
        assert!(answers[usize::from(poll.correct.expect("an answer"))].ends_with("robot 6"));
        let alone = RoomView { clients: vec![client(1, true)], ..room() };
        assert_eq!(question(&alone, Scene::Guess), None);
    }

    #[test]
    fn the_class_gets_the_middle_of_its_votes() {
        let poll = question(&room(), Scene::TradeOff).expect("a question");
        let poll = PollView { number: 1, poll, is_open: false, votes: vec![10, 70, 90], voters: 3 };
        let lesson = LessonView { scene: Scene::TradeOff, beat: 0, poll: Some(poll) };
        let controls = plan(&RoomView { lesson, ..room() }, Place { scene: Scene::TradeOff, beat: 2 }).controls;
        assert!(controls.contains(&Control::Defence { defence: masked(0.7) }), "{controls:?}");
    }

    #[test]
    fn every_vote_is_in_one_bar() {
        let closed = |poll, votes: &[u16]| PollView {
            number: 1,
            poll,
            is_open: false,
            votes: votes.to_vec(),
            voters: votes.len() as u32,
        };
        let seconds = question(&room(), Scene::Patience).expect("a question");
        let bars = vote_bars(&closed(seconds, &[0, 31, 31, 300]));
        assert!(bars.len() <= BARS, "{bars:?}");
        assert_eq!(bars.iter().map(|(_, count)| count).sum::<u32>(), 4);
        assert!(bars[0].0.starts_with("0 to ") && bars.last().expect("bars").0.ends_with("300 seconds"), "{bars:?}");
        let answers = question(&room(), Scene::Mask).expect("a question");
        let bars = vote_bars(&closed(answers, &[1, 1]));
        assert_eq!(bars, [("Yes".to_owned(), 0), ("No".to_owned(), 2)]);
    }

    #[test]
    fn a_verdict_is_the_median_of_the_last_rounds() {
        assert_eq!(Level::of(&[]), None);
        assert_eq!(Level::of(&[f32::NAN]), None);
        for (recent, level) in [
            (&[0.9][..], Level::Recognisable),
            (&[0.5], Level::Recognisable),
            (&[0.49], Level::Outlines),
            (&[0.3], Level::Outlines),
            (&[0.29], Level::Hidden),
            (&[0.1, 0.9, 0.1, 0.2, 0.9], Level::Hidden),
            (&[0.59, 0.22, 0.48, 0.51, 0.35], Level::Outlines),
        ] {
            assert_eq!(Level::of(recent), Some(level), "{recent:?}");
        }
    }

    #[test]
    fn an_older_result_is_not_shown_as_this_ones() {
        let shown = AttackView { attack: AttackMethod::Embedding, client: ClientId(1), ..AttackView::default() };
        let view = RoomView { attacks: vec![shown], ..room() };
        assert!(result(&view, AttackMethod::Embedding).is_some());
        assert_eq!(telling_attack(&view), AttackMethod::Embedding);
        let april = RoomView { architecture: view.architecture.with_april_block(true), ..view.clone() };
        assert_eq!(telling_attack(&april), AttackMethod::April);
        assert!(result(&view, AttackMethod::April).is_none());
        assert!(result(&RoomView { defence: masked(0.5), ..view.clone() }, AttackMethod::Embedding).is_none());
        assert!(result(&RoomView { target: Some(ClientId(2)), ..view }, AttackMethod::Embedding).is_none());
    }

    #[test]
    fn rates_step_between_nothing_and_almost_everything() {
        assert_eq!(stepped(Defence::None, true), Some(masked(0.1)));
        assert_eq!(stepped(Defence::None, false), None);
        assert_eq!(stepped(masked(0.1), false), Some(Defence::None));
        assert_eq!(stepped(masked(0.45), true), Some(masked(0.5)));
        assert_eq!((stepped(masked(0.9), true), stepped(masked(0.95), true)), (Some(masked(0.95)), None));
        assert_eq!(stepped(Defence::FixedPosition, true), None);
        assert_eq!((flipped(Defence::None), flipped(masked(0.2))), (masked(0.5), Defence::None));
    }

    #[test]
    fn keys_are_left_to_whom_they_belong() {
        let free = Focus::default();
        assert_eq!(action(" ", free), Some(Action::Next));
        assert_eq!((action("m", free), action("M", free)), (Some(Action::Mask), Some(Action::Mask)));
        assert_eq!(action("l", free), Some(Action::Language));
        assert_eq!(action("x", free), None);
        assert_eq!(action("Enter", free), None);
        let typing = Focus { is_typing: true, ..free };
        let pressable = Focus { is_pressable: true, ..free };
        for key in [" ", "m", "[", "ArrowLeft"] {
            assert_eq!(action(key, typing), None, "{key}");
            assert_eq!(action(key, Focus { has_modifier: true, ..free }), None, "{key}");
        }
        assert_eq!((action(" ", pressable), action("ArrowRight", pressable)), (None, Some(Action::NextScene)));
        let asked = Focus { is_asked: true, ..free };
        assert_eq!(action("Enter", asked), Some(Action::Confirm));
        assert_eq!(action("Enter", Focus { is_pressable: true, ..asked }), None);
        assert_eq!((action("Escape", asked), action(" ", asked)), (Some(Action::Cancel), None));
    }

    #[test]
    fn an_address_says_where_the_lesson_is() {
        for place in places().map(Some).chain([None]) {
            for (is_expert, is_audience) in [(false, false), (true, false), (false, true), (true, true)] {
                let address = Address { place, is_expert, is_audience };
                assert_eq!(Address::read(&address.fragment()), address, "{}", address.fragment());
            }
        }
        assert_eq!(Address::default().fragment(), "");
        assert_eq!(Address::read("#scene=4").place, Some(Place::start(Scene::Mask)));
        for bad in ["", "#", "#scene=10", "#scene=-1", "#scene=four", "#scenes=4", "#expertly"] {
            assert_eq!(Address::read(bad), Address::default(), "{bad}");
        }
        assert_eq!(Address::read("#beat=200&scene=4").place, Some(Place::start(Scene::Mask)));
    }
}
