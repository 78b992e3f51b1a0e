//! Encryption of the model, and rounds on encrypted weights.

use unmask_core::{EncryptionStart, KeyCheck};
use unmask_defence::RoomKey;

use super::*;

const SALT: [u8; 16] = [9; 16];

fn cipher(passphrase: &str) -> Cipher {
    let layout = model(1).architecture.layout();
    Cipher::new(&RoomKey::derive(passphrase, &SALT, EncryptionStart::Plain).unwrap(), &layout).unwrap()
}

fn encrypted(weights: &[f32], cipher: &Cipher) -> Vec<f32> {
    let mut weights = weights.to_vec();
    cipher.encrypt(&mut weights).unwrap();
    weights
}

/// The client asked to encrypt the model, and the plain model it got.
fn asked(effects: &[Effect]) -> Option<(ClientId, Option<Arc<GlobalModel>>)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Seal { client, model, salt, policy, .. } => {
            assert_eq!(*salt, SALT);
            assert!(
                effects
                    .iter()
                    .any(|effect| matches!(effect, Effect::SetDeadline { round: 0, policy: armed } if armed == policy))
            );
            Some((*client, model.clone()))
        }
        _ => None,
    })
}

/// An encrypted room with these clients that has just asked the first one.
fn asking(defence: &str, rule: &str, clients: &[ClientId]) -> Room {
    let mut room = Room::new(model(1), settings(defence, rule));
    for client in clients {
        room.handle(Event::Joined(*client));
    }
    assert!(matches!(room.handle(Event::Start)[..], [Effect::NeedSalt]));
    assert_eq!(asked(&room.handle(Event::Salt(SALT))).unwrap().0, clients[0]);
    assert_eq!((room.phase(), room.member(clients[0])), (RoomPhase::Sealing, ClientState::Training));
    room
}

/// Repeats the request, with a new salt.
fn ask_again(room: &mut Room) -> Vec<Effect> {
    let effects = room.handle(Event::Begin);
    assert!(matches!(effects[..], [Effect::NeedSalt]), "{effects:?}");
    room.handle(Event::Salt(SALT))
}

fn seal(room: &mut Room, client: ClientId, check: KeyCheck, weights: Vec<f32>) -> Vec<Effect> {
    let policy = room.policy;
    room.handle(Event::Sealed { client, policy, check, weights })
}

#[test]
fn plain_start_encrypts_the_room_s_model_before_the_first_round() {
    let cipher = cipher("swan");
    let mut room = asking("encrypted", "fedsgd", &[A, B]);
    let sent = encrypted(&model(1).state.weights, &cipher);
    let effects = seal(&mut room, A, cipher.check(), sent.clone());
    assert!(matches!(effects[0], Effect::SealTaken(A)));
    let Effect::Plan { cohort, round, encryption, model, .. } = &effects[1] else { panic!("{effects:?}") };
    assert_eq!((cohort.as_slice(), *round), ([A, B].as_slice(), 1));
    assert_eq!(*encryption, Some((SALT, cipher.check())));
    assert_eq!(model.state.weights, sent);
    assert_eq!(room.seal(), Some(&Seal { start: EncryptionStart::Plain, by: A, salt: SALT, check: cipher.check() }));
}

#[test]
fn keyed_start_shows_no_model_and_takes_the_client_s() {
    let cipher = cipher("swan");
    let mut room = Room::new(model(1), settings("encrypted:keyed", "fedavg"));
    room.handle(Event::Salt(SALT));
    room.handle(Event::Joined(A));
    let (client, shown) = asked(&room.handle(Event::Start)).unwrap();
    assert_eq!((client, shown), (A, None));
    let own = encrypted(&model(8).state.weights, &cipher);
    let effects = seal(&mut room, A, cipher.check(), own.clone());
    assert_eq!(cohort(&effects), [A]);
    assert_eq!(room.model().state.weights, own);
}

#[test]
fn sealed_model_is_checked() {
    let cipher = cipher("swan");
    let good = encrypted(&model(1).state.weights, &cipher);
    let head = model(1).architecture.layout().get("head.weight").unwrap().range.start;
    let with = |place: usize, value: f32| {
        let mut weights = good.clone();
        weights[place] = value;
        weights
    };
    for (weights, part) in [
        (vec![0.0; 7], "7 values"),
        (with(3, f32::NAN), "NaN at position 3"),
        (with(head, 0.5), "differs from the room's in head.weight"),
        (model(1).state.weights, "patch embedding unencrypted"),
    ] {
        let mut room = asking("encrypted", "fedsgd", &[A, B]);
        let effects = seal(&mut room, A, cipher.check(), weights);
        assert!(refusal(&effects).to_string().contains(part), "{}", refusal(&effects));
        assert_eq!(**room.model(), model(1));
        assert_eq!(asked(&ask_again(&mut room)).unwrap().0, B);
    }
}

/// If a client cannot encrypt, leaves or stays silent, the next one is asked; the same one only if there is no other.
#[test]
fn another_client_is_asked_where_one_fails() {
    let policy = 1;
    let mut room = asking("encrypted", "fedsgd", &[A, B, C]);
    let effects = room.handle(Event::Unable { client: A, round: 0, policy, is_locked: false });
    assert!(matches!(effects[..], [Effect::Rest]), "{effects:?}");
    assert_eq!(asked(&ask_again(&mut room)).unwrap().0, B);
    assert!(matches!(room.handle(Event::Left(B))[..], [Effect::Rest]));
    assert_eq!(asked(&ask_again(&mut room)).unwrap().0, C);
    assert!(matches!(room.handle(Event::Deadline { round: 0, policy })[..], [Effect::Rest]));
    assert_eq!(room.member(C), ClientState::Late);
    assert_eq!(asked(&ask_again(&mut room)).unwrap().0, A);
    room.handle(Event::Unable { client: A, round: 0, policy, is_locked: false });
    assert_eq!(asked(&ask_again(&mut room)).unwrap().0, A, "nobody else is free");
    // The silent client answers too late, but takes part again.
    let cipher = cipher("swan");
    let late = seal(&mut room, C, cipher.check(), encrypted(&model(1).state.weights, &cipher));
    assert_eq!(refusal(&late), Refusal::SealNotAsked);
    let effects = seal(&mut room, A, cipher.check(), encrypted(&model(1).state.weights, &cipher));
    assert_eq!(cohort(&effects), [A, C]);
}

#[test]
fn nobody_else_can_seal_the_model() {
    let cipher = cipher("swan");
    let mut room = asking("encrypted", "fedsgd", &[A, B]);
    let good = encrypted(&model(1).state.weights, &cipher);
    assert_eq!(refusal(&seal(&mut room, B, cipher.check(), good.clone())), Refusal::SealNotAsked);
    let old = room.handle(Event::Sealed { client: A, policy: 0, check: cipher.check(), weights: good });
    assert!(matches!(refusal(&old), Refusal::Policy { update: 0, current: 1 }));
    assert!(room.seal().is_none());
}

#[test]
fn other_key_and_plain_updates_are_refused() {
    let (right, wrong) = (cipher("swan"), cipher("swam"));
    let mut room = asking("encrypted", "fedsgd", &[A, B]);
    seal(&mut room, A, right.check(), encrypted(&model(1).state.weights, &right));
    let values = vec![0.5; room.learner.layout().len()];
    let foreign = protect(&room, values.clone(), [0; 32], Some(&wrong));
    assert_eq!(refusal(&send(&mut room, A, foreign)), Refusal::OtherKey);
    let plain = refusal(&send(&mut room, B, ProtectedUpdate::dense(values)));
    assert!(plain.to_string().contains("not encrypted"), "{plain}");
}

#[test]
fn leaving_encryption_waits_for_fresh_weights() {
    let cipher = cipher("swan");
    let mut room = asking("encrypted", "fedsgd", &[A]);
    seal(&mut room, A, cipher.check(), encrypted(&model(1).state.weights, &cipher));
    let (plain, keyed) = (settings("none", "fedsgd"), settings("encrypted:keyed", "fedsgd"));
    assert!(room.needs_new_model(&plain) && room.needs_new_model(&keyed));
    assert!(!room.needs_new_model(&settings("encrypted", "fedavg")));
    room.handle(Event::SetSettings(plain));
    let update = protect(&room, vec![0.1; room.learner.layout().len()], [0; 32], Some(&cipher));
    send(&mut room, A, update);
    let effects = room.handle(Event::Begin);
    assert_eq!((cohort(&effects), room.settings()), (vec![A], settings("encrypted", "fedsgd")));
    assert_eq!(room.coming(), plain);
    room.handle(Event::SetModel(model(2)));
    assert!(!room.needs_new_model(&plain));
    let update = protect(&room, vec![0.1; room.learner.layout().len()], [0; 32], Some(&cipher));
    send(&mut room, A, update);
    let effects = room.handle(Event::Begin);
    let Effect::Plan { round: 1, settings, encryption: None, model: fresh, .. } = &effects[0] else {
        panic!("{effects:?}")
    };
    assert_eq!((*settings, &**fresh), (plain, &model(2)));
}

/// A plain start keeps the trained weights, a keyed start cannot.
#[test]
fn entering_encryption() {
    let cipher = cipher("swan");
    let mut room = started("none", &[A]);
    let (plain, keyed) = (settings("encrypted", "fedsgd"), settings("encrypted:keyed", "fedsgd"));
    assert!(!room.needs_new_model(&plain) && room.needs_new_model(&keyed));
    room.handle(Event::Salt(SALT));
    room.handle(Event::SetSettings(plain));
    let update = dense(&room, 0.5);
    send(&mut room, A, update);
    let learnt = room.model().state.weights.clone();
    let (_, shown) = asked(&room.handle(Event::Begin)).unwrap();
    assert_eq!(shown.unwrap().state.weights, learnt);
    let effects = seal(&mut room, A, cipher.check(), encrypted(&learnt, &cipher));
    assert!(matches!(effects[1], Effect::Plan { round: 2, .. }), "{effects:?}");
}

/// A choice during encryption takes effect immediately, because no round runs, and the answer is refused.
#[test]
fn choice_drops_a_seal_under_way() {
    let cipher = cipher("swan");
    let mut room = asking("encrypted", "fedsgd", &[A, B]);
    let effects = room.handle(Event::SetSettings(settings("none", "fedsgd")));
    assert_eq!(cohort(&effects), [B]);
    assert_eq!(room.member(A), ClientState::Late);
    let late = seal(&mut room, A, cipher.check(), encrypted(&model(1).state.weights, &cipher));
    assert_eq!(refusal(&late), Refusal::SealNotAsked);
    assert_eq!(room.member(A), ClientState::Joined);
    assert!(room.seal().is_none());
}

#[test]
fn new_model_is_sealed_anew() {
    let cipher = cipher("swan");
    let mut room = asking("encrypted", "fedsgd", &[A]);
    seal(&mut room, A, cipher.check(), encrypted(&model(1).state.weights, &cipher));
    room.handle(Event::SetModel(model(2)));
    let update = protect(&room, vec![0.1; room.learner.layout().len()], [0; 32], Some(&cipher));
    send(&mut room, A, update);
    assert!(matches!(room.handle(Event::Begin)[..], [Effect::NeedSalt]));
    let (_, shown) = asked(&room.handle(Event::Salt(SALT))).unwrap();
    assert_eq!(*shown.unwrap(), model(2));
    assert!(room.seal().is_none());
}

/// Five clients with different losses: gradient = a * (w - b), with a and b for each parameter and client, so that
/// every step depends on the earlier weights. Like a tab, a client computes on plain weights.
struct Problem {
    /// Curvature and minimum of each parameter, per client.
    clients: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Problem {
    fn new(len: usize) -> Self {
        let wave = |i: usize, k: usize| ((i * (2 * k + 3) + 7 * k) % 997) as f32 / 997.0;
        let client = |n: usize| {
            let curvature = (0..len).map(|i| 0.2 + wave(i, n)).collect();
            let minimum = (0..len).map(|i| 0.1 * (wave(i, n + 5) - 0.5)).collect();
            (curvature, minimum)
        };
        Self { clients: (0..5).map(client).collect() }
    }

    fn gradient(&self, client: usize, weights: &[f32]) -> Vec<f32> {
        let (curvature, minimum) = &self.clients[client];
        weights.iter().zip(curvature).zip(minimum).map(|((w, a), b)| a * (w - b)).collect()
    }

    fn train(&self, client: usize, weights: &[f32], rule: Rule) -> Vec<f32> {
        let mut local = weights.to_vec();
        match rule {
            Rule::FedSgd => local = self.gradient(client, weights),
            Rule::FedAvg { epochs, rate } => {
                for _ in 0..epochs {
                    let gradient = self.gradient(client, &local);
                    local.iter_mut().zip(gradient).for_each(|(weight, slope)| *weight -= rate * slope);
                }
            }
        }
        local
    }

    /// The weights after 50 rounds, decrypted if they are encrypted.
    fn run(&self, defence: &str, rule: &str, cipher: &Cipher) -> Vec<f32> {
        let mut room = Room::new(model(1), settings(defence, rule));
        room.handle(Event::Salt(SALT));
        (0..5).for_each(|client| drop(room.handle(Event::Joined(ClientId(client)))));
        let mut effects = room.handle(Event::Start);
        if let Some((client, plain)) = asked(&effects) {
            let plain = plain.map_or_else(|| model(1).state.weights, |plain| plain.state.weights.clone());
            effects = seal(&mut room, client, cipher.check(), encrypted(&plain, cipher));
        }
        let decrypted = |room: &Room| {
            let mut weights = room.model().state.weights.clone();
            if room.seal().is_some() {
                cipher.decrypt(&mut weights).unwrap();
            }
            weights
        };
        for round in 1..=50 {
            assert_eq!(cohort(&effects).len(), 5);
            let weights = decrypted(&room);
            for client in 0..5 {
                let values = self.train(client, &weights, room.settings().rule());
                let key = room.seal().is_some().then_some(cipher);
                let update = protect(&room, values, [0; 32], key);
                let effects = send_samples(&mut room, ClientId(client as u32), update, 1 + client as u32);
                assert!(matches!(effects[0], Effect::Accepted { .. }), "{effects:?}");
            }
            assert_eq!(room.round(), round);
            effects = room.handle(Event::Begin);
        }
        decrypted(&room)
    }
}

fn relative_difference(values: &[f32], reference: &[f32]) -> f64 {
    let square = |value: f64| value * value;
    let difference: f64 = values.iter().zip(reference).map(|(v, r)| square(f64::from(*v) - f64::from(*r))).sum();
    (difference / reference.iter().map(|r| square(f64::from(*r))).sum::<f64>()).sqrt()
}

/// SGD and averaging are linear: after 50 rounds of five clients, the decrypted weights equal those of the plain run.
#[test]
fn encrypted_run_equals_the_plain_one() {
    let cipher = cipher("correct horse");
    let layout = model(1).architecture.layout();
    let problem = Problem::new(layout.len());
    for rule in ["fedsgd", "fedavg:epochs=3,rate=0.1"] {
        let plain = problem.run("none", rule, &cipher);
        assert!(relative_difference(&plain, &model(1).state.weights) > 0.1, "the run has to move the weights");
        for start in ["encrypted", "encrypted:keyed"] {
            let decrypted = problem.run(start, rule, &cipher);
            let whole = relative_difference(&decrypted, &plain);
            println!("{rule}, {start}: {whole:.1e} relative");
            assert!(whole < 1e-4, "{rule}, {start}: {whole}");
            for param in &layout {
                let range = param.range.clone();
                let difference = relative_difference(&decrypted[range.clone()], &plain[range]);
                assert!(difference < 1e-4, "{rule}, {start}, {}: {difference}", param.name);
            }
        }
    }
}
