//! What a headless client sends, seen from the relay's end of a real socket.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};
use unmask_client::{
    Caution,
    native::{JoinOptions, Passphrase, Sample, join},
};
use unmask_core::{
    Architecture, AttackMethod, EncryptionStart, KeyCheck, ModelState, Partition, TrainingPictures, UpdateForm,
    VitPreset,
};
use unmask_data::{PHOTOGRAPH_CLASSES, Picture, chw_to_hwc};
use unmask_defence::{Cipher, RoomKey};
use unmask_model::{Network, device::OpenDevice};
use unmask_wire::{
    Assembler, ClientMessage, EncryptionPlan, PlanHeader, RelayMessage, ServerPlan, ShardHeader, frames,
};

const SALT: [u8; 16] = [4; 16];

/// The relay's end of one socket.
struct Relay {
    socket: WebSocketStream<TcpStream>,
    assembler: Assembler,
}

impl Relay {
    async fn send(&mut self, header: RelayMessage, values: &[f32]) {
        for frame in frames(&header, values).unwrap() {
            self.socket.send(Message::Binary(frame.into())).await.unwrap();
        }
    }

    async fn receive(&mut self) -> (ClientMessage, Vec<f32>) {
        loop {
            let Message::Binary(frame) = self.socket.next().await.expect("the client went away").unwrap() else {
                continue;
            };
            if let Some(message) = self.assembler.push(&frame).unwrap() {
                return message;
            }
        }
    }

    async fn plan(&mut self, round: u32, words: [&str; 2], encryption: Option<EncryptionPlan>, weights: &[f32]) {
        self.plan_on(TrainingPictures::Private, 2, round, words, encryption, weights).await;
    }

    async fn plan_on(
        &mut self,
        pictures: TrainingPictures,
        batch: u16,
        round: u32,
        [defence, rule]: [&str; 2],
        encryption: Option<EncryptionPlan>,
        weights: &[f32],
    ) {
        let (policy, model) = (1, architecture().into());
        let (defence, rule) = (defence.parse().unwrap(), rule.parse().unwrap());
        let (sum, nonce, least, server) = (None, [9; 16], 3, ServerPlan::default());
        let header =
            PlanHeader { round, policy, model, defence, rule, batch, pictures, encryption, sum, nonce, least, server };
        self.send(RelayMessage::Plan(header), weights).await;
    }
}

fn architecture() -> Architecture {
    Architecture::from(VitPreset::Pico)
}

fn network() -> Network {
    Network::new(architecture(), OpenDevice::cpu().device()).unwrap()
}

fn weights() -> Vec<f32> {
    architecture().initial(3).weights
}

/// Three pictures whose patches all differ.
fn samples() -> Vec<Sample> {
    let sample = |label: usize| {
        let pixels = (0..16 * 16 * 3).map(|i: usize| (i * i / 90 + 17 * label) as u8).collect();
        // The name decides the label.
        Sample { name: PHOTOGRAPH_CLASSES[label].to_owned(), picture: Picture::new(16, 16, pixels).unwrap() }
    };
    (0..3).map(sample).collect()
}

/// The pictures at these positions in the model's format.
fn inputs(positions: &[usize]) -> (Vec<f32>, Vec<usize>) {
    let samples = samples();
    let images = positions.iter().flat_map(|&i| samples[i].picture.for_model(architecture().side())).collect();
    (images, positions.to_vec())
}

async fn with_client(passphrase: Option<&str>, script: impl AsyncFnOnce(&mut Relay)) {
    with_careful_client(passphrase, Caution::Weights, script).await;
}

async fn with_careful_client(passphrase: Option<&str>, caution: Caution, script: impl AsyncFnOnce(&mut Relay)) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = JoinOptions {
        address: format!("http://{}", listener.local_addr().unwrap()),
        pin: None,
        name: "robot".to_owned(),
        samples: samples(),
        may_show: true,
        shows: false,
        answer_seed: None,
        passphrase: passphrase.and_then(Passphrase::new),
        device: OpenDevice::cpu(),
        caution,
        accept_any_certificate: false,
    };
    let relay = async {
        let (stream, _) = listener.accept().await.unwrap();
        let socket = accept_async(stream).await.unwrap();
        let mut relay = Relay { socket, assembler: Assembler::new(1 << 24) };
        assert!(matches!(relay.receive().await.0, ClientMessage::Hello { nickname, .. } if nickname == "robot"));
        script(&mut relay).await;
    };
    tokio::select! {
        ended = join(options) => panic!("the client ended before the relay did: {ended:?}"),
        () = relay => {}
        () = tokio::time::sleep(Duration::from_secs(120)) => panic!("no answer"),
    }
}

#[tokio::test]
async fn fedsgd_takes_the_pictures_in_turn() {
    with_client(None, async |relay| {
        for (round, positions) in [(1, [0, 1]), (2, [2, 0])] {
            relay.plan(round, ["none", "fedsgd"], None, &weights()).await;
            let (ClientMessage::Update { round: answered, loss, samples: 2, form, .. }, values) = relay.receive().await
            else {
                panic!("no update of two samples");
            };
            let (images, labels) = inputs(&positions);
            let step =
                network().loss_and_gradient_blocking(&ModelState::from_weights(weights()), &images, &labels).unwrap();
            assert_eq!((answered, loss, form), (round, step.loss, UpdateForm::Dense));
            assert_eq!(values, step.gradient);
        }
    })
    .await;
}

#[tokio::test]
async fn fedavg_sends_the_weights_of_local_epochs_over_all_pictures() {
    with_client(None, async |relay| {
        for round in 1..3 {
            relay.plan(round, ["none", "fedavg:epochs=2,rate=0.05"], None, &weights()).await;
            let (ClientMessage::Update { loss, samples: 3, .. }, values) = relay.receive().await else {
                panic!("no update of three samples");
            };
            let (images, labels) = inputs(&[0, 1, 2]);
            let trained = network()
                .train_locally_blocking(&ModelState::from_weights(weights()), &images, &labels, 2, 2, 0.05)
                .unwrap();
            assert_eq!(loss, trained.loss);
            assert_eq!(values, trained.state.weights);
        }
    })
    .await;
}

#[tokio::test]
async fn a_jigsaw_is_scored_in_the_best_order_of_its_patches() {
    let (side, patch) = (16, 4);
    let picture = chw_to_hwc(&inputs(&[0]).0, side, side);
    let mut shuffled = vec![0.0; picture.len()];
    for place in 0..16 {
        let corner = |place: usize| place / 4 * patch * side + place % 4 * patch;
        for row in 0..patch {
            let [from, to] = [place, (5 * place + 3) % 16].map(|place| 3 * (corner(place) + row * side));
            shuffled[to..to + 3 * patch].copy_from_slice(&picture[from..from + 3 * patch]);
        }
    }
    with_client(None, async |relay| {
        relay.plan_on(TrainingPictures::Private, 1, 1, ["fixed-position", "fedsgd"], None, &weights()).await;
        assert!(matches!(relay.receive().await.0, ClientMessage::Update { .. }));
        let mut score = async |attack: AttackMethod| {
            let header = RelayMessage::Reconstruction { round: 1, attack, side: side as u16 };
            relay.send(header, &shuffled).await;
            let (ClientMessage::Score { attack: scored, psnr, ssim, .. }, values) = relay.receive().await else {
                panic!("no score");
            };
            assert_eq!((scored, values), (attack, Vec::new()));
            (psnr, ssim)
        };
        let (psnr, ssim) = score(AttackMethod::MatchingAware).await;
        assert!(psnr < 20.0 && ssim < 0.5, "as it came: {psnr} dB, {ssim}");
        let (psnr, ssim) = score(AttackMethod::Jigsaw).await;
        assert!(psnr > 90.0 && ssim > 0.999, "in the best order: {psnr} dB, {ssim}");
    })
    .await;
}

#[tokio::test]
async fn encrypted_room_gets_cipher_text_alone() {
    let passphrase = "violet otter 1867";
    let layout = architecture().layout();
    let cipher = Cipher::new(&RoomKey::derive(passphrase, &SALT, EncryptionStart::Keyed).unwrap(), &layout).unwrap();
    with_client(Some(passphrase), async |relay| {
        relay.send(RelayMessage::Seal { policy: 1, model: architecture().into(), salt: SALT }, &[]).await;
        let (ClientMessage::Sealed { policy: 1, check }, sealed) = relay.receive().await else { panic!("not sealed") };
        assert_eq!(check, cipher.check());
        relay.plan(1, ["encrypted:keyed", "fedsgd"], Some(EncryptionPlan { salt: SALT, check }), &sealed).await;
        let (ClientMessage::Update { form, .. }, values) = relay.receive().await else { panic!("no update") };
        assert_eq!(form, UpdateForm::Encrypted { check });
        let mut plain = sealed.clone();
        cipher.decrypt(&mut plain).unwrap();
        let (images, labels) = inputs(&[0, 1]);
        let mut expected = network()
            .loss_and_gradient_blocking(&ModelState::from_weights(plain.clone()), &images, &labels)
            .unwrap()
            .gradient;
        cipher.encrypt(&mut expected).unwrap();
        assert_eq!(values, expected);
    })
    .await;
}

#[tokio::test]
async fn without_the_passphrase_it_waits_for_a_round_it_can_read() {
    for passphrase in [None, Some("another one")] {
        with_client(passphrase, async |relay| {
            let encryption = Some(EncryptionPlan { salt: SALT, check: KeyCheck([0; 16]) });
            relay.plan(1, ["encrypted", "fedsgd"], encryption, &weights()).await;
            assert!(matches!(relay.receive().await.0, ClientMessage::Unable { round: 1, policy: 1, .. }));
            relay.plan(2, ["fixed-position", "fedsgd"], None, &weights()).await;
            assert!(matches!(relay.receive().await.0, ClientMessage::Update { round: 2, .. }));
        })
        .await;
    }
}

/// Seven pictures of the data set in three classes, larger than the model's side.
fn shard() -> (ShardHeader, Vec<u8>, Vec<u8>) {
    let classes = ["ring", "cross", "spiral"].map(str::to_owned).to_vec();
    let (data, partition) = ("shapes".to_owned(), Partition::Iid);
    let header = ShardHeader { number: 4, data, partition, index: 0, shards: 1, classes, side: 20, pictures: 7 };
    let pixels = (0..7 * 20 * 20 * 3).map(|i: usize| (i * i / 70 + i / 1200 * 31) as u8).collect();
    (header, vec![2, 0, 1, 0, 1, 2, 0], pixels)
}

/// The pictures of the shard in the format of a model with side 16.
fn shard_inputs(positions: &[usize]) -> (Vec<f32>, Vec<usize>) {
    let (_, labels, pixels) = shard();
    let picture = |i: usize| Picture::new(20, 20, pixels[i * 1200..][..1200].to_vec()).unwrap().for_model(16);
    (positions.iter().flat_map(|&i| picture(i)).collect(), positions.iter().map(|&i| usize::from(labels[i])).collect())
}

#[tokio::test]
async fn shared_pictures_take_their_turns_and_private_ones_stay_out() {
    with_client(None, async |relay| {
        let (header, labels, pixels) = shard();
        let shared = TrainingPictures::Shared { shard: 4 };
        relay.plan_on(shared, 1, 1, ["none", "fedsgd"], None, &weights()).await;
        let (ClientMessage::Unable { reason, .. }, _) = relay.receive().await else { panic!("trained on nothing") };
        assert!(reason.contains("have not come"), "{reason}");
        let words = header.words(&labels, &pixels).unwrap();
        relay.send(RelayMessage::Shard(header), &words).await;
        let mut seen = Vec::new();
        for round in 1..=7 {
            relay.plan_on(shared, 1, round, ["none", "fedsgd"], None, &weights()).await;
            let (ClientMessage::Update { loss, samples: 1, .. }, values) = relay.receive().await else {
                panic!("no update of one sample");
            };
            let made_from = (0..7).find(|&position| {
                let (images, labels) = shard_inputs(&[position]);
                let step = network()
                    .loss_and_gradient_blocking(&ModelState::from_weights(weights()), &images, &labels)
                    .unwrap();
                step.loss == loss && step.gradient == values
            });
            seen.push(made_from.expect("an update from none of the shard's pictures"));
        }
        let first = seen[6];
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);

        relay.plan_on(shared, 3, 8, ["none", "fedavg:epochs=1,rate=0.05"], None, &weights()).await;
        let (ClientMessage::Update { samples: 7, .. }, values) = relay.receive().await else {
            panic!("no update of seven samples");
        };
        let (images, labels) = shard_inputs(&[0, 1, 2, 3, 4, 5, 6]);
        let trained = network()
            .train_locally_blocking(&ModelState::from_weights(weights()), &images, &labels, 3, 1, 0.05)
            .unwrap();
        assert_eq!(values, trained.state.weights);

        // An update from seven pictures is compared with none of them; the one from round 7, with its only picture.
        let found = chw_to_hwc(&shard_inputs(&[first]).0, 16, 16);
        for round in [8, 7] {
            let header = RelayMessage::Reconstruction { round, attack: AttackMethod::Embedding, side: 16 };
            relay.send(header, &found).await;
        }
        let (ClientMessage::Score { round, ssim, .. }, _) = relay.receive().await else { panic!("no score") };
        assert_eq!(round, 7);
        assert!(ssim > 0.999, "{ssim}");
    })
    .await;
}

/// A model with two classes cannot train on a private picture of the third class.
#[tokio::test]
async fn private_label_beyond_the_models_classes_is_answered() {
    with_client(None, async |relay| {
        let few = architecture().with_classes(2);
        let weights = few.initial(3).weights;
        let header = |round| PlanHeader {
            round,
            policy: 1,
            model: few.into(),
            defence: "none".parse().unwrap(),
            rule: "fedsgd".parse().unwrap(),
            batch: 2,
            pictures: TrainingPictures::Private,
            encryption: None,
            sum: None,
            nonce: [9; 16],
            least: 3,
            server: ServerPlan::default(),
        };
        relay.send(RelayMessage::Plan(header(1)), &weights).await;
        assert!(matches!(relay.receive().await.0, ClientMessage::Update { .. }));
        relay.send(RelayMessage::Plan(header(2)), &weights).await;
        let (ClientMessage::Unable { reason, .. }, _) = relay.receive().await else { panic!("trained") };
        assert!(reason.contains("class number 2, and the room's model has the classes 0 to 1"), "{reason}");
    })
    .await;
}

/// A head that is sure of a class looks doctored. A careful client refuses such rounds and no others.
#[tokio::test]
async fn a_careful_client_refuses_doctored_plans_and_stays() {
    let mut doctored = weights();
    let layout = architecture().layout();
    doctored[layout.get("head.bias").unwrap().range.clone()][1..].fill(1000.0);
    with_careful_client(None, Caution::Refuse, async |relay| {
        for round in [1, 2] {
            relay.plan(round, ["none", "fedsgd"], None, &doctored).await;
            match relay.receive().await.0 {
                ClientMessage::Doubtful { round: answered, reason, .. } => {
                    assert_eq!(answered, round);
                    assert!(reason.starts_with("the plan looks doctored: "), "{reason}");
                }
                other => panic!("{other:?} instead of a refusal"),
            }
        }
        relay.send(RelayMessage::SittingOut, &[]).await;
        assert_eq!(relay.receive().await.0, ClientMessage::Return);
        relay.plan(3, ["none", "fedsgd"], None, &weights()).await;
        assert!(matches!(relay.receive().await.0, ClientMessage::Update { round: 3, .. }));
    })
    .await;
    with_client(None, async |relay| {
        relay.plan(1, ["none", "fedsgd"], None, &doctored).await;
        assert!(matches!(relay.receive().await.0, ClientMessage::Update { round: 1, .. }), "it only says so");
    })
    .await;
}

#[tokio::test]
async fn without_pictures_it_does_not_join() {
    let options = JoinOptions {
        address: "http://127.0.0.1:9".to_owned(),
        pin: None,
        name: "robot".to_owned(),
        samples: Vec::new(),
        may_show: true,
        shows: false,
        answer_seed: None,
        passphrase: None,
        device: OpenDevice::cpu(),
        caution: Caution::Weights,
        accept_any_certificate: false,
    };
    let error = join(options).await.unwrap_err().to_string();
    assert!(error.contains("at least one picture"), "{error}");
}
