//! The changes that take a room to a place in the lesson.

use unmask_core::{Aggregation, Architecture, ClientId, Defence, InitialWeights, Rule, TrainOn};

use crate::{
    Asked, Beat, Place, Poll, Question, Scene, Situation, SumKind,
    needs::{Needs, Photograph, Rounds},
};

/// A change to the room, as the teacher's controls make it. Settings take effect with the next round.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Go(Place),
    /// Let the running round end, then stop.
    Pause,
    /// Run round after round.
    Start,
    /// Run one round, then stop.
    OneRound,
    /// Start or stop the search through the model.
    Search(bool),
    /// Begin again with fresh weights of this model.
    Model(Architecture),
    Defence(Defence),
    TrainOn(TrainOn),
    Rule(Rule),
    Aggregation(Aggregation),
    /// Send weights that fish for this class, or be honest again.
    Fish(Option<u16>),
    /// Ask clients to check plans carefully, or no longer.
    Careful(bool),
    /// Samples in a step.
    Batch(u16),
    Target(ClientId),
    /// Ask the update about the photograph that this client shows.
    TestPicture(ClientId),
    Ask(Poll),
    /// Take no more votes.
    CloseQuestion,
}

/// How to get to a place in the lesson.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// In the order in which to make them.
    pub changes: Vec<Change>,
    /// The rounds of the class's model that are lost, other than those of the lesson itself when it goes on by a step.
    pub loses_rounds: Option<u32>,
}

/// Plans how to take `room` to `place`. What already fits stays as it is.
pub fn plan(room: &Situation, place: Place) -> Plan {
    // The last scene would otherwise have the same answer as the one whose question it repeats.
    let repeats = place.beat() == Beat::VoteMasked && room.place.scene != place.scene;
    let another = repeats.then(|| room.another_target()).flatten();
    let from = room.place;
    let room = &Situation { place, target: another.or(room.target), ..room.clone() };
    let needs = Needs::of(room, place);
    let mut changes = Vec::new();
    let other = needs.model.instead_of(room.architecture);
    // The scene decides whom rounds ask, so nobody else gets doctored weights, or gets them unwarned.
    if room.fishes_for.is_some() && (needs.fishing.is_none() || other.is_some()) {
        changes.push(Change::Fish(None));
    }
    let leaves_checks = from.scene == Scene::Checks && place.scene != Scene::Checks;
    let careful = needs.careful.or(leaves_checks.then_some(false)).filter(|careful| *careful != room.is_careful);
    if careful == Some(true) {
        changes.push(Change::Careful(true));
    }
    // Early, so that everybody sees the new scene while the room follows.
    if from != place {
        changes.push(Change::Go(place));
    }
    if needs.rounds == Rounds::Paused && !room.is_paused {
        changes.push(Change::Pause);
    }
    if needs.search == Some(false) && room.search == Some(true) {
        changes.push(Change::Search(false));
    }
    let coming = room.architecture;
    // The lesson needs new models later. A class that trained before it began is asked now, not in the middle.
    let starts_over = from.scene == Scene::Lobby && place.beat() == Beat::Learn && room.round > 0;
    let attacked = needs.search == Some(true) && has_searched(room)
        || place.beat().sum() == Some(SumKind::OfFew) && room.has_added;
    let is_replaced = needs.is_fresh && !is_fresh(room, attacked) || starts_over;
    let other = other.or(is_replaced.then_some(coming));
    let defence = needs.defence.instead_of(room.defence);
    // The relay cannot decrypt the model of an encrypted room.
    let leaves_encryption = room.is_encrypted && defence.is_some_and(|defence| !defence.is_encrypted());
    changes.extend(other.map(Change::Model));
    let coming = defence.unwrap_or(room.defence);
    let aggregation = needs.adding.instead_of(room.aggregation, coming);
    // No secure sum goes with both defences, or with none while the rule changes.
    if room.aggregation.secure_sum().is_some() && aggregation.is_some() {
        changes.push(Change::Aggregation(Aggregation::default()));
    }
    changes.extend(defence.map(Change::Defence));
    changes.extend(aggregation.filter(|other| other.secure_sum().is_some()).map(Change::Aggregation));
    if careful == Some(false) {
        changes.push(Change::Careful(false));
    }
    // Another model has no class yet, and the relay doctors the one that it has.
    if needs.fishing.is_some() && room.fishes_for != needs.fishing && other.is_none() {
        changes.push(Change::Fish(needs.fishing));
    }
    if needs.is_one_picture {
        changes.extend(one_picture(room));
    }
    if needs.has_target {
        changes.extend(another.or_else(|| room.other_target()).map(Change::Target));
    }
    changes.extend(photograph(room, needs.photograph).map(Change::TestPicture));
    changes.extend(question(room, from, place));
    if needs.search == Some(true) && room.search == Some(false) && (other.is_some() || !room.has_searched) {
        changes.push(Change::Search(true));
    }
    let is_untrained = room.round == 0 || other.is_some();
    // A new model pauses the room.
    let is_paused = room.is_paused || needs.rounds == Rounds::Paused || other.is_some();
    match needs.rounds {
        // A plan for the same place leaves a pause as the teacher made it.
        Rounds::On if is_paused && (from != place || other.is_some()) => changes.push(Change::Start),
        Rounds::OneMore if is_paused && from != place => changes.push(Change::OneRound),
        // A room that runs pauses after it.
        Rounds::OneLast if from != place => changes.push(Change::OneRound),
        Rounds::Any if is_paused && is_untrained => changes.push(Change::OneRound),
        Rounds::Single if is_untrained => changes.push(Change::OneRound),
        _ => {}
    }
    let resets = other.is_some() || leaves_encryption;
    let is_lessons_own = from.scene != Scene::Lobby
        && from.next() == Some(place)
        && room.initial_weights == InitialWeights::Scratch
        && !room.is_encrypted;
    Plan { changes, loses_rounds: (resets && room.round > 0 && !is_lessons_own).then_some(room.round) }
}

/// Whose photograph to ask the update about, if it is another than now.
fn photograph(room: &Situation, wanted: Photograph) -> Option<ClientId> {
    let wanted = match wanted {
        Photograph::Any => None,
        Photograph::Own => room.aim().filter(|aim| room.shows_picture(*aim)),
        Photograph::Strangers => room.stranger(),
    };
    wanted.filter(|wanted| room.candidate != Some(*wanted))
}

/// Whether a search attacks or attacked the model's first round.
fn has_searched(room: &Situation) -> bool {
    room.search == Some(true) || room.has_searched
}

/// Whether no round has changed the weights that an attack starts from: no round ran, or only the one that it attacks.
fn is_fresh(room: &Situation, is_first_attacked: bool) -> bool {
    room.initial_weights == InitialWeights::Scratch && (room.round == 0 || room.round == 1 && is_first_attacked)
}

/// The changes that make an update the gradient of one private picture.
fn one_picture(room: &Situation) -> impl Iterator<Item = Change> {
    [
        (room.train_on == Some(TrainOn::Shared)).then_some(Change::TrainOn(TrainOn::Private)),
        room.rule.is_fedavg().then_some(Change::Rule(Rule::FedSgd)),
        (room.batch > 1).then_some(Change::Batch(1)),
    ]
    .into_iter()
    .flatten()
}

/// Asks or closes the question of a place.
fn question(room: &Situation, from: Place, place: Place) -> Option<Change> {
    let question = place.question()?;
    let asked_at = place.scene.beats().iter().position(|beat| *beat == question.asked_at())?;
    let is_it = |asked: &&Asked| from.scene == place.scene && asked.question == question;
    let asked = room.asked.as_ref().filter(is_it);
    match asked {
        None if usize::from(place.beat) == asked_at => poll(room, question).map(Change::Ask),
        Some(asked) if usize::from(place.beat) > asked_at && asked.is_open => Some(Change::CloseQuestion),
        _ => None,
    }
}

/// The question with its answers; `None` if there are too few pictures to choose from.
fn poll(room: &Situation, question: Question) -> Option<Poll> {
    let suspects = match question {
        Question::WhoseUpdate => room.lenders(),
        _ if question.asks_whose() => room.suspects(),
        _ => Vec::new(),
    };
    let aim = room.aim();
    // Each phone has its own answer to whose update it attacks.
    let is_same = question != Question::WhoseUpdate;
    let correct = suspects.iter().filter(|_| is_same).position(|suspect| Some(suspect.client) == aim);
    let poll = Poll { question, suspects, correct: correct.and_then(|place| u16::try_from(place).ok()) };
    poll.check().is_ok().then_some(poll)
}

#[cfg(test)]
mod tests {
    use unmask_core::{EncryptionStart, ResnetPreset, VitPreset};

    use super::*;
    use crate::{
        MAX_LENT_PARAMETERS, MAX_OWN_MASK_PARAMETERS, masked,
        situation::tests::{room, volunteer},
    };

    /// The room after it has made the changes and closed a round.
    fn after(room: &Situation, plan: &Plan) -> Situation {
        let mut room = room.clone();
        for change in &plan.changes {
            match change.clone() {
                Change::Go(place) => {
                    room.asked = room.asked.take().filter(|_| room.place.scene == place.scene);
                    room.place = place;
                }
                Change::Pause => room.is_paused = true,
                Change::Start => room.is_paused = false,
                Change::OneRound => {
                    room.round += 1;
                    room.is_paused = true;
                    room.has_added |= room.round == 1 && room.place.beat().sum() == Some(SumKind::OfFew);
                }
                Change::Search(on) => room.search = Some(on),
                Change::Model(architecture) => {
                    room.architecture = architecture;
                    room.initial_weights = InitialWeights::Scratch;
                    (room.round, room.is_paused) = (0, true);
                    (room.has_searched, room.has_added, room.fishes_for) = (false, false, None);
                    room.label = None;
                }
                Change::Defence(defence) => room.defence = defence,
                Change::TrainOn(pictures) => room.train_on = Some(pictures),
                Change::Rule(rule) => room.rule = rule,
                Change::Aggregation(aggregation) => room.aggregation = aggregation,
                Change::Fish(class) => room.fishes_for = class,
                Change::Careful(is_careful) => room.is_careful = is_careful,
                Change::Batch(samples) => room.batch = samples,
                Change::Target(client) => room.target = Some(client),
                Change::TestPicture(client) => room.candidate = Some(client),
                Change::Ask(poll) => {
                    poll.check().expect("a poll that the relay takes");
                    room.asked = Some(Asked { question: poll.question, is_open: true, votes: Vec::new() });
                }
                Change::CloseQuestion => room.asked.as_mut().expect("a question").is_open = false,
            }
        }
        if !room.is_paused {
            room.round += 3;
        }
        room
    }

    #[test]
    fn a_room_that_is_there_needs_no_change() {
        let mut room = room();
        for place in Place::all() {
            room = after(&room, &plan(&room, place));
            assert_eq!(plan(&room, place), Plan::default(), "{place:?}");
        }
    }

    /// Goes from every place to every other: rounds are lost exactly when a change discards the model.
    #[test]
    fn a_plan_says_which_rounds_it_loses() {
        for from in Place::all() {
            let room = after(&room(), &plan(&room(), from));
            for to in Place::all() {
                let plan = plan(&room, to);
                let discards = plan.changes.iter().any(|change| matches!(change, Change::Model(_)));
                let is_step = from.scene != Scene::Lobby && from.next() == Some(to);
                let lost = (discards && room.round > 0 && !is_step).then_some(room.round);
                assert_eq!(plan.loses_rounds, lost, "{from:?} to {to:?}: {:?}", plan.changes);
                let after = after(&room, &plan);
                assert!(discards || after.round >= room.round, "{from:?} to {to:?}");
                assert_eq!(after.place, to);
            }
        }
    }

    #[test]
    fn the_lesson_in_its_order_asks_nothing() {
        let mut room = room();
        for place in Place::all() {
            let plan = plan(&room, place);
            assert_eq!(plan.loses_rounds, None, "{place:?}");
            room = after(&room, &plan);
        }
        assert_eq!(room.candidate, Some(ClientId(2)), "the stranger's photograph");
    }

    #[test]
    fn the_last_question_is_about_another_client_than_the_first() {
        let masked = Situation { place: Place { scene: Scene::Membership, beat: 2 }, ..room() };
        let last = plan(&masked, Place::start(Scene::Debrief));
        assert!(last.changes.contains(&Change::Target(ClientId(2))), "{:?}", last.changes);
        let asks = |change: &Change| matches!(change, Change::Ask(poll) if poll.suspects[usize::from(poll.correct.unwrap())].client == ClientId(2));
        assert!(last.changes.iter().any(asks), "{:?}", last.changes);
        // Only one shows a picture that can be compared.
        let alone = Situation { volunteers: vec![volunteer(1, true), volunteer(3, false)], ..masked };
        assert_eq!(
            plan(&alone, Place::start(Scene::Debrief)).changes.iter().find(|it| matches!(it, Change::Target(_))),
            None
        );
    }

    #[test]
    fn rounds_from_before_the_lesson_are_asked_about_as_it_begins() {
        let trained = Situation { round: 41, ..room() };
        let begins = plan(&trained, Place::start(Scene::Promise));
        assert_eq!(begins.loses_rounds, Some(41));
        // Weights from a file are nobody's to discard.
        let loaded = Situation {
            initial_weights: InitialWeights::Pretrained,
            place: Place { scene: Scene::April, beat: 1 },
            architecture: Architecture::from(VitPreset::Nano).with_april_block(true),
            ..trained
        };
        assert_eq!(plan(&loaded, Place { scene: Scene::April, beat: 2 }).loses_rounds, Some(41));
    }

    #[test]
    fn an_encrypted_model_is_lost_with_its_defence() {
        let encrypted = Defence::Encrypted { start: EncryptionStart::Plain };
        let room = Situation { round: 7, defence: encrypted, is_encrypted: true, ..room() };
        assert_eq!(plan(&room, Place::start(Scene::Mask)).loses_rounds, Some(7));
        assert_eq!(plan(&room, Place::start(Scene::Lobby)).loses_rounds, None);
        assert_eq!(plan(&Situation { round: 0, ..room }, Place::start(Scene::Mask)).loses_rounds, None);
    }

    #[test]
    fn the_search_starts_once_and_on_fresh_weights() {
        let trained = Situation { round: 40, is_paused: false, ..room() };
        let before = plan(&trained, Place::start(Scene::Patience));
        assert_eq!(before.loses_rounds, Some(40), "a jump");
        let position = |is_it: fn(&Change) -> bool| before.changes.iter().position(is_it);
        let pause = position(|change| *change == Change::Pause).expect("a pause");
        let model = position(|change| matches!(change, Change::Model(_))).expect("a model");
        assert!(pause < model);
        let paused = after(&trained, &before);
        let searching = Place { scene: Scene::Patience, beat: 1 };
        let begun = plan(&paused, searching);
        assert!(begun.changes.ends_with(&[Change::Search(true), Change::OneRound]), "{:?}", begun.changes);
        assert_eq!(begun.loses_rounds, None);
        let searched = Situation { has_searched: true, search: Some(false), ..after(&paused, &begun) };
        assert_eq!(plan(&searched, searching), Plan::default());
    }

    /// A secure sum under one defence does not go with another one, and a mask goes with none.
    #[test]
    fn updates_are_added_up_secretly_only_where_a_scene_shows_that() {
        let masked = Situation { defence: masked(crate::mask::HALF), round: 5, is_paused: false, ..room() };
        let secret = plan(&masked, Place::start(Scene::SecureSum));
        let clipped = |text: &str| Change::Aggregation(text.parse().expect("an aggregation"));
        let at = |plan: &Plan, change: &Change| plan.changes.iter().position(|other| other == change);
        let [open, sum] = [Change::Defence(Defence::None), clipped("secure-sum:clip=1")].map(|one| at(&secret, &one));
        assert!(open.is_some() && open < sum, "{:?}", secret.changes);
        let added = after(&masked, &secret);
        let noisy = plan(&Situation { round: 3, ..added.clone() }, Place { scene: Scene::Checks, beat: 1 });
        let noise = Change::Defence("gaussian".parse().expect("a defence"));
        let order = [clipped("clipped"), noise, clipped("secure-sum")].map(|one| at(&noisy, &one));
        assert!(order.is_sorted() && order[0].is_some(), "{:?}", noisy.changes);
        assert!(noisy.changes.contains(&Change::Fish(Some(3))), "{:?}", noisy.changes);
        let seen = plan(&added, Place::start(Scene::Mask));
        assert!(at(&seen, &clipped("clipped")) < at(&seen, &Change::Defence(crate::masked(crate::mask::HALF))));
        // Two people would know each other's update from the sum.
        let mut few = masked.clone();
        few.volunteers.iter_mut().skip(1).for_each(|volunteer| volunteer.is_robot = false);
        let plain = plan(&few, Place::start(Scene::SecureSum)).changes;
        assert!(!plain.iter().any(|change| matches!(change, Change::Aggregation(_))), "{plain:?}");
    }

    #[test]
    fn the_relay_is_dishonest_only_in_its_scenes_and_for_a_class_that_it_knows() {
        let fishes = |plan: &Plan| {
            plan.changes.iter().find_map(|change| if let Change::Fish(class) = change { Some(*class) } else { None })
        };
        let ordinary = Situation { architecture: VitPreset::NanoPatch8.into(), round: 2, ..room() };
        let fishing = plan(&ordinary, Place { scene: Scene::Dishonest, beat: 1 });
        assert_eq!(fishes(&fishing), Some(Some(3)));
        let fished = after(&ordinary, &fishing);
        for (scene, expected) in [(Scene::Checks, None), (Scene::Debrief, Some(None)), (Scene::Lobby, Some(None))] {
            assert_eq!(fishes(&plan(&fished, Place::start(scene))), expected, "{scene}");
        }
        let stranger = Situation { label: Some((ClientId(2), 3)), ..ordinary };
        assert_eq!(fishes(&plan(&stranger, Place { scene: Scene::Dishonest, beat: 1 })), None);
        // Noise waits for the class, which only an update without noise tells.
        let noise = Place { scene: Scene::Checks, beat: 1 };
        let waits = after(&stranger, &plan(&stranger, noise));
        assert_eq!((waits.defence, waits.aggregation.secure_sum()), (Defence::None, None));
        let told = Situation { label: Some((ClientId(1), 5)), is_paused: true, ..waits };
        let goes_on = plan(&told, noise);
        assert_eq!(fishes(&goes_on), Some(Some(5)));
        assert!(after(&told, &goes_on).defence.noise().is_some());
        assert!(!goes_on.changes.contains(&Change::Start), "the teacher has paused the room");
    }

    #[test]
    fn a_sum_is_made_once_and_on_fresh_weights() {
        let trained = Situation { round: 40, architecture: VitPreset::LabPatch8.into(), is_paused: false, ..room() };
        let adding = Place::start(Scene::Sum);
        let begun = plan(&trained, adding);
        assert!(begun.changes.contains(&Change::Model(VitPreset::LabPatch8.into())), "{:?}", begun.changes);
        assert_eq!((begun.changes.last(), begun.loses_rounds), (Some(&Change::OneRound), Some(40)));
        let added = after(&trained, &begun);
        let apart = adding.next().expect("a beat");
        assert_eq!(plan(&added, apart).changes, [Change::Go(apart)]);
        // Somebody withdrew, or a search attacked the round: the next sum is of another model's first round.
        let withdrawn = Situation { has_added: false, ..added.clone() };
        let searched = Situation { has_searched: true, place: Place::start(Scene::Attackers), ..withdrawn.clone() };
        for room in [withdrawn, searched] {
            let changes = plan(&room, apart).changes;
            assert!(changes.iter().any(|change| matches!(change, Change::Model(_))), "{changes:?}");
            assert_eq!(changes.last(), Some(&Change::OneRound));
        }
        // Nor does a sum spare a search its fresh weights.
        let puzzle = Place { scene: Scene::Attackers, beat: 4 };
        assert_eq!(puzzle.beat(), Beat::FixedPosition);
        assert!(plan(&added, puzzle).changes.iter().any(|change| matches!(change, Change::Model(_))));
    }

    #[test]
    fn a_room_pauses_after_the_round_whose_updates_phones_attack() {
        let aware = Place { scene: Scene::Attackers, beat: 1 };
        let running = after(&room(), &plan(&room(), aware));
        assert!(!running.is_paused);
        let attacks = aware.next().expect("a beat");
        assert_eq!(attacks.beat(), Beat::AttackOthers);
        let changes = plan(&running, attacks).changes;
        assert!(matches!(&changes[..], [Change::Go(_), Change::Ask(_), Change::OneRound]), "{changes:?}");
        assert!(after(&running, &plan(&running, attacks)).is_paused);
    }

    #[test]
    fn what_fits_a_scene_stays() {
        // A mask with another rate, another model with the block that the scene needs, and running rounds.
        let place = Place { scene: Scene::April, beat: 1 };
        let architecture = Architecture::from(VitPreset::Pico).with_april_block(true);
        let room = Situation { place, architecture, defence: masked(0.8), is_paused: false, round: 5, ..room() };
        assert_eq!(plan(&room, place), Plan::default());
        let shown = Place { scene: Scene::Mask, beat: 1 };
        assert_eq!(plan(&room, shown).changes, [Change::Go(shown)]);
    }

    #[test]
    fn an_update_becomes_that_of_one_private_picture() {
        let room = Situation { train_on: Some(TrainOn::Shared), rule: Rule::FED_AVG, batch: 16, ..room() };
        let changes = plan(&room, Place::start(Scene::Guess)).changes;
        for needed in [Change::TrainOn(TrainOn::Private), Change::Rule(Rule::FedSgd), Change::Batch(1)] {
            assert!(changes.contains(&needed), "{needed:?} in {changes:?}");
        }
    }

    #[test]
    fn a_network_without_attention_gives_way_to_one_with() {
        let room = Situation { architecture: ResnetPreset::Nano.into(), round: 3, ..room() };
        assert_eq!(plan(&room, Place::start(Scene::Lobby)).loses_rounds, None);
        assert_eq!(plan(&room, Place::start(Scene::Guess)).loses_rounds, Some(3));
    }

    #[test]
    fn a_model_too_large_for_phones_gives_way_where_phones_attack() {
        let patches = Architecture::from(VitPreset::SmallPatch32);
        let model = |coming: Architecture, scene, beat| {
            let changes = plan(&Situation { architecture: coming, ..room() }, Place { scene, beat }).changes;
            changes.iter().find_map(|change| match change {
                Change::Model(model) => Some(model.layout().len()),
                _ => None,
            })
        };
        assert!(model(patches, Scene::Mask, 0).expect("another model") <= MAX_OWN_MASK_PARAMETERS);
        assert!(model(patches, Scene::Attackers, 2).expect("another model") <= MAX_LENT_PARAMETERS);
        assert_eq!(model(patches, Scene::Attackers, 1), None);
        for small in [VitPreset::NanoPatch8, VitPreset::LabPatch8] {
            assert_eq!((model(small.into(), Scene::Mask, 0), model(small.into(), Scene::Attackers, 2)), (None, None));
        }
    }

    #[test]
    fn the_right_answer_is_the_one_under_attack() {
        let room = Situation {
            volunteers: (1..=6).map(|id| volunteer(id, true)).collect(),
            target: Some(ClientId(6)),
            ..room()
        };
        let asked = poll(&room, Question::Whose).expect("a question");
        let correct = usize::from(asked.correct.expect("an answer"));
        assert_eq!(asked.suspects[correct].client, ClientId(6));
        let alone = Situation { volunteers: vec![volunteer(1, true)], ..room };
        assert_eq!(poll(&alone, Question::Whose), None);
    }

    #[test]
    fn the_beat_after_a_question_closes_it() {
        for scene in Scene::ALL {
            for question in Question::of(scene).iter().copied() {
                let asks = Place::all().find(|place| place.beat() == question.asked_at()).expect("a beat");
                let asked = Asked { question, is_open: true, votes: Vec::new() };
                let open = Situation { place: asks, asked: Some(asked), ..room() };
                let closes = |place| plan(&open, place).changes.contains(&Change::CloseQuestion);
                assert!(closes(asks.next().expect("a beat after the question")), "{scene}");
                assert!(!closes(asks), "{scene}");
            }
        }
    }

    #[test]
    fn only_votes_for_a_rate_choose_the_defence() {
        let asked = Asked { question: Question::Seconds, is_open: false, votes: vec![10, 70, 90] };
        let room = Situation { place: Place::start(Scene::TradeOff), asked: Some(asked), ..room() };
        let changes = plan(&room, Place { scene: Scene::TradeOff, beat: 3 }).changes;
        assert!(!changes.iter().any(|change| matches!(change, Change::Defence(_))), "{changes:?}");
    }

    #[test]
    fn the_room_runs_the_median_of_the_votes() {
        let asked = Asked { question: Question::Rate, is_open: false, votes: vec![10, 70, 90] };
        let room = Situation { place: Place::start(Scene::TradeOff), asked: Some(asked), ..room() };
        let changes = plan(&room, Place { scene: Scene::TradeOff, beat: 3 }).changes;
        assert!(changes.contains(&Change::Defence(masked(0.7))), "{changes:?}");
    }
}
