//! The relay's limits, with small values.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use crate::support::{Client, Relay, Socket, config, gradient, http, http_bytes, state};
use flate2::read::GzDecoder;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use unmask_core::{Architecture, UpdateForm, VitPreset};
use unmask_relay::serve;
use unmask_wire::{
    ClientMessage, RelayMessage, frames,
    view::{ClientState, Control, RoomView},
};

/// Timeout for every expected event.
const PATIENCE: Duration = Duration::from_secs(20);

fn question(to: SocketAddr) -> Vec<u8> {
    format!("GET /healthz HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", to.port()).into_bytes()
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Whether a request on this connection to `to` is answered. If so, the connection stays open.
async fn is_served(stream: &mut TcpStream, to: SocketAddr) -> bool {
    let mut answer = [0; 12];
    // A refused connection may be closed at any point of the write.
    let _ = stream.write_all(&question(to)).await;
    let read = timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("an answer or an end");
    read.is_ok() && &answer == b"HTTP/1.1 200"
}

async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset also counts as closed.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("an end");
}

/// Splits an update into small frames.
fn small_frames(message: &ClientMessage, values: &[f32]) -> Vec<Vec<u8>> {
    const PIECE: usize = 4096;
    let whole = frames(message, values).unwrap();
    let header = whole[0][..8].to_vec();
    let bytes: Vec<u8> = whole.iter().flat_map(|frame| frame[8..].to_vec()).collect();
    let last = bytes.len().div_ceil(PIECE) - 1;
    let pieces = bytes.chunks(PIECE).enumerate();
    let frame = |(number, piece): (usize, &[u8])| {
        let mut frame = header.clone();
        frame[3] = u8::from(number == last);
        frame.extend_from_slice(piece);
        frame
    };
    pieces.map(frame).collect()
}

fn update(round: u32, policy: u32) -> ClientMessage {
    ClientMessage::Update { round, policy, loss: 1.0, samples: 1, form: UpdateForm::Dense, draw: None }
}

/// More half-open connections than places, from the same address as the health request.
#[tokio::test]
async fn half_open_requests_keep_nobody_waiting() {
    let relay = Relay::with(|config| config.limits.connections = 40).await;
    let mut half_open = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(relay.running.http()).await.unwrap();
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await;
        }
        half_open.push(stream);
    }
    let asked = Instant::now();
    let (status, _, body) = http(&relay.running, "GET", "/healthz", &[], "").await;
    assert_eq!((status, body.as_str()), (200, "ok"));
    // This is well before any deadline could free a place.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    relay.log_line("its address held as many as it may, and it had asked for nothing").await;
}

#[tokio::test]
async fn headers_have_a_deadline() {
    let relay = Relay::with(|config| config.limits.header = Duration::from_secs(1)).await;
    let half: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: loc";
    for (address, bytes) in [
        (relay.running.http(), half),
        (relay.running.http(), &[]),
        (relay.running.http(), b"PRI * HTTP/2.0"),
        (relay.running.https(), &[]),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        closed(&mut stream).await;
    }
    let mut idle = TcpStream::connect(relay.running.http()).await.unwrap();
    assert!(is_served(&mut idle, relay.running.http()).await);
    closed(&mut idle).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_over_its_limit_is_refused_and_others_are_served() {
    const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let relay = Relay::with(|config| {
        config.limits.connections_for_one_address = 4;
        config.limits.header = Duration::from_secs(600);
    })
    .await;
    let to = relay.running.http();
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = connect(GREEDY, to).await;
        assert!(is_served(&mut stream, to).await);
        held.push(stream);
    }
    assert!(!is_served(&mut connect(GREEDY, to).await, to).await);
    relay.log_line("A connection was refused: its address held as many as it may.").await;
    assert!(is_served(&mut connect(Ipv4Addr::new(127, 0, 0, 3), to).await, to).await);
    for stream in &mut held {
        assert!(is_still_served(stream, to).await);
    }
    held.pop();
    // The place is free once the relay has noticed the close.
    let deadline = Instant::now() + PATIENCE;
    while !is_served(&mut connect(GREEDY, to).await, to).await {
        assert!(Instant::now() < deadline, "the place was not given back");
    }
}

/// Like [`is_served`], on a connection with unread bytes of an earlier answer.
#[cfg(target_os = "linux")]
async fn is_still_served(stream: &mut TcpStream, to: SocketAddr) -> bool {
    stream.write_all(&question(to)).await.unwrap();
    let mut answers = Vec::new();
    while !answers.windows(12).any(|bytes| bytes == b"HTTP/1.1 200") {
        let read = timeout(PATIENCE, stream.read_buf(&mut answers)).await.expect("an answer").unwrap();
        if read == 0 {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn an_update_that_trickles_is_ended() {
    let relay = Relay::with(|config| {
        config.room.start = true;
        config.room.deadline = Duration::from_millis(100);
        config.limits.update = Duration::from_millis(600);
    })
    .await;
    let (_honest, mut eve) = (relay.client("Honest").await, relay.client("Eve").await);
    let plan = eve.plan().await;
    let mut pieces = small_frames(&update(plan.round, plan.policy), &gradient(1)).into_iter();
    eve.socket.frame(pieces.next().unwrap()).await;
    let said = eve.socket.goodbye().await;
    assert!(said.contains("of its update came within") && said.contains("a whole one has 0.6 s"), "{said}");
    relay.log_line("Eve was disconnected: only").await;
    assert_ne!(state(&relay.room().await, "Honest"), Some(ClientState::Gone));
}

/// This model's plan is too large for the operating system's buffers.
#[tokio::test]
async fn a_client_that_does_not_read_is_ended() {
    let relay = Relay::with(|config| {
        config.room.architecture = Architecture::from(VitPreset::Tiny);
        config.room.deadline = Duration::from_millis(100);
        config.limits.write = Duration::from_millis(500);
    })
    .await;
    let _wall = relay.client("Wall").await;
    relay.control(Control::Start).await;
    relay.log_line("Wall is gone: it read nothing for 0.5 s").await;
}

/// A client that sends too many messages is slowed down, and others are not.
#[tokio::test]
async fn a_flood_of_messages_is_slowed_down() {
    const SENT: u32 = 30;
    let relay = Relay::with(|config| {
        config.limits.messages_at_once = 10;
        config.limits.messages_per_second = 5;
    })
    .await;
    let mut ada = relay.client("Ada").await;
    let mut flood = Client::join(&relay.running, "Flood", None).await;
    relay.control(Control::Start).await;
    // Send its update, so that no round waits for it.
    let plan = flood.plan().await;
    flood.update(&plan, gradient(1)).await;
    let begun = Instant::now();
    let flood = tokio::spawn(async move {
        for _ in 0..SENT {
            flood.socket.hello("again", None).await;
        }
        let mut refused = 0;
        while refused < SENT {
            let (message, _) = flood.socket.message().await.expect("an open socket");
            refused += u32::from(matches!(message, RelayMessage::Refused { .. }));
        }
        begun.elapsed()
    });
    let plan = ada.plan().await;
    ada.update(&plan, gradient(2)).await;
    relay.room_when("a round", |room| !room.losses.is_empty()).await;
    let slowed = timeout(PATIENCE, flood).await.expect("all answers").unwrap();
    let room = relay.room().await;
    let said = room.log.iter().filter(|line| line.text.contains("Flood: refused")).count();
    assert_eq!(said, 1, "{:#?}", room.log);
    // At most three of ten tokens went to the hello, the update and a sign of life.
    assert!(slowed >= Duration::from_secs(3), "{slowed:?}");
}

/// Guests join and leave in quick succession.
#[tokio::test]
async fn joining_again_and_again_is_slowed_down() {
    let relay = Relay::with(|config| {
        config.room.limits.clients = 3;
        config.limits.joins_per_second = 5;
    })
    .await;
    let begun = Instant::now();
    for number in 0..8 {
        drop(relay.client(&format!("Guest {number}")).await);
        relay
            .room_when("an empty room", |room| room.clients.iter().all(|client| client.state == ClientState::Gone))
            .await;
    }
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
}

/// With memory for only one update, the second waits and is then accepted.
#[tokio::test]
async fn updates_in_flight_share_their_memory() {
    let relay = Relay::with(|config| {
        config.limits.bytes_in_flight = 0;
        config.limits.messages_at_once = 10_000;
    })
    .await;
    let (mut ada, mut bob) = (relay.client("Ada").await, relay.client("Bob").await);
    relay.control(Control::Start).await;
    let plan = ada.plan().await;
    assert_eq!(bob.plan().await.round, plan.round);
    let mut pieces = small_frames(&update(plan.round, plan.policy), &gradient(1));
    let last = pieces.pop().unwrap();
    assert!(!pieces.is_empty(), "an update is longer than one piece");
    for piece in pieces {
        ada.socket.frame(piece).await;
    }
    // The relay must read Ada first, so that she gets the memory.
    ada.socket.catch_up().await;
    for piece in small_frames(&update(plan.round, plan.policy), &gradient(2)) {
        bob.socket.frame(piece).await;
    }
    assert!(timeout(Duration::from_millis(500), bob.answer()).await.is_err(), "there was memory for two");
    ada.socket.frame(last).await;
    assert_eq!(bob.answer().await, RelayMessage::Accepted { round: plan.round });
}

/// All callers get the same JSON, compressed on request.
#[tokio::test]
async fn the_room_is_written_once_and_compressed() {
    let relay = Relay::start().await;
    let token = format!("Bearer {}", relay.running.token());
    let get = async |encoding: &str| {
        let headers = [("authorization", token.as_str()), ("accept-encoding", encoding)];
        http_bytes(&relay.running, "GET", "/api/room", &headers, "").await
    };
    let (_, head, plain) = get("identity").await;
    assert!(head.contains("vary: accept-encoding") && !head.contains("content-encoding"), "{head}");
    let (status, head, gzipped) = get("gzip").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-encoding: gzip") && head.contains("content-type: application/json"), "{head}");
    let mut text = String::new();
    GzDecoder::new(&gzipped[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text.as_bytes(), plain);
    assert!(serde_json::from_str::<RoomView>(&text).is_ok());
}

/// A connection is closed if the body does not arrive in time.
#[tokio::test]
async fn a_body_has_a_deadline() {
    let relay = Relay::with(|config| config.limits.body = Duration::from_millis(200)).await;
    let mut stream = TcpStream::connect(relay.running.http()).await.unwrap();
    let (token, port) = (relay.running.token(), relay.running.http().port());
    let request = format!(
        "POST /api/control HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    closed(&mut stream).await;
}

/// Silent strangers share one log line.
#[tokio::test]
async fn the_log_counts_refusals() {
    let relay = Relay::with(|config| config.limits.hello = Duration::from_millis(100)).await;
    let mut mutes = Vec::new();
    for _ in 0..20 {
        mutes.push(Socket::open(&relay.running).await);
    }
    for mut mute in mutes {
        assert!(mute.goodbye().await.contains("no hello came within 0.1 s"));
    }
    let room = relay.room_when("a line", |room| !room.log.is_empty()).await;
    let lines = room.log.iter().filter(|line| line.text.contains("no hello came")).count();
    assert!(lines <= 2, "{:#?}", room.log);
}

/// The median and the mean of agreeing updates keep all updates of a round. The memory for a full room is checked
/// before anyone joins.
#[tokio::test]
async fn a_median_that_would_not_fit_in_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let room = |clients, aggregation: &str| {
        let mut config = config(folder.path().into());
        (config.room.limits.clients, config.room.aggregation) = (clients, aggregation.parse().unwrap());
        serve(config)
    };
    let most = (2 << 30) / (4 * Architecture::from(VitPreset::Pico).layout().len());
    for (aggregation, most) in [("median", most), ("trimmed-mean:0.2", most), ("aligned", most / 2)] {
        let error = room(most + 1, aggregation).await.unwrap_err().to_string();
        assert!(error.contains("2 GB are the limit; choose clipped or a smaller model"), "{error}");
        room(most, aggregation).await.unwrap().shutdown().await;
    }
    room(most + 1, "clipped").await.unwrap().shutdown().await;
}
