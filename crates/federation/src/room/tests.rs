use proptest::prelude::*;
use unmask_params::{InitOptions, Preset, initial_weights};

use super::*;

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);

fn model(seed: u64) -> GlobalModel {
    let spec = ModelSpec::new(Preset::VitPicoPatch4_16);
    GlobalModel { spec, weights: initial_weights(&spec.config(), seed, InitOptions::default()) }
}

fn room(defence: &str) -> Room {
    Room::new(model(1), defence.parse().unwrap(), OptimiserKind::Sgd { rate: 0.1 })
}

fn dense(room: &Room, value: f32) -> ProtectedUpdate {
    ProtectedUpdate::Dense(vec![value; room.model().weights.len()])
}

fn send(room: &mut Room, client: ClientId, update: ProtectedUpdate) -> Vec<Effect> {
    let (round, policy) = (room.number, room.policy);
    room.handle(Event::Update { client, round, policy, loss: 2.0, update })
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
    let before = room.model().weights.clone();
    let update = dense(&room, 1.0);
    assert!(closed(&send(&mut room, A, update)).is_none());
    let update = dense(&room, 3.0);
    let summary = closed(&send(&mut room, B, update)).unwrap();
    assert_eq!((summary.round, summary.updates, summary.loss), (1, 2, Some(2.0)));
    assert!(room.model().weights.iter().zip(&before).all(|(after, before)| (after - (before - 0.2)).abs() < 1e-6));
    assert_eq!(room.phase(), Phase::Between);
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
    let stale = room.handle(Event::Update { client: B, round: 1, policy: 1, loss: 1.0, update: update.clone() });
    assert_eq!(refusal(&stale), Refusal::Stale { update: 1, current: Some(2) });
    assert_eq!(room.member(B), Some(MemberState::Joined));
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
    assert_eq!(room.phase(), Phase::Training);
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
    assert_eq!(room.phase(), Phase::Waiting);
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
    let update = dense(&room, 1.0);
    send(&mut room, A, update);
    assert!(room.handle(Event::Begin).is_empty());
    assert_eq!(room.phase(), Phase::Paused);
}

#[test]
fn choices_take_effect_at_the_round_boundary() {
    let mut room = started("none", &[A]);
    room.handle(Event::SetDefence("random-binary:0.5".parse().unwrap()));
    assert_eq!(room.defence(), Defence::None);
    assert!(room.next_defence().is_some());
    let update = dense(&room, 1.0);
    assert!(closed(&send(&mut room, A, update.clone())).is_some());
    room.handle(Event::Begin);
    assert_eq!(room.defence(), "random-binary:0.5".parse().unwrap());
    let old = room.handle(Event::Update { client: A, round: 2, policy: 1, loss: 1.0, update: update.clone() });
    assert_eq!(refusal(&old), Refusal::Policy { update: 1, current: 2 });
}

#[test]
fn update_under_another_defence_is_refused() {
    let mut room = started("random-binary:0.5", &[A]);
    let update = dense(&room, 1.0);
    assert!(refusal(&send(&mut room, A, update)).to_string().contains("not masked"));
    let mut room = started("fixed-position", &[A]);
    let update = dense(&room, 1.0);
    assert!(refusal(&send(&mut room, A, update)).to_string().contains("position embedding"));
}

#[test]
fn seed_must_be_fresh() {
    let mut room = started("random-binary:0.5", &[A, B]);
    let layout = ParamLayout::vit(&room.model().spec.config());
    let masked = room.defence().protect(&layout, vec![1.0; layout.len()], MaskSeed([4; 32]));
    assert!(matches!(send(&mut room, A, masked.clone())[0], Effect::Accepted { .. }));
    assert_eq!(refusal(&send(&mut room, B, masked)), Refusal::SeedReused);
}

#[test]
fn poisoned_and_misshaped_updates_are_refused_and_the_round_goes_on() {
    for (update, loss) in [
        (ProtectedUpdate::Dense(vec![1.0; 3]), 1.0),
        (ProtectedUpdate::Dense(vec![f32::NAN; model(1).weights.len()]), 1.0),
        (ProtectedUpdate::Dense(vec![1.0; model(1).weights.len()]), f32::NAN),
    ] {
        let mut room = started("none", &[A, B]);
        let before = room.model().weights.clone();
        let effects = room.handle(Event::Update { client: A, round: 1, policy: 1, loss, update });
        refusal(&effects);
        let update = dense(&room, 0.0);
        assert_eq!(closed(&send(&mut room, B, update)).unwrap().updates, 1);
        assert_eq!(room.model().weights, before);
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
fn only_the_target_is_attacked() {
    let mut room = started("none", &[A, B]);
    room.handle(Event::SetTarget(Some(B)));
    let attacked = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Attack { .. }));
    let update = dense(&room, 1.0);
    assert!(!attacked(&send(&mut room, A, update.clone())));
    assert!(attacked(&send(&mut room, B, update)));
}

#[test]
fn reset_drops_the_running_round() {
    let mut room = started("none", &[A]);
    room.handle(Event::Reset(model(2)));
    assert_eq!((room.phase(), room.round()), (Phase::Paused, 0));
    assert_eq!(**room.model(), model(2));
    assert!(cohort(&room.handle(Event::Start)).is_empty(), "A is still busy with the dropped round");
    let update = dense(&room, 1.0);
    let effects = room.handle(Event::Update { client: A, round: 1, policy: 1, loss: 1.0, update });
    refusal(&effects);
    assert_eq!(cohort(&effects), [A]);
}

#[derive(Debug, Clone)]
enum Action {
    Join(u32),
    Leave(u32),
    Send(u32, i8, bool),
    Unable(u32),
    Deadline,
    Begin,
    Start,
    Once,
    Pause,
    Masked(bool),
    Reset,
}

fn action() -> impl Strategy<Value = Action> {
    let client = 0u32..4;
    prop_oneof![
        client.clone().prop_map(Action::Join),
        client.clone().prop_map(Action::Leave),
        (client.clone(), -1i8..2, any::<bool>()).prop_map(|(c, r, bad)| Action::Send(c, r, bad)),
        (client.clone(), 0i8..1, Just(false)).prop_map(|(c, r, bad)| Action::Send(c, r, bad)),
        client.prop_map(Action::Unable),
        Just(Action::Deadline),
        Just(Action::Begin),
        Just(Action::Start),
        Just(Action::Once),
        Just(Action::Pause),
        any::<bool>().prop_map(Action::Masked),
        Just(Action::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens in whatever order: weights stay finite, a refused update never counts, a training room always
    /// has somebody to wait for, and every round that closes had begun.
    #[test]
    fn survives_any_order_of_events(actions in proptest::collection::vec(action(), 0..60)) {
        let mut room = room("none");
        let layout = ParamLayout::vit(&room.model().spec.config());
        let mut seed = 0u64;
        let mut accepted = 0;
        for action in actions {
            let event = match action {
                Action::Join(c) => Event::Joined(ClientId(c)),
                Action::Leave(c) => Event::Left(ClientId(c)),
                Action::Send(c, offset, bad) => {
                    seed += 1;
                    let mut bytes = [0; 32];
                    bytes[..8].copy_from_slice(&seed.to_le_bytes());
                    let value = if bad { f32::NAN } else { 0.01 };
                    let update = room.defence().protect(&layout, vec![value; layout.len()], MaskSeed(bytes));
                    let round = room.number.saturating_add_signed(offset.into());
                    Event::Update { client: ClientId(c), round, policy: room.policy, loss: 1.0, update }
                }
                Action::Unable(c) => Event::Unable { client: ClientId(c), round: room.number, policy: room.policy },
                Action::Deadline => Event::Deadline { round: room.number, policy: room.policy },
                Action::Begin => Event::Begin,
                Action::Start => Event::Start,
                Action::Once => Event::OneRound,
                Action::Pause => Event::Pause,
                Action::Masked(true) => Event::SetDefence("random-binary:0.5".parse().unwrap()),
                Action::Masked(false) => Event::SetDefence(Defence::None),
                Action::Reset => Event::Reset(model(3)),
            };
            if matches!(event, Event::Reset(_)) {
                accepted = 0;
            }
            for effect in room.handle(event) {
                match effect {
                    Effect::Plan { cohort, .. } => {
                        prop_assert!(!cohort.is_empty());
                        accepted = 0;
                    }
                    Effect::Accepted { .. } => accepted += 1,
                    Effect::Closed(summary) => prop_assert_eq!(summary.updates, accepted),
                    _ => {}
                }
            }
            prop_assert!(room.model().weights.iter().all(|weight| weight.is_finite()));
            if room.phase() == Phase::Training {
                prop_assert!(room.members.values().any(|state| *state == MemberState::Training));
            }
        }
    }
}
