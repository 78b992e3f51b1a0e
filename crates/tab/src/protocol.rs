//! What page and worker say to each other. Both come from one build, so the format needs no version.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, AttackMethod, Defence, Partition, Rule};
use unmask_wire::LessonState;

/// Side of the square picture that the page hands to the worker; the worker resizes it to the model's input.
pub const PICTURE_SIDE: u32 = 256;

/// A picture as a canvas takes it. Its bytes travel as a buffer that changes hands and is not copied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rgba {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// RGBA, row by row.
    #[serde(with = "buffer")]
    pub bytes: Arc<[u8]>,
}

impl Rgba {
    /// `None` unless there are four bytes for each pixel and at least one pixel.
    pub fn new(width: u32, height: u32, bytes: Vec<u8>) -> Option<Self> {
        let expected = 4 * u64::from(width) * u64::from(height);
        (expected > 0 && bytes.len() as u64 == expected).then(|| Self { width, height, bytes: bytes.into() })
    }
}

/// Bytes that serde sees as bytes, not as a sequence of numbers.
mod buffer {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};
    use serde_bytes::ByteBuf;

    pub fn serialize<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
        ByteBuf::deserialize(deserializer).map(|bytes| bytes.into_vec().into())
    }
}

/// The device a page's address asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum DeviceChoice {
    /// The faster one.
    #[default]
    Auto,
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

/// From the page to the worker. Pictures and passphrases never leave this device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Join the room and train until told otherwise.
    Join {
        /// WebSocket address of the room.
        socket: String,
        nickname: String,
        /// The private picture, [`PICTURE_SIDE`] squared.
        picture: Rgba,
        /// Its class.
        label: u8,
        device: DeviceChoice,
        /// Whether the class may see what leaks of this picture.
        may_show: bool,
        /// The room's passphrase, where the student has typed one.
        passphrase: Option<String>,
        /// The ticket of [`Connection::Online`], to rejoin as the same client after the page was reloaded.
        ticket: Option<[u8; 16]>,
    },
    /// The passphrase of [`FromWorker::AskPassphrase`], as typed.
    Passphrase(String),
    /// Ask the room's model what a picture shows, now and with the weights of every later round.
    Classify {
        /// Counts up, so that answers about an earlier picture can be told from those about this one.
        number: u32,
        /// [`PICTURE_SIDE`] squared.
        picture: Rgba,
    },
    /// Whether the class may see what leaks of the private picture, in place of what [`Self::Join`] said.
    Consent { may_show: bool },
    /// The page is out of sight, or seen again.
    Visibility { is_hidden: bool },
    /// Ask to be in the rounds again, after [`FromWorker::SittingOut`].
    Return,
    /// See at once whether the relay is there: this device may have slept, or changed its network.
    Check,
    /// Close the socket and stop.
    Leave,
    /// Answer the class's question of that number: the answer's place, from 0, or a number.
    Vote { poll: u32, answer: u16 },
    /// Show the class the private picture, 32 pixels a side. The answer is [`FromWorker::Original`].
    ShowOriginal,
    /// Show it no more.
    HideOriginal,
    /// Have the room delete what it has of this student, and leave. [`Connection::Closed`] follows.
    Forget,
}

/// State of the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    Connecting,
    Online {
        /// As the room shows it.
        nickname: String,
        /// With which this client can rejoin.
        ticket: Option<[u8; 16]>,
    },
    /// The socket dropped; the worker tries again by itself.
    Retrying {
        /// Until then.
        seconds: u32,
    },
    /// Closed for good.
    Closed {
        /// In words for people.
        reason: String,
    },
}

/// The device the worker trains on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `WebGPU` or `CPU`.
    pub name: String,
    /// Why this one, in a sentence.
    pub reason: String,
}

/// A round that trains now, or trained last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    pub round: u32,
    /// The model preset.
    pub model: String,
    pub defence: Defence,
    pub rule: Rule,
    /// Number of shared pictures it takes; none where it takes the private one.
    pub shared: Option<u32>,
}

/// Why the worker asks for a passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassphraseRequest {
    /// What it is needed for, or what is wrong with the one given, in words.
    pub reason: String,
    /// Whether one was given that does not unlock this room's model.
    pub is_wrong: bool,
}

/// An update that left this device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentUpdate {
    pub round: u32,
    /// On its pictures, before this round's step.
    pub loss: f32,
    /// Time the step took.
    pub milliseconds: f64,
    pub bytes: u64,
    /// Bytes of the same update without a defence.
    pub plain_bytes: u64,
    /// Number of pictures it was made from.
    pub samples: u32,
    pub rule: Rule,
    pub groups: Vec<GroupView>,
}

/// What one parameter group's update looks like before and after the defence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// A piece of the plain update: blue below zero, red above, white at zero.
    pub before: Option<Rgba>,
    /// The same piece of what leaves; what is masked is drawn in grey.
    pub after: Option<Rgba>,
}

/// A round that the relay closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedRound {
    pub round: u32,
    /// Mean loss of the cohort.
    pub loss: Option<f32>,
    /// Number of updates averaged.
    pub updates: u32,
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
    /// Number of pictures of each class.
    pub counts: Vec<u32>,
    /// Some of the pictures, ordered by class, each class as often as its share.
    pub contact_sheet: Option<Rgba>,
}

/// What the relay reconstructed from an update of this client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reconstruction {
    /// The round attacked.
    pub round: u32,
    pub attack: AttackMethod,
    pub picture: Option<Rgba>,
    /// None where the update was made from several pictures, or too long ago.
    pub comparison: Option<Comparison>,
}

/// How a reconstruction compares with the one picture that the update was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// That picture as the model saw it.
    pub own: Option<Rgba>,
    /// Whether it is the private one, and not one of the shared ones.
    pub is_private: bool,
    /// In dB.
    pub psnr: f32,
    pub ssim: f32,
}

/// What the room's model says of a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The round after which these were the room's weights; 0 before the first.
    pub after: u32,
    /// Whether the round that follows trains on shared pictures, whose classes have names of their own.
    pub is_shared: bool,
    /// Number of classes.
    pub classes: usize,
    /// The most probable classes, best first: label and probability.
    pub best: Vec<(usize, f32)>,
    /// The picture as the model sees it.
    pub input: Option<Rgba>,
}

/// An attack on what this tab has sent itself, made in the tab: nobody else sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnAttack {
    /// The round of the update.
    pub round: u32,
    /// What the update was made under.
    pub defence: Defence,
    /// Time that all attacks took together.
    pub milliseconds: f64,
    /// At most two, the closest first.
    pub reconstructions: Vec<Reconstruction>,
    /// Why there is none, in words, where there is none.
    pub remark: Option<String>,
}

/// From the worker to the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The worker has loaded.
    Ready,
    Device(Device),
    Connection(Connection),
    /// Whether the relay has not answered for too long, although the socket is open: an update may hold its answer up.
    Silent(bool),
    /// A round's plan came and training has begun.
    Training(Training),
    /// A share of the room's data set has come, in place of an earlier one.
    Shard(ShardView),
    /// The answer to [`ToWorker::Classify`].
    Classified {
        /// The number that was given with the picture.
        number: u32,
        /// Or why there is no prediction, in words.
        prediction: Result<Prediction, String>,
    },
    /// The room's model is encrypted, and this tab cannot read it. A later [`Self::Training`] withdraws the question.
    AskPassphrase(PassphraseRequest),
    /// This tab has encrypted the room's model and sent it back.
    ModelEncrypted,
    Sent(SentUpdate),
    /// The relay leaves this tab out of the rounds until it asks to come back. A later [`Self::Training`] withdraws this.
    SittingOut,
    Closed(ClosedRound),
    Attacked(Reconstruction),
    /// Where the lesson is: after [`Connection::Online`], and whenever it changes.
    Lesson(LessonState),
    /// Whether the class sees the private picture.
    Original {
        is_shown: bool,
    },
    /// What this tab's own attack made of the update that it has just sent.
    OwnAttack(OwnAttack),
    Notice(Notice),
}

/// Something to tell the student.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// The tab has encrypted the room's model and sent it back.
    Encrypted,
    /// The connection was lost before the room said that it had deleted what it has of the student.
    NotForgotten,
    /// Without a connection the room was not asked to.
    NotAsked,
    /// The teacher gave the student another nickname.
    Renamed { nickname: String },
    /// No update was sent in this round.
    NoUpdate { round: u32, reason: String },
    /// The room's model could not be encrypted.
    NotEncrypted { reason: String },
    /// The reconstruction of this round cannot be compared with the private picture.
    NotCompared { round: u32, reason: String },
    /// The private picture cannot be shown to the class.
    NotShown { reason: String },
    /// What the relay said, in its words.
    Said(String),
}

/// From the trainer to the worker that computes on WebGPU. Each is answered by a [`FromGpu`] of its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToGpu {
    /// How long does a step of this model take, with one picture?
    Time { number: u32, architecture: Architecture },
    /// Loss and gradients of a batch.
    Differentiate {
        number: u32,
        pass: GpuPass,
        labels: Vec<u32>,
        /// Whether batch norm uses the running statistics.
        by_running: bool,
        /// Gradients of how many of the first weights.
        weights: u32,
        /// Gradients of the images too.
        images: bool,
    },
    /// The logits of a batch of so many images.
    Logits { number: u32, pass: GpuPass, batch: u32 },
}

/// What a pass starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuPass {
    pub architecture: Architecture,
    pub weights: Floats,
    pub statistics: Floats,
    pub images: Floats,
}

/// From the worker that computes on WebGPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromGpu {
    /// Its adapter is open.
    Ready,
    /// It has none. Nothing follows.
    Unusable(String),
    /// Milliseconds a step.
    Timed {
        number: u32,
        outcome: Result<f64, String>,
    },
    Differentiated {
        number: u32,
        outcome: Result<GpuGradients, String>,
    },
    Logits {
        number: u32,
        outcome: Result<Floats, String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuGradients {
    pub loss: f32,
    pub gradient: Floats,
    pub images: Floats,
    /// Of each batch norm: means, biased variances, and of how many values they are.
    pub statistics: Vec<(Floats, Floats, u32)>,
}

/// Numbers that travel as a buffer, which changes hands and is not copied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floats(#[serde(with = "buffer")] Arc<[u8]>);

impl From<&[f32]> for Floats {
    fn from(values: &[f32]) -> Self {
        Self(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }
}

impl From<Floats> for Vec<f32> {
    fn from(Floats(bytes): Floats) -> Self {
        let (values, _) = bytes.as_chunks();
        values.iter().map(|&value| f32::from_le_bytes(value)).collect()
    }
}
