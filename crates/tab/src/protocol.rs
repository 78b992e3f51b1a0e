//! What page and worker say to each other. Both come from one build, so the format needs no version.

use serde::{Deserialize, Serialize};
use unmask_core::{AttackMethod, Defence, Partition, Rule};

/// Side of the square picture that the page hands to the worker; the worker resizes it to the model's input.
pub const PICTURE_SIDE: u32 = 256;

/// The device a page's address asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DeviceChoice {
    /// The faster one.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// WebGPU, even if it is slower.
    WebGpu,
}

impl DeviceChoice {
    /// From the query's `device=cpu` or `device=webgpu`; anything else is [`Self::Auto`].
    pub fn from_query(value: Option<&str>) -> Self {
        match value {
            Some("cpu") => Self::Cpu,
            Some("webgpu") => Self::WebGpu,
            _ => Self::Auto,
        }
    }
}

/// From the page to the worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToWorker {
    /// Join the room and train until told otherwise.
    Join {
        /// WebSocket address of the room.
        socket: String,
        /// Name to ask for.
        nickname: String,
        /// The private picture, RGB, [`PICTURE_SIDE`] squared, row by row. It never leaves this device.
        picture: Vec<u8>,
        /// Its class.
        label: u8,
        /// The device to train on.
        device: DeviceChoice,
        /// The room's passphrase, where the student has typed one. It never leaves this device.
        passphrase: Option<String>,
        /// The ticket of [`Connection::Online`], to come back as the same client after the page was loaded anew.
        ticket: Option<[u8; 16]>,
    },
    /// The passphrase the worker asked for. It never leaves this device.
    Passphrase {
        /// As typed.
        passphrase: String,
    },
    /// Ask the room's model what a picture shows, now and with the weights of every later round. It never leaves this
    /// device.
    Try {
        /// Counts up, so that answers about an earlier picture can be told from those about this one.
        number: u32,
        /// RGB, [`PICTURE_SIDE`] squared, row by row.
        picture: Vec<u8>,
    },
    /// Close the socket and stop.
    Leave,
}

/// State of the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    /// The worker is being set up, or the socket opened.
    Connecting,
    /// In the room under this nickname.
    Online {
        /// The nickname as the room shows it.
        nickname: String,
        /// With which this client can come back.
        ticket: Option<[u8; 16]>,
    },
    /// The socket dropped; the worker tries again by itself.
    Retrying {
        /// Seconds until then.
        seconds: u32,
    },
    /// Closed for good.
    Closed {
        /// Why, in words for people.
        reason: String,
    },
}

/// What one parameter group's update looks like before and after the defence.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroupView {
    /// Name for people, such as `patch embedding`.
    pub title: String,
    /// Values in the group.
    pub values: usize,
    /// Share of zeros in what leaves, 0 to 1.
    pub zeros: f32,
    /// L2 norm before the defence.
    pub norm_before: f32,
    /// L2 norm of what leaves.
    pub norm_after: f32,
    /// Norm of what the defence added, divided by the norm before it; none where it adds nothing.
    pub noise: Option<f32>,
    /// Whether what leaves is encrypted.
    pub ciphertext: bool,
    /// Width of both pictures in pixels.
    pub width: u32,
    /// Height of both pictures in pixels.
    pub height: u32,
    /// A piece of the plain update, RGBA, row by row: blue below zero, red above, white at zero.
    pub before: Vec<u8>,
    /// The same piece of what leaves; what is masked is drawn in grey.
    pub after: Vec<u8>,
}

/// The tab's share of the room's data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardView {
    /// Name of the data set, for people.
    pub data: String,
    /// How it was divided.
    pub partition: Partition,
    /// Names of the classes, by label.
    pub classes: Vec<String>,
    /// How many pictures there are of each of them.
    pub counts: Vec<u32>,
    /// Width of the contact sheet in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// The contact sheet, RGBA, row by row: some of the pictures, ordered by class, each class as often as its share.
    pub sheet: Vec<u8>,
}

/// How a reconstruction compares with the one picture that the update was made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Comparison {
    /// That picture as the model saw it, RGBA, row by row.
    pub own: Vec<u8>,
    /// Whether it is the private one, and not one of the shared ones.
    pub is_private: bool,
    /// PSNR in dB, computed here.
    pub psnr: f32,
    /// SSIM, computed here.
    pub ssim: f32,
}

/// What the room's model says of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The round after which these were the room's weights; 0 before the first.
    pub after: u32,
    /// Whether the round that follows trains on shared pictures, whose classes have names of their own.
    pub is_shared: bool,
    /// Number of classes.
    pub classes: usize,
    /// The most probable ones, best first: place and probability.
    pub best: Vec<(usize, f32)>,
    /// Side of `seen` in pixels.
    pub side: u32,
    /// The picture as the model sees it, RGBA, row by row.
    pub seen: Vec<u8>,
}

/// From the worker to the page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FromWorker {
    /// The worker has loaded.
    Ready,
    /// The device it trains on, and why that one.
    Device {
        /// `WebGPU` or `CPU`.
        name: String,
        /// One sentence.
        reason: String,
    },
    /// The socket's state changed.
    Connection(Connection),
    /// A round's plan came and training has begun.
    Training {
        /// The round.
        round: u32,
        /// The model preset.
        model: String,
        /// The defence.
        defence: Defence,
        /// The update rule.
        rule: Rule,
        /// Number of shared pictures it takes; none where it takes the private one.
        shared: Option<u32>,
    },
    /// The tab's share of the room's data set has come, or another one in its place.
    Shard(ShardView),
    /// What the room's model says of the picture of [`ToWorker::Try`].
    Answered {
        /// The number that was given with the picture.
        number: u32,
        /// What it says, or why it says nothing, in words.
        answer: Result<Answer, String>,
    },
    /// The room's model is encrypted, and this tab cannot read it. A later [`Self::Training`] withdraws the question.
    AskPassphrase {
        /// What the passphrase is needed for, or what is wrong with the one given, in words.
        reason: String,
        /// Whether one was given that does not open this room's model.
        wrong: bool,
    },
    /// This tab has encrypted the room's model and sent it back.
    Sealed {},
    /// The update was sent.
    Sent {
        /// The round.
        round: u32,
        /// Loss on its pictures before this round's step.
        loss: f32,
        /// Time the step took.
        milliseconds: f64,
        /// Bytes sent.
        bytes: u64,
        /// Bytes an unprotected update would have weighed.
        plain_bytes: u64,
        /// Number of pictures it was made from.
        samples: u32,
        /// The update rule it was made by.
        rule: Rule,
        /// One view for each parameter group.
        groups: Vec<GroupView>,
    },
    /// A round closed.
    Closed {
        /// The round.
        round: u32,
        /// Mean loss of the cohort.
        loss: Option<f32>,
        /// Number of updates averaged.
        updates: u32,
    },
    /// The relay attacked this client and sent back what it saw.
    Attacked {
        /// The round attacked.
        round: u32,
        /// The attack.
        attack: AttackMethod,
        /// Side of the picture in pixels.
        side: u32,
        /// The reconstruction, RGBA, row by row.
        reconstruction: Vec<u8>,
        /// How it compares; none where the update was made from several pictures, or too long ago.
        comparison: Option<Comparison>,
    },
    /// Something to tell the student.
    Notice {
        /// In words.
        text: String,
    },
}
