//! The room as JSON: what `GET /api/room` and the event stream say, and what the teacher's controls send.

use serde::{Deserialize, Serialize};

/// Where a room is in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No round runs and none will until the teacher starts one.
    #[default]
    Paused,
    /// Rounds are to run, but nobody is there to train.
    Waiting,
    /// A cohort is training.
    Training,
    /// A round has closed; the next one follows shortly.
    Between,
}

/// What a client is doing, as the room sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// In the room, not in a running round.
    Joined,
    /// In this round's cohort, update awaited.
    Training,
    /// This round's update has come.
    Sent,
    /// The deadline passed without its update; back in as soon as it answers.
    Late,
    /// Its socket is closed.
    Gone,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientView {
    /// Its number.
    pub id: u32,
    /// Its name in the room.
    pub nickname: String,
    /// What it trains on, in words.
    pub device: String,
    /// What it is doing.
    pub state: ClientState,
    /// The last loss it reported.
    pub loss: Option<f32>,
    /// Bytes it has sent in updates so far, as counted on the socket.
    pub bytes_sent: u64,
    /// Updates taken from it so far.
    pub updates: u32,
}

/// One point of the loss curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The round.
    pub round: u32,
    /// Mean of the losses its clients reported.
    pub loss: f32,
    /// Number of updates averaged.
    pub updates: u32,
    /// The defence in force, in its string form.
    pub defence: String,
}

/// The last result of one attack on the client under attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttackView {
    /// Name as on the command line, such as `april`.
    pub attack: String,
    /// Name for people.
    pub title: String,
    /// One plain sentence on how it works.
    pub sentence: String,
    /// The round whose update was attacked.
    pub round: u32,
    /// Number of the client attacked.
    pub client: u32,
    /// Its nickname.
    pub nickname: String,
    /// The defence that update was made under, in its string form.
    pub defence: String,
    /// Time the attack took.
    pub seconds: f64,
    /// Address of the reconstruction as PNG, if there is one.
    pub picture: Option<String>,
    /// Why there is no reconstruction, or what to know about it.
    pub remark: Option<String>,
    /// PSNR in dB that the attacked client computed against its own image.
    pub psnr: Option<f32>,
    /// SSIM that the attacked client computed against its own image.
    pub ssim: Option<f32>,
}

/// Something that happened, newest last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Counts up, so that a page can tell new lines from old ones.
    pub number: u64,
    /// The round in which it happened.
    pub round: u32,
    /// What happened, in words for people.
    pub text: String,
}

/// The whole room.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RoomView {
    /// Where the room is in its round.
    pub phase: Phase,
    /// The round that runs, or the last one that ran; 0 before the first.
    pub round: u32,
    /// Seconds until the round's deadline, while one runs.
    pub deadline_seconds: Option<f32>,
    /// Model preset.
    pub model: String,
    /// Whether the model has the April block.
    pub april_block: bool,
    /// Number of parameters P.
    pub parameters: usize,
    /// `FedSGD`.
    pub rule: String,
    /// The server's optimiser and rate in words, such as `Adam, 0.001`.
    pub optimiser: String,
    /// The defence in force, in its string form.
    pub defence: String,
    /// A defence or model chosen but not in force until the next round.
    pub next: Option<String>,
    /// Address students open, over plain HTTP.
    pub http_address: String,
    /// Address students open for WebGPU, over HTTPS.
    pub https_address: String,
    /// The QR code of `https_address` as an SVG document.
    pub qr_svg: String,
    /// Everybody who has joined.
    pub clients: Vec<ClientView>,
    /// Loss by round.
    pub losses: Vec<LossPoint>,
    /// The client under attack.
    pub target: Option<u32>,
    /// The last result of each attack.
    pub attacks: Vec<AttackView>,
    /// The last things that happened.
    pub log: Vec<LogLine>,
}

/// What the teacher can do; the body of `POST /api/control`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Control {
    /// Run round after round.
    Start,
    /// Let the running round end, then stop.
    Pause,
    /// Run one round, then stop.
    OneRound,
    /// New initial weights, round 0, empty curve; clients stay.
    Reset,
    /// Choose the defence, from the next round on.
    Defence {
        /// Its string form, such as `random-binary:0.5`.
        defence: String,
    },
    /// Swap block 0, from the next round on; resets the model.
    AprilBlock {
        /// Whether the model shall have the April block.
        on: bool,
    },
    /// Attack this client, from its next update on.
    Target {
        /// Its number.
        client: u32,
    },
}
