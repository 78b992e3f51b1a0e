//! The client's side of the protocol.

use std::sync::Arc;

use unmask_core::{AttackMethod, ClientId, EncryptionStart, MaskSeed, ModelDescription};
use unmask_defence::{KeyError, ProtectError, ProtectedUpdate};
use unmask_wire::{
    Assembler, ClientMessage, EncryptionPlan, Framer, LessonState, ORIGINAL_SIDE, OriginalError, RelayMessage,
    ShardError, WireError, frames, original_words,
};

use crate::{
    GroupComparison, LocalUpdate, PrivatePicture, ReconstructionScore, RoundPictures, RoundPlan, SealTask, Shard,
    compare_groups,
    history::PictureHistory,
    keys::{Keys, Locked},
    pictures::PrivatePictures,
    plan::{check_len, known_architecture},
};

/// Largest plan a client takes, in parameters: more than any preset has, and within a phone's memory.
const MAX_PARAMETERS: usize = 32_000_000;
/// Longest nickname, device or reason sent, in characters.
const MAX_TEXT: usize = 200;

/// Something to tell whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// In the room, under the nickname that it shows.
    Welcome { client: ClientId, nickname: String },
    /// The teacher gave it another nickname.
    Renamed { nickname: String },
    /// Left out of the rounds, after two without an answer, until it asks to come back.
    SittingOut,
    /// The client's share of the room's data set has come; [`Client::shard`] keeps it. It may be of no use until a round
    /// is on shared pictures.
    Shard(Arc<Shard>),
    /// The update was taken.
    Accepted { round: u32 },
    /// A round closed: mean loss of the cohort, and how many updates were averaged.
    Closed { round: u32, loss: Option<f32>, updates: u32 },
    /// What the relay made of this client's update; the picture is `[side, side, 3]` in `[0, 1]`.
    Reconstruction { round: u32, attack: AttackMethod, side: usize, picture: Vec<f32> },
    /// Where the lesson is.
    Lesson(LessonState),
    /// Whether the class sees this client's own picture.
    Original { is_shown: bool },
    /// Something was refused, or cannot be done.
    Refused { reason: String },
    /// The relay closes the connection for good.
    Goodbye { reason: String },
}

/// What to do after a frame.
#[derive(Debug, Clone)]
pub enum Action {
    /// Send these frames in order.
    Send(Vec<Vec<u8>>),
    /// Train. Of several plans waiting only the newest counts.
    Train(Box<RoundPlan>),
    /// Encrypt the room's model with [`Client::seal`], and send it back.
    Seal(Box<SealTask>),
    /// Ask for the room's passphrase and hand it to [`Client::set_passphrase`]. It counts from the next round on.
    AskPassphrase {
        /// To be sent at once: the relay must not wait for an answer that a person has yet to type.
        frames: Vec<Vec<u8>>,
        /// What it is needed for, or what is wrong with the one at hand, in words for people.
        reason: String,
        /// Whether there is one at hand that is not the room's.
        wrong: bool,
    },
    Report(ClientEvent),
}

/// An update ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingUpdate {
    pub frames: Vec<Vec<u8>>,
    /// What is in them, but for batch norm's statistics.
    pub update: ProtectedUpdate,
    /// Length of the frames.
    pub bytes: usize,
    /// What the values of an unprotected update alone would weigh, in bytes.
    pub plain_bytes: usize,
    pub groups: Vec<GroupComparison>,
}

/// What a relay sent that this client cannot follow.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Shard(#[from] ShardError),
    #[error("a reconstruction of side {side} came with {values} values instead of {}", side * side * 3)]
    Picture { side: usize, values: usize },
}

/// A picture that cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShowError {
    #[error(transparent)]
    Original(#[from] OriginalError),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Why what training gave could not be made ready to leave. Nothing leaves then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateFailure {
    #[error(transparent)]
    Protect(#[from] ProtectError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Why a plan or a seal is not carried out.
enum Obstacle {
    /// In words for the relay.
    Unable(String),
    /// Without the room's passphrase nothing can be done.
    Ask { reason: &'static str, wrong: bool },
}

impl Obstacle {
    fn locked(locked: Locked, missing: &'static str) -> Self {
        match locked {
            Locked::Missing => Self::Ask { reason: missing, wrong: false },
            Locked::Wrong => Self::Ask {
                reason: "this room's model is encrypted with another passphrase; ask for the right one and type it in",
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
    /// Whether the class may see what leaks of its pictures.
    may_show: bool,
    ticket: Option<[u8; 16]>,
    keys: Keys,
    pictures: PrivatePictures,
    history: PictureHistory,
    shard: Option<Arc<Shard>>,
    assembler: Assembler,
}

impl Client {
    /// A client that asks for `nickname` and trains on `device` (in words).
    pub fn new(nickname: &str, device: &str) -> Self {
        Self {
            nickname: cut(nickname),
            device: cut(device),
            may_show: false,
            ticket: None,
            keys: Keys::default(),
            pictures: PrivatePictures::default(),
            history: PictureHistory::default(),
            shard: None,
            assembler: assembler(),
        }
    }

    /// With pictures of its own to train on, taken in turn. They never leave it.
    #[must_use]
    pub fn with_pictures(mut self, pictures: Vec<PrivatePicture>) -> Self {
        self.pictures = PrivatePictures::new(pictures);
        self
    }

    /// With the student's answer to whether the class may see what leaks of these pictures. Without this call it may not.
    #[must_use]
    pub fn with_consent(mut self, may_show: bool) -> Self {
        self.may_show = may_show;
        self
    }

    /// Comes back as the client that was given this ticket, if the room still knows it.
    #[must_use]
    pub fn resuming(mut self, ticket: [u8; 16]) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// The ticket with which this client can come back, once the room has let it in. Who has it can pose as this client.
    pub fn ticket(&self) -> Option<[u8; 16]> {
        self.ticket
    }

    /// Keeps the room's passphrase in memory, in place of an earlier one, or forgets it. It is never sent, and neither
    /// is anything from which it could be computed but by trying.
    pub fn set_passphrase(&mut self, passphrase: Option<String>) {
        self.keys.set(passphrase);
    }

    /// The last shard that came.
    pub fn shard(&self) -> Option<&Arc<Shard>> {
        self.shard.as_ref()
    }

    /// To be sent first on every new socket; after a dropped one it asks to come back as the same client. Strings are cut,
    /// so that this and the messages below always fit.
    pub fn hello(&mut self) -> Result<Vec<Vec<u8>>, WireError> {
        self.assembler = assembler();
        let (nickname, device) = (self.nickname.clone(), self.device.clone());
        frames(&ClientMessage::Hello { nickname, resume: self.ticket, device, may_show: self.may_show }, &[])
    }

    /// Says that the device is known now, or has changed.
    pub fn device(&mut self, device: &str) -> Result<Vec<Vec<u8>>, WireError> {
        self.device = cut(device);
        frames(&ClientMessage::Device { device: self.device.clone() }, &[])
    }

    /// Says whether the class may see what leaks of this client's pictures; later hellos say the same.
    pub fn consent(&mut self, may_show: bool) -> Result<Vec<Vec<u8>>, WireError> {
        self.may_show = may_show;
        frames(&ClientMessage::Consent { may_show }, &[])
    }

    /// Says that the tab went to the background, or came back from it.
    pub fn visibility(&self, is_hidden: bool) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Visibility { is_hidden }, &[])
    }

    /// Answers the class's question of that number.
    pub fn vote(&self, poll: u32, answer: u16) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Vote { poll, answer }, &[])
    }

    /// The picture of its own that the class may see beside what leaks of it, `[32, 32, 3]` in 8 bits: the one that the last
    /// update on private pictures was made of alone, or else the first. `None` where it has none.
    pub fn original(&self) -> Option<Vec<u8>> {
        self.pictures.shown(usize::from(ORIGINAL_SIDE)).map(|picture| picture.rgb().to_vec())
    }

    /// Shows the class a picture, as [`original`](Self::original) gives it. The answer is [`ClientEvent::Original`], or
    /// without consent [`ClientEvent::Refused`].
    ///
    /// # Errors
    /// If it has another size.
    pub fn show_original(&self, pixels: &[u8]) -> Result<Vec<Vec<u8>>, ShowError> {
        Ok(frames(&ClientMessage::Original { side: ORIGINAL_SIDE }, &original_words(pixels)?)?)
    }

    /// Shows the class that picture no more.
    pub fn hide_original(&self) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::HideOriginal, &[])
    }

    /// Has the room delete what it has of this client. [`ClientEvent::Goodbye`] follows, and the ticket is of no use any
    /// more.
    pub fn forget(&mut self) -> Result<Vec<Vec<u8>>, WireError> {
        self.ticket = None;
        frames(&ClientMessage::Forget, &[])
    }

    /// Asks to be in the rounds again, after [`ClientEvent::SittingOut`].
    pub fn come_back(&self) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Return, &[])
    }

    /// Asks whether the relay is there. Its answer is a frame of which [`Self::receive`] makes nothing: that it came is what
    /// it says.
    pub fn ping(&self) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Ping, &[])
    }

    /// Takes one binary frame from the socket.
    ///
    /// # Errors
    /// If the relay sent something that is no message of this protocol; the socket should be closed then.
    pub fn receive(&mut self, frame: &[u8]) -> Result<Option<Action>, ClientError> {
        let Some((message, values)) = self.assembler.push(frame)? else { return Ok(None) };
        Ok(Some(match message {
            RelayMessage::Welcome { client, resume, nickname } => {
                self.ticket = Some(resume);
                Action::Report(ClientEvent::Welcome { client, nickname })
            }
            RelayMessage::Renamed { nickname } => {
                // A relay that has forgotten this client is not to hear the name that the teacher has taken away.
                self.nickname = cut(&nickname);
                Action::Report(ClientEvent::Renamed { nickname })
            }
            RelayMessage::SittingOut => Action::Report(ClientEvent::SittingOut),
            RelayMessage::Pong => return Ok(None),
            RelayMessage::Plan(header) => {
                let (round, policy, encryption) = (header.round, header.policy, header.encryption);
                let plan = RoundPlan::new(header, self.shard.as_ref(), values).map_err(Obstacle::Unable);
                match plan.and_then(|plan| self.decrypted(plan, encryption)) {
                    Ok(plan) => Action::Train(Box::new(plan)),
                    Err(obstacle) => self.decline(round, policy, obstacle)?,
                }
            }
            RelayMessage::Seal { policy, model, salt } => match self.seal_task(policy, model, salt, values) {
                Ok(task) => Action::Seal(Box::new(task)),
                Err(obstacle) => self.decline(0, policy, obstacle)?,
            },
            RelayMessage::Shard(header) => {
                let shard = Arc::new(Shard::new(header, &values)?);
                self.shard = Some(Arc::clone(&shard));
                Action::Report(ClientEvent::Shard(shard))
            }
            RelayMessage::Accepted { round } => Action::Report(ClientEvent::Accepted { round }),
            RelayMessage::Closed { round, loss, updates } => {
                Action::Report(ClientEvent::Closed { round, loss, updates })
            }
            RelayMessage::Reconstruction { round, attack, side } => {
                let side = usize::from(side);
                if values.len() != side * side * 3 {
                    return Err(ClientError::Picture { side, values: values.len() });
                }
                Action::Report(ClientEvent::Reconstruction { round, attack, side, picture: values })
            }
            RelayMessage::Lesson(lesson) => Action::Report(ClientEvent::Lesson(lesson)),
            RelayMessage::Original { is_shown } => Action::Report(ClientEvent::Original { is_shown }),
            RelayMessage::Refused { reason } => Action::Report(ClientEvent::Refused { reason }),
            RelayMessage::Goodbye { reason } => Action::Report(ClientEvent::Goodbye { reason }),
        }))
    }

    /// The pictures that `plan` asks for: its own, in turn, or those of its shard. They are remembered, so that a
    /// reconstruction can be [compared](Self::compare) with them.
    ///
    /// # Errors
    /// In words for people: it has none of its own, or the model lacks the class of one of them.
    pub fn pictures(&mut self, plan: &RoundPlan) -> Result<RoundPictures, String> {
        let pictures = self.pictures.of_round(plan)?;
        self.history.remember(plan, &pictures);
        Ok(pictures)
    }

    /// Compares a reconstruction `[side, side, 3]` with the picture that the update of `round` was made from. `None` where
    /// it was made from several, or too long ago.
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

    /// Protects the result of training and makes it ready to leave. `seed` must be fresh from the operating system.
    ///
    /// # Errors
    /// If the result is not of the plan's model; nothing leaves then.
    pub fn update(
        &self,
        plan: &RoundPlan,
        trained: LocalUpdate,
        seed: MaskSeed,
    ) -> Result<OutgoingUpdate, UpdateFailure> {
        let LocalUpdate { loss, values, statistics, samples } = trained;
        let plain_bytes = 4 * values.len();
        let update = plan.task().protect(values.clone(), seed)?;
        let (round, policy) = (plan.round, plan.policy);
        let header = ClientMessage::Update { round, policy, loss, samples, form: update.form };
        let frames: Vec<_> = Framer::with_tail(&header, &update.values, statistics)?.collect();
        let bytes = frames.iter().map(Vec::len).sum();
        let groups = compare_groups(plan, values, &update);
        Ok(OutgoingUpdate { frames, update, bytes, plain_bytes, groups })
    }

    /// Encrypts the room's model and makes it ready to leave. Under a keyed start it is drawn from `fresh`, which must
    /// come from the operating system: who knows it knows the plain model.
    ///
    /// # Errors
    /// If the task's cipher is of another model; nothing leaves then.
    pub fn seal(&self, task: SealTask, fresh: u64) -> Result<Vec<Vec<u8>>, UpdateFailure> {
        let SealTask { policy, architecture, weights, cipher, .. } = task;
        let mut weights = weights.unwrap_or_else(|| architecture.initial(fresh).weights);
        cipher.encrypt(&mut weights)?;
        Ok(frames(&ClientMessage::Sealed { policy, check: cipher.check() }, &weights)?)
    }

    /// Says that this client cannot take part in a round.
    pub fn unable(&self, round: u32, policy: u32, reason: &str) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Unable { round, policy, reason: cut(reason), is_locked: false }, &[])
    }

    /// Reports how close a reconstruction came to the private image: two numbers, never the image.
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

    /// The plan with its weights in the plain and the cipher under which the update must leave.
    fn decrypted(&mut self, mut plan: RoundPlan, encryption: Option<EncryptionPlan>) -> Result<RoundPlan, Obstacle> {
        let Some(EncryptionPlan { salt, check }) = encryption else {
            // Training on cipher text, or sending a plain update of a room that says it encrypts, helps nobody.
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
