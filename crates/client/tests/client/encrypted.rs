//! Training in the encrypted domain equals plain training: 50 rounds of 5 clients with a real model.

use std::{ops::Range, sync::Arc};

use unmask_client::native::sample_photographs;
use unmask_core::{
    Aggregation, Architecture, ClientId, Defence, EncryptionStart, MaskSeed, ModelState, ParamLayout, RoundSettings,
    Rule, VitPreset,
};
use unmask_defence::{Cipher, KeyMaterial, PlainUpdate, Protect, ProtectedUpdate, RoomKey};
use unmask_federation::{Effect, Event, GlobalModel, ReceivedUpdate, Room};
use unmask_model::{Device, Network};

const CLIENTS: u32 = 5;
const ROUNDS: u32 = 50;
const SALT: [u8; 16] = [9; 16];

/// `[n, 3, side, side]` and labels.
struct Pictures {
    images: Vec<f32>,
    labels: Vec<usize>,
}

/// The sample photographs, each shifted by a few pixels and brightened or darkened a little, differently in each
/// variant.
fn pictures(side: usize, variants: Range<usize>) -> Pictures {
    let mut pictures = Pictures { images: Vec::new(), labels: Vec::new() };
    for (label, sample) in sample_photographs().unwrap().iter().enumerate() {
        let chw = sample.picture.for_model(side);
        for variant in variants.clone() {
            let (dx, dy) = (variant * 3 % 5, variant * 7 % 4);
            let gain = 0.8 + 0.05 * (variant * 11 % 9) as f32;
            let shifted = |i: usize| {
                let (channel, y, x) = (i / (side * side), i / side % side, i % side);
                let source = channel * side * side + (y + dy) % side * side + (x + dx) % side;
                (chw[source] * gain).clamp(0.0, 1.0)
            };
            pictures.images.extend((0..chw.len()).map(shifted));
            pictures.labels.push(label);
        }
    }
    pictures
}

struct Run {
    layout: ParamLayout,
    network: Network,
    cipher: Option<Arc<Cipher>>,
    shares: Vec<Pictures>,
}

impl Run {
    fn weights(&self, settings: RoundSettings) -> Vec<f32> {
        let architecture = self.network.architecture();
        let mut room = Room::new(GlobalModel { architecture, state: architecture.initial(5) }, settings);
        let mut events = vec![Event::Salt(SALT)];
        events.extend((0..CLIENTS).map(|client| Event::Joined(ClientId(client))));
        events.push(Event::Start);
        events.reverse();
        while let Some(event) = events.pop() {
            for effect in room.handle(event) {
                match effect {
                    Effect::Seal { client, policy, model, .. } => {
                        let cipher = self.cipher.as_ref().expect("a seal without a cipher");
                        let mut weights = model.expect("the relay's own model").state.weights.clone();
                        cipher.encrypt(&mut weights).unwrap();
                        events.push(Event::Sealed { client, policy, check: cipher.check(), weights });
                    }
                    Effect::Plan { round, model, .. } if round > ROUNDS => return self.plain(&model.state.weights),
                    Effect::Plan { cohort, round, policy, settings, model, .. } => {
                        assert_eq!(cohort.len(), CLIENTS as usize);
                        for client in cohort {
                            let update = self.update(client, settings, &model.state.weights);
                            events.push(Event::Update(ReceivedUpdate {
                                client,
                                round,
                                policy,
                                loss: 0.0,
                                samples: 4,
                                update,
                                statistics: Vec::new(),
                            }));
                        }
                    }
                    Effect::Rest => events.push(Event::Begin),
                    Effect::Refused { refusal, .. } => panic!("{refusal}"),
                    _ => {}
                }
            }
        }
        panic!("the room stopped in round {}", room.round());
    }

    fn plain(&self, weights: &[f32]) -> Vec<f32> {
        let mut weights = weights.to_vec();
        if let Some(cipher) = &self.cipher {
            cipher.decrypt(&mut weights).unwrap();
        }
        weights
    }

    fn update(&self, client: ClientId, settings: RoundSettings, weights: &[f32]) -> ProtectedUpdate {
        let plain = ModelState::from_weights(self.plain(weights));
        let Pictures { images, labels } = &self.shares[client.0 as usize];
        let (values, reference) = match settings.rule() {
            Rule::FedSgd => (self.network.loss_and_gradient_blocking(&plain, images, labels).unwrap().gradient, None),
            Rule::FedAvg { epochs, rate } => {
                let batch = settings.batch().into();
                let local = self.network.train_locally_blocking(&plain, images, labels, batch, epochs, rate).unwrap();
                (local.state.weights, Some(plain.weights.as_slice()))
            }
        };
        let keys = KeyMaterial { seed: MaskSeed([0; 32]), cipher: self.cipher.as_deref() };
        settings.defence().protect(&self.layout, PlainUpdate { values, reference }, keys).unwrap()
    }
}

/// Norm of the difference divided by the norm, for the whole vector and for the worst tensor.
fn deviation(layout: &ParamLayout, a: &[f32], b: &[f32]) -> (f64, f64) {
    let relative = |range: Range<usize>| {
        let difference: f64 = range.clone().map(|i| f64::from(a[i] - b[i]).powi(2)).sum();
        let norm: f64 = range.map(|i| f64::from(a[i]).powi(2)).sum();
        (difference / norm.max(f64::MIN_POSITIVE)).sqrt()
    };
    let worst = layout.iter().map(|param| relative(param.range.clone())).fold(0.0, f64::max);
    (relative(0..layout.len()), worst)
}

#[test]
fn encrypted_training_equals_plain_training() {
    let architecture = Architecture::from(VitPreset::Pico);
    let (layout, side) = (architecture.layout(), architecture.side());
    let key = RoomKey::derive("correct horse battery staple", &SALT, EncryptionStart::Plain).unwrap();
    let cipher = Arc::new(Cipher::new(&key, &layout).unwrap());
    let shares = || (0..CLIENTS as usize).map(|client| pictures(side, 2 * client..2 * client + 2)).collect();
    let network = Network::new(architecture, &Device::Cpu).unwrap();
    let run = |cipher| Run { layout: layout.clone(), network: network.clone(), cipher, shares: shares() };
    let test = pictures(side, 20..40);
    let answers = |weights: &[f32]| -> Vec<usize> {
        let logits = network
            .logits_blocking(&ModelState::from_weights(weights.to_vec()), &test.images, test.labels.len())
            .unwrap();
        let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        logits.chunks_exact(architecture.classes()).map(best).collect()
    };
    for rule in ["fedsgd", "fedavg:epochs=1,rate=0.05"] {
        let settings = |defence: &str| {
            let (defence, rule): (Defence, Rule) = (defence.parse().unwrap(), rule.parse().unwrap());
            // Keys change norms, so clipping may affect other updates than in plaintext.
            let settings = RoundSettings::new(defence, rule, 4, "sgd:0.1".parse().unwrap()).unwrap();
            settings.with_aggregation(Aggregation::Mean).unwrap()
        };
        let plain = run(None).weights(settings("none"));
        let encrypted = run(Some(Arc::clone(&cipher))).weights(settings("encrypted"));
        let (whole, worst) = deviation(&layout, &plain, &encrypted);
        let (expected, given) = (answers(&plain), answers(&encrypted));
        let (pictures, labels) = (test.labels.len(), &test.labels);
        let hits = expected.iter().zip(labels).filter(|(answer, label)| answer == label).count();
        println!("{rule}: weights deviate by {whole:.1e}, the worst tensor by {worst:.1e}; {hits} of {pictures} right");
        assert!(whole < 1e-4, "{rule}: {whole:e}");
        assert!(worst < 1e-4, "{rule}: {worst:e} in one tensor");
        assert_eq!(expected, given, "{rule}: another answer to the same picture");
        // Two models that have learnt nothing would agree too.
        assert!(2 * hits > pictures, "{rule}: {hits} of {pictures} pictures right");
    }
}
