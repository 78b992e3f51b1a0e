//! A relay on free ports, and a hand-written client that can break the protocol's rules.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub mod colours;
#[path = "../../../room/tests/class/support/descent.rs"]
pub mod descent;
#[path = "../../../room/tests/class/support/private.rs"]
pub mod private;

use std::{ops::Deref, time::Duration};

use futures_util::{SinkExt, StreamExt};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest, handshake::client::Request},
};
use unmask_core::{Aggregation, Architecture, ClientId, EncryptionStart, MaskSeed, ParamLayout, UpdateForm, VitPreset};
use unmask_defence::{
    Cipher, FROZEN_SEED, KeyMaterial, PlainUpdate, Protect, ProtectedUpdate, RoomKey, commitment, drawn_seed,
};
use unmask_relay::{OptimiserKind, RelayConfig, RoomConfig, Running, serve};
use unmask_wire::{
    Assembler, ClientMessage, PlanHeader, RelayMessage, SeedDraw, ShardHeader, frames,
    view::{AttackView, ClientState, ClientView, Control, RoomView},
};

/// Timeout for every expected event.
const PATIENCE: Duration = Duration::from_secs(20);

pub const RATE: f32 = 0.5;

pub fn layout() -> ParamLayout {
    Architecture::from(VitPreset::Pico).layout()
}

/// Returns a gradient of the right length, different for each number.
pub fn gradient(number: usize) -> Vec<f32> {
    (0..layout().len()).map(|i| ((number * 131 + i * 17) % 101) as f32 / 500.0 - 0.1).collect()
}

/// A relay with its data folder. Dropping it ends the relay and deletes the folder.
pub struct Relay {
    pub running: Running,
    _folder: TempDir,
}

impl Relay {
    /// Starts a paused relay on loopback with the smallest model, SGD and short pauses.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut RelayConfig)) -> Self {
        Self::within(tempfile::tempdir().unwrap(), change).await
    }

    /// Starts a relay in a folder that may hold another relay's journal.
    pub async fn within(folder: TempDir, change: impl FnOnce(&mut RelayConfig)) -> Self {
        let mut config = config(folder.path().to_path_buf());
        change(&mut config);
        Self { running: serve(config).await.unwrap(), _folder: folder }
    }

    /// Waits until the room has broken down for good.
    pub async fn is_broken(&mut self) {
        timeout(PATIENCE, self.running.broken()).await.expect("a relay that ends");
    }

    /// Shuts the relay down and returns its data folder.
    pub async fn stop(self) -> TempDir {
        self.running.shutdown().await;
        self._folder
    }

    pub async fn room(&self) -> RoomView {
        let (status, _, body) = self.get("/api/room").await;
        assert_eq!(status, 200);
        serde_json::from_slice(&body).unwrap()
    }

    pub async fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        let secret = format!("Bearer {}", self.running.projector_secret());
        http_bytes(&self.running, "GET", path, &[("authorization", &secret)], "").await
    }

    pub async fn room_when(&self, what: &str, is_wanted: impl Fn(&RoomView) -> bool) -> RoomView {
        let mut room = RoomView::default();
        for _ in 0..PATIENCE.as_millis() / 10 {
            room = self.room().await;
            if is_wanted(&room) {
                return room;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not come about: {room:#?}");
    }

    pub async fn log_line(&self, part: &str) {
        self.room_when(part, |room| room.log.iter().any(|line| line.text.contains(part))).await;
    }

    /// Sends a control with the teacher's token. Returns the status and the body.
    pub async fn try_control(&self, control: &Control) -> (u16, String) {
        let token = format!("Bearer {}", self.running.token());
        let body = serde_json::to_string(control).unwrap();
        let (status, _, answer) =
            http(&self.running, "POST", "/api/control", &[("authorization", &token)], &body).await;
        (status, answer)
    }

    pub async fn control(&self, control: Control) {
        assert_eq!(self.try_control(&control).await, (204, String::new()), "{control:?}");
    }

    pub async fn client(&self, nickname: &str) -> Client {
        Client::join(&self.running, nickname, None).await
    }
}

pub fn config(folder: std::path::PathBuf) -> RelayConfig {
    let base = RelayConfig::new(folder);
    RelayConfig {
        bind: [127, 0, 0, 1].into(),
        http_port: 0,
        https_port: 0,
        room: RoomConfig {
            architecture: Architecture::from(VitPreset::Pico),
            optimiser: OptimiserKind::Sgd { rate: RATE },
            // The plain mean of the papers' equations, which the tests compute by hand.
            aggregation: Aggregation::Mean,
            pace: Duration::from_millis(10),
            // Tests run unoptimised and in parallel.
            attack_budget: Duration::from_secs(600),
            ..RoomConfig::default()
        },
        ..base
    }
}

pub fn view<'a>(room: &'a RoomView, nickname: &str) -> &'a ClientView {
    room.clients.iter().find(|client| client.nickname == nickname).unwrap_or_else(|| panic!("no {nickname}: {room:?}"))
}

pub fn find_card<'a>(room: &'a RoomView, attack: &str) -> Option<&'a AttackView> {
    room.attacks.iter().find(|card| card.attack.name() == attack)
}

pub fn card<'a>(room: &'a RoomView, attack: &str) -> &'a AttackView {
    find_card(room, attack).unwrap_or_else(|| panic!("no {attack}: {:#?}", room.attacks))
}

pub fn remark<'a>(room: &'a RoomView, attack: &str) -> &'a str {
    card(room, attack).remark.as_deref().unwrap_or_default()
}

pub fn state(room: &RoomView, nickname: &str) -> Option<ClientState> {
    room.clients.iter().find(|client| client.nickname == nickname).map(|client| client.state)
}

/// Returns the `Host` that a browser on this machine sends.
pub fn host(running: &Running) -> String {
    format!("localhost:{}", running.http().port())
}

/// Returns a request for a socket, with the room key.
pub fn upgrade(running: &Running) -> Request {
    upgrade_to(&format!("ws://{}/ws", running.http()), &running.room_key())
}

/// Returns a request for a socket at any address, with any secret.
pub fn upgrade_to(address: &str, secret: &str) -> Request {
    let mut request = address.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
    request
}

/// Sends one HTTP/1.1 request. Returns the status, the headers in lower case, and the body.
pub async fn http(
    running: &Running,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String, String) {
    let (status, head, body) = http_bytes(running, method, path, headers, body).await;
    (status, head, String::from_utf8(body).unwrap())
}

pub async fn http_bytes(
    running: &Running,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> (u16, String, Vec<u8>) {
    let body = body.as_ref();
    let mut stream = TcpStream::connect(running.http()).await.unwrap();
    let own_host = host(running);
    let has_host = headers.iter().any(|(name, _)| *name == "host");
    let host = (!has_host).then_some(("host", own_host.as_str()));
    let headers: String = host.iter().chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    // A server that refuses a long body may close before all of it is written.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a header");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), answer[end + 4..].to_vec())
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub header: PlanHeader,
    /// As received: ciphertext if `encryption` is present.
    pub weights: Vec<f32>,
}

impl Deref for Plan {
    type Target = PlanHeader;

    fn deref(&self) -> &PlanHeader {
        &self.header
    }
}

#[derive(Debug, Clone)]
pub struct Seal {
    pub policy: u32,
    pub salt: [u8; 16],
    /// Plain weights; empty under the keyed start.
    pub weights: Vec<f32>,
}

pub fn cipher(passphrase: &str, salt: &[u8; 16]) -> Cipher {
    cipher_of(passphrase, salt, EncryptionStart::Plain)
}

pub fn cipher_of(passphrase: &str, salt: &[u8; 16], start: EncryptionStart) -> Cipher {
    Cipher::new(&RoomKey::derive(passphrase, salt, start).unwrap(), &layout()).unwrap()
}

/// One client on one socket.
pub struct Client {
    pub id: ClientId,
    pub nickname: String,
    pub ticket: [u8; 16],
    pub socket: Socket,
}

impl Client {
    pub async fn join(running: &Running, nickname: &str, resume: Option<[u8; 16]>) -> Self {
        let mut socket = Socket::open(running).await;
        socket.hello(nickname, resume).await;
        Self::welcomed(socket).await
    }

    /// Joins as a student who does not consent to showing reconstructions to the class.
    pub async fn join_unseen(running: &Running, nickname: &str) -> Self {
        let mut socket = Socket::open(running).await;
        let commitment = commitment(&socket.nonce);
        let (nickname, device) = (nickname.to_owned(), "test".to_owned());
        socket
            .send(
                &ClientMessage::Hello {
                    nickname,
                    resume: None,
                    device,
                    may_show: false,
                    may_lend: false,
                    is_robot: false,
                    commitment,
                    page: commitment,
                },
                &[],
            )
            .await;
        Self::welcomed(socket).await
    }

    pub async fn welcomed(mut socket: Socket) -> Self {
        match socket.message().await {
            Some((RelayMessage::Welcome { client, resume, nickname }, _)) => {
                let lesson = socket.message().await;
                assert!(matches!(lesson, Some((RelayMessage::Lesson(_), _))), "no lesson but {lesson:?}");
                Self { id: client, nickname, ticket: resume, socket }
            }
            other => panic!("no welcome but {other:?}"),
        }
    }

    /// Returns the first message that `pick` accepts and skips earlier ones. [`PATIENCE`] covers all of them, because a
    /// round that closes without updates restarts forever.
    async fn next<T>(&mut self, what: &str, mut pick: impl FnMut(RelayMessage, Vec<f32>) -> Option<T>) -> T {
        let waiting = async {
            loop {
                match self.socket.message().await {
                    Some((RelayMessage::Goodbye { reason }, _)) => panic!("no {what}; dismissed: {reason}"),
                    Some((message, values)) => {
                        if let Some(picked) = pick(message, values) {
                            return picked;
                        }
                    }
                    None => panic!("no {what}; closed"),
                }
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("no {what} among all that came"))
    }

    pub async fn plan(&mut self) -> Plan {
        self.next("plan", |message, weights| match message {
            RelayMessage::Plan(header) => Some(Plan { header, weights }),
            _ => None,
        })
        .await
    }

    /// Returns the next shard with its labels and pixels, which must arrive before any plan.
    pub async fn shard(&mut self) -> (ShardHeader, Vec<u8>, Vec<u8>) {
        self.next("shard", |message, words| match message {
            RelayMessage::Shard(header) => {
                let (labels, pixels) = header.read(&words).unwrap();
                Some((header, labels, pixels))
            }
            RelayMessage::Plan(_) => panic!("no shard but {message:?}"),
            _ => None,
        })
        .await
    }

    pub async fn seal(&mut self) -> Seal {
        self.next("seal", |message, weights| match message {
            RelayMessage::Seal { policy, salt, .. } => Some(Seal { policy, salt, weights }),
            _ => None,
        })
        .await
    }

    /// Encrypts and sends `weights`: those of the request or, under the keyed start, the client's own.
    pub async fn send_sealed(&mut self, seal: &Seal, cipher: &Cipher, mut weights: Vec<f32>) {
        cipher.encrypt(&mut weights).unwrap();
        let message = ClientMessage::Sealed { policy: seal.policy, check: cipher.check() };
        self.socket.send(&message, &weights).await;
    }

    /// Sends the update for this plan, made from a gradient, or from weights under FedAvg.
    pub async fn update(&mut self, plan: &Plan, values: Vec<f32>) {
        let update = protect(plan, values, KeyMaterial { seed: self.seed(plan), cipher: None });
        self.send_update(plan, 1.0, update).await;
    }

    /// The seed of this client's mask in that round.
    pub fn seed(&self, plan: &Plan) -> MaskSeed {
        drawn_seed(&self.socket.nonce, &plan.nonce)
    }

    pub async fn encrypted_update(&mut self, plan: &Plan, values: Vec<f32>, cipher: &Cipher) {
        let update = protect(plan, values, KeyMaterial { seed: MaskSeed([0; 32]), cipher: Some(cipher) });
        self.send_update(plan, 1.0, update).await;
    }

    pub async fn send_update(&mut self, plan: &Plan, loss: f32, update: ProtectedUpdate) {
        self.send_samples(plan, loss, 1, update).await;
    }

    pub async fn send_samples(&mut self, plan: &Plan, loss: f32, samples: u32, update: ProtectedUpdate) {
        let draws = matches!(update.form, UpdateForm::Masked { seed, .. } if seed != FROZEN_SEED);
        let nonce = self.socket.nonce;
        let draw = draws.then(|| SeedDraw { nonce, next: commitment(&nonce) });
        let (round, policy) = (plan.round, plan.policy);
        let message = ClientMessage::Update { round, policy, loss, samples, form: update.form, draw };
        self.socket.send(&message, &update.values).await;
    }

    /// Returns the next message other than plans, ends and lists of rounds, lesson states and reconstructions, which arrive at
    /// any time.
    pub async fn answer(&mut self) -> RelayMessage {
        self.next("answer", |message, _| match message {
            RelayMessage::Plan(_)
            | RelayMessage::Closed { .. }
            | RelayMessage::Listed(_)
            | RelayMessage::Lesson(_)
            | RelayMessage::Reconstruction { .. } => None,
            answer => Some(answer),
        })
        .await
    }

    pub async fn reconstruction(&mut self, by: &str) -> (u32, Vec<f32>) {
        self.next("reconstruction", |message, values| match message {
            RelayMessage::Reconstruction { round, attack, .. } if attack.name() == by => Some((round, values)),
            _ => None,
        })
        .await
    }

    /// Returns the reason of the next refusal; skips acceptances.
    pub async fn refusal(&mut self) -> String {
        self.next("refusal", |message, _| match message {
            RelayMessage::Refused { reason } => Some(reason),
            RelayMessage::Plan(_)
            | RelayMessage::Closed { .. }
            | RelayMessage::Listed(_)
            | RelayMessage::Reconstruction { .. }
            | RelayMessage::SittingOut
            | RelayMessage::Lesson(_)
            | RelayMessage::Accepted { .. } => None,
            other => panic!("no refusal but {other:?}"),
        })
        .await
    }
}

pub fn protect(plan: &Plan, values: Vec<f32>, keys: KeyMaterial<'_>) -> ProtectedUpdate {
    let reference = plan.rule.is_fedavg().then_some(plan.weights.as_slice());
    plan.defence.protect(&layout(), PlainUpdate { values, reference }, keys).unwrap()
}

fn fresh() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// A socket to the room.
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    assembler: Assembler,
    /// What the seeds of its masks are drawn from. It need not be fresh, since the relay's half is.
    pub nonce: [u8; 32],
}

impl Socket {
    pub async fn open(running: &Running) -> Self {
        let (stream, _) = connect_async(upgrade(running)).await.unwrap();
        Self::on(stream)
    }

    pub fn on(stream: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self { stream, assembler: Assembler::new(1 << 24), nonce: fresh() }
    }

    pub async fn hello(&mut self, nickname: &str, resume: Option<[u8; 16]>) {
        self.hello_as(nickname, resume, false).await;
    }

    pub async fn hello_as(&mut self, nickname: &str, resume: Option<[u8; 16]>, is_robot: bool) {
        let hello = ClientMessage::Hello {
            nickname: nickname.to_owned(),
            resume,
            device: "test".to_owned(),
            may_show: true,
            may_lend: true,
            is_robot,
            commitment: commitment(&self.nonce),
            page: self.nonce,
        };
        self.send(&hello, &[]).await;
    }

    pub async fn send(&mut self, message: &ClientMessage, values: &[f32]) {
        for frame in frames(message, values).unwrap() {
            self.frame(frame).await;
        }
    }

    pub async fn frame(&mut self, frame: Vec<u8>) {
        self.stream.send(Message::Binary(frame.into())).await.unwrap();
    }

    /// Returns the underlying stream, to violate the protocol.
    pub fn tcp(&mut self) -> &mut TcpStream {
        match self.stream.get_mut() {
            MaybeTlsStream::Plain(stream) => stream,
            _ => panic!("a socket over TLS"),
        }
    }

    pub async fn raw(&mut self, message: Message) {
        self.stream.send(message).await.unwrap();
    }

    /// Waits until the relay has read everything sent so far. The relay must send nothing in the meantime.
    pub async fn catch_up(&mut self) {
        self.raw(Message::Ping(Vec::new().into())).await;
        loop {
            match timeout(PATIENCE, self.stream.next()).await.expect("a pong in time") {
                Some(Ok(Message::Pong(_))) => return,
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("no pong but {other:?}"),
            }
        }
    }

    /// Returns the next message, or `None` once the relay has closed the connection.
    pub async fn message(&mut self) -> Option<(RelayMessage, Vec<f32>)> {
        loop {
            match timeout(PATIENCE, self.stream.next()).await.expect("a message in time") {
                Some(Ok(Message::Binary(frame))) => {
                    if let Some(message) = self.assembler.push(&frame).unwrap() {
                        return Some(message);
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Returns the reason of the relay's goodbye, after which it must close the socket.
    pub async fn goodbye(&mut self) -> String {
        let waiting = async {
            loop {
                match self.message().await {
                    Some((RelayMessage::Goodbye { reason }, _)) => {
                        assert!(self.message().await.is_none(), "still open");
                        return reason;
                    }
                    Some(_) => {}
                    None => panic!("closed without a goodbye"),
                }
            }
        };
        timeout(PATIENCE, waiting).await.expect("a goodbye among all that came")
    }
}
