//! The client's side of the protocol.

use std::sync::Arc;

use unmask_core::{AttackMethod, ClientId, EncryptionStart, MaskSeed, ModelDescription};
use unmask_defence::{KeyError, ProtectError, ProtectedUpdate, commitment, published::SentContent};
use unmask_secagg::{Message, Refusal};
use unmask_wire::{
    Assembler, ClientMessage, EncryptionPlan, Framer, LessonState, ORIGINAL_SIDE, OriginalError, RelayMessage,
    SeedDraw, ShardError, SumPlan, SumTask, WireError, check_original, frames,
};

use crate::{
    Caution, Doubt, GroupComparison, ListedRound, Loan, LocalUpdate, PrivatePicture, ReconstructionScore,
    RoundPictures, RoundPlan, SealTask, Shard, compare_groups,
    history::PictureHistory,
    keys::{Keys, Locked},
    listed::SentUpdates,
    pictures::PrivatePictures,
    plan::{check_len, known_architecture},
    summing::{Adding, LeftSum},
    watch::{PlanWatch, reason},
};

/// Largest plan a client accepts, in parameters: larger than every preset, and within a phone's memory.
const MAX_PARAMETERS: usize = 32_000_000;
/// Longest nickname, device or reason sent, in characters.
const MAX_TEXT: usize = 200;

/// An event for the user interface or the log.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The room let this client in, under the given nickname.
    Welcome { client: ClientId, nickname: String },
    /// The teacher lets people in one by one, and has yet to let this client in.
    Waiting,
    /// The teacher changed the nickname.
    Renamed { nickname: String },
    /// Left out of the rounds after two without an answer, until the client asks to come back.
    SittingOut,
    /// The client's share of the room's data set has arrived; [`Client::shard`] keeps it. It is not used before a round
    /// on shared pictures.
    Shard(Arc<Shard>),
    /// The relay accepted the update.
    Accepted { round: u32 },
    /// A round closed: mean loss of the cohort, and number of averaged updates.
    Closed { round: u32, loss: Option<f32>, updates: u32 },
    /// The published list of a round's updates.
    Listed(ListedRound),
    /// The relay's reconstruction from this client's update; the picture is `[side, side, 3]` in `[0, 1]`.
    Reconstruction { round: u32, attack: AttackMethod, side: usize, picture: Vec<f32> },
    /// The current scene of the lesson.
    Lesson(LessonState),
    /// Another client's masked update to attack, or why this client cannot use the one that came.
    Loan { poll: u32, loan: Result<Box<Loan>, String> },
    /// That update was withdrawn: drop what was made from it.
    LoanEnded { poll: u32 },
    /// Whose update it was, as a position among the suspects, and the points for finding out.
    Scored { poll: u32, owner: u16, points: u8 },
    /// Whether the class sees this client's own picture.
    Original { is_shown: bool, waits: bool },
    /// A request was refused or cannot be done.
    Refused { reason: String },
    /// The relay closes the connection for good.
    Goodbye { reason: String },
}

/// What to do after a frame.
#[derive(Debug, Clone)]
pub enum Action {
    /// Send these frames in order.
    Send(Vec<Vec<u8>>),
    /// Train. Of several waiting plans only the newest counts.
    Train(Box<RoundPlan>),
    /// Encrypt the room's model with [`Client::seal`] and send it back.
    Seal(Box<SealTask>),
    /// Ask for the room's passphrase and pass it to [`Client::set_passphrase`]. It takes effect in the next round.
    AskPassphrase {
        /// Send these frames immediately: the relay must not wait until a person has typed.
        frames: Vec<Vec<u8>>,
        /// Why the passphrase is needed, or what is wrong with the current one, in words for people.
        reason: String,
        /// Whether there is a passphrase, but not the room's.
        wrong: bool,
    },
    Report(ClientEvent),
}

/// An update ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingUpdate {
    pub frames: Vec<Vec<u8>>,
    /// The content of the frames, except batch norm's statistics. `None` if the update leaves as a part of a secure sum.
    pub update: Option<ProtectedUpdate>,
    pub bytes: usize,
    /// Size of an unprotected update's values, in bytes.
    pub plain_bytes: usize,
    pub groups: Vec<GroupComparison>,
}

/// The relay sent something that this client cannot use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Shard(#[from] ShardError),
    #[error("a reconstruction of side {side} came with {values} values instead of {}", side * side * 3)]
    Picture { side: usize, values: usize },
    #[error("a plan came before this client said hello")]
    NoHello,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShowError {
    #[error(transparent)]
    Original(#[from] OriginalError),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Why a result of training could not be prepared for sending. Nothing is sent then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateFailure {
    #[error(transparent)]
    Protect(#[from] ProtectError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("this client cannot add its update to the secure sum: {0}")]
    Sum(String),
}

/// Why a plan or a seal is not carried out.
enum Obstacle {
    /// A reason for the relay.
    Unable(String),
    /// The room's passphrase is missing.
    Ask { reason: &'static str, wrong: bool },
}

impl Obstacle {
    fn locked(locked: Locked, missing: &'static str) -> Self {
        match locked {
            Locked::Missing => Self::Ask { reason: missing, wrong: false },
            Locked::Wrong => Self::Ask {
                reason: "the others in this room have another passphrase; ask for the right one and type it in",
                wrong: true,
            },
            Locked::Broken(error) => Self::Unable(error.to_string()),
        }
    }
}

/// One client of one room.
#[derive(Debug)]
pub struct Client {
    nickname: String,
    device: String,
    /// Whether the class may see what leaks of the client's pictures.
    may_show: bool,
    /// Whether other clients may get its masked updates and attack them.
    may_lend: bool,
    /// Whether nobody sits at it.
    is_robot: bool,
    /// This client's number in the room.
    id: Option<ClientId>,
    ticket: Option<[u8; 16]>,
    /// The nonce of the next mask's seed, once the relay has been told its commitment.
    nonce: Option<[u8; 32]>,
    /// What the first hello committed to. The commitment changes with each mask, also with one that got lost.
    page: Option<[u8; 32]>,
    keys: Keys,
    /// The secure sum that it has sent keys for.
    adding: Option<Adding>,
    /// Round and policy of the last sum that it helped to make known.
    summed: Option<(u32, u32)>,
    pictures: PrivatePictures,
    history: PictureHistory,
    shard: Option<Arc<Shard>>,
    watch: PlanWatch,
    /// Whether its last answer to a plan was a [refusal](Self::refuse).
    has_refused: bool,
    sent: SentUpdates,
    assembler: Assembler,
}

impl Client {
    /// A client that asks for `nickname` and trains on `device` (a description).
    pub fn new(nickname: &str, device: &str) -> Self {
        Self {
            nickname: cut(nickname),
            device: cut(device),
            may_show: false,
            may_lend: false,
            is_robot: false,
            id: None,
            ticket: None,
            nonce: None,
            page: None,
            keys: Keys::default(),
            adding: None,
            summed: None,
            pictures: PrivatePictures::default(),
            history: PictureHistory::default(),
            shard: None,
            watch: PlanWatch::default(),
            has_refused: false,
            sent: SentUpdates::default(),
            assembler: assembler(),
        }
    }

    /// Adds the client's own pictures, which it trains on in turn. They never leave the client.
    #[must_use]
    pub fn with_pictures(mut self, pictures: Vec<PrivatePicture>) -> Self {
        self.pictures = PrivatePictures::new(pictures);
        self
    }

    /// Sets whether the class may see what leaks of these pictures, and whether other clients may get the masked updates.
    /// The default is no.
    #[must_use]
    pub fn with_consent(mut self, may_show: bool, may_lend: bool) -> Self {
        (self.may_show, self.may_lend) = (may_show, may_lend);
        self
    }

    /// Says that nobody sits at this client. The class sees its votes apart from those of people.
    #[must_use]
    pub fn as_robot(mut self, is_robot: bool) -> Self {
        self.is_robot = is_robot;
        self
    }

    /// Comes back as the client that received this ticket, if the room still knows it.
    #[must_use]
    pub fn resuming(mut self, ticket: [u8; 16]) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// The ticket with which this client can come back, once the room has let it in. Anybody with the ticket can pose
    /// as this client.
    pub fn ticket(&self) -> Option<[u8; 16]> {
        self.ticket
    }

    /// Keeps the room's passphrase in memory, replaces an earlier one, or forgets it. The passphrase is never sent, and
    /// neither is anything that reveals it, except by guessing.
    pub fn set_passphrase(&mut self, passphrase: Option<String>) {
        self.keys.set(passphrase);
    }

    /// Sets what this client does about plans that look doctored, from the next plan on. The default is nothing.
    pub fn set_caution(&mut self, caution: Caution) {
        self.watch.set_caution(caution);
    }

    pub fn caution(&self) -> Caution {
        self.watch.caution()
    }

    pub fn shard(&self) -> Option<&Arc<Shard>> {
        self.shard.as_ref()
    }

    /// The first message on every new socket; after a dropped one it asks to come back as the same client. Strings are
    /// truncated so that this message and those below always fit. `fresh` must come from the operating system: the seed
    /// of the next mask is drawn from it.
    pub fn hello(&mut self, fresh: [u8; 32]) -> Result<Vec<Vec<u8>>, WireError> {
        self.assembler = assembler();
        let (nickname, device) = (self.nickname.clone(), self.device.clone());
        let (resume, may_show, may_lend, is_robot) = (self.ticket, self.may_show, self.may_lend, self.is_robot);
        // A round that runs on may wait for a mask from the nonce of before.
        let commitment = commitment(self.nonce.get_or_insert(fresh));
        let page = *self.page.get_or_insert(commitment);
        frames(&ClientMessage::Hello { nickname, resume, device, may_show, may_lend, is_robot, commitment, page }, &[])
    }

    /// Reports the device when it is known or has changed.
    pub fn device(&mut self, device: &str) -> Result<Vec<Vec<u8>>, WireError> {
        self.device = cut(device);
        frames(&ClientMessage::Device { device: self.device.clone() }, &[])
    }

    /// Sets whether the class may see what leaks of this client's pictures, and whether other clients may get its masked
    /// updates. Later hellos repeat it.
    pub fn consent(&mut self, may_show: bool, may_lend: bool) -> Result<Vec<Vec<u8>>, WireError> {
        (self.may_show, self.may_lend) = (may_show, may_lend);
        frames(&ClientMessage::Consent { may_show, may_lend }, &[])
    }

    /// Reports that the tab went to the background or came back.
    pub fn visibility(&self, is_hidden: bool) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Visibility { is_hidden }, &[])
    }

    pub fn vote(&self, poll: u32, answer: u16) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Vote { poll, answer }, &[])
    }

    /// Reports that the student attacks the loan with knowledge of the mask's gaps.
    pub fn know_gaps(&self, poll: u32) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::KnowGaps { poll }, &[])
    }

    /// The client's picture that the class may see beside what leaks of it, `[32, 32, 3]` in [0, 1]: the only picture
    /// behind the last update on private pictures, or else the first. `None` if the client has no picture.
    pub fn original(&self) -> Option<Vec<f32>> {
        self.pictures.shown(usize::from(ORIGINAL_SIDE))
    }

    /// Shows the class a picture, as returned by [`original`](Self::original). The answer is [`ClientEvent::Original`],
    /// or [`ClientEvent::Refused`] without consent.
    ///
    /// # Errors
    /// The picture has another size, or values outside [0, 1].
    pub fn show_original(&self, values: &[f32]) -> Result<Vec<Vec<u8>>, ShowError> {
        check_original(ORIGINAL_SIDE, values)?;
        Ok(frames(&ClientMessage::Original { side: ORIGINAL_SIDE }, values)?)
    }

    pub fn hide_original(&self) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::HideOriginal, &[])
    }

    /// Asks the room to delete its data about this client. [`ClientEvent::Goodbye`] follows, and the ticket becomes
    /// invalid.
    pub fn forget(&mut self) -> Result<Vec<Vec<u8>>, WireError> {
        self.ticket = None;
        frames(&ClientMessage::Forget, &[])
    }

    /// Asks to take part in rounds again, after [`ClientEvent::SittingOut`].
    pub fn come_back(&self) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Return, &[])
    }

    /// Asks whether the relay is alive. [`Self::receive`] ignores the content of the answer: its arrival is enough.
    pub fn ping(&self) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Ping, &[])
    }

    /// Handles one binary frame from the socket.
    ///
    /// # Errors
    /// The frame is not a message of this protocol; the caller should close the socket.
    pub fn receive(&mut self, frame: &[u8]) -> Result<Option<Action>, ClientError> {
        let Some((message, values)) = self.assembler.push(frame)? else { return Ok(None) };
        Ok(Some(match message {
            RelayMessage::Welcome { client, resume, nickname } => {
                (self.ticket, self.id) = (Some(resume), Some(client));
                Action::Report(ClientEvent::Welcome { client, nickname })
            }
            RelayMessage::Waiting => Action::Report(ClientEvent::Waiting),
            RelayMessage::Renamed { nickname } => {
                // If the relay has forgotten this client, it must not hear the name that the teacher changed.
                self.nickname = cut(&nickname);
                Action::Report(ClientEvent::Renamed { nickname })
            }
            // Who refuses two plans in a row is left out like a client that is silent, and wants to see the next plan.
            RelayMessage::SittingOut if self.has_refused => Action::Send(self.come_back()?),
            RelayMessage::SittingOut => Action::Report(ClientEvent::SittingOut),
            RelayMessage::Pong => return Ok(None),
            RelayMessage::Plan(header) => {
                let (round, policy, encryption, server) =
                    (header.round, header.policy, header.encryption, header.server);
                let nonce = self.nonce.ok_or(ClientError::NoHello)?;
                self.sent.planned(round, &values);
                let plan = RoundPlan::new(header, nonce, self.shard.as_ref(), values).map_err(Obstacle::Unable);
                let plan = plan.and_then(|plan| self.decrypted(plan, encryption)).and_then(|plan| self.keyed(plan));
                match plan {
                    Ok(mut plan) => {
                        plan.doubts = self.watch.look(&plan, server, encryption);
                        Action::Train(Box::new(plan))
                    }
                    Err(obstacle) => self.decline(round, policy, obstacle)?,
                }
            }
            RelayMessage::Seal { policy, model, salt } => match self.seal_task(policy, model, salt, values) {
                Ok(task) => Action::Seal(Box::new(task)),
                Err(obstacle) => self.decline(0, policy, obstacle)?,
            },
            RelayMessage::Sum { round, policy, task } => return self.add_up(round, policy, task),
            RelayMessage::Shard(header) => {
                let shard = Arc::new(Shard::new(header, &values)?);
                self.shard = Some(Arc::clone(&shard));
                Action::Report(ClientEvent::Shard(shard))
            }
            RelayMessage::Accepted { round } => {
                self.sent.accepted(round);
                Action::Report(ClientEvent::Accepted { round })
            }
            RelayMessage::Closed { round, loss, updates } => {
                Action::Report(ClientEvent::Closed { round, loss, updates })
            }
            RelayMessage::Listed(listing) => Action::Report(ClientEvent::Listed(self.sent.look(listing))),
            RelayMessage::Reconstruction { round, attack, side } => {
                let side = usize::from(side);
                if values.len() != side * side * 3 {
                    return Err(ClientError::Picture { side, values: values.len() });
                }
                Action::Report(ClientEvent::Reconstruction { round, attack, side, picture: values })
            }
            RelayMessage::Lesson(lesson) => Action::Report(ClientEvent::Lesson(lesson)),
            RelayMessage::Loan(header) => {
                Action::Report(ClientEvent::Loan { poll: header.poll, loan: Loan::new(header, values).map(Box::new) })
            }
            RelayMessage::LoanEnded { poll } => Action::Report(ClientEvent::LoanEnded { poll }),
            RelayMessage::Scored { poll, owner, points } => Action::Report(ClientEvent::Scored { poll, owner, points }),
            RelayMessage::Original { is_shown, waits } => Action::Report(ClientEvent::Original { is_shown, waits }),
            RelayMessage::Refused { reason } => Action::Report(ClientEvent::Refused { reason }),
            RelayMessage::Goodbye { reason } => Action::Report(ClientEvent::Goodbye { reason }),
        }))
    }

    /// Returns the pictures that `plan` asks for: the client's own in turn, or those of its shard. They are remembered,
    /// so that a reconstruction can be [compared](Self::compare) with them.
    ///
    /// # Errors
    /// In words for people: the client has no pictures, or the model lacks the class of one of them.
    pub fn pictures(&mut self, plan: &RoundPlan) -> Result<RoundPictures, String> {
        let pictures = self.pictures.of_round(plan)?;
        self.history.remember(plan, &pictures);
        Ok(pictures)
    }

    /// Compares a reconstruction `[side, side, 3]` with the picture behind the update of `round`. `None` if the update
    /// came from several pictures or is too old.
    ///
    /// # Errors
    /// In words for people, if the sizes do not fit.
    pub fn compare(
        &self,
        round: u32,
        attack: AttackMethod,
        side: usize,
        reconstruction: &[f32],
    ) -> Option<Result<ReconstructionScore, String>> {
        self.history.compare(round, attack, side, reconstruction)
    }

    /// Compares pictures `[side, side, 3]`, found in this client's own update of several, each with one of those behind
    /// the update of `round`. `None` for those that have none. The scores are for this client alone: they would tell
    /// a guesser whether a picture was there.
    pub fn compare_batch(
        &self,
        round: u32,
        side: usize,
        reconstructions: &[Vec<f32>],
    ) -> Vec<Option<ReconstructionScore>> {
        self.history.compare_batch(round, side, reconstructions)
    }

    /// Protects the result of training and prepares it for sending. `fresh` must come from the operating system: it
    /// seeds noise, or the nonce of the next mask.
    ///
    /// # Errors
    /// The result does not fit the plan's model; nothing is sent then.
    pub fn update(
        &mut self,
        plan: &RoundPlan,
        trained: LocalUpdate,
        fresh: [u8; 32],
    ) -> Result<OutgoingUpdate, UpdateFailure> {
        self.has_refused = false;
        if let Some(sum) = plan.sum {
            return self.begin_sum(plan, sum, trained, fresh);
        }
        let LocalUpdate { loss, values, statistics, samples } = trained;
        let plain_bytes = 4 * values.len();
        let draws = plan.defence.has_own_mask();
        let seed = if draws { plan.nonces.seed() } else { MaskSeed(fresh) };
        let update = plan.task().protect(values.clone(), samples, seed)?;
        let (round, policy) = (plan.round, plan.policy);
        let draw = draws.then(|| SeedDraw { nonce: plan.nonces.own, next: commitment(&fresh) });
        let header = ClientMessage::Update { round, policy, loss, samples, form: update.form, draw };
        let values_sent = [update.values.as_slice(), statistics.as_slice()];
        self.sent.sent(&SentContent { round, policy, loss, samples, form: update.form, values: values_sent });
        let frames: Vec<_> = Framer::with_tail(&header, &update.values, statistics)?.collect();
        let bytes = frames.iter().map(Vec::len).sum();
        let groups = compare_groups(plan, values, &update);
        if draws {
            self.nonce = Some(fresh);
        }
        Ok(OutgoingUpdate { frames, update: Some(update), bytes, plain_bytes, groups })
    }

    /// Announces a trained update to a secure sum, with keys in place of the update itself.
    fn begin_sum(
        &mut self,
        plan: &RoundPlan,
        sum: SumPlan,
        trained: LocalUpdate,
        fresh: [u8; 32],
    ) -> Result<OutgoingUpdate, UpdateFailure> {
        let missing = || UpdateFailure::Sum("the room's passphrase is gone".to_owned());
        let (class, client) =
            (self.keys.class(sum.salt, None, self.is_robot).map_err(|_| missing())?, self.id.ok_or_else(missing)?);
        let (loss, samples, plain_bytes) = (trained.loss, trained.samples, 4 * trained.values.len());
        let (round, policy, check) = (plan.round, plan.policy, class.check());
        if self.summed == Some((round, policy)) {
            // The difference of two sums of one round could be one client's update.
            return Err(UpdateFailure::Sum("the sum of this round is already known".to_owned()));
        }
        // The plan came again on another socket: the relay may have the keys, or may have lost them.
        let again = self.adding.as_ref().filter(|adding| (adding.round, adding.policy) == (round, policy));
        if let Some(keys) = again.and_then(Adding::sent_keys) {
            let frames = frames(&ClientMessage::SumKeys { round, policy, loss, samples, keys, check }, &[])?;
            return Ok(OutgoingUpdate { bytes: plain_bytes, frames, update: None, plain_bytes, groups: Vec::new() });
        }
        let begun = Adding::begin((client, self.is_robot), (plan, sum, &class), trained, fresh);
        let (adding, keys) = begun.map_err(|error| UpdateFailure::Sum(error.to_string()))?;
        let header = ClientMessage::SumKeys { round, policy, loss, samples, keys, check };
        let frames = frames(&header, &[])?;
        self.adding = Some(adding);
        Ok(OutgoingUpdate { bytes: plain_bytes, frames, update: None, plain_bytes, groups: Vec::new() })
    }

    /// Takes the next step of a secure sum. A client that leaves one says so, so that nobody waits for it.
    fn add_up(&mut self, round: u32, policy: u32, task: SumTask) -> Result<Option<Action>, ClientError> {
        let adding = self.adding.as_mut().filter(|adding| (adding.round, adding.policy) == (round, policy));
        let Some(adding) = adding else {
            // A page that was loaded again has lost its keys.
            let reason = "this client is not in this secure sum any more";
            return Ok(Some(Action::Send(self.unable(round, policy, reason)?)));
        };
        let is_last = matches!(task, SumTask::Confirmations(_));
        let answer = adding.answer(task);
        if is_last && answer.is_ok() {
            self.summed = Some((round, policy));
        }
        if is_last || answer.is_err() {
            self.adding = None;
        }
        Ok(Some(Action::Send(match answer {
            Ok(Message::Values(values)) => {
                let values: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
                frames(&ClientMessage::Sum { round, policy, message: Message::Values(Vec::new()) }, &values)?
            }
            Ok(message) => frames(&ClientMessage::Sum { round, policy, message }, &[])?,
            Err(LeftSum::Refused(Refusal::Keys(client) | Refusal::Share(client))) => {
                frames(&ClientMessage::Sum { round, policy, message: Message::Complaint(client) }, &[])?
            }
            Err(left) => self.unable(round, policy, &left.to_string())?,
        })))
    }

    /// The plan, if this client has the passphrase that its secure sum takes.
    fn keyed(&mut self, plan: RoundPlan) -> Result<RoundPlan, Obstacle> {
        if let Some(sum) = plan.sum {
            let fits = sum.settings.check_defence(plan.defence);
            fits.map_err(|error| Obstacle::Unable(error.to_string()))?;
            let missing =
                "this room adds up updates that nobody sees, and for that everybody types the class's passphrase";
            self.keys.class(sum.salt, sum.check, self.is_robot).map_err(|locked| Obstacle::locked(locked, missing))?;
        }
        Ok(plan)
    }

    /// Encrypts the room's model and prepares it for sending. Under a keyed start the model is drawn from `fresh`,
    /// which must come from the operating system: it reveals the plain model.
    ///
    /// # Errors
    /// The task's cipher is for another model; nothing is sent then.
    pub fn seal(&self, task: SealTask, fresh: u64) -> Result<Vec<Vec<u8>>, UpdateFailure> {
        let SealTask { policy, architecture, weights, cipher, .. } = task;
        let mut weights = weights.unwrap_or_else(|| architecture.initial(fresh).weights);
        cipher.encrypt(&mut weights)?;
        Ok(frames(&ClientMessage::Sealed { policy, check: cipher.check() }, &weights)?)
    }

    /// Reports that this client cannot take part in a round.
    pub fn unable(&self, round: u32, policy: u32, reason: &str) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Unable { round, policy, reason: cut(reason), is_locked: false }, &[])
    }

    /// Tells the relay that this client does not train on a plan, because of these doubts. If the relay leaves it out for
    /// that, it asks to come back by itself.
    pub fn refuse(&mut self, plan: &RoundPlan, doubts: &[Doubt]) -> Result<Vec<Vec<u8>>, WireError> {
        self.has_refused = true;
        let (round, policy, reason) = (plan.round, plan.policy, cut(&reason(doubts)));
        frames(&ClientMessage::Doubtful { round, policy, reason }, &[])
    }

    /// Reports how close a reconstruction is to the private image: two numbers, never the image.
    pub fn score(&self, round: u32, attack: AttackMethod, psnr: f32, ssim: f32) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Score { round, attack, psnr, ssim }, &[])
    }

    fn decline(&self, round: u32, policy: u32, obstacle: Obstacle) -> Result<Action, WireError> {
        Ok(match obstacle {
            Obstacle::Unable(reason) => Action::Send(self.unable(round, policy, &reason)?),
            Obstacle::Ask { reason, wrong } => {
                let told =
                    if wrong { "this client has another passphrase" } else { "this client has no passphrase yet" };
                let message = ClientMessage::Unable { round, policy, reason: told.to_owned(), is_locked: true };
                Action::AskPassphrase { frames: frames(&message, &[])?, reason: reason.to_owned(), wrong }
            }
        })
    }

    /// The plan with plaintext weights, and the cipher under which the update must leave.
    fn decrypted(&mut self, mut plan: RoundPlan, encryption: Option<EncryptionPlan>) -> Result<RoundPlan, Obstacle> {
        let Some(EncryptionPlan { salt, check }) = encryption else {
            // Training on ciphertext, or sending a plain update to a room that claims to encrypt, helps nobody.
            return if plan.defence.is_encrypted() {
                Err(Obstacle::Unable("the plan's defence is encrypted, but its weights are not".to_owned()))
            } else {
                Ok(plan)
            };
        };
        let Some(start) = plan.defence.encryption() else {
            return Err(Obstacle::Unable(format!(
                "the plan's weights are encrypted, but its defence is {}",
                plan.defence
            )));
        };
        let missing = "this room's model is encrypted; type the room's passphrase to take part";
        let cipher = self
            .keys
            .cipher((salt, start), Some(check), plan.architecture, &plan.layout)
            .map_err(|locked| Obstacle::locked(locked, missing))?;
        cipher.decrypt(&mut plan.state.weights).map_err(|error| Obstacle::Unable(error.to_string()))?;
        plan.cipher = Some(cipher);
        Ok(plan)
    }

    fn seal_task(
        &mut self,
        policy: u32,
        model: ModelDescription,
        salt: [u8; 16],
        weights: Vec<f32>,
    ) -> Result<SealTask, Obstacle> {
        let architecture = known_architecture(model).map_err(Obstacle::Unable)?;
        let layout = architecture.layout();
        let (start, weights) = if weights.is_empty() {
            (EncryptionStart::Keyed, None)
        } else {
            check_len(architecture, &layout, &weights).map_err(Obstacle::Unable)?;
            (EncryptionStart::Plain, Some(weights))
        };
        let missing = "this room's model is about to be encrypted; type the room's passphrase to take part";
        let cipher = self.keys.cipher((salt, start), None, architecture, &layout);
        let cipher = cipher.map_err(|locked| Obstacle::locked(locked, missing))?;
        Ok(SealTask { policy, architecture, layout, weights, cipher })
    }
}

fn assembler() -> Assembler {
    Assembler::new(Assembler::limit_for(MAX_PARAMETERS))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests;
