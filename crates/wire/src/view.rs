//! The room as JSON: `GET /api/room`, the event stream, and the teacher's controls.

mod learning;
mod lesson;
mod tables;

use serde::{Deserialize, Serialize};
use unmask_core::{
    Aggregation, Architecture, AttackFamily, AttackMethod, ClientId, Defence, EncryptionStart, Explanation,
    InitialWeights, MembershipVerdict, OptimiserKind, Partition, PictureAddress, Rule, ThreatModel, TradeOffColumns,
    TradeOffPoint, TrainOn,
};
use unmask_lesson::{Poll, Scene};

pub use unmask_core::ClientState;

pub use self::{
    learning::{AccuracyPoint, DataView, EvaluationView},
    lesson::{LessonView, ListedView, PodiumView, PollView, WinnerView},
    tables::TablesView,
};

/// The rights of a visitor. Each role has its own secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May join with a client and see what concerns that client.
    Student,
    /// May see the room: roster, curves, reconstructions.
    Projector,
    /// May see and control the room.
    Teacher,
}

/// The body of `POST /api/session`: either a secret or a PIN.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// Secret of a role, from the fragment of a link.
    pub secret: Option<String>,
    /// Six digits shown by the projector; they grant the student's role.
    pub pin: Option<String>,
}

/// What was erased, and when: the answer of `POST /api/erase`. It names nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// In seconds since 1970.
    pub unix: u64,
    pub files: Vec<ErasedFile>,
}

/// A file that was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasedFile {
    pub name: String,
    pub bytes: u64,
}

/// Whether students' devices get through the network to the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    /// They do not, or not all.
    Problem,
    /// The relay's machine cannot tell.
    Unknown,
}

/// What the relay's machine can tell of the network. `GET /api/network` answers with a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFinding {
    /// Such as `firewall`.
    pub subject: String,
    pub verdict: Verdict,
    /// What was found, with the remedy, or with how to find out.
    pub text: String,
}

/// The visitor's session: the answer of `GET` and `POST /api/session`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionView {
    /// Absent without a valid session.
    pub role: Option<Role>,
    /// Address of the page over HTTPS; absent without a role.
    pub https_address: Option<String>,
    /// Classes for labelling a private picture: the room's [`DataView::photograph_classes`], empty without a role.
    #[serde(default)]
    pub classes: Vec<String>,
    /// Address of the federation's SuperLink, which gets the class's weights; absent without a role or federation.
    #[serde(default)]
    pub superlink: Option<String>,
}

/// The state of a room's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No round runs until the teacher starts one.
    #[default]
    Paused,
    /// Rounds should run, but no client is connected.
    Waiting,
    /// No connected client has the passphrase of the encrypted room.
    Locked,
    /// A client is encrypting the model.
    Sealing,
    /// A cohort is training.
    Training,
    /// A round has closed, and the next one follows shortly.
    Between,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClientView {
    pub id: ClientId,
    pub nickname: String,
    /// Description of the device that it trains on.
    pub device: String,
    pub state: ClientState,
    /// The last plausible loss that it reported; set when the round closes.
    pub loss: Option<f32>,
    /// Bytes sent in updates, counted on the socket.
    pub bytes_sent: u64,
    /// Number of accepted updates.
    pub updates: u32,
    /// Why its last update was refused; cleared by the next accepted one.
    pub refusal: Option<String>,
    /// Whether the class may see what leaks of its picture; clients without consent are not attacked.
    pub may_show: bool,
    /// Whether other devices of the class may get its masked update.
    #[serde(default)]
    pub lends_update: bool,
    /// Whether nobody sits at it.
    pub is_robot: bool,
    /// Number of clients that are there from the same address of another machine, itself included.
    #[serde(default)]
    pub neighbours: u32,
    /// Whether its owner agrees that the class sees its picture, and the teacher has yet to allow it.
    #[serde(default)]
    pub picture_waits: bool,
    /// Address of its own picture as a 32 x 32 PNG, while its owner shows it to the class.
    pub original: Option<PictureAddress>,
}

/// One point of the loss curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    pub round: u32,
    /// Mean of the reported losses.
    pub loss: f32,
    /// Number of averaged updates.
    pub updates: u32,
    pub defence: Defence,
}

/// The last result of one attack on the attacked client.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AttackView {
    pub attack: AttackMethod,
    /// Pages show attacks of one family side by side.
    pub family: AttackFamily,
    pub family_title: String,
    pub title: String,
    /// The attacker in a few words, such as "What a better attacker sees".
    pub attacker: String,
    #[serde(rename = "how")]
    pub explanation: Explanation,
    /// The round of the attacked update.
    pub round: u32,
    pub client: ClientId,
    pub nickname: String,
    /// The defence of that update.
    pub defence: Defence,
    /// Duration of the attack so far.
    pub seconds: f64,
    /// Address of the reconstruction as PNG, if any.
    pub picture: Option<PictureAddress>,
    /// Pictures side by side in the reconstruction: 1, or the batch.
    pub pictures: u16,
    /// Why there is no reconstruction, or a remark about it.
    pub remark: Option<String>,
    /// PSNR in dB, computed by the attacked client against its own image.
    pub psnr: Option<f32>,
    /// SSIM, computed by the attacked client.
    pub ssim: Option<f32>,
    /// SSIM of the last five scored rounds, newest last, for this client, defence and model.
    pub recent: Vec<f32>,
    pub search: Option<SearchView>,
    /// The tables that the picture was solved from, if the wall can show them.
    pub tables: Option<TablesView>,
    /// What several rounds revealed together, if the attack gathers rounds.
    pub gathered: Option<GatheredView>,
}

/// What one update of a client gives away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeakView {
    pub client: ClientId,
    /// Address of the reconstruction as PNG, if any.
    pub picture: Option<PictureAddress>,
    /// Why there is none, as a clause.
    pub remark: Option<String>,
}

/// What the sum of a few clients' updates gives away.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SumView {
    pub round: u32,
    /// The clients whose updates were added.
    pub clients: Vec<ClientId>,
    /// What the relay did to the weights from which the clients computed.
    #[serde(default)]
    pub threat: ThreatModel,
    /// Address of what an attack for one picture makes of the sum, as PNG.
    pub mixture: Option<PictureAddress>,
    /// The client that doctored weights aim at. It gets the mixture and compares it with its own picture.
    #[serde(default)]
    pub aim: Option<ClientId>,
    /// PSNR in dB and SSIM of the mixture, as that client measured them.
    #[serde(default)]
    pub score: Option<(f32, f32)>,
    /// Address of what the same attack makes of the masked values that one client sent for a secure sum, and the client.
    #[serde(default)]
    pub masked: Option<(ClientId, PictureAddress)>,
    /// The patches and class tokens that the attack has found so far, and all that are in the sum.
    #[serde(default)]
    pub tokens: Option<(usize, usize)>,
    /// Addresses of the pictures taken out of the sum, each at the place of the client whose shown picture it resembles
    /// most. Empty until the attack has ended.
    pub pictures: Vec<Option<PictureAddress>>,
    /// Number of pictures that the sum itself proves.
    pub certain: usize,
    /// Duration of the attack.
    pub seconds: Option<f64>,
    /// Why pictures are missing, or the noise was not tried, as a sentence.
    pub remark: Option<String>,
    /// Trials of the noise on the sum: how often a guesser who knows all other pictures and the weights told which of two
    /// pictures was in it, and of how many trials.
    #[serde(default)]
    pub tried: Option<(u32, u32)>,
    /// The smallest epsilon, of one round at the noise's delta, with which so many right guesses are plausible (one-sided
    /// Clopper-Pearson limit, 95 %).
    #[serde(default)]
    pub least_epsilon: Option<f64>,
}

impl SumView {
    /// Whether the attack has ended without a picture.
    pub fn has_failed(&self) -> bool {
        !self.pictures.is_empty() && self.pictures.iter().all(Option::is_none)
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SearchView {
    /// Steps done.
    pub iteration: usize,
    /// Steps in total.
    pub iterations: usize,
    /// Value of the objective that the search minimises.
    pub objective: f64,
    pub state: SearchState,
    /// Seconds by the clock since the search began.
    pub elapsed: f64,
    /// The same when its picture first became recognisable to the attacked client.
    pub recognised_after: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchState {
    #[default]
    Running,
    /// This round's budget is spent; the search continues with the next round, or while the room is paused.
    Waiting,
    /// Stopped by the teacher.
    Stopped,
    Done,
}

/// What several rounds of one client revealed together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GatheredView {
    /// Number of rounds gathered, K.
    pub rounds: u32,
    /// Share of entries that no round revealed.
    pub hidden: f64,
    /// Expected share of hidden entries, R^K.
    pub expected_hidden: f64,
    /// Equations with all coefficients known.
    pub whole_equations: usize,
    /// Equations that least squares needs, S.
    pub needed_equations: usize,
    /// Expected number of rounds until there are enough equations, if any number suffices.
    pub rounds_needed: Option<u32>,
    /// Whether gathering stopped because the model moved too far.
    pub has_drifted: bool,
}

/// What the head's gradients reveal about labels.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LabelView {
    /// The round of the inspected update.
    pub round: u32,
    pub client: ClientId,
    pub nickname: String,
    /// The defence of that update.
    pub defence: Defence,
    /// Pictures in the update.
    pub samples: u32,
    /// Number of pictures of each class, as the attack infers it; empty if it cannot tell.
    pub counts: Vec<u32>,
    /// Each class's share of the evidence, adding up to 1; empty if the attack cannot tell.
    pub shares: Vec<f64>,
    /// Why it cannot tell, or a remark about the result.
    pub remark: Option<String>,
}

impl LabelView {
    /// The class of the one picture in the update; `None` if the update does not tell it for sure.
    pub fn only_class(&self) -> Option<u16> {
        if self.defence != Defence::None || self.remark.is_some() {
            return None;
        }
        let place = self.counts.iter().position(|count| *count > 0)?;
        (self.counts.iter().sum::<u32>() == 1).then(|| u16::try_from(place).ok())?
    }
}

/// Whether a candidate picture from the teacher is the client's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MembershipView {
    /// Address of the candidate as PNG, as the model sees it; empty in recordings, which do not keep it.
    pub picture: PictureAddress,
    /// The client that shows this picture to the class; `None` for a file.
    pub owner: Option<ClientId>,
    /// Whether these are exactly the values that its owner trains on, and not a copy from a file or in another size.
    pub is_exact: bool,
    /// The round of the inspected update; 0 before any.
    pub round: u32,
    pub client: ClientId,
    pub nickname: String,
    /// The defence of that update.
    pub defence: Defence,
    /// Absent until there is one.
    pub verdict: Option<MembershipVerdict>,
    /// Share of the candidate's class token outside the span of the update's tokens: 0 for a member.
    pub residual: Option<f64>,
    /// Central 95 % of the residual under resampling.
    pub interval: Option<[f64; 2]>,
    /// Residuals of altered copies of the candidate, ascending.
    pub distractors: Vec<f64>,
    /// The verdict in words, or why there is none.
    pub remark: Option<String>,
}

/// Time limit of the attacks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BudgetView {
    /// Seconds per round for all attacks; a search has no limit while the room is paused.
    pub seconds: f64,
    /// Seconds spent on the newest update so far.
    pub spent: f64,
    /// Names of attacks that had no time left for the newest update.
    pub skipped: Vec<String>,
}

/// An event in the room; the newest comes last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Increases, so that a page can recognise new lines.
    pub number: u64,
    pub round: u32,
    pub text: String,
}

/// Choices for the next round; absent fields do not change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NextView {
    pub defence: Option<Defence>,
    pub rule: Option<Rule>,
    pub optimiser: Option<OptimiserKind>,
    #[serde(default)]
    pub aggregation: Option<Aggregation>,
    /// Samples per step.
    pub batch: Option<u16>,
    /// A model that starts with new weights, even if it is the same model; `model`, `april_block` and `classes` in the
    /// JSON.
    #[serde(flatten)]
    pub architecture: Option<Architecture>,
    pub train_on: Option<TrainOn>,
    /// The division of the shared pictures.
    pub partition: Option<Partition>,
}

/// How a room's model is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncryptionView {
    /// Whether the relay made the plain model.
    pub start: EncryptionStart,
    /// Nickname of the client that encrypted it; absent until then.
    pub sealed_by: Option<String>,
}

/// The actual guarantee of Gaussian noise after its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuaranteeView {
    pub rounds: u32,
    /// Epsilon, if finite.
    pub epsilon: Option<f64>,
    /// The delta that this epsilon holds for.
    pub delta: f64,
    /// The guarantee in words, and whether it is meaningful.
    pub sentence: String,
}

/// How often each parameter was updated, over all rounds of the current policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateCountsView {
    /// Number of rounds M.
    pub rounds: u32,
    /// Mean number of updates N per round.
    pub updates: f64,
    /// Number of parameters counted, if not all are.
    pub sampled: Option<usize>,
    pub groups: Vec<GroupCountsView>,
}

/// Update counts of one parameter group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCountsView {
    /// Such as `pos`.
    pub key: String,
    /// Such as `position embedding`.
    pub group: String,
    /// Number of parameters counted.
    pub parameters: usize,
    /// Share of zeros R in the group's masks, if there are masks.
    pub rate: Option<f64>,
    /// Share of parameters that no round updated.
    pub never: f64,
    /// Mean number of rounds that updated a parameter.
    pub mean: f64,
    /// The distribution of counts; the shares add up to 1.
    pub bins: Vec<CountBinView>,
}

/// Parameters updated in `from` to `to` rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CountBinView {
    pub from: u32,
    pub to: u32,
    /// Share of the group.
    pub share: f64,
    /// Share expected from G(f), the distribution of the number of rounds out of M in which at least one of N masks
    /// keeps a parameter.
    pub expected: f64,
}

/// The state of the room's journal on disk.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JournalView {
    /// The last round on disk.
    pub round: u32,
    /// Why the room is not on disk, with the remedy.
    pub failure: Option<String>,
}

/// The connection of a room to the SuperLink of its federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationLink {
    /// The SuperLink has not answered yet.
    #[default]
    Connecting,
    Connected,
    /// The SuperLink has stopped answering; meanwhile the room runs on its own.
    Lost,
}

/// The federation of rooms that this one belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FederationView {
    /// Address of the SuperLink, such as `http://192.168.1.5:9092`.
    pub superlink: String,
    pub link: FederationLink,
    /// The federation's current or last round in this room, if its strategy numbers rounds.
    pub round: Option<u32>,
    /// Rounds that this room has trained for it.
    pub done: u32,
    /// Rounds that this room must train for it; 0 before the first.
    pub of: u32,
    /// Whether federation work waits because the room is paused.
    #[serde(default)]
    pub is_held: bool,
    /// Why the SuperLink does not answer, or why the last work failed.
    pub remark: Option<String>,
}

/// The whole room. Model, rule, optimiser, batch and defence are the current ones.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RoomView {
    pub phase: Phase,
    /// Whether round follows round until the teacher pauses.
    pub runs_on: bool,
    /// The current or last round; 0 before the first.
    pub round: u32,
    /// Seconds until the deadline of the running round.
    pub deadline_seconds: Option<f32>,
    /// The current model; `model`, `april_block` and `classes` in the JSON.
    #[serde(flatten)]
    pub architecture: Architecture,
    /// Number of parameters P.
    pub parameters: usize,
    /// Initial weights of the current model.
    #[serde(rename = "start")]
    pub initial_weights: InitialWeights,
    /// Description of the pretrained weights, if the room has any for its model.
    pub pretrained: Option<String>,
    pub rule: Rule,
    /// The server's optimiser under FedSGD.
    pub optimiser: OptimiserKind,
    /// Samples per step.
    pub batch: u16,
    pub defence: Defence,
    pub aggregation: Aggregation,
    /// Choices that take effect with the next round.
    pub next: Option<NextView>,
    pub encryption: Option<EncryptionView>,
    pub guarantee: Option<GuaranteeView>,
    /// Update counts under the current policy, once a round has closed.
    pub update_counts: Option<UpdateCountsView>,
    /// Addresses of the page for students: over plain HTTP, and over HTTPS for WebGPU.
    pub http_address: String,
    pub https_address: String,
    /// QR code of the students' link (`https_address` with the room's key) as an SVG document.
    pub qr_svg: String,
    /// Six digits that admit a student who types the address.
    pub pin: String,
    /// Whether newcomers are turned away.
    pub is_locked: bool,
    /// Whether newcomers wait until the teacher lets them in.
    #[serde(default)]
    pub approves: bool,
    /// Number of banned clients.
    pub banned: u32,
    /// Absent if this relay keeps no journal.
    pub journal: Option<JournalView>,
    /// Absent if this room is in no federation.
    pub federation: Option<FederationView>,
    /// Least number of people in a secure sum or, without people, of robots.
    #[serde(default)]
    pub least_in_secure_sum: u32,
    /// Whether the teacher asks clients to look for doctored weights before they train.
    #[serde(default)]
    pub is_careful: bool,
    /// The class that doctored weights fish for, while the teacher lets the relay cheat.
    #[serde(default)]
    pub fishes_for: Option<u16>,
    /// How many clients noticed doctored weights in the last round in which they were asked to look, and how many could
    /// take part.
    #[serde(default)]
    pub noticed: Option<(u32, u32)>,
    /// The published list of the last round with an update.
    #[serde(default)]
    pub listed: Option<ListedView>,
    pub clients: Vec<ClientView>,
    pub losses: Vec<LossPoint>,
    /// The data set that clients can train on, if the room has one.
    pub data: Option<DataView>,
    /// The global model's accuracy on held-out pictures, or why it is not measured.
    pub evaluation: Option<EvaluationView>,
    /// Held-out accuracy by round; rounds without a measurement are left out.
    pub accuracies: Vec<AccuracyPoint>,
    /// The client under attack.
    pub target: Option<ClientId>,
    pub attacks: Vec<AttackView>,
    /// Labels that the head's gradients revealed; absent until then.
    pub label: Option<LabelView>,
    /// The candidate picture from the teacher, and whether it is the client's.
    pub membership: Option<MembershipView>,
    pub budget: BudgetView,
    /// Whether a search is requested; absent if this relay cannot search through the model.
    pub search: Option<bool>,
    /// Whether a client gave the relay the key of the current encryption.
    pub has_key: bool,
    pub lesson: LessonView,
    /// The scores of those who attacked each other's updates, once the lesson tells them.
    #[serde(default)]
    pub podium: Option<PodiumView>,
    /// The class's measurements since the model started: one point per defence, in the order of first rounds. SSIM is
    /// the median, over the newest rounds, of the attack that sees most.
    pub trade_off: Vec<TradeOffPoint>,
    /// What masks cost and leak, as robots measure it beside the class; absent if this relay measures nothing of the
    /// kind.
    #[serde(default)]
    pub columns: Option<TradeOffColumns>,
    /// What leaks of each client while the wall shows everybody.
    pub leaks: Vec<LeakView>,
    /// What the sum of a few updates gives away, in the scene that adds them.
    #[serde(default)]
    pub sum: Option<SumView>,
    pub log: Vec<LogLine>,
}

impl RoomView {
    /// Number of newcomers whom the teacher has yet to let in.
    pub fn newcomers_waiting(&self) -> u32 {
        self.clients.iter().filter(|client| client.state == ClientState::Waiting).count() as u32
    }

    /// Number of pictures that the teacher has yet to let the class see.
    pub fn pictures_waiting(&self) -> u32 {
        self.clients.iter().filter(|client| client.picture_waits).count() as u32
    }
}

/// What the teacher can do; the body of `POST /api/control`. Choices take effect with the next round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Control {
    /// Runs round after round.
    Start,
    /// Stops after the current round.
    Pause,
    /// Runs one round, then stops.
    OneRound,
    /// New initial weights, round 0, empty curve; clients stay.
    Reset,
    /// Sets the defence, such as `random-binary:0.5`.
    Defence { defence: Defence },
    /// Sets the update rule, such as `fedavg:epochs=2,rate=0.1`.
    Rule { rule: Rule },
    /// Sets how updates are combined, such as `clipped` or `secure-sum:clip=1`.
    Aggregation { aggregation: Aggregation },
    /// Sets the server's optimiser, such as `sgd:0.1`.
    Optimiser { optimiser: OptimiserKind },
    /// Sets the samples per step.
    Batch { samples: u16 },
    /// Sets what clients train on: their own picture, or their shard of the room's data set.
    TrainOn { pictures: TrainOn },
    /// Divides the data set again, such as by `dirichlet:0.3`.
    Partition { partition: Partition },
    /// Sets the initial weights and resets like [`Control::Reset`]; later resets use them too.
    Model {
        #[serde(rename = "start")]
        initial_weights: InitialWeights,
    },
    /// Seconds per round for measuring the model on held-out pictures; 0 stops it.
    EvaluationBudget { seconds: f64 },
    /// Switches between April block and standard block; resets the model.
    AprilBlock { on: bool },
    /// Attacks this client from its next update on.
    Target { client: ClientId },
    /// Lets a client back in that was left out after too many refused updates.
    Readmit { client: ClientId },
    /// Turns newcomers away or admits them again; connected clients stay and can come back.
    Lock { on: bool },
    /// Lets newcomers wait until the teacher lets them in, or lets them in at once again.
    ApproveFirst { on: bool },
    /// Lets in a client that waits, or all of them.
    Approve { client: Option<ClientId> },
    /// Lets the class see the picture of a client that waits for it, or all of them.
    ShowPicture { client: Option<ClientId> },
    /// Disconnects all clients from this client's network address.
    RemoveFrom { client: ClientId },
    /// Replaces the students' key and the PIN. Who is in the room can come back; others need the new QR code.
    NewKey,
    /// Gives a client another nickname.
    Rename { client: ClientId, nickname: String },
    /// Disconnects a client; it can come back as a new one.
    Remove { client: ClientId },
    /// Disconnects a client and turns it away when it comes back.
    Ban { client: ClientId },
    /// Lets all banned clients in again.
    LiftBans,
    /// Carries out controls in order, up to the first that is refused. No round begins between them.
    Together { controls: Vec<Control> },
    /// Seconds per round for the attacks; 0 stops them.
    AttackBudget { seconds: f64 },
    /// Starts or stops a search through the model for the picture behind the newest update.
    Search { on: bool },
    /// Forgets the rounds gathered from the attacked client, and starts again with its next update.
    GatherAnew,
    /// Acts as a client that gives the relay the key of an encrypted room; without a passphrase, forgets the key.
    Collude { passphrase: Option<String> },
    /// Asks the update about the picture that this client shows to the class.
    TestPicture { client: ClientId },
    /// Lets the relay cheat: clients get weights under which only pictures of this class change the sum
    /// before the head, and rounds take no step. `None` ends that.
    Fish { class: Option<u16> },
    /// Asks clients to look for doctored weights before they train, or no longer.
    Careful { on: bool },
    /// Forgets the candidate picture (`POST /api/candidate` sets one).
    ForgetCandidate,
    /// Goes to a scene of the lesson and a step in it.
    Lesson { scene: Scene, beat: u8 },
    /// Asks the class a question, replacing an earlier one.
    AskPoll { poll: Poll },
    /// Stops taking votes and shows the results.
    ClosePoll,
    /// Changes the model to one of [`Architecture::names`], or restarts the current one; resets like
    /// [`Control::Reset`].
    Architecture {
        #[serde(rename = "model")]
        name: String,
        april_block: bool,
        #[serde(rename = "start")]
        initial_weights: InitialWeights,
    },
}
