//! The messages between page and worker. Both come from one build, so the format needs no version.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, AttackMethod, Defence, Partition, Rule};
use unmask_wire::LessonState;

/// The side of the square picture that the page gives to the worker, which resizes it to the model's input.
pub const PICTURE_SIDE: u32 = 256;

/// A picture in a canvas's format. `postMessage` transfers its buffer instead of copying it.
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

/// Makes serde treat bytes as bytes, not as a sequence of numbers.
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
    /// Parses the query's `device=cpu` or `device=webgpu`; anything else is [`Self::Auto`].
    pub fn from_query(value: Option<&str>) -> Self {
        match value {
            Some("cpu") => Self::Cpu,
            Some("webgpu") => Self::WebGpu,
            _ => Self::Auto,
        }
    }
}

/// What the student does about rounds whose weights look doctored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Caution {
    /// The tab looks at the weights, and trains.
    #[default]
    Weights,
    /// It also looks at what they let its picture teach, and trains.
    Pictures,
    /// It looks at both, and leaves such rounds out.
    Refuse,
}

/// Messages from the page to the worker. Pictures and passphrases never leave this device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Joins the room and trains until told otherwise.
    Join {
        /// The room's WebSocket address.
        socket: String,
        nickname: String,
        /// The private picture, a square with a side of [`PICTURE_SIDE`].
        picture: Rgba,
        label: u8,
        device: DeviceChoice,
        /// Whether the class may see what leaks from this picture.
        may_show: bool,
        /// Whether other students' devices may get its masked numbers and attack them.
        may_lend: bool,
        /// The room's passphrase, if the student has typed one.
        passphrase: Option<String>,
        /// The ticket of [`Connection::Online`], to rejoin as the same client after a reload.
        ticket: Option<[u8; 16]>,
    },
    /// Answers [`FromWorker::AskPassphrase`]; as typed.
    Passphrase(String),
    /// Asks the room's model to classify a picture, now and with the weights of every later round.
    Classify {
        /// Increases with each picture, so that answers about an earlier one can be recognised.
        number: u32,
        /// A square with a side of [`PICTURE_SIDE`].
        picture: Rgba,
    },
    /// Sets whether the class may see what leaks from the private picture and attack its masked numbers, replacing the
    /// values in [`Self::Join`].
    Consent { may_show: bool, may_lend: bool },
    /// What to do about rounds whose weights look doctored, from the next one on.
    Caution(Caution),
    /// Asks what leaks of the private picture under a random mask with this rate, in percent. The answer is
    /// [`FromWorker::OwnMask`], for the last rate asked for.
    TryMask { percent: u8 },
    /// The page was hidden or became visible again.
    Visibility { is_hidden: bool },
    /// Asks to rejoin the rounds, after [`FromWorker::SittingOut`].
    Return,
    /// Checks immediately whether the relay is there, since this device may have slept or changed its network.
    Check,
    /// Closes the socket and stops.
    Leave,
    /// Answers the class's question of that number with the answer's index, from 0, or with a number.
    Vote { poll: u32, answer: u16 },
    /// Tells the room that the student now sees the attack that knows the gaps. Later guesses earn less.
    KnowGaps { poll: u32 },
    /// Shows the class the private picture, 32 pixels a side. The answer is [`FromWorker::Original`].
    ShowOriginal,
    /// Stops showing it.
    HideOriginal,
    /// Asks the room to delete this student's data, and leaves. [`Connection::Closed`] follows.
    Forget,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    Connecting,
    /// The teacher has to let this tab in.
    Waiting,
    Online {
        /// As the room shows it.
        nickname: String,
        /// Lets this client rejoin.
        ticket: Option<[u8; 16]>,
    },
    /// The socket dropped; the worker reconnects automatically.
    Retrying {
        /// Until the next attempt.
        seconds: u32,
    },
    /// Closed for good.
    Closed {
        /// For people to read.
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `WebGPU` or `CPU`.
    pub name: String,
    /// Why the worker chose it, in a sentence.
    pub reason: String,
}

/// The current or last round of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    pub round: u32,
    /// The name of the model preset.
    pub model: String,
    pub defence: Defence,
    pub rule: Rule,
    /// The number of shared pictures in the step; `None` if it uses the private one.
    pub shared: Option<u32>,
    /// Whether so few updates make a step that another client could compute this tab's.
    pub is_exposed: bool,
    /// Whether the update leaves only as a part of a secure sum.
    pub is_summed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassphraseRequest {
    /// What it is needed for, or what is wrong with the one given; for people to read.
    pub reason: String,
    /// Whether the last one given does not unlock this room's model.
    pub is_wrong: bool,
}

/// An update that this tab has sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentUpdate {
    pub round: u32,
    /// The loss on the update's pictures, before this round's step.
    pub loss: f32,
    /// The duration of the step.
    pub milliseconds: f64,
    pub bytes: u64,
    /// The size of the same update without a defence.
    pub plain_bytes: u64,
    /// The number of pictures in the step.
    pub samples: u32,
    pub rule: Rule,
    pub groups: Vec<GroupView>,
}

/// The update of one parameter group before and after the defence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// A name for people, such as `patch embedding`.
    pub title: String,
    pub values: usize,
    /// The share of zeros in the update sent, 0 to 1.
    pub zeros: f32,
    /// L2 norm before the defence.
    pub norm_before: f32,
    /// L2 norm of the update sent.
    pub norm_after: f32,
    /// The norm of what the defence added, divided by the norm before the defence; `None` if it adds nothing.
    pub noise: Option<f32>,
    /// Whether the update sent is encrypted.
    pub ciphertext: bool,
    /// A piece of the plain update: blue below zero, red above, white at zero.
    pub before: Option<Rgba>,
    /// The same piece of the update sent; masked values are grey.
    pub after: Option<Rgba>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedRound {
    pub round: u32,
    /// The cohort's mean loss.
    pub loss: Option<f32>,
    /// The number of updates averaged.
    pub updates: u32,
}

/// What looks doctored in a round's weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundDoubts {
    pub round: u32,
    /// At most one of each kind.
    pub doubts: Vec<Doubt>,
    /// Whether the tab left the round out.
    pub is_refused: bool,
}

/// A trace of doctored weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doubt {
    /// The weights are those of another model.
    Length,
    /// A layer moved further than the announced step can move it.
    Jump { layer: String },
    /// A layer holds numbers that training does not reach.
    Size { layer: String },
    /// The model is sure of a class before it sees a picture.
    Biases,
    /// Only one class would be learnt.
    Rows,
    /// No picture would teach the model anything.
    ZeroHead,
    /// So many of the pictures teach it nothing.
    Flat { flat: u32, pictures: u32 },
}

/// The published list of a round's updates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListedRound {
    pub round: u32,
    /// Its root and the weights that this tab got as four words; `None` if it got none in this round.
    pub words: Option<String>,
    /// The root in hexadecimal.
    pub root: String,
    /// The number of updates in it.
    pub updates: u32,
    /// Whether this tab's update is in it; `None` if the tab sent none in this round.
    pub is_in: Option<bool>,
}

/// This tab's shard of the room's data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardView {
    /// The name of the data set, for people.
    pub data: String,
    pub partition: Partition,
    /// The names of the classes, by label.
    pub classes: Vec<String>,
    /// The number of pictures in each class.
    pub counts: Vec<u32>,
    /// Some of the pictures, ordered by class, in proportion to the shard.
    pub contact_sheet: Option<Rgba>,
}

/// A picture that was reconstructed from an update of this client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reconstruction {
    pub round: u32,
    pub attack: AttackMethod,
    pub picture: Option<Rgba>,
    /// `None` if the update was made too long ago, or is a mixture of several pictures.
    pub comparison: Option<Comparison>,
}

/// A comparison with the picture that the update was made from, or with one of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// That picture as the model saw it.
    pub own: Option<Rgba>,
    /// Whether it is the private picture rather than a shared one.
    pub is_private: bool,
    /// In dB.
    pub psnr: f32,
    pub ssim: f32,
}

/// The room's model's prediction for a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The room had these weights after this round; 0 before the first.
    pub after: u32,
    /// Whether the next round trains on shared pictures, whose classes have their own names.
    pub is_shared: bool,
    pub classes: usize,
    /// The most probable classes, best first: label and probability.
    pub best: Vec<(usize, f32)>,
    /// The picture as the model sees it.
    pub input: Option<Rgba>,
}

/// This tab's attack on its own update. Nobody else sees its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnAttack {
    pub round: u32,
    pub defence: Defence,
    /// The time for all attacks together.
    pub milliseconds: f64,
    /// One for each closed-form attack that made a picture, the closest first.
    pub reconstructions: Vec<Reconstruction>,
    /// Why there is no reconstruction, if so; for people to read.
    pub remark: Option<String>,
    /// What the attack on batches found, if it was tried: on two pictures of a small model.
    pub batch: Option<OwnBatch>,
    /// Whether it was not tried because the last time took long. What it found then still stands.
    pub batch_waits: bool,
}

/// The pictures of this tab's own batch, as the attack found them in the update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnBatch {
    pub round: u32,
    /// Number of pictures in the update.
    pub of: u32,
    /// How many of the first ones found are certain, by the attack's own evidence.
    pub certain: u32,
    pub found: Vec<Reconstruction>,
    pub seconds: f64,
    /// Why no picture came back, or why the attack ended early; for people to read.
    pub remark: Option<String>,
}

/// What the naive attack sees of this tab's own picture under a mask that the student tries. Nobody else sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnMask {
    pub round: u32,
    /// The mask's rate.
    pub percent: u8,
    /// `None` if the attack made no picture.
    pub found: Option<Reconstruction>,
}

/// The result of an attack on another client's masked numbers, which this student has on loan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoanResult {
    /// The question that the loan is for.
    pub poll: u32,
    /// Whether the attack knows the mask's gaps. The first result of a loan is that of the attack that does not.
    pub knows_gaps: bool,
    pub attack: LoanAttack,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LoanAttack {
    Picture(Rgba),
    /// This device does not have the weights that the numbers were made from.
    NoWeights,
    /// Why there is no picture; for people to read.
    Failed(String),
}

/// Messages from the worker to the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The worker has loaded.
    Ready,
    Device(Device),
    Connection(Connection),
    /// Whether the relay has been silent for too long on an open socket. An update on its way may delay the relay's
    /// answer.
    Silent(bool),
    /// A round's plan has arrived and training has begun.
    Training(Training),
    /// A shard of the room's data set has arrived and replaces any earlier one.
    Shard(ShardView),
    /// The answer to [`ToWorker::Classify`].
    Classified {
        /// The number given with the picture.
        number: u32,
        /// The error says why there is no prediction; for people to read.
        prediction: Result<Prediction, String>,
    },
    /// The room's model is encrypted and this tab cannot read it. A later [`Self::Training`] withdraws the question.
    AskPassphrase(PassphraseRequest),
    /// This tab has encrypted the room's model and sent it back.
    ModelEncrypted,
    Sent(SentUpdate),
    /// The relay leaves this tab out of the rounds until it asks to come back. A later [`Self::Training`] cancels this.
    SittingOut,
    Closed(ClosedRound),
    /// What looks doctored in a round's weights. [`Self::Sent`] of another round withdraws it.
    Doubts(FoundDoubts),
    Listed(ListedRound),
    Attacked(Reconstruction),
    /// The state of the lesson, sent after [`Connection::Online`] and on every change.
    Lesson(LessonState),
    /// Whether the class sees the private picture, or whether it waits, with what leaks from it, for the teacher.
    Original {
        is_shown: bool,
        waits: bool,
    },
    /// The result of this tab's own attack on the update just sent.
    OwnAttack(OwnAttack),
    OwnMask(OwnMask),
    Loan(LoanResult),
    /// There is no update for this student, or no more.
    LoanEnded {
        poll: u32,
    },
    /// Whose numbers the loan was, as a position among the suspects, and the points for finding out.
    Scored {
        poll: u32,
        owner: u16,
        points: u8,
    },
    Notice(Notice),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// This tab has encrypted the room's model and sent it back.
    Encrypted,
    /// The connection was lost before the room confirmed that it had deleted the student's data.
    NotForgotten,
    /// The room could not be asked to delete the data, since there was no connection.
    NotAsked,
    /// The teacher changed the student's nickname.
    Renamed { nickname: String },
    /// No update was sent in this round.
    NoUpdate { round: u32, reason: String },
    /// The room's model could not be encrypted.
    NotEncrypted { reason: String },
    /// The reconstruction of this round cannot be compared with the private picture.
    NotCompared { round: u32, reason: String },
    /// The private picture cannot be shown to the class.
    NotShown { reason: String },
    /// The relay's own words.
    Said(String),
}

/// Messages from the trainer to the WebGPU worker. A [`FromGpu`] with the same number answers each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToGpu {
    /// Asks how long a step of this model takes with one picture.
    Time { number: u32, architecture: Architecture },
    /// Asks for the loss and gradients of a batch.
    Differentiate {
        number: u32,
        pass: GpuPass,
        labels: Vec<u32>,
        /// Whether batch norm uses the running statistics.
        by_running: bool,
        /// The number of weights, from the first, to compute gradients of.
        weights: u32,
        /// Whether to compute the gradients of the images, too.
        images: bool,
    },
    /// Asks for the logits of a batch with this number of images.
    Logits { number: u32, pass: GpuPass, batch: u32 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuPass {
    pub architecture: Architecture,
    pub weights: Floats,
    pub statistics: Floats,
    pub images: Floats,
}

/// Messages from the WebGPU worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromGpu {
    Ready,
    /// There is no usable adapter; no further messages follow.
    Unusable(String),
    /// Milliseconds for one step.
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
    /// For each batch norm: means, biased variances, and the number of values behind them.
    pub statistics: Vec<(Floats, Floats, u32)>,
}

/// Numbers in a buffer that `postMessage` transfers instead of copying.
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
