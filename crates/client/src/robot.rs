//! A client without a person, as a state machine: its driver carries frames, and trains when told to.

mod volunteer;

use unmask_core::AttackMethod;
use unmask_model::Device;
use unmask_wire::WireError;

use self::volunteer::Volunteer;
use crate::{
    Action, Caution, Client, ClientError, ClientEvent, Doubt, LocalUpdate, ReconstructionScore, RoundPictures,
    RoundPlan, ShowError, UpdateFailure,
};

/// The names of the sample photographs that a room's robots train on, in the order of the robots. The search of the
/// lesson's scene 6 reconstructs the first ones with both tested weights and masks; it sometimes misses the later ones
/// (docs/measurements.md).
pub const PHOTOGRAPHS: [&str; 6] = ["cat", "rocket", "coffee", "astronaut", "hubble", "cameraman"];

/// The name of a room's robot, counted from 0.
pub fn nickname(number: usize) -> String {
    format!("robot {}", number + 1)
}

/// Random bytes from the operating system, or a sentence about why there are none.
pub type Fresh = fn() -> Result<[u8; 32], String>;

/// What followed from a plan.
#[derive(Debug)]
pub enum Outcome {
    /// The doubts that it raised, and the step that was taken all the same.
    Trained(Vec<Doubt>, LocalUpdate),
    Refused(Vec<Doubt>),
    /// Why there was no step.
    Failed(String),
}

impl Outcome {
    /// Looks at a plan as `caution` asks, then trains on it unless a doubt forbids that.
    pub async fn of(
        plan: &RoundPlan,
        pictures: Result<RoundPictures, String>,
        device: &Device,
        caution: Caution,
    ) -> Self {
        let pictures = match pictures {
            Ok(pictures) => pictures,
            Err(reason) => return Self::Failed(reason),
        };
        match plan.examine(&pictures, device, caution).await {
            Ok(doubts) if caution.refuses() && !doubts.is_empty() => Self::Refused(doubts),
            Ok(doubts) => match plan.train(&pictures, device).await {
                Ok(update) => Self::Trained(doubts, update),
                Err(error) => Self::Failed(error.to_string()),
            },
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Why a robot cannot go on on this socket.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RobotError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Update(#[from] UpdateFailure),
    #[error(transparent)]
    Show(#[from] ShowError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{0}")]
    NoRandomNumbers(String),
}

/// What follows from a frame.
#[derive(Debug, Default)]
pub struct Reaction {
    /// Send these frames in order.
    pub frames: Vec<Vec<u8>>,
    /// Train. Of several waiting plans only the newest counts.
    pub plan: Option<Box<RoundPlan>>,
    /// For the log. After [`ClientEvent::Goodbye`] the relay closes the connection for good.
    pub event: Option<RobotEvent>,
}

/// What a robot may say in a log.
#[derive(Debug, Clone, PartialEq)]
pub enum RobotEvent {
    Client(ClientEvent),
    /// It encrypted the room's model.
    Sealed,
    /// It lacks the room's passphrase, for this reason.
    NeedsPassphrase(String),
    /// The relay attacked it, and it compared the result with its picture.
    Attacked {
        round: u32,
        attack: AttackMethod,
        psnr: f32,
        ssim: f32,
    },
}

#[derive(Debug)]
pub struct Robot {
    client: Client,
    /// What it does about plans that look doctored unless the teacher asks all clients to be careful.
    own_caution: Caution,
    volunteer: Volunteer,
    fresh: Fresh,
}

impl Robot {
    /// `shows` says whether it shows the class its last training picture. Without `answer_seed`, it gives no answers.
    pub fn new(client: Client, shows: bool, answer_seed: Option<u64>, fresh: Fresh) -> Self {
        let own_caution = client.caution();
        Self { client, own_caution, volunteer: Volunteer::new(shows, answer_seed), fresh }
    }

    /// The first frames on a new socket.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn hello(&mut self) -> Result<Vec<Vec<u8>>, RobotError> {
        let fresh = self.fresh_bytes()?;
        Ok(self.client.hello(fresh)?)
    }

    /// Tells the relay what this client trains on from now on.
    ///
    /// # Errors
    /// If the description is too long.
    pub fn device(&mut self, description: &str) -> Result<Vec<Vec<u8>>, RobotError> {
        Ok(self.client.device(description)?)
    }

    /// Takes a frame from the socket.
    ///
    /// # Errors
    /// If the relay sent something that no client can use, or there are no random numbers.
    pub fn receive(&mut self, frame: &[u8]) -> Result<Reaction, RobotError> {
        let Some(action) = self.client.receive(frame)? else { return Ok(Reaction::default()) };
        Ok(match action {
            Action::Send(frames) => Reaction { frames, ..Reaction::default() },
            Action::Train(plan) => Reaction { plan: Some(plan), ..Reaction::default() },
            Action::Seal(task) => {
                let fresh = self.fresh_bytes()?.first_chunk().copied().unwrap_or_default();
                let frames = self.client.seal(*task, u64::from_le_bytes(fresh))?;
                Reaction { frames, event: Some(RobotEvent::Sealed), plan: None }
            }
            Action::AskPassphrase { frames, reason, .. } => {
                Reaction { frames, event: Some(RobotEvent::NeedsPassphrase(reason)), plan: None }
            }
            Action::Report(ClientEvent::Reconstruction { round, attack, side, picture }) => {
                // A picture that cannot be compared gets no score; the room shows it without one.
                match self.client.compare(round, attack, side, &picture) {
                    Some(Ok(ReconstructionScore { psnr, ssim, .. })) => Reaction {
                        frames: self.client.score(round, attack, psnr, ssim)?,
                        event: Some(RobotEvent::Attacked { round, attack, psnr, ssim }),
                        plan: None,
                    },
                    _ => Reaction::default(),
                }
            }
            Action::Report(event) => {
                if let ClientEvent::Lesson(lesson) = &event {
                    self.client.set_caution(if lesson.is_careful { Caution::Refuse } else { self.own_caution });
                }
                let frames = self.volunteer.hears(&event, &self.client)?;
                Reaction { frames, event: Some(RobotEvent::Client(event)), plan: None }
            }
        })
    }

    /// The pictures of a round.
    ///
    /// # Errors
    /// Why it has none, for the relay.
    pub fn pictures(&mut self, plan: &RoundPlan) -> Result<RoundPictures, String> {
        self.client.pictures(plan)
    }

    /// What it does about plans that look doctored.
    pub fn caution(&self) -> Caution {
        self.client.caution()
    }

    /// The frames with the update of a round, or with the reason why there is none.
    ///
    /// # Errors
    /// If the update cannot be protected, or there are no random numbers.
    pub fn answer(&mut self, plan: &RoundPlan, outcome: Outcome) -> Result<Vec<Vec<u8>>, RobotError> {
        let mut frames = match outcome {
            Outcome::Trained(_, trained) => {
                let fresh = self.fresh_bytes()?;
                self.client.update(plan, trained, fresh)?.frames
            }
            Outcome::Refused(doubts) => self.client.refuse(plan, &doubts)?,
            Outcome::Failed(reason) => self.client.unable(plan.round, plan.policy, &reason)?,
        };
        frames.extend(self.volunteer.show(&self.client)?);
        Ok(frames)
    }

    fn fresh_bytes(&self) -> Result<[u8; 32], RobotError> {
        (self.fresh)().map_err(RobotError::NoRandomNumbers)
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, ModelDescription, VitPreset};
    use unmask_data::Picture;
    use unmask_model::{block_on, device::OpenDevice};
    use unmask_wire::{Assembler, ClientMessage, LessonState, PlanHeader, RelayMessage, frames};

    use super::*;
    use crate::PrivatePicture;

    fn robot(fresh: Fresh) -> Robot {
        let picture = Picture::new(4, 4, (0..48).map(|i| 5 * i).collect()).unwrap();
        let client = Client::new(&nickname(2), "CPU").with_pictures(vec![PrivatePicture::new(picture, 1)]);
        Robot::new(client.with_consent(true, true).as_robot(true), true, Some(1), fresh)
    }

    fn said(frames: &[Vec<u8>]) -> Vec<ClientMessage> {
        let mut assembler = Assembler::new(1 << 20);
        frames
            .iter()
            .filter_map(|frame| assembler.push::<ClientMessage>(frame).unwrap())
            .map(|(said, _)| said)
            .collect()
    }

    fn plan(round: u32) -> Vec<Vec<u8>> {
        let architecture = Architecture::from(VitPreset::Pico);
        let header = PlanHeader {
            round,
            policy: 0,
            model: ModelDescription::from(architecture),
            defence: Default::default(),
            rule: Default::default(),
            batch: 1,
            pictures: Default::default(),
            encryption: None,
            sum: None,
            nonce: [3; 16],
            least: 1,
            server: Default::default(),
        };
        frames(&RelayMessage::Plan(header), &architecture.initial(1).weights).unwrap()
    }

    fn hear(robot: &mut Robot, frames: &[Vec<u8>]) -> Reaction {
        frames.iter().map(|frame| robot.receive(frame).unwrap()).last().unwrap()
    }

    #[test]
    fn a_plan_becomes_an_update_and_a_shown_picture() {
        let mut robot = robot(|| Ok([7; 32]));
        assert!(matches!(
            said(&robot.hello().unwrap()).as_slice(),
            [ClientMessage::Hello { nickname, is_robot: true, .. }] if nickname == "robot 3"
        ));
        let plan = hear(&mut robot, &plan(4)).plan.unwrap();
        let device: Device = OpenDevice::cpu().device().clone();
        let pictures = robot.pictures(&plan);
        let outcome = block_on(Outcome::of(&plan, pictures, &device, Caution::Off));
        let sent = said(&robot.answer(&plan, outcome).unwrap());
        assert!(
            matches!(
                sent.as_slice(),
                [ClientMessage::Update { round: 4, samples: 1, .. }, ClientMessage::Original { side: 32 }]
            ),
            "{sent:?}"
        );
        let failed = said(&robot.answer(&plan, Outcome::Failed("no memory".to_owned())).unwrap());
        assert!(matches!(failed.as_slice(), [ClientMessage::Unable { round: 4, reason, .. }] if reason == "no memory"));
    }

    #[test]
    fn the_teacher_makes_it_careful_for_a_while() {
        let mut robot = robot(|| Ok([7; 32]));
        let own = robot.caution();
        for (is_careful, expected) in [(true, Caution::Refuse), (false, own)] {
            let lesson = LessonState { is_careful, ..LessonState::default() };
            hear(&mut robot, &frames(&RelayMessage::Lesson(lesson), &[]).unwrap());
            assert_eq!(robot.caution(), expected);
        }
    }

    #[test]
    fn without_random_numbers_nothing_is_said() {
        let error = robot(|| Err("none today".to_owned())).hello().unwrap_err();
        assert_eq!(error.to_string(), "none today");
    }
}
