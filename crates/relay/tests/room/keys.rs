//! Attacks on the key of an encrypted room.

use crate::support::{
    Client, Plan, Relay, card, cipher, find_card,
    private::{distance, picture, revealing_gradient},
    remark,
};
use unmask_core::{EncryptionStart, InitOptions, initial_weights};
use unmask_defence::Cipher;
use unmask_wire::view::{Control, RoomView};

const PASSPHRASE: &str = "seven grey herons";

/// Returns a room in which Ada has encrypted the model, and its first plan.
async fn sealed(defence: &str) -> (Relay, Client, Cipher, Plan) {
    let relay = Relay::with(|config| config.room.defence = defence.parse().unwrap()).await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::OneRound).await;
    let seal = ada.seal().await;
    let key = crate::support::cipher_of(PASSPHRASE, &seal.salt, start(defence));
    let weights = if seal.weights.is_empty() { own_weights() } else { seal.weights.clone() };
    ada.send_sealed(&seal, &key, weights).await;
    let plan = ada.plan().await;
    (relay, ada, key, plan)
}

fn start(defence: &str) -> EncryptionStart {
    if defence == "encrypted" { EncryptionStart::Plain } else { EncryptionStart::Keyed }
}

fn own_weights() -> Vec<f32> {
    initial_weights(&crate::support::private::config(), 42, InitOptions::default())
}

async fn update(client: &mut Client, plan: &Plan, key: &Cipher) {
    client.encrypted_update(plan, revealing_gradient(&picture(1), 3), key).await;
}

fn has_both(round: u32) -> impl Fn(&RoomView) -> bool {
    move |room| {
        ["known-start", "colluder"].iter().all(|name| find_card(room, name).is_some_and(|card| card.round == round))
    }
}

/// The relay drew the model, so its encrypted form reveals the key, and with it every later update.
#[tokio::test]
async fn plain_start_gives_the_key_away() {
    let (relay, mut ada, key, plan) = sealed("encrypted").await;
    update(&mut ada, &plan, &key).await;
    let (_, found) = ada.reconstruction("known-start").await;
    assert!(distance(&found, &picture(1)) < 1e-3, "{}", distance(&found, &picture(1)));
    let room = relay.room_when("both", has_both(1)).await;
    let keyless = card(&room, "embedding");
    assert!(keyless.remark.as_deref().is_some_and(|remark| remark.contains("has no key")), "{keyless:?}");
    assert!(remark(&room, "colluder").contains("no client has given the key away"));
    assert!(room.label.is_some_and(|label| label.counts[3] == 1), "the head is not encrypted");

    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    update(&mut ada, &plan, &key).await;
    let (round, found) = ada.reconstruction("known-start").await;
    assert!(round == 2 && distance(&found, &picture(1)) < 1e-3);
}

#[tokio::test]
async fn keyed_start_does_not_until_a_client_colludes() {
    let (relay, mut ada, key, plan) = sealed("encrypted:keyed").await;
    update(&mut ada, &plan, &key).await;
    let room = relay.room_when("both", has_both(1)).await;
    assert!(remark(&room, "known-start").contains("never had the plain model"), "{}", remark(&room, "known-start"));
    assert!(card(&room, "known-start").picture.is_none() && !room.has_key);

    for (passphrase, part) in [("six grey herons", "not the passphrase"), ("  ", "empty")] {
        let collude = Control::Collude { passphrase: Some(passphrase.into()) };
        let (status, sentence) = relay.try_control(&collude).await;
        assert_eq!(status, 400);
        assert!(sentence.contains(part), "{sentence}");
    }
    assert!(!relay.room().await.has_key);
    relay.control(Control::Collude { passphrase: Some(PASSPHRASE.into()) }).await;
    assert!(relay.room().await.has_key);
    // The current update is read immediately, without another round.
    let (round, found) = ada.reconstruction("colluder").await;
    assert!(round == 1 && distance(&found, &picture(1)) < 1e-3, "{}", distance(&found, &picture(1)));
    let room = relay.room().await;
    assert!(!room.log.iter().any(|line| line.text.contains("herons")), "{:?}", room.log);

    relay.control(Control::Collude { passphrase: None }).await;
    let room = relay.room_when("no picture", |room| card(room, "colluder").picture.is_none()).await;
    assert!(!room.has_key && remark(&room, "colluder").contains("no client has given"));
}

#[tokio::test]
async fn keys_go_with_their_encryption() {
    let (relay, mut ada, key, plan) = sealed("encrypted").await;
    relay.control(Control::Collude { passphrase: Some(PASSPHRASE.into()) }).await;
    relay.control(Control::Defence { defence: "none".parse().unwrap() }).await;
    update(&mut ada, &plan, &key).await;
    relay.room_when("both", has_both(1)).await;
    relay.control(Control::OneRound).await;
    let plan = ada.plan().await;
    assert!(!relay.room().await.has_key);
    ada.update(&plan, revealing_gradient(&picture(1), 3)).await;
    let room = relay.room_when("all results", |room| room.attacks.len() == 4).await;
    assert!(find_card(&room, "known-start").is_none() && find_card(&room, "colluder").is_none());
    let (status, sentence) = relay.try_control(&Control::Collude { passphrase: Some(PASSPHRASE.into()) }).await;
    assert_eq!(status, 400);
    assert!(sentence.contains("not encrypted"), "{sentence}");
}

/// If the model is encrypted again under a new salt, the old key is useless.
#[tokio::test]
async fn another_seal_has_another_key() {
    let (relay, mut ada, key, plan) = sealed("encrypted").await;
    relay.control(Control::Collude { passphrase: Some(PASSPHRASE.into()) }).await;
    update(&mut ada, &plan, &key).await;
    relay.room_when("both", has_both(1)).await;
    relay.control(Control::Reset).await;
    assert!(!relay.room().await.has_key);
    relay.control(Control::OneRound).await;
    let seal = ada.seal().await;
    let key = cipher(PASSPHRASE, &seal.salt);
    ada.send_sealed(&seal, &key, seal.weights.clone()).await;
    let plan = ada.plan().await;
    update(&mut ada, &plan, &key).await;
    let room = relay.room_when("both", has_both(1)).await;
    assert!(card(&room, "known-start").picture.is_some());
    assert!(remark(&room, "colluder").contains("no client has given"));
}
