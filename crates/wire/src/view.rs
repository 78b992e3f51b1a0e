//! The room as JSON: what `GET /api/room` and the event stream say, and what the teacher's controls send.

mod learning;
mod lesson;

use serde::{Deserialize, Serialize};
use unmask_core::{
    Aggregation, Architecture, AttackFamily, AttackMethod, ClientId, Defence, EncryptionStart, Explanation,
    InitialWeights, MembershipVerdict, OptimiserKind, Partition, Rule, Scene, TradeOffPoint, TrainOn,
};

pub use unmask_core::ClientState;

pub use self::{
    learning::{AccuracyPoint, DataView, EvaluationView},
    lesson::{ANSWERS, Answers, LessonView, MAX_ANSWER, MAX_QUESTION, MAX_UNIT, Poll, PollError, PollView},
};

/// What somebody may see and do. Each role has a secret of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May join the room with a client of their own, and gets what concerns that client.
    Student,
    /// May see the room: roster, curves, reconstructions.
    Projector,
    /// May see and control it.
    Teacher,
}

/// The body of `POST /api/session`: one of both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The secret of a role, from the fragment of a link.
    pub secret: Option<String>,
    /// Six digits, as the projector shows them; they make a student.
    pub pin: Option<String>,
}

/// Who is asking: the answer of `GET` and `POST /api/session`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Absent without a valid session.
    pub role: Option<Role>,
    /// Where the page is served over HTTPS; absent without a role.
    pub https_address: Option<String>,
    /// The classes that a private picture can be labelled with: the room's [`DataView::photograph_classes`], empty without
    /// a role.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Address of the SuperLink that gets the class's weights where the room is in a federation; absent without a role.
    #[serde(default)]
    pub superlink: Option<String>,
}

/// Where a room is in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No round runs and none will until the teacher starts one.
    #[default]
    Paused,
    /// Rounds are to run, but nobody is there to train.
    Waiting,
    /// Clients are there, but none of them has the passphrase of the encrypted room.
    Locked,
    /// A client is encrypting the model.
    Sealing,
    /// A cohort is training.
    Training,
    /// A round has closed; the next one follows shortly.
    Between,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientView {
    pub id: ClientId,
    pub nickname: String,
    /// What it trains on, in words.
    pub device: String,
    pub state: ClientState,
    /// The last plausible loss it reported, once its round has closed.
    pub loss: Option<f32>,
    /// Bytes it has sent in updates so far, as counted on the socket.
    pub bytes_sent: u64,
    /// Updates taken from it so far.
    pub updates: u32,
    /// Why its last update was refused, until one is taken.
    pub refusal: Option<String>,
    /// Whether the class may see what leaks of its picture; nobody else is attacked.
    pub may_show: bool,
    /// Address of its own picture as PNG, 32 pixels a side, while its owner shows it to the class.
    pub original: Option<String>,
}

/// One point of the loss curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    pub round: u32,
    /// Mean of the losses its clients reported.
    pub loss: f32,
    /// Number of updates averaged.
    pub updates: u32,
    pub defence: Defence,
}

/// The last result of one attack on the client under attack.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AttackView {
    pub attack: AttackMethod,
    /// Attacks of one family solve the same problem and are shown side by side.
    pub family: AttackFamily,
    pub family_title: String,
    pub title: String,
    /// Which attacker it is, such as "What a better attacker sees".
    pub attacker: String,
    #[serde(rename = "how")]
    pub explanation: Explanation,
    /// The round whose update was attacked.
    pub round: u32,
    /// The client attacked.
    pub client: ClientId,
    pub nickname: String,
    /// What that update was made under.
    pub defence: Defence,
    /// Time the attack took; of a search, so far.
    pub seconds: f64,
    /// Address of the reconstruction as PNG, if there is one.
    pub picture: Option<String>,
    /// Pictures side by side in it: 1, or those of a batch.
    pub pictures: u16,
    /// Why there is no reconstruction, or what to know about it.
    pub remark: Option<String>,
    /// In dB, computed by the attacked client against its own image.
    pub psnr: Option<f32>,
    /// From the same client.
    pub ssim: Option<f32>,
    /// SSIM of the last five rounds that were scored, newest last: of this client, under this defence and this model.
    pub recent: Vec<f32>,
    pub search: Option<SearchView>,
    /// What several rounds gave away together, if it gathers them.
    pub gathered: Option<GatheredView>,
}

/// A search through the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SearchView {
    /// Steps done.
    pub iteration: usize,
    /// Steps to do in all.
    pub iterations: usize,
    /// What is being made small.
    pub objective: f64,
    /// Whether it still runs: it may be stopped, done, or out of its budget until the next round.
    pub state: SearchState,
}

/// Whether a search runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchState {
    #[default]
    Running,
    /// This round's budget is spent; it goes on with the next round, or while the room is paused.
    Waiting,
    /// By the teacher.
    Stopped,
    Done,
}

/// What several rounds of one client gave away together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GatheredView {
    /// Rounds gathered, K.
    pub rounds: u32,
    /// Share of entries that no round has shown.
    pub hidden: f64,
    /// The share expected to be hidden, R^K.
    pub expected_hidden: f64,
    /// Equations that have all their coefficients.
    pub whole_equations: usize,
    /// As many are needed for least squares, S.
    pub needed_equations: usize,
    /// After how many rounds that many are expected, if ever.
    pub rounds_needed: Option<u32>,
    /// Whether gathering has stopped since the model has moved too far.
    pub has_drifted: bool,
}

/// What the head's gradients tell about labels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LabelView {
    /// The round whose update was read.
    pub round: u32,
    pub client: ClientId,
    pub nickname: String,
    /// What that update was made under.
    pub defence: Defence,
    /// Pictures in the update.
    pub samples: u32,
    /// How many pictures of each class, by the attack; empty where it cannot tell.
    pub counts: Vec<u32>,
    /// What each class has of the evidence, adding up to 1; empty where it cannot tell.
    pub shares: Vec<f64>,
    /// Why it cannot tell, or what to know about it.
    pub remark: Option<String>,
}

/// Whether a picture that the teacher dropped was the client's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MembershipView {
    /// Address of the candidate as PNG, as the model sees it.
    pub picture: String,
    /// The round whose update was asked; 0 before any.
    pub round: u32,
    pub client: ClientId,
    pub nickname: String,
    /// What that update was made under.
    pub defence: Defence,
    /// Absent as long as there is none.
    pub verdict: Option<MembershipVerdict>,
    /// The share of the candidate's class token outside of the span of those in the update: 0 for a member.
    pub residual: Option<f64>,
    /// Central 95 % of the residual under resampling.
    pub interval: Option<[f64; 2]>,
    /// Residuals of altered copies of it, ascending.
    pub distractors: Vec<f64>,
    /// The verdict in words, or why there is none.
    pub remark: Option<String>,
}

/// How much time the attacks may take.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BudgetView {
    /// Seconds a round, over all attacks; while the room is paused a search is not limited.
    pub seconds: f64,
    /// Spent on the newest update so far.
    pub spent: f64,
    /// What was left out of the newest update for want of time, by name.
    pub skipped: Vec<String>,
}

/// Something that happened, newest last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Counts up, so that a page can tell new lines from old ones.
    pub number: u64,
    pub round: u32,
    pub text: String,
}

/// What was chosen for the next round; absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NextView {
    pub defence: Option<Defence>,
    pub rule: Option<Rule>,
    pub optimiser: Option<OptimiserKind>,
    /// Samples per step.
    pub batch: Option<u16>,
    /// A model that begins with new weights, be it another one or the same; in the JSON `model`, `april_block` and
    /// `classes`.
    #[serde(flatten)]
    pub architecture: Option<Architecture>,
    pub train_on: Option<TrainOn>,
    /// How the shared pictures are divided.
    pub partition: Option<Partition>,
}

/// How a room's model is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionView {
    /// Whether the relay made the model, and so knows it in the plain.
    pub start: EncryptionStart,
    /// Nickname of the client that encrypted it; absent until one has.
    pub sealed_by: Option<String>,
}

/// What Gaussian noise really guarantees after the rounds that ran under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuaranteeView {
    pub rounds: u32,
    /// Epsilon, if there is a finite one.
    pub epsilon: Option<f64>,
    /// The delta it is for.
    pub delta: f64,
    /// The same in words, and whether it means anything.
    pub sentence: String,
}

/// How often each parameter was updated, over all rounds of the policy in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateCountsView {
    /// Number of rounds M.
    pub rounds: u32,
    /// Mean number of updates N in a round.
    pub updates: f64,
    /// Number of parameters counted, where it is not all of them.
    pub sampled: Option<usize>,
    pub groups: Vec<GroupCountsView>,
}

/// One parameter group's update counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCountsView {
    /// Such as `pos`.
    pub key: String,
    /// Such as `position embedding`.
    pub group: String,
    /// How many are counted.
    pub parameters: usize,
    /// Share of zeros R in its masks, where there are masks.
    pub rate: Option<f64>,
    /// Share of its parameters that no round updated.
    pub never: f64,
    /// Mean number of rounds that updated a parameter.
    pub mean: f64,
    /// The distribution; shares add up to 1.
    pub bins: Vec<CountBinView>,
}

/// Parameters that were updated in `from` to `to` rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CountBinView {
    pub from: u32,
    pub to: u32,
    /// Their share of the group.
    pub share: f64,
    /// The share that G(f) expects: the number of rounds out of M in which at least one of N masks keeps a parameter.
    pub expected: f64,
}

/// How far the room is on disk.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JournalView {
    /// The last round that is there.
    pub round: u32,
    /// Why the room is not on disk, in words with the remedy.
    pub failure: Option<String>,
}

/// How a room stands with the SuperLink of its federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationLink {
    /// It has not answered yet.
    #[default]
    Connecting,
    Connected,
    /// It answers no more; the room goes on by itself until it does.
    Lost,
}

/// The federation of rooms that this one is a member of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FederationView {
    /// Address of the SuperLink, such as `http://192.168.1.5:9092`.
    pub superlink: String,
    pub link: FederationLink,
    /// The federation's round that this room trained for last, or trains for, where its strategy numbers them.
    pub round: Option<u32>,
    /// Rounds of this room that were done for it.
    pub done: u32,
    /// Rounds of this room that it is to have; 0 before the first.
    pub of: u32,
    /// Whether work for it waits because the room is paused.
    #[serde(default)]
    pub is_held: bool,
    /// Why the SuperLink does not answer, or why the last work was not done, in words.
    pub remark: Option<String>,
}

/// The whole room. What is said of model, rule, optimiser, batch and defence is what is in force.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RoomView {
    pub phase: Phase,
    /// The round that runs, or the last one that ran; 0 before the first.
    pub round: u32,
    /// Seconds until the round's deadline, while one runs.
    pub deadline_seconds: Option<f32>,
    /// The model in force; in the JSON `model`, `april_block` and `classes`.
    #[serde(flatten)]
    pub architecture: Architecture,
    /// Number of parameters P.
    pub parameters: usize,
    /// Of the model in force.
    #[serde(rename = "start")]
    pub initial_weights: InitialWeights,
    /// What the pretrained weights are, in words for people, where the room has some for its model.
    pub pretrained: Option<String>,
    pub rule: Rule,
    /// The server's optimiser under FedSGD.
    pub optimiser: OptimiserKind,
    /// Samples per step.
    pub batch: u16,
    pub defence: Defence,
    /// How updates are averaged.
    pub aggregation: Aggregation,
    /// What was chosen and is not in force until the next round.
    pub next: Option<NextView>,
    pub encryption: Option<EncryptionView>,
    pub guarantee: Option<GuaranteeView>,
    /// How often each parameter was updated under the policy in force, once a round has closed.
    pub update_counts: Option<UpdateCountsView>,
    /// Where students open the page over plain HTTP, and for WebGPU over HTTPS.
    pub http_address: String,
    pub https_address: String,
    /// The QR code of the students' link, which is `https_address` with the room's key, as an SVG document.
    pub qr_svg: String,
    /// Six digits that let whoever types the address in.
    pub pin: String,
    /// Whether newcomers are turned away.
    pub is_locked: bool,
    /// How many were banned.
    pub banned: u32,
    /// Absent where this relay keeps no journal.
    pub journal: Option<JournalView>,
    /// Absent where this room is in no federation.
    pub federation: Option<FederationView>,
    pub clients: Vec<ClientView>,
    pub losses: Vec<LossPoint>,
    /// The data set that clients may be asked to train on, if the room has one.
    pub data: Option<DataView>,
    /// How well the global model does on held-out pictures, or why that is not measured.
    pub evaluation: Option<EvaluationView>,
    /// Held-out accuracy by round; rounds that were not measured are left out.
    pub accuracies: Vec<AccuracyPoint>,
    /// The client under attack.
    pub target: Option<ClientId>,
    pub attacks: Vec<AttackView>,
    /// What the head's gradients told about the labels, once they did.
    pub label: Option<LabelView>,
    /// The picture that the teacher dropped, and whether it was the client's.
    pub membership: Option<MembershipView>,
    pub budget: BudgetView,
    /// Whether this relay can search through the model, and whether it is asked to.
    pub search: Option<bool>,
    /// Whether a client has given the relay the key of the encryption in force.
    pub has_key: bool,
    pub lesson: LessonView,
    /// What the class has measured since the model began: one point for each defence that ran, in the
    /// order of their first rounds. An SSIM is the median of the attack that sees most, over the newest rounds.
    pub trade_off: Vec<TradeOffPoint>,
    /// The same of robots that train beside the class, under several defences at once; an SSIM is the mean over two photographs.
    #[serde(default)]
    pub shadow: Vec<TradeOffPoint>,
    pub log: Vec<LogLine>,
}

/// What the teacher can do; the body of `POST /api/control`. Choices take effect with the next round.
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
    /// Choose the defence, such as `random-binary:0.5`.
    Defence { defence: Defence },
    /// Choose the update rule, such as `fedavg:epochs=2,rate=0.1`.
    Rule { rule: Rule },
    /// Choose the server's optimiser, such as `sgd:0.1`.
    Optimiser { optimiser: OptimiserKind },
    /// Choose the samples per step.
    Batch { samples: u16 },
    /// Choose what clients train on: their own picture, or their shard of the room's data set.
    TrainOn { pictures: TrainOn },
    /// Divide the data set anew, such as by `dirichlet:0.3`.
    Partition { partition: Partition },
    /// New weights, round 0, empty curve, as [`Control::Reset`] does; later resets begin the same way.
    Model {
        #[serde(rename = "start")]
        initial_weights: InitialWeights,
    },
    /// Time for measuring the model on held-out pictures, in seconds a round; 0 stops it.
    EvaluationBudget { seconds: f64 },
    /// Give the model the April block, or the standard one; resets the model.
    AprilBlock { on: bool },
    /// Attack this client, from its next update on.
    Target { client: ClientId },
    /// Take a client in again that was left out after too many refused updates.
    Readmit { client: ClientId },
    /// Turn newcomers away, or let them in again; who is there stays, and can come back.
    Lock { on: bool },
    /// Give a client another nickname.
    Rename { client: ClientId, nickname: String },
    /// Disconnect a client; it may come again as somebody new.
    Remove { client: ClientId },
    /// Disconnect a client and turn it away when it comes again.
    Ban { client: ClientId },
    /// Let everybody in again who was banned.
    LiftBans,
    /// Time for the attacks, in seconds a round; 0 stops them.
    AttackBudget { seconds: f64 },
    /// Search through the model for the picture behind the newest update, or stop.
    Search { on: bool },
    /// Forget the rounds gathered from the client under attack, and begin with its next update.
    GatherAnew,
    /// Play the client that gives the relay the key of an encrypted room; without a passphrase, forget the key.
    Collude { passphrase: Option<String> },
    /// Forget the picture that was dropped (`POST /api/candidate` takes one).
    ForgetCandidate,
    /// Go to a scene of the lesson, and to a step in it.
    Lesson { scene: Scene, beat: u8 },
    /// Ask the class, in place of an earlier question.
    AskPoll { poll: Poll },
    /// Take no more votes, and show those that came.
    ClosePoll,
    /// Begin with another model, or the same one anew: one of [`Architecture::names`]; resets, as [`Control::Reset`] does.
    Architecture {
        #[serde(rename = "model")]
        name: String,
        april_block: bool,
        #[serde(rename = "start")]
        initial_weights: InitialWeights,
    },
}
