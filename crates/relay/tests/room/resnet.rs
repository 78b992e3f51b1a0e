//! Rooms that train a ResNet. Filters are treated like all weights; batch norm's running statistics are sent
//! unprotected.

use std::sync::{Arc, Mutex};

use crate::support::{Client, Plan, RATE, Relay, card, config};
use unmask_attack::{AttackError, Search, SearchOptions, SearchProgress, SearchTarget, Searches};
use unmask_core::{Architecture, AttackMethod, Defence, Knowledge, ModelState, ResnetPreset};
use unmask_defence::{KeyMaterial, Mask, PlainUpdate, Protect, commitment};
use unmask_relay::serve;
use unmask_wire::{
    ClientMessage, RelayMessage, SeedDraw,
    view::{Control, Phase, RoomView},
};

const SAMPLES: [u32; 2] = [1, 3];

fn architecture() -> Architecture {
    Architecture::from(ResnetPreset::Nano)
}

/// Returns arbitrary values, different for each number.
fn values(len: usize, number: usize) -> Vec<f32> {
    (0..len).map(|i| ((number * 131 + i * 17) % 101) as f32 / 500.0 + 0.01).collect()
}

fn split(plan: &Plan) -> ModelState {
    let (weights, statistics) = plan.weights.split_at(architecture().layout().len());
    ModelState { weights: weights.to_vec(), statistics: statistics.to_vec() }
}

/// Sends `plain` protected by the defence, followed by `statistics`.
async fn send(client: &mut Client, plan: &Plan, which: usize, defence: &str, plain: Vec<f32>, statistics: &[f32]) {
    let before = split(plan);
    let reference = plan.rule.is_fedavg().then_some(before.weights.as_slice());
    let defence: Defence = defence.parse().unwrap();
    let keys = KeyMaterial { seed: client.seed(plan), cipher: None };
    let layout = architecture().layout();
    let update = defence.protect(&layout, PlainUpdate { values: plain, reference }, keys).unwrap();
    let (round, policy, samples) = (plan.round, plan.policy, SAMPLES[which]);
    let nonce = client.socket.nonce;
    let draw = Some(SeedDraw { nonce, next: commitment(&nonce) });
    let message = ClientMessage::Update { round, policy, loss: 1.0, samples, form: update.form, draw };
    client.socket.send(&message, &[&update.values, statistics].concat()).await;
}

/// Runs two rounds of two clients. After the first, the statistics must be their weighted mean, computed in f64.
async fn two_rounds(rule: &str, defence: &str, weights_of: [u32; 2]) {
    let relay = Relay::with(|config| {
        config.room.architecture = architecture();
        config.room.rule = rule.parse().unwrap();
        config.room.batch = SAMPLES[1] as u16;
        config.room.defence = defence.parse().unwrap();
    })
    .await;
    let mut clients = [relay.client("Ada").await, relay.client("Bob").await];
    relay.control(Control::Start).await;
    let (layout, statistics) = (architecture().layout(), architecture().statistics());
    let given = [values(statistics.len(), 5), values(statistics.len(), 6)];
    let plain = [values(layout.len(), 1), values(layout.len(), 2)];
    let (mut first, mut seeds) = (None, Vec::new());
    for (which, client) in clients.iter_mut().enumerate() {
        let plan = client.plan().await;
        assert_eq!(plan.weights.len(), layout.len() + statistics.len());
        let state = split(&plan);
        let fresh = architecture().initial(0).statistics;
        assert_eq!(state.statistics, fresh, "means of zero and variances of one");
        send(client, &plan, which, defence, plain[which].clone(), &given[which]).await;
        assert_eq!(client.answer().await, RelayMessage::Accepted { round: 1 });
        first = Some(state);
        seeds.push(client.seed(&plan));
    }
    let (before, after) = (first.unwrap(), split(&clients[0].plan().await));
    let total = f64::from(weights_of[0] + weights_of[1]);
    for (i, found) in after.statistics.iter().enumerate() {
        let sum: f64 = (0..2).map(|n| f64::from(weights_of[n]) * f64::from(given[n][i])).sum();
        assert!((f64::from(*found) - sum / total).abs() < 1e-7, "statistic {i} under {rule}, {defence}");
    }
    let masks = [0, 1].map(|which| match defence.parse::<Defence>().unwrap().rates() {
        Some(rates) => Mask::new(seeds[which], rates, &layout).entries().collect(),
        None => vec![true; layout.len()],
    });
    for i in 0..layout.len() {
        let (mut sum, mut weight) = (0.0, 0.0);
        for n in (0..2).filter(|&n| masks[n][i]) {
            sum += f64::from(weights_of[n]) * f64::from(plain[n][i]);
            weight += f64::from(weights_of[n]);
        }
        let old = f64::from(before.weights[i]);
        let expected = match (weight, rule) {
            (0.0, _) => old,
            (_, "fedsgd") => old - f64::from(RATE) * sum / weight,
            _ => sum / weight,
        };
        assert!((f64::from(after.weights[i]) - expected).abs() < 1e-6, "value {i} under {rule}, {defence}");
    }
}

#[tokio::test]
async fn statistics_are_the_plain_mean_of_gradients_clients() {
    two_rounds("fedsgd", "none", [1, 1]).await;
    two_rounds("fedsgd", "random-binary:0.5", [1, 1]).await;
}

#[tokio::test]
async fn statistics_of_local_epochs_count_by_samples() {
    two_rounds("fedavg:epochs=1,rate=0.1", "none", SAMPLES).await;
    two_rounds("fedavg:epochs=1,rate=0.1", "random-binary:conv=0.8,0.3", SAMPLES).await;
}

#[tokio::test]
async fn statistics_that_are_none_are_refused() {
    let relay = Relay::with(|config| config.room.architecture = architecture()).await;
    let mut ada = relay.client("Ada").await;
    let (layout, statistics) = (architecture().layout(), architecture().statistics());
    let variance = statistics.get("bn1.running_var").unwrap().range.start;
    let mut negative = values(statistics.len(), 1);
    negative[variance] = -1.0;
    let mut infinite = values(statistics.len(), 1);
    infinite[0] = f32::INFINITY;
    for (statistics, words) in [(negative, "bn1.running_var holds -1"), (infinite, "bn1.running_mean holds inf")] {
        relay.control(Control::OneRound).await;
        let plan = ada.plan().await;
        send(&mut ada, &plan, 0, "none", values(layout.len(), 1), &statistics).await;
        let reason = ada.refusal().await;
        assert!(reason.contains(words), "{reason}");
        relay.room_when("the round's end", |room| room.phase == Phase::Paused).await;
    }
}

/// Attacks, defences and the April block that need embeddings say so: attacks on their cards, the others when chosen.
#[tokio::test]
async fn what_needs_embeddings_says_so() {
    let relay = Relay::with(|config| config.room.architecture = architecture()).await;
    let mut ada = relay.client("Ada").await;
    for defence in ["fixed-position", "encrypted"] {
        let (status, reason) = relay.try_control(&Control::Defence { defence: defence.parse().unwrap() }).await;
        assert_eq!(status, 400, "{reason}");
    }
    let (status, reason) = relay.try_control(&Control::Defence { defence: "fixed-position".parse().unwrap() }).await;
    assert!(status == 400 && reason.contains("protects embeddings, and resnet_nano has none"), "{reason}");
    let (status, reason) = relay.try_control(&Control::AprilBlock { on: true }).await;
    assert!(status == 400 && reason.contains("resnet_nano has no transformer block"), "{reason}");
    relay.control(Control::Target { client: ada.id }).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    let (layout, statistics) = (architecture().layout(), architecture().statistics());
    send(&mut ada, &plan, 0, "none", values(layout.len(), 1), &values(statistics.len(), 1)).await;
    let said = "resnet_nano is no Vision Transformer, and has no embeddings to solve for";
    let is_said = |attack: &str, room: &RoomView| {
        crate::support::find_card(room, attack)
            .is_some_and(|card| card.remark.as_deref().is_some_and(|it| it.contains(said)))
    };
    let attacks = ["embedding", "embedding-aware", "april", "april-aware"];
    let room = relay.room_when("four cards", |room| attacks.iter().all(|attack| is_said(attack, room))).await;
    assert!(card(&room, "embedding").explanation.symbols.iter().any(|[_, _, size]| size == "none in this model"));

    relay.control(Control::Defence { defence: "random-binary:0.5".parse().unwrap() }).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    send(&mut ada, &plan, 0, "random-binary:0.5", values(layout.len(), 1), &values(statistics.len(), 1)).await;
    relay.room_when("several rounds refused", |room| is_said("rounds", room)).await;
}

/// A search that began: its method, labels, gradient length, and whether the mask is known.
type Begun = (AttackMethod, Vec<usize>, usize, bool);

#[derive(Debug, Clone, Default)]
struct Watched(Arc<Mutex<Vec<Begun>>>);

impl Searches for Watched {
    fn begin(
        &self,
        method: AttackMethod,
        target: &SearchTarget<'_>,
        _: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        assert!(target.is_training, "a client trains");
        assert_eq!(target.state.statistics.len(), architecture().statistics().len());
        let seen = (method, target.labels.clone(), target.gradient.len(), target.kept.is_some());
        self.0.lock().unwrap().push(seen);
        Ok(Box::new(OneStep(target.start.clone())))
    }
}

struct OneStep(Vec<f32>);

impl Search for OneStep {
    fn step(&mut self) -> Result<SearchProgress, AttackError> {
        let image = self.0.clone();
        Ok(SearchProgress { iteration: 1, iterations: 1, objective: 0.5, image, is_over: true, note: None })
    }

    fn finish(&mut self) -> Option<SearchProgress> {
        self.step().ok()
    }

    fn retarget(&mut self, _: &SearchTarget<'_>) -> Result<(), AttackError> {
        Err(AttackError::NoModel)
    }
}

/// The label is inferred from fc.weight and fc.bias, and Inverting Gradients searches with the whole gradient.
#[tokio::test]
async fn what_needs_no_embeddings_works() {
    const LABEL: usize = 4;
    let layout = architecture().layout();
    let mut gradient = values(layout.len(), 1);
    for name in ["fc.weight", "fc.bias"] {
        let range = layout.get(name).unwrap().range.clone();
        let row = range.len() / 10;
        for (class, row) in gradient[range].chunks_exact_mut(row).enumerate() {
            row.fill(if class == LABEL { -0.9 } else { 0.1 });
        }
    }
    let statistics = values(architecture().statistics().len(), 1);
    for (defence, methods) in [
        ("none", &[AttackMethod::GradientsAware][..]),
        ("random-binary:0.5", &[AttackMethod::GradientsAware, AttackMethod::Gradients]),
    ] {
        let watched = Watched::default();
        let relay = Relay::with(|config| {
            config.room.architecture = architecture();
            config.room.defence = defence.parse().unwrap();
            config.searches = Some(Arc::new(watched.clone()));
        })
        .await;
        relay.control(Control::Search { on: true }).await;
        let mut ada = relay.client("Ada").await;
        relay.control(Control::OneRound).await;
        let plan = ada.plan().await;
        send(&mut ada, &plan, 0, defence, gradient.clone(), &statistics).await;
        let is_shown = |room: &RoomView| {
            let is_there = |method: &AttackMethod| {
                crate::support::find_card(room, method.name()).is_some_and(|card| card.picture.is_some())
            };
            methods.iter().all(is_there) && room.label.as_ref().is_some_and(|label| label.counts.len() == 10)
        };
        let room = relay.room_when("label and searches", is_shown).await;
        assert_eq!(room.label.unwrap().counts[LABEL], 1);
        let is_masked = defence != "none";
        for (seen, &method) in watched.0.lock().unwrap().iter().zip(methods) {
            let is_aware = is_masked && method.knowledge() == Knowledge::Aware;
            assert_eq!(*seen, (method, vec![LABEL], layout.len(), is_aware), "{defence}");
        }
    }
}

#[tokio::test]
async fn a_room_does_not_begin_with_a_defence_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path().to_path_buf());
    config.room.architecture = architecture();
    config.room.defence = "encrypted".parse().unwrap();
    let error = serve(config).await.expect_err("it has no embeddings").to_string();
    assert!(error.contains("resnet_nano has none"), "{error}");
}
