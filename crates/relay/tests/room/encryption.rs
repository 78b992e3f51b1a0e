//! Encrypted rounds over real sockets: who encrypts the model, what is averaged, and who is refused.

use crate::support::{Client, Plan, RATE, Relay, Seal, cipher, gradient, layout};
use unmask_core::{EncryptionStart, InitOptions, KeyCheck, UpdateForm, VitConfig, VitPreset, initial_weights};
use unmask_defence::Cipher;
use unmask_wire::{
    ClientMessage, RelayMessage,
    view::{ClientState, Control, EncryptionView, NextView, Phase},
};

const PASSPHRASE: &str = "seven grey herons";

fn fresh(seed: u64) -> Vec<f32> {
    initial_weights(&VitConfig::from(VitPreset::Pico), seed, InitOptions::default())
}

async fn encrypted(defence: &str) -> Relay {
    Relay::with(|config| (config.room.defence, config.room.seed) = (defence.parse().unwrap(), Some(5))).await
}

fn decrypted(plan: &Plan, cipher: &Cipher) -> Vec<f32> {
    let mut weights = plan.weights.clone();
    cipher.decrypt(&mut weights).unwrap();
    weights
}

fn assert_close(actual: &[f32], wanted: &[f32], tolerance: f64) {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = norm(&mut actual.iter().zip(wanted).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    let whole = norm(&mut wanted.iter().map(|value| f64::from(*value)));
    assert!(actual.len() == wanted.len() && difference <= tolerance * whole, "{difference} of {whole}");
}

/// Runs two encrypted rounds, and asserts that the decrypted weights are those of a plain run.
async fn two_rounds(relay: &Relay, clients: &mut [Client; 2], cipher: &Cipher, start: &[f32]) {
    let mut wanted = start.to_vec();
    for round in 1..=3u32 {
        let plans = [clients[0].plan().await, clients[1].plan().await];
        for plan in &plans {
            let encryption = plan.encryption.expect("an encrypted plan");
            assert_eq!((plan.round, encryption.check), (round, cipher.check()));
            assert_close(&decrypted(plan, cipher), &wanted, 1e-5);
        }
        // The relay holds no plain weights.
        for name in ["patch_embed.proj.weight", "pos_embed"] {
            let layout = layout();
            let (held, plain) = (layout.slice(&plans[0].weights, name), layout.slice(&wanted, name));
            assert_ne!(held, plain, "{name}");
        }
        let gradients = [gradient(round as usize), gradient(10 + round as usize)];
        for ((client, plan), gradient) in clients.iter_mut().zip(&plans).zip(gradients.clone()) {
            client.encrypted_update(plan, gradient, cipher).await;
        }
        for ((weight, one), other) in wanted.iter_mut().zip(&gradients[0]).zip(&gradients[1]) {
            *weight -= RATE * (one + other) / 2.0;
        }
    }
    let room = relay.room_when("three rounds", |room| room.losses.len() == 3).await;
    assert!(room.losses.iter().all(|point| point.updates == 2), "{:?}", room.losses);
}

#[tokio::test]
async fn plain_start_runs_as_a_plain_room_would() {
    let relay = encrypted("encrypted").await;
    let mut clients = [relay.client("Ada").await, relay.client("Bob").await];
    let unsealed = EncryptionView { start: EncryptionStart::Plain, sealed_by: None };
    assert_eq!(relay.room().await.encryption, Some(unsealed));
    relay.control(Control::Start).await;
    let seal = clients[0].seal().await;
    assert_eq!(seal.weights, fresh(5));
    let room = relay.room().await;
    assert_eq!((room.phase, room.round), (Phase::Sealing, 0));
    assert_eq!(room.clients.iter().map(|c| c.state).collect::<Vec<_>>(), [ClientState::Training, ClientState::Joined]);
    let cipher = cipher(PASSPHRASE, &seal.salt);
    clients[0].send_sealed(&seal, &cipher, seal.weights.clone()).await;
    two_rounds(&relay, &mut clients, &cipher, &seal.weights).await;
    let sealed = EncryptionView { start: EncryptionStart::Plain, sealed_by: Some("Ada".into()) };
    let room = relay.room_when("the attacks", |room| !room.attacks.is_empty()).await;
    assert_eq!(room.encryption, Some(sealed));
    assert!(room.log.iter().any(|line| line.text.starts_with("Ada has encrypted the model")), "{:?}", room.log);
    let remark = room.attacks[0].remark.clone().unwrap_or_default();
    assert!(remark.contains("has no key"), "{remark}");
}

/// The relay sends no weights, and all clients train on those that the first client draws.
#[tokio::test]
async fn keyed_start_begins_with_weights_of_a_client() {
    let relay = encrypted("encrypted:keyed").await;
    let mut clients = [relay.client("Ada").await, relay.client("Bob").await];
    relay.control(Control::Start).await;
    let seal = clients[0].seal().await;
    assert!(seal.weights.is_empty());
    let cipher = cipher(PASSPHRASE, &seal.salt);
    clients[0].send_sealed(&seal, &cipher, fresh(99)).await;
    two_rounds(&relay, &mut clients, &cipher, &fresh(99)).await;
    let sealed = EncryptionView { start: EncryptionStart::Keyed, sealed_by: Some("Ada".into()) };
    assert_eq!(relay.room().await.encryption, Some(sealed));
}

#[tokio::test]
async fn salts_are_fresh() {
    let (one, other) = (encrypted("encrypted").await, encrypted("encrypted").await);
    let mut salts = Vec::new();
    for relay in [&one, &other] {
        let mut ada = relay.client("Ada").await;
        relay.control(Control::Start).await;
        let seal = ada.seal().await;
        ada.send_sealed(&seal, &cipher(PASSPHRASE, &seal.salt), seal.weights.clone()).await;
        let plan = ada.plan().await;
        assert_eq!(plan.encryption.map(|encryption| encryption.salt), Some(seal.salt));
        salts.push(seal.salt);
        // The room's next model works in the same way.
        relay.control(Control::Reset).await;
        relay.control(Control::Start).await;
        ada.socket
            .send(
                &ClientMessage::Unable { round: 1, policy: plan.policy, reason: "late".into(), is_locked: false },
                &[],
            )
            .await;
        salts.push(ada.seal().await.salt);
    }
    salts.sort_unstable();
    salts.dedup();
    assert_eq!(salts.len(), 4);
}

/// Clients with another passphrase or plain gradients are refused before they harm the model.
#[tokio::test]
async fn other_keys_and_plain_updates_are_refused() {
    let relay = encrypted("encrypted").await;
    let (mut ada, mut eve) = (relay.client("Ada").await, relay.client("Eve").await);
    relay.control(Control::Start).await;
    let seal = ada.seal().await;
    let key = cipher(PASSPHRASE, &seal.salt);
    ada.send_sealed(&seal, &key, seal.weights.clone()).await;
    let wrong = cipher("six grey herons", &seal.salt);
    for round in 1..=2 {
        let (plan, target) = (ada.plan().await, eve.plan().await);
        if round == 1 {
            eve.encrypted_update(&target, gradient(2), &wrong).await;
            let said = eve.refusal().await;
            assert!(said.contains("another key"), "{said}");
        } else {
            eve.send_update(&target, 1.0, unmask_defence::ProtectedUpdate::dense(gradient(2))).await;
            let said = eve.refusal().await;
            assert!(said.contains("the round's defence is encrypted"), "{said}");
        }
        ada.encrypted_update(&plan, gradient(1), &key).await;
    }
    let plan = ada.plan().await;
    let wanted: Vec<f32> = seal.weights.iter().zip(gradient(1)).map(|(w, g)| w - RATE * g - RATE * g).collect();
    assert_close(&decrypted(&plan, &key), &wanted, 1e-5);
}

/// If a client cannot encrypt or leaves, the next one is asked.
#[tokio::test]
async fn another_client_is_asked_when_one_cannot() {
    let relay = encrypted("encrypted").await;
    let mut ada = relay.client("Ada").await;
    let mut bob = relay.client("Bob").await;
    let mut eve = relay.client("Eve").await;
    relay.control(Control::Start).await;
    let asked = ada.seal().await;
    let unable =
        ClientMessage::Unable { round: 0, policy: asked.policy, reason: "no passphrase here".into(), is_locked: false };
    ada.socket.send(&unable, &[]).await;
    relay.log_line("Ada cannot encrypt the model: no passphrase here").await;
    bob.seal().await;
    drop(bob);
    let seal = eve.seal().await;
    assert_eq!(seal.weights, asked.weights);
    // Ada changes her mind too late.
    let key = cipher(PASSPHRASE, &asked.salt);
    ada.send_sealed(&asked, &key, asked.weights.clone()).await;
    assert!(ada.refusal().await.contains("not asked to encrypt"));
    let key = cipher(PASSPHRASE, &seal.salt);
    eve.send_sealed(&seal, &key, seal.weights.clone()).await;
    assert_close(&decrypted(&ada.plan().await, &key), &seal.weights, 1e-5);
    assert_eq!(relay.room().await.encryption.and_then(|encryption| encryption.sealed_by).as_deref(), Some("Eve"));
}

/// A student who encrypted the model under one name and is forgotten under another leaves neither behind.
#[tokio::test]
async fn who_encrypted_the_model_is_forgotten_under_every_name() {
    let relay = encrypted("encrypted").await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let seal = ada.seal().await;
    ada.send_sealed(&seal, &cipher(PASSPHRASE, &seal.salt), seal.weights.clone()).await;
    ada.plan().await;
    let sealed_by = async || relay.room().await.encryption.and_then(|encryption| encryption.sealed_by).unwrap();
    assert_eq!(sealed_by().await, "Ada");
    relay.control(Control::Rename { client: ada.id, nickname: "Zoe".to_owned() }).await;
    assert_eq!(sealed_by().await, "Zoe");
    ada.socket.send(&ClientMessage::Forget, &[]).await;
    assert!(ada.socket.goodbye().await.contains("deleted"));
    assert_eq!(sealed_by().await, "a client that is gone");
}

#[tokio::test]
async fn seals_that_are_none_are_refused() {
    let relay = encrypted("encrypted").await;
    let mut eve = relay.client("Eve").await;
    relay.control(Control::Start).await;
    let send = async |eve: &mut Client, seal: &Seal, weights: &[f32]| {
        eve.socket.send(&ClientMessage::Sealed { policy: seal.policy, check: KeyCheck([1; 16]) }, weights).await;
        eve.refusal().await
    };
    let seal = eve.seal().await;
    let said = send(&mut eve, &seal, &seal.weights[1..]).await;
    assert!(said.contains(&format!("has {} values, its layout has {}", layout().len() - 1, layout().len())), "{said}");
    let seal = eve.seal().await;
    let mut poisoned = seal.weights.clone();
    poisoned[7] = f32::NAN;
    let said = send(&mut eve, &seal, &poisoned).await;
    assert!(said.contains("NaN at position 7"), "{said}");
    let seal = eve.seal().await;
    let said = send(&mut eve, &seal, &seal.weights).await;
    assert!(said.contains("unencrypted"), "{said}");
    let seal = eve.seal().await;
    let mut altered = seal.weights.clone();
    *altered.last_mut().unwrap() += 1.0;
    cipher(PASSPHRASE, &seal.salt).encrypt(&mut altered).unwrap();
    let said = send(&mut eve, &seal, &altered).await;
    assert!(said.contains("head.bias"), "{said}");
    // The model is unchanged, and the room keeps asking.
    assert_eq!(eve.seal().await.weights, fresh(5));
    // A message longer than any model of the room is cut off.
    let sealed = ClientMessage::Sealed { policy: seal.policy, check: KeyCheck([1; 16]) };
    let mut long = unmask_wire::frames(&sealed, &vec![0.0; 2 * layout().len()]).unwrap();
    eve.socket.frame(long.swap_remove(0)).await;
    assert!(eve.socket.goodbye().await.contains("over the limit"));
}

#[tokio::test]
async fn sealing_client_that_comes_back_is_asked_again() {
    let relay = encrypted("encrypted").await;
    let mut old = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let asked = old.seal().await;
    let mut new = Client::join(&relay.running, "Ada", Some(old.ticket)).await;
    let again = new.seal().await;
    assert_eq!((again.policy, again.salt, &again.weights), (asked.policy, asked.salt, &asked.weights));
    new.send_sealed(&again, &cipher(PASSPHRASE, &again.salt), again.weights.clone()).await;
    assert_eq!(new.plan().await.round, 1);
}

#[tokio::test]
async fn adam_cannot_step_on_encrypted_gradients() {
    let relay = Relay::with(|config| config.room.optimiser = "adam:0.001".parse().unwrap()).await;
    let defence = Control::Defence { defence: "encrypted".parse().unwrap() };
    let (status, sentence) = relay.try_control(&defence).await;
    assert_eq!(status, 400);
    assert!(sentence.contains("not linear") && sentence.contains("sgd"), "{sentence}");
    assert_eq!(relay.room().await.next, None);
    relay.control(Control::Optimiser { optimiser: "sgd:0.1".parse().unwrap() }).await;
    relay.control(defence.clone()).await;
    let (status, sentence) = relay.try_control(&Control::Optimiser { optimiser: "adam:0.001".parse().unwrap() }).await;
    assert_eq!(status, 400);
    assert!(sentence.contains("adam:0.001 cannot run on encrypted updates"), "{sentence}");
    // Under FedAvg the server takes no step.
    relay.control(Control::Rule { rule: "fedavg".parse().unwrap() }).await;
    relay.control(Control::Optimiser { optimiser: "adam:0.001".parse().unwrap() }).await;
    let (status, _) = relay.try_control(&Control::Rule { rule: "fedsgd".parse().unwrap() }).await;
    assert_eq!(status, 400);
    let folder = tempfile::tempdir().unwrap();
    let mut config = crate::support::config(folder.path().into());
    (config.room.defence, config.room.optimiser) = ("encrypted".parse().unwrap(), "adam:0.001".parse().unwrap());
    let error = unmask_relay::serve(config).await.unwrap_err().to_string();
    assert!(error.contains("adam:0.001 cannot run on encrypted updates"), "{error}");
}

/// The relay cannot decrypt, so leaving encryption resets the model. Entering it with a plain start keeps the model.
#[tokio::test]
async fn weights_are_fresh_after_encryption_and_before_a_keyed_start() {
    let relay = encrypted("none").await;
    let mut ada = relay.client("Ada").await;
    relay.control(Control::Start).await;
    let plan = ada.plan().await;
    relay.control(Control::Defence { defence: "encrypted".parse().unwrap() }).await;
    let only = NextView { defence: Some("encrypted".parse().unwrap()), ..NextView::default() };
    assert_eq!(relay.room().await.next, Some(only));
    ada.update(&plan, gradient(1)).await;

    let seal = ada.seal().await;
    let stepped: Vec<f32> = plan.weights.iter().zip(gradient(1)).map(|(w, g)| w - RATE * g).collect();
    assert_close(&seal.weights, &stepped, 1e-6);
    let key = cipher(PASSPHRASE, &seal.salt);
    ada.send_sealed(&seal, &key, seal.weights.clone()).await;
    let plan = ada.plan().await;
    assert_eq!(plan.round, 2);

    relay.control(Control::Defence { defence: "none".parse().unwrap() }).await;
    relay.log_line("new weights, since the relay cannot decrypt the old ones").await;
    let next = NextView {
        defence: Some("none".parse().unwrap()),
        architecture: Some(VitPreset::Pico.into()),
        ..NextView::default()
    };
    assert_eq!(relay.room().await.next, Some(next));
    ada.encrypted_update(&plan, gradient(1), &key).await;
    let fresh = ada.plan().await;
    assert_eq!((fresh.round, fresh.encryption), (1, None));
    for old in [&plan.weights, &seal.weights] {
        let same = fresh.weights.iter().zip(old).filter(|(new, old)| new == old).count();
        assert!(same < layout().len() / 10, "{same} weights are the old ones");
    }
    assert!(relay.room().await.encryption.is_none());

    relay.control(Control::Defence { defence: "encrypted:keyed".parse().unwrap() }).await;
    relay.log_line("which a client makes and encrypts, so that the relay never sees them").await;
    ada.update(&fresh, gradient(1)).await;
    let seal = ada.seal().await;
    assert!(seal.weights.is_empty());
    let key = cipher(PASSPHRASE, &seal.salt);
    let mine = self::fresh(77);
    ada.send_sealed(&seal, &key, mine.clone()).await;
    let plan = ada.plan().await;
    assert_eq!(plan.round, 1);
    assert_close(&decrypted(&plan, &key), &mine, 1e-5);
}

/// Returns the next request to draw a model; declines earlier ones to encrypt the relay's.
async fn keyed_seal(client: &mut Client) -> Seal {
    loop {
        let seal = client.seal().await;
        if seal.weights.is_empty() {
            return seal;
        }
        let unable =
            ClientMessage::Unable { round: 0, policy: seal.policy, reason: "overtaken".into(), is_locked: false };
        client.socket.send(&unable, &[]).await;
    }
}

/// A choice made while a client encrypts takes effect immediately, since no round is running.
#[tokio::test]
async fn choice_in_mid_seal_takes_effect_at_once() {
    let relay = encrypted("encrypted").await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::Start).await;
    let seal = ada.seal().await;
    relay.control(Control::Defence { defence: "encrypted:keyed".parse().unwrap() }).await;
    let own = keyed_seal(&mut bob).await;
    let sealed = ClientMessage::Sealed { policy: seal.policy, check: KeyCheck([1; 16]) };
    ada.socket.send(&sealed, &seal.weights).await;
    assert!(ada.refusal().await.contains("not asked to encrypt"));
    relay.control(Control::Defence { defence: "none".parse().unwrap() }).await;
    let plan = ada.plan().await;
    assert_eq!((plan.round, plan.encryption), (1, None));
    // Bob must have answered before the next round asks all who are free.
    let sealed = ClientMessage::Sealed { policy: own.policy, check: KeyCheck([1; 16]) };
    bob.socket.send(&sealed, &seal.weights).await;
    assert!(bob.refusal().await.contains("not asked to encrypt"));
    ada.update(&plan, gradient(1)).await;
    assert_eq!(ada.answer().await, RelayMessage::Accepted { round: 1 });
    let plan = bob.plan().await;
    let form = UpdateForm::Encrypted { check: KeyCheck([1; 16]) };
    let message =
        ClientMessage::Update { round: plan.round, policy: plan.policy, loss: 1.0, samples: 1, form, draw: None };
    bob.socket.send(&message, &gradient(1)).await;
    assert!(bob.refusal().await.contains("the round's defence is none"));
}
