//! What a headless client sends, seen from the relay's end of a real socket.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};
use unmask_data::{Picture, chw_to_hwc};
use unmask_defence::{Cipher, RoomKey, Start};
use unmask_model::{Vit, device::OpenDevice};
use unmask_params::{InitOptions, ModelSpec, ParamLayout, Preset, initial_weights};
use unmask_trainer::{JoinOptions, Passphrase, Sample, join};
use unmask_wire::{Assembler, ClientMessage, EncryptionPlan, RelayMessage, UpdateKind, frames};

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

    async fn plan(
        &mut self,
        round: u32,
        [defence, rule]: [&str; 2],
        encryption: Option<EncryptionPlan>,
        weights: &[f32],
    ) {
        let (model, classes) = (spec().preset.to_string(), 10);
        let (defence, rule) = (defence.to_owned(), rule.to_owned());
        let (policy, april_block, batch) = (1, false, 2);
        let header =
            RelayMessage::Plan { round, policy, model, april_block, classes, defence, rule, batch, encryption };
        self.send(header, weights).await;
    }
}

fn spec() -> ModelSpec {
    ModelSpec::new(Preset::VitPicoPatch4_16)
}

fn vit() -> Vit {
    Vit::new(spec(), OpenDevice::cpu().device()).unwrap()
}

fn weights() -> Vec<f32> {
    initial_weights(&spec().config(), 3, InitOptions::default())
}

/// Three pictures, no two patches of which are alike.
fn samples() -> Vec<Sample> {
    let sample = |label: usize| {
        let pixels = (0..16 * 16 * 3).map(|i: usize| (i * i / 90 + 17 * label) as u8).collect();
        Sample { name: format!("{label}"), picture: Picture::new(16, 16, pixels).unwrap(), label }
    };
    (0..3).map(sample).collect()
}

/// The pictures at these positions as the model takes them.
fn inputs(positions: &[usize]) -> (Vec<f32>, Vec<usize>) {
    let samples = samples();
    let images = positions.iter().flat_map(|&i| samples[i].picture.for_model(spec().config().image)).collect();
    (images, positions.iter().map(|&i| samples[i].label).collect())
}

/// Runs a client with `passphrase` against a relay that follows `script`.
async fn with_client(passphrase: Option<&str>, script: impl AsyncFnOnce(&mut Relay)) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = JoinOptions {
        address: format!("http://{}", listener.local_addr().unwrap()),
        name: "robot".to_owned(),
        samples: samples(),
        passphrase: passphrase.and_then(Passphrase::new),
        device: OpenDevice::cpu(),
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
            let (ClientMessage::Update { round: answered, loss, samples: 2, kind, .. }, values) = relay.receive().await
            else {
                panic!("no update of two samples");
            };
            let (images, labels) = inputs(&positions);
            let step = vit().loss_and_gradient_blocking(&weights(), &images, &labels).unwrap();
            assert_eq!((answered, loss, kind), (round, step.loss, UpdateKind::Dense));
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
            let trained = vit().train_locally_blocking(&weights(), &images, &labels, 2, 2, 0.05).unwrap();
            assert_eq!(loss, trained.loss);
            assert_eq!(values, trained.weights);
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
        relay.plan(1, ["fixed-position", "fedsgd"], None, &weights()).await;
        assert!(matches!(relay.receive().await.0, ClientMessage::Update { .. }));
        let mut score = async |attack: &str| {
            let header = RelayMessage::Reconstruction { round: 1, attack: attack.to_owned(), side: side as u16 };
            relay.send(header, &shuffled).await;
            let (ClientMessage::Score { attack: scored, psnr, ssim, .. }, _) = relay.receive().await else {
                panic!("no score");
            };
            assert_eq!(scored, attack);
            (psnr, ssim)
        };
        let (psnr, ssim) = score("matching-aware").await;
        assert!(psnr < 20.0 && ssim < 0.5, "as it came: {psnr} dB, {ssim}");
        let (psnr, ssim) = score("jigsaw").await;
        assert!(psnr > 90.0 && ssim > 0.999, "in the best order: {psnr} dB, {ssim}");
    })
    .await;
}

#[tokio::test]
async fn encrypted_room_gets_cipher_text_alone() {
    let passphrase = "violet otter 1867";
    let layout = ParamLayout::vit(&spec().config());
    let cipher = Cipher::new(&RoomKey::derive(passphrase, &SALT, Start::Keyed).unwrap(), &layout).unwrap();
    with_client(Some(passphrase), async |relay| {
        let model = spec().preset.to_string();
        relay.send(RelayMessage::Seal { policy: 1, model, april_block: false, classes: 10, salt: SALT }, &[]).await;
        let (ClientMessage::Sealed { policy: 1, check }, sealed) = relay.receive().await else { panic!("not sealed") };
        assert_eq!(check, cipher.check().0);
        relay.plan(1, ["encrypted:keyed", "fedsgd"], Some(EncryptionPlan { salt: SALT, check }), &sealed).await;
        let (ClientMessage::Update { kind, .. }, values) = relay.receive().await else { panic!("no update") };
        assert_eq!(kind, UpdateKind::Encrypted { check });
        let mut plain = sealed.clone();
        cipher.decrypt(&mut plain).unwrap();
        let (images, labels) = inputs(&[0, 1]);
        let mut expected = vit().loss_and_gradient_blocking(&plain, &images, &labels).unwrap().gradient;
        cipher.encrypt(&mut expected).unwrap();
        assert_eq!(values, expected);
    })
    .await;
}

#[tokio::test]
async fn without_the_passphrase_it_waits_for_a_round_it_can_read() {
    for passphrase in [None, Some("another one")] {
        with_client(passphrase, async |relay| {
            let encryption = Some(EncryptionPlan { salt: SALT, check: [0; 16] });
            relay.plan(1, ["encrypted", "fedsgd"], encryption, &weights()).await;
            assert!(matches!(relay.receive().await.0, ClientMessage::Unable { round: 1, policy: 1, .. }));
            relay.plan(2, ["fixed-position", "fedsgd"], None, &weights()).await;
            assert!(matches!(relay.receive().await.0, ClientMessage::Update { round: 2, .. }));
        })
        .await;
    }
}
