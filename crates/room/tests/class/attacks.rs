//! The attacks on a client's update, and their cards.

use std::{sync::Arc, time::Duration};

use crate::support::{
    Class, Client, Plan, card, find_card, layout,
    private::{distance, picture, revealing_gradient},
    protect, remark,
};
use unmask_attack::{AttackError, Searches, WholeUpdate};
use unmask_core::{Architecture, MaskSeed, VitPreset};
use unmask_data::hwc_to_chw;
use unmask_defence::{KeyMaterial, ProtectedUpdate};
use unmask_engine::{Engine, Normalisation, Wanted};
use unmask_lesson::{Change, Scene};
use unmask_wire::{
    ClientMessage, ORIGINAL_SIDE, RelayMessage,
    view::{Control, RoomView},
};

const LABEL: usize = 3;

fn revealing() -> Vec<f32> {
    revealing_gradient(&picture(1), LABEL)
}

fn are_of(room: &RoomView, cards: usize, round: u32) -> bool {
    room.attacks.len() == cards && room.attacks.iter().all(|card| card.round == round)
}

/// Runs one round under a defence with Ada as the only client.
fn attacked(defence: &str, values: Vec<f32>) -> (Class, Client) {
    let class = Class::with(|config| config.defence = defence.parse().unwrap());
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, values);
    (class, ada)
}

/// With G_pos unmasked, masks on everything else stop the papers' attacker, but not a mask-aware one.
#[test]
fn naive_and_aware_stand_side_by_side_on_one_update() {
    let (class, mut ada) = attacked("random-binary:pos=0,0.3", revealing());
    let (_, naive) = ada.reconstruction("embedding");
    let (_, aware) = ada.reconstruction("embedding-aware");
    let (naive, aware) = (distance(&naive, &picture(1)), distance(&aware, &picture(1)));
    assert!(naive > 0.05 && aware < 1e-4, "{naive} {aware}");
    let room = class.room_when("all results", |room| room.attacks.len() == 6);
    assert!(room.attacks.iter().all(|card| card.round == 1 && card.defence.to_string() == "random-binary:pos=0,0.3"));
    assert!(remark(&room, "embedding-aware").contains("arrived whole"), "{}", remark(&room, "embedding-aware"));
    assert!(!remark(&room, "embedding-aware").contains("adds nothing"));
}

/// A model with a known formula for a picture's gradient.
#[derive(Debug)]
struct Formula;

impl Searches for Formula {
    fn gradient(&self, _: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        Ok(revealing_gradient(pictures, labels[0]).into_iter().map(f64::from).collect())
    }
}

/// The gradient check distinguishes right pictures from wrong ones, and says nothing without a model.
#[test]
fn closed_forms_are_checked_by_their_own_gradient() {
    let class = Class::with_model(Arc::new(Formula), |config| {
        config.defence = "random-binary:pos=0,0.3".parse().unwrap();
    });
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing());
    let room = class.room_when("all results", |room| room.attacks.len() == 6);
    let unexplained = |attack: &str| -> f64 {
        let (_, rest) = remark(&room, attack).split_once("Its own gradient leaves ").unwrap();
        rest.split_once(" % of what arrived unexplained.").unwrap().0.parse().unwrap()
    };
    let (naive, aware) = (unexplained("embedding"), unexplained("embedding-aware"));
    assert!(naive > 5.0 && aware == 0.0, "{naive} % and {aware} %");

    class.control(Control::Defence { defence: "encrypted".parse().unwrap() });
    class.control(Control::OneRound);
    ada.encrypted_round("seven grey herons", revealing());
    let room = class.room_when("cipher text", |room| find_card(room, "embedding").is_some_and(|card| card.round == 2));
    assert!(!remark(&room, "embedding").contains("own gradient"), "{}", remark(&room, "embedding"));
}

/// A model that runs.
#[derive(Debug)]
pub struct Running;

pub fn mean_gradient(architecture: Architecture, weights: &[f32], pictures: &[f32], labels: &[usize]) -> Vec<f32> {
    let side = architecture.side();
    let images: Vec<f32> =
        pictures.chunks(3 * side * side).flat_map(|picture| hwc_to_chw(picture, side, side)).collect();
    let wanted = Wanted { weights: weights.len(), images: false };
    let engine = Engine::<f32>::new(architecture);
    engine.differentiate(weights, &[], &images, labels, Normalisation::Running, wanted).gradient
}

impl Searches for Running {
    fn gradient(&self, whole: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        let gradient = mean_gradient(whole.architecture, &whole.state.weights, pictures, labels);
        Ok(gradient.into_iter().map(f64::from).collect())
    }
}

/// A picture of 8-bit pixels, `[32, 32, 3]`, different for each seed.
pub fn levels(seed: usize) -> Vec<f32> {
    let value = |i: usize| {
        let (x, y) = ((i / 3 % 32) as f32, (i / 96) as f32);
        let wave = (x * 0.31 * (seed + 1) as f32).sin() * (y * 0.17).cos() + 0.3 * ((i * (seed + 7)) as f32).sin();
        (127.5 + 90.0 * wave).round().clamp(0.0, 255.0) / 255.0
    };
    (0..3 * 32 * 32).map(value).collect()
}

/// The scene that adds updates takes apart the sum of those who show their pictures, and of nobody else.
#[test]
fn the_sum_of_a_few_updates_is_taken_apart() {
    let architecture = Architecture::from(VitPreset::NanoPatch8);
    let class = Class::with_model(Arc::new(Running), |config| config.architecture = architecture);
    let show = |nickname: &str, seed| {
        let mut client = class.client(nickname);
        client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &levels(seed));
        assert_eq!(client.answer(), RelayMessage::Original { is_shown: true, waits: false });
        client
    };
    // Dan leaves without an answer, Eve shows nothing.
    let (mut ada, mut bob, mut dan, mut eve) = (show("Ada", 0), show("Bob", 1), show("Dan", 2), class.client("Eve"));
    class.control(Control::Lesson { scene: Scene::Sum, beat: 0 });
    class.control(Control::OneRound);
    class.let_looks_take(Duration::from_millis(600));
    dan.plan();
    for (client, seed, label) in [(&mut eve, 3, 5), (&mut bob, 1, 8), (&mut ada, 0, 3)] {
        let plan = client.plan();
        let update = mean_gradient(architecture, &plan.weights, &levels(seed), &[label]);
        client.send_update(&plan, 1.0, ProtectedUpdate::dense(update));
    }
    let waiting = class.room().sum.expect("a sum");
    assert_eq!((waiting.clients.len(), waiting.mixture), (3, None), "it waits for Dan");
    drop((dan, eve));
    let room = class.room_when("the sum", |room| room.sum.as_ref().is_some_and(|sum| !sum.pictures.is_empty()));
    let sum = room.sum.clone().expect("a sum");
    assert_eq!((&sum.clients[..], sum.certain, &sum.remark), (&[ada.id, bob.id][..], 2, &None));
    // Each picture has 16 patches and a class token.
    assert!(sum.tokens.is_some_and(|(found, all)| found > 0 && found <= all && all == 34), "{:?}", sum.tokens);
    assert!(room.situation().has_added);
    let addresses: Vec<_> =
        sum.pictures.iter().chain([&sum.mixture]).map(|it| it.clone().expect("a picture")).collect();
    for (address, seed) in addresses.iter().zip([0, 1]) {
        let png = class.picture(address).expect("a picture");
        let wanted: Vec<u8> = levels(seed).iter().map(|value| (value * 255.0).round() as u8).collect();
        assert!(unmask_data::decode(&png).expect("a PNG").rgb() == wanted, "picture {seed} is not exact");
    }

    // Every picture of the sum is made of Ada's numbers, too.
    ada.socket.send(&ClientMessage::HideOriginal, &[]);
    class.room_when("a picture hidden", |room| room.sum.is_none());
    assert!(addresses.iter().all(|address| class.picture(address).is_none()));

    // Who withdraws while the sum is made takes it along.
    drop(ada);
    let mut ada = show("Ada", 0);
    class.control(Control::OneRound);
    let plans = [ada.plan(), bob.plan()];
    let [of_ada, of_bob] = [0, 1].map(|seed: usize| {
        ProtectedUpdate::dense(mean_gradient(architecture, &plans[seed].weights, &levels(seed), &[3]))
    });
    ada.send_update(&plans[0], 1.0, of_ada);
    class.room_when("a sum in the making", |room| room.sum.is_some());
    ada.socket.send(&ClientMessage::Consent { may_show: false, may_lend: false }, &[]);
    class.room_when("a consent withdrawn", |room| room.sum.is_none());
    bob.send_update(&plans[1], 1.0, of_bob);
    class.room_when("the end of the round", |room| room.losses.len() == 2);
    assert_eq!(class.room().sum, None, "one update is no sum");
}

/// Clients that still compute for the model before are not waited for. The first round is then run again.
#[test]
fn a_sum_that_lacks_clients_is_made_again() {
    let architecture = Architecture::from(VitPreset::NanoPatch8);
    let class = Class::with_model(Arc::new(Running), |config| config.architecture = architecture);
    let [mut ada, mut bob, mut eve] = ["Ada", "Bob", "Eve"].map(|nickname| class.client(nickname));
    for (client, seed) in [(&mut ada, 0), (&mut bob, 1)] {
        client.socket.send(&ClientMessage::Original { side: ORIGINAL_SIDE }, &levels(seed));
        client.answer();
    }
    let send = |client: &mut Client, plan: &Plan, seed| {
        let update = mean_gradient(architecture, &plan.weights, &levels(seed), &[seed]);
        client.send_update(plan, 1.0, ProtectedUpdate::dense(update));
    };
    class.control(Control::OneRound);
    let [of_ada, of_bob, of_eve] = [ada.plan(), bob.plan(), eve.plan()];
    class.control(Control::Lesson { scene: Scene::Sum, beat: 0 });
    class.control(Change::Model(architecture).into());
    send(&mut eve, &of_eve, 3);
    class.control(Control::OneRound);
    let next = eve.plan();
    send(&mut ada, &of_ada, 0);
    send(&mut bob, &of_bob, 1);
    assert_eq!(class.room().sum, None);
    send(&mut eve, &next, 3);
    for (client, seed) in [(&mut ada, 0), (&mut bob, 1)] {
        let plan = client.plan();
        assert_eq!(plan.round, 1);
        send(client, &plan, seed);
    }
    let room = class.room_when("the sum", |room| room.sum.as_ref().is_some_and(|sum| !sum.pictures.is_empty()));
    assert_eq!(
        room.sum.as_ref().map(|sum| (&sum.clients[..], sum.certain, &sum.remark)),
        Some((&[ada.id, bob.id][..], 2, &None))
    );
    let plan = eve.plan();
    send(&mut eve, &plan, 3);
    let room = class.room_when("a pause", |room| room.losses.len() == 1);
    assert!(room.situation().has_added && !room.runs_on);
}

/// An update of several pictures gets a card that shows each of them.
#[test]
fn a_batch_is_taken_apart_on_its_card() {
    let architecture = Architecture::from(VitPreset::NanoPatch8);
    let class = Class::with_model(Arc::new(Running), |config| {
        (config.architecture, config.batch) = (architecture, 2);
    });
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let pictures = [levels(0), levels(1)].concat();
    let update = mean_gradient(architecture, &plan.weights, &pictures, &[3, 8]);
    ada.send_samples(&plan, 1.0, 2, ProtectedUpdate::dense(update));
    let room = class.room_when("the card", |room| find_card(room, "batch").is_some());
    let card = card(&room, "batch");
    assert_eq!((card.pictures, card.psnr), (2, None), "{:?}", card.remark);
    let said = remark(&room, "batch");
    assert!(said.contains("2 of 2 pictures are certain") && !said.contains("adds nothing"), "{said}");

    // One picture needs no such card.
    class.control(Control::OneRound);
    let plan = ada.plan();
    let update = mean_gradient(architecture, &plan.weights, &pictures[..3 * 32 * 32], &[3]);
    ada.send_update(&plan, 1.0, ProtectedUpdate::dense(update));
    let room = class.room_when("round 2", |room| find_card(room, "embedding").is_some_and(|card| card.round == 2));
    assert!(find_card(&room, "batch").is_none());
}

#[test]
fn cards_follow_the_defence() {
    let (class, mut ada) = attacked("fixed-position", revealing_with_zero_position());
    let room = class.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some());
    for card in &room.attacks {
        assert_eq!((card.picture.as_deref(), card.ssim), (None, None));
        let remark = card.remark.as_deref().unwrap_or_default();
        assert!(remark.starts_with("Cannot, because") && remark.contains("position embedding"), "{remark}");
    }
    assert_eq!(room.label.unwrap().counts[LABEL], 1);

    // Low-rank completion says at once that this keeps too few values.
    class.control(Control::Defence { defence: "random-binary:0.6".parse().unwrap() });
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing());
    let room = class.room_when("the rounds", |room| room.attacks.len() == 6);
    let names: Vec<&str> = room.attacks.iter().map(|card| card.attack.name()).collect();
    assert_eq!(names[4..], ["completion", "rounds"]);
    let room = class.room_when("round 2", |room| are_of(room, 6, 2));
    assert_eq!(room.label.as_ref().map(|label| label.round), Some(2));

    class.control(Control::Defence { defence: "none".parse().unwrap() });
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing());
    let room = class.room_when("round 3", |room| are_of(room, 4, 3));
    assert!(room.attacks.iter().all(|card| card.attack.name() != "rounds"));
}

fn revealing_with_zero_position() -> Vec<f32> {
    let mut values = revealing();
    values[layout().get("pos_embed").unwrap().range.clone()].fill(0.0);
    values
}

/// Under FedAvg, the change of the weights also reveals the picture and the label.
#[test]
fn weights_that_moved_give_the_picture_away() {
    let class = Class::with(|config| config.rule = "fedavg:epochs=1,rate=0.1".parse().unwrap());
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let local = plan.weights.iter().zip(revealing()).map(|(w, g)| w - 0.1 * g).collect();
    ada.update(&plan, local);
    let (_, values) = ada.reconstruction("embedding");
    assert!(distance(&values, &picture(1)) < 1e-2, "{}", distance(&values, &picture(1)));
    let room = class.room_when("label", |room| room.label.is_some() && !room.attacks.is_empty());
    assert!(remark(&room, "embedding").contains("weight differences after 1 local epoch"));
    assert_eq!(room.label.unwrap().counts[LABEL], 1);
}

/// Zeros and overflowing values are explained, and the next update is attacked normally.
#[test]
fn worthless_updates_are_told_in_words() {
    let (class, mut ada) = attacked("none", vec![0.0; layout().len()]);
    let room = class.room_when("all results", |room| room.attacks.len() == 4 && room.label.is_some());
    assert!(room.attacks.iter().all(|card| card.remark.is_some() && card.picture.is_none()), "{:#?}", room.attacks);
    let label = room.label.unwrap();
    assert!(label.counts.is_empty() && label.remark.as_deref().is_some_and(|remark| remark.contains("all zero")));
    for (round, defence, cards) in [(2, "random-binary:0.5", 6), (3, "none", 4)] {
        class.control(Control::Defence { defence: defence.parse().unwrap() });
        class.control(Control::OneRound);
        let plan = ada.plan();
        ada.update(&plan, vec![f32::MAX; layout().len()]);
        class.room_when(defence, |room| are_of(room, cards, round));
    }
    class.control(Control::OneRound);
    let plan = ada.plan();
    ada.update(&plan, revealing());
    let (round, values) = ada.reconstruction("embedding");
    let (round, values) = if round == 4 { (round, values) } else { ada.reconstruction("embedding") };
    assert_eq!(round, 4);
    assert!(distance(&values, &picture(1)) < 1e-4);
}

#[test]
fn mixtures_are_called_mixtures() {
    let class = Class::with(|config| config.batch = 4);
    let mut ada = class.client("Ada");
    class.control(Control::OneRound);
    let plan = ada.plan();
    let update = protect(&plan, revealing(), KeyMaterial { seed: MaskSeed([0; 32]), cipher: None });
    ada.send_samples(&plan, 1.0, 4, update);
    let room = class.room_when("all results", |room| room.attacks.len() == 5 && room.label.is_some());
    let mixed = remark(&room, "embedding");
    assert!(mixed.contains("4 pictures are mixed") && mixed.contains("at most 0.15"), "{mixed}");
    let unsolved = remark(&room, "batch");
    assert!(unsolved.contains("Cannot") && !unsolved.contains("are mixed"), "{unsolved}");
    let label = room.label.unwrap();
    assert_eq!((label.samples, label.counts.iter().sum::<u32>()), (4, 4));
}

#[test]
fn without_a_mask_only_those_who_know_masks_are_told_so() {
    let (class, _ada) = attacked("none", revealing());
    let room = class.room_when("all results", |room| !room.attacks.is_empty() && room.label.is_some());
    for card in &room.attacks {
        let is_told = card.remark.as_deref().is_some_and(|remark| remark.contains("knowing masks adds nothing"));
        assert_eq!(is_told, card.attack.name().ends_with("-aware"), "{}: {:?}", card.attack.name(), card.remark);
    }
}
