//! A relay's peak memory while all clients send simultaneously: four models (weights, sums and Adam's two moments) and
//! one update in flight per client.

mod support;

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use peak_alloc::PeakAlloc;
use support::{
    Relay,
    descent::{Descent, Source},
    upgrade,
};
use tokio::{net::TcpStream, sync::Barrier};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, handshake::client::Request},
};
use unmask_core::{Architecture, Defence, GroupRates, ParamLayout, UpdateForm, VitPreset, ZeroRate};
use unmask_defence::{FROZEN_SEED, Mask};
use unmask_wire::{ClientMessage, Framer, view::Control};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const CLIENTS: usize = 4;
const ROUNDS: u32 = 3;
/// Allowance for everything else: frames in flight, 1 MB for each end of a socket (all are in this process); update
/// counts (4 MB); the parameters that attacks read from the newest update and from one being gathered; gathered rounds.
const SLACK: usize = 40_000_000;
/// Working memory of mask-aware embedding inversion. Each of the 256 places in a patch of one colour needs normal
/// equations of 196 x 196 and their factor in f64 (157 MB). Another update is held, since newer ones arrive meanwhile,
/// with its means and decompositions.
const INVERSION: usize = 2 * 256 * 196 * 196 * 8 + 40_000_000;

/// The gradients that membership reads: the last block's first MLP layer in f64 with its mask, from the two newest
/// updates.
const MEMBERS: usize = 2 * 4 * 384 * 384 * 9;

/// A prefix of the buffer that all clients send from.
struct Front(Arc<[f32]>, usize);

impl AsRef<[f32]> for Front {
    fn as_ref(&self) -> &[f32] {
        &self.0[..self.1]
    }
}

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A client that stores nothing: it reads plans frame by frame and sends updates of one repeated value. Returns the
/// socket, since dropping it with unread data would reset the connection and lose what it sent.
async fn client(
    request: Request,
    number: u8,
    layout: Arc<ParamLayout>,
    values: Arc<[f32]>,
    all: Arc<Barrier>,
) -> Stream {
    let (mut stream, _) = connect_async(request).await.unwrap();
    let hello = ClientMessage::Hello {
        nickname: format!("client {number}"),
        resume: None,
        device: "test".into(),
        may_show: true,
        may_lend: true,
        is_robot: false,
        commitment: [0; 32],
        page: [0; 32],
    };
    for frame in unmask_wire::frames(&hello, &[]).unwrap() {
        stream.send(Message::Binary(frame.into())).await.unwrap();
    }
    let rates = GroupRates::uniform(ZeroRate::new(0.5).unwrap());
    for round in 1..=ROUNDS {
        // Other messages are short, so this many bytes contain a plan.
        let mut received = 0;
        while received < 4 * layout.len() {
            if let Message::Binary(frame) = stream.next().await.unwrap().unwrap() {
                received += frame.len();
            }
        }
        let kept = Mask::new(FROZEN_SEED, &rates, &layout).map(|(word, _)| word.count_ones() as usize).sum();
        let form = UpdateForm::Masked { seed: FROZEN_SEED, rates };
        let message = ClientMessage::Update { round, policy: 1, loss: 1.0, samples: 1, form, draw: None };
        let mut frames = Framer::new(&message, Front(Arc::clone(&values), kept)).unwrap().peekable();
        while let Some(frame) = frames.next() {
            // Wait before the last frame, so that all updates are in flight together.
            if frames.peek().is_none() {
                all.wait().await;
            }
            stream.send(Message::Binary(frame.into())).await.unwrap();
        }
    }
    stream
}

/// Both measurements run in one test, since they share one allocator. A search that is available but not started must
/// use no memory.
#[tokio::test]
async fn four_models_and_one_update_in_flight_per_client() {
    let before = MEMORY.current_usage();
    measure(Duration::ZERO, 0).await;
    // Sockets and threads end shortly after their relay.
    for _ in 0..500 {
        if MEMORY.current_usage() < before + 5_000_000 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    measure(Duration::from_secs(5), INVERSION).await;
}

async fn measure(attack_budget: Duration, attacks: usize) {
    let architecture = Architecture::from(VitPreset::Small);
    let layout = Arc::new(architecture.layout());
    let (model, update) = (4 * layout.len(), 2 * layout.len());
    let values: Arc<[f32]> = vec![1e-3; layout.len() * 51 / 100].into();
    let before = MEMORY.current_usage();

    let relay = Relay::with(|config| {
        config.room.architecture = architecture;
        config.room.defence = Defence::FrozenBinary { rates: GroupRates::uniform(ZeroRate::new(0.5).unwrap()) };
        config.room.optimiser = "adam:0.001".parse().unwrap();
        config.room.attack_budget = attack_budget;
        config.searches = Some(Arc::new(Source(Descent::new(1, Duration::ZERO))));
    })
    .await;
    let all = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS as u8)
        .map(|number| {
            let request = upgrade(&relay.running);
            tokio::spawn(client(request, number, Arc::clone(&layout), Arc::clone(&values), Arc::clone(&all)))
        })
        .collect();
    relay.room_when("all clients", |room| room.clients.len() == CLIENTS).await;
    MEMORY.reset_peak_usage();
    relay.control(Control::Start).await;
    let mut sockets = Vec::new();
    for client in clients {
        sockets.push(client.await.unwrap());
    }
    let room = relay.room_when("the last round", |room| room.losses.len() >= ROUNDS as usize).await;
    assert!(room.losses.iter().all(|point| point.updates as usize == CLIENTS), "{:?}", room.losses);

    let peak = MEMORY.peak_usage() - before;
    // This allocator counts both the old and the new place of a growing buffer, though the system only moves its pages.
    let growth = update;
    // The weights of the newest update's round, which membership needs to run a picture.
    let held = if attack_budget.is_zero() { 0 } else { model };
    let allowed = 4 * model + CLIENTS * update + held + MEMBERS + growth + SLACK + attacks;
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!(
        "peak {:.1} MB with {CLIENTS} clients and {attack_budget:?} a round for attacks; 4 models of {:.1} MB and {CLIENTS} updates of {:.1} MB are {:.1} MB",
        megabytes(peak),
        megabytes(model),
        megabytes(update),
        megabytes(4 * model + CLIENTS * update),
    );
    assert!(peak <= allowed, "{:.1} MB, {:.1} MB allowed", megabytes(peak), megabytes(allowed));
    drop(sockets);
    relay.running.shutdown().await;
    // Four models exist whenever a round has closed, so a smaller peak would mean that nothing was measured.
    assert!(peak > 4 * model, "{:.1} MB", megabytes(peak));
}
