mod checks;
mod encryption;
mod every_order;
mod masks;
mod neighbours;
mod restored;
mod silence;
mod statistics;

mod interleavings;

use unmask_core::{Aggregation, Architecture, MaskSeed, ParamLayout, Rule, TrainingPictures, UpdateForm, VitPreset};
use unmask_defence::{Cipher, FROZEN_SEED, KeyMaterial, PlainUpdate, Protect, ProtectedUpdate};

use super::*;

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);
const C: ClientId = ClientId(3);

fn model(seed: u64) -> GlobalModel {
    let architecture = Architecture::from(VitPreset::Pico);
    GlobalModel { architecture, state: architecture.initial(seed) }
}

fn settings(defence: &str, rule: &str) -> RoundSettings {
    RoundSettings::new(defence.parse().unwrap(), rule.parse().unwrap(), 1, "sgd:0.1".parse().unwrap()).unwrap()
}

fn room(defence: &str) -> Room {
    Room::new(model(1), settings(defence, "fedsgd"))
}

/// The update of a client whose training gave `values`, under the current settings.
fn protect(room: &Room, values: Vec<f32>, seed: [u8; 32], cipher: Option<&Cipher>) -> ProtectedUpdate {
    let plain = PlainUpdate { values, reference: room.model().reference(room.settings().rule()) };
    room.settings()
        .defence()
        .protect(room.learner.layout(), plain, KeyMaterial { seed: MaskSeed(seed), cipher })
        .unwrap()
}

fn dense(room: &Room, value: f32) -> ProtectedUpdate {
    ProtectedUpdate::dense(vec![value; room.model().state.weights.len()])
}

fn send(room: &mut Room, client: ClientId, update: ProtectedUpdate) -> Vec<Effect> {
    send_samples(room, client, update, 1)
}

fn send_samples(room: &mut Room, client: ClientId, update: ProtectedUpdate, samples: u32) -> Vec<Effect> {
    let (round, policy) = (room.number, room.policy);
    let statistics = Vec::new();
    room.handle(Event::Update(ReceivedUpdate { client, round, policy, loss: 2.0, samples, update, statistics }))
}

/// A client's update on one sample.
fn update_event(client: ClientId, round: u32, policy: u32, update: ProtectedUpdate) -> Event {
    Event::Update(ReceivedUpdate { client, round, policy, loss: 1.0, samples: 1, update, statistics: Vec::new() })
}

fn cohort(effects: &[Effect]) -> Vec<ClientId> {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Plan { cohort, .. } => Some(cohort.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

fn refusal(effects: &[Effect]) -> Refusal {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Refused { refusal, .. } => Some(refusal.clone()),
            _ => None,
        })
        .expect("a refusal")
}

fn closed(effects: &[Effect]) -> Option<RoundSummary> {
    effects.iter().find_map(|effect| match effect {
        Effect::Closed(summary) => Some(summary.clone()),
        _ => None,
    })
}

fn started(defence: &str, clients: &[ClientId]) -> Room {
    let mut room = room(defence);
    for client in clients {
        room.handle(Event::Joined(*client));
    }
    assert_eq!(cohort(&room.handle(Event::Start)), clients);
    room
}

#[test]
fn round_closes_when_all_have_answered() {
    let mut room = started("none", &[A, B]);
    let before = room.model().state.weights.clone();
    let update = dense(&room, 1.5);
    assert!(closed(&send(&mut room, A, update)).is_none());
    let update = dense(&room, 2.5);
    let summary = closed(&send(&mut room, B, update)).unwrap();
    assert_eq!((summary.round, summary.updates, summary.loss), (1, 2, Some(2.0)));
    assert!(
        room.model().state.weights.iter().zip(&before).all(|(after, before)| (after - (before - 0.2)).abs() < 1e-6)
    );
    assert_eq!(room.phase(), RoomPhase::Between);
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
    assert_eq!(room.round(), 2);
}

#[test]
fn silent_client_is_late_and_comes_back_when_it_answers() {
    let mut room = started("none", &[A, B]);
    let update = dense(&room, 1.0);
    send(&mut room, A, update.clone());
    let summary = closed(&room.handle(Event::Deadline { round: 1, policy: 1 })).unwrap();
    assert_eq!(summary.late, [B]);
    assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
    let stale = room.handle(update_event(B, 1, 1, update.clone()));
    assert_eq!(refusal(&stale), Refusal::Stale { update: 1, current: Some(2) });
    assert_eq!(room.member(B), ClientState::Joined);
    send(&mut room, A, update);
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
}

#[test]
fn deadline_of_an_old_round_does_nothing() {
    let mut room = started("none", &[A]);
    let update = dense(&room, 1.0);
    send(&mut room, A, update);
    room.handle(Event::Begin);
    assert!(room.handle(Event::Deadline { round: 1, policy: 1 }).is_empty());
    assert_eq!(room.phase(), RoomPhase::Training);
}

#[test]
fn leaving_does_not_stall_the_round() {
    let mut room = started("none", &[A, B]);
    let update = dense(&room, 1.0);
    send(&mut room, A, update);
    assert_eq!(closed(&room.handle(Event::Left(B))).unwrap().updates, 1);
}

#[test]
fn round_without_any_update_leaves_the_weights() {
    let mut room = started("none", &[A]);
    let before = Arc::clone(room.model());
    let summary = closed(&room.handle(Event::Left(A))).unwrap();
    assert_eq!((summary.updates, summary.loss), (0, None));
    assert_eq!(room.model(), &before);
    room.handle(Event::Begin);
    assert_eq!(room.phase(), RoomPhase::Waiting);
    assert_eq!(cohort(&room.handle(Event::Joined(B))), [B]);
}

#[test]
fn newcomer_waits_for_the_next_round() {
    let mut room = started("none", &[A]);
    assert!(room.handle(Event::Joined(B)).is_empty());
    let update = dense(&room, 1.0);
    assert_eq!(refusal(&send(&mut room, B, update)), Refusal::NotInCohort);
}

#[test]
fn one_round_is_one_round() {
    let mut room = room("none");
    room.handle(Event::Joined(A));
    assert_eq!(cohort(&room.handle(Event::OneRound)), [A]);
    assert!(!room.runs_on(), "it trains, but no round follows");
    let update = dense(&room, 1.0);
    send(&mut room, A, update);
    assert!(room.handle(Event::Begin).is_empty());
    assert_eq!(room.phase(), RoomPhase::Paused);
}

#[test]
fn weights_from_above_are_those_of_the_next_round() {
    let mut room = started("none", &[A]);
    let above = model(9).state;
    room.handle(Event::SetWeights(Some(model(8).state)));
    room.handle(Event::SetWeights(None));
    assert!(!room.awaits_weights());
    room.handle(Event::SetWeights(Some(above.clone())));
    assert!(room.awaits_weights() && room.model().state != above);
    let update = dense(&room, 1.0);
    assert!(closed(&send(&mut room, A, update.clone())).is_some());
    assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
    assert_eq!((room.round(), room.policy(), &room.model().state), (2, 1, &above));
    assert!(!room.awaits_weights());
    // Weights of another size are ignored, and so are weights set before a new model.
    room.handle(Event::SetWeights(Some(ModelState::from_weights(vec![1.0]))));
    send(&mut room, A, update.clone());
    room.handle(Event::Begin);
    assert_eq!((room.round(), room.model().state.weights.len()), (3, above.weights.len()));
    room.handle(Event::SetWeights(Some(above.clone())));
    room.handle(Event::SetModel(model(4)));
    send(&mut room, A, update);
    room.handle(Event::Begin);
    assert_eq!((room.round(), &room.model().state, room.awaits_weights()), (1, &model(4).state, false));
}

#[test]
fn choices_take_effect_at_the_round_boundary() {
    let mut room = started("none", &[A]);
    let masked = settings("random-binary:0.5", "fedsgd");
    room.handle(Event::SetSettings(masked));
    assert_eq!(room.settings(), settings("none", "fedsgd"));
    assert_eq!(room.coming(), masked);
    let update = dense(&room, 1.0);
    assert!(closed(&send(&mut room, A, update.clone())).is_some());
    room.handle(Event::Begin);
    assert_eq!(room.settings(), masked);
    let old = room.handle(update_event(A, 2, 1, update.clone()));
    assert_eq!(refusal(&old), Refusal::Policy { update: 1, current: 2 });
}

/// Updates on the pictures of two divisions are never averaged together.
#[test]
fn other_pictures_are_another_policy() {
    let shared = |shard| settings("none", "fedsgd").with_pictures(TrainingPictures::Shared { shard });
    let mut room = started("none", &[A, B]);
    for (round, chosen) in [(2, shared(1)), (3, shared(2)), (4, settings("none", "fedsgd"))] {
        room.handle(Event::SetSettings(chosen));
        for client in [A, B] {
            let update = dense(&room, 1.0);
            send(&mut room, client, update);
        }
        room.handle(Event::Begin);
        let policy = round;
        assert_eq!((room.settings(), room.round(), room.policy()), (chosen, round, policy));
        let update = dense(&room, 1.0);
        let old = update_event(A, round, policy - 1, update);
        assert_eq!(refusal(&room.handle(old)), Refusal::Policy { update: policy - 1, current: policy });
    }
}

#[test]
fn poisoned_and_misshaped_updates_are_refused_and_the_round_goes_on() {
    for (update, loss) in [
        (ProtectedUpdate::dense(vec![1.0; 3]), 1.0),
        (ProtectedUpdate::dense(vec![f32::NAN; model(1).state.weights.len()]), 1.0),
        (ProtectedUpdate::dense(vec![1.0; model(1).state.weights.len()]), f32::NAN),
    ] {
        let mut room = started("none", &[A, B]);
        let before = room.model().state.weights.clone();
        let effects = room.handle(Event::Update(ReceivedUpdate {
            client: A,
            round: 1,
            policy: 1,
            loss,
            samples: 1,
            update,
            statistics: Vec::new(),
        }));
        refusal(&effects);
        let update = dense(&room, 0.0);
        assert_eq!(closed(&send(&mut room, B, update)).unwrap().updates, 1);
        assert_eq!(room.model().state.weights, before);
    }
}

#[test]
fn second_update_is_refused() {
    let mut room = started("none", &[A, B]);
    let update = dense(&room, 1.0);
    send(&mut room, A, update.clone());
    assert_eq!(refusal(&send(&mut room, A, update)), Refusal::Twice { round: 1 });
}

#[test]
fn reset_drops_the_running_round() {
    let mut room = started("none", &[A]);
    room.handle(Event::Reset(model(2)));
    assert_eq!((room.phase(), room.round()), (RoomPhase::Paused, 0));
    assert_eq!(**room.model(), model(2));
    assert!(cohort(&room.handle(Event::Start)).is_empty(), "A is still busy with the dropped round");
    let update = dense(&room, 1.0);
    let effects = room.handle(update_event(A, 1, 1, update));
    refusal(&effects);
    assert_eq!(cohort(&effects), [A]);
}

#[test]
fn another_rate_takes_effect_with_the_next_round_and_moments_stay_otherwise() {
    let mut room = started("none", &[A]);
    let update = dense(&room, 1.0);
    let faster = RoundSettings::new(Default::default(), Rule::FedSgd, 1, "sgd:0.2".parse().unwrap()).unwrap();
    room.handle(Event::SetSettings(faster));
    let moved = |room: &mut Room| {
        let before = room.model().state.weights[0];
        send(room, A, update.clone());
        room.handle(Event::Begin);
        before - room.model().state.weights[0]
    };
    assert!((moved(&mut room) - 0.1).abs() < 1e-6);
    assert!((moved(&mut room) - 0.2).abs() < 1e-6);
    let adam = |defence: &str| {
        RoundSettings::new(defence.parse().unwrap(), Rule::FedSgd, 1, "adam:0.1".parse().unwrap()).unwrap()
    };
    room.handle(Event::SetSettings(adam("none")));
    moved(&mut room);
    moved(&mut room);
    room.handle(Event::SetSettings(adam("random-binary:0.5")));
    moved(&mut room);
    assert_eq!(room.learner.optimiser().steps(), 2);
}

#[test]
fn a_reset_lets_those_left_out_in_again() {
    let mut room = started("none", &[A]);
    for _ in 0..3 {
        send(&mut room, A, ProtectedUpdate::dense(Vec::new()));
        room.handle(Event::Begin);
    }
    assert_eq!(room.member(A), ClientState::Excluded);
    room.handle(Event::Reset(model(2)));
    assert_eq!(room.member(A), ClientState::Joined);
}

#[test]
fn choices_that_belong_together_begin_no_round_in_between() {
    let mut room = room("none");
    room.handle(Event::Start);
    room.handle(Event::BeginNothing(true));
    assert!(room.handle(Event::Joined(A)).is_empty());
    room.handle(Event::SetSettings(settings("random-binary:0.5", "fedsgd")));
    let effects = room.handle(Event::BeginNothing(false));
    assert_eq!(cohort(&effects), [A]);
    assert_eq!(room.settings(), settings("random-binary:0.5", "fedsgd"));
}

#[test]
fn a_round_can_leave_out_those_who_do_not_consent() {
    let mut room = started("none", &[A, B]);
    for client in [A, B] {
        let update = dense(&room, 1.0);
        send(&mut room, client, update);
    }
    room.handle(Event::Consent { client: A, consents: true });
    room.handle(Event::AskOnlyConsenting(true));
    assert_eq!(cohort(&room.handle(Event::Begin)), [A]);
    let update = dense(&room, 1.0);
    assert!(closed(&send(&mut room, A, update)).is_some(), "nobody waits for B");
    // Nobody consents, until B does; a client that comes back must say so again.
    room.handle(Event::Left(A));
    room.handle(Event::Joined(A));
    assert!(cohort(&room.handle(Event::Begin)).is_empty());
    assert_eq!(cohort(&room.handle(Event::Consent { client: B, consents: true })), [B]);
    let update = dense(&room, 1.0);
    send(&mut room, B, update);
    room.handle(Event::AskOnlyConsenting(false));
    assert_eq!(cohort(&room.handle(Event::Begin)), [A, B]);
}
