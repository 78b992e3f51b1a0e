//! The client's side of the protocol.

use unmask_defence::{Defence, MaskSeed, ProtectedUpdate};
use unmask_params::{ModelSpec, ParamLayout};
use unmask_wire::{Assembler, ClientMessage, RelayMessage, UpdateKind, WireError, frames};

use crate::{GroupLeaving, leaving};

/// Largest plan a client takes, in parameters: more than any preset has, and within a phone's memory.
const MAX_PARAMETERS: usize = 32_000_000;
/// Longest nickname, device or reason sent, in characters.
const MAX_TEXT: usize = 200;

/// A round's task.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The round.
    pub round: u32,
    /// Number of the policy the update must be made under.
    pub policy: u32,
    /// The model.
    pub spec: ModelSpec,
    /// The layout of its parameters.
    pub layout: ParamLayout,
    /// The defence to use.
    pub defence: Defence,
    /// Samples per update.
    pub batch: usize,
    /// Global weights, `[P]`.
    pub weights: Vec<f32>,
}

/// What training gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Mean loss over the samples at the plan's weights.
    pub loss: f32,
    /// Gradient of that loss, `[P]`: the plain update of FedSGD. It must not leave the device.
    pub gradient: Vec<f32>,
    /// Number of samples.
    pub samples: u32,
}

/// Something to tell whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// In the room.
    Welcome {
        /// Number in the room.
        client: u32,
        /// Nickname as the room shows it.
        nickname: String,
    },
    /// The update was taken.
    Accepted {
        /// The round.
        round: u32,
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
    /// What the relay made of this client's update.
    Reconstruction {
        /// The round attacked.
        round: u32,
        /// The attack's name.
        attack: String,
        /// Side of the picture in pixels.
        side: usize,
        /// `[side, side, 3]` in `[0, 1]`.
        picture: Vec<f32>,
    },
    /// Something was refused, or cannot be done.
    Refused {
        /// Why.
        reason: String,
    },
    /// The relay closes the connection for good.
    Goodbye {
        /// Why.
        reason: String,
    },
}

/// What to do after a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send these frames in order.
    Send(Vec<Vec<u8>>),
    /// Train. Of several plans waiting only the newest counts.
    Train(Box<Plan>),
    /// Show.
    Tell(News),
}

/// An update ready to leave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// The frames to send.
    pub frames: Vec<Vec<u8>>,
    /// Their length in bytes.
    pub bytes: usize,
    /// What the values of an unprotected update alone would weigh, in bytes.
    pub plain_bytes: usize,
    /// What each parameter group looks like before and after.
    pub groups: Vec<GroupLeaving>,
}

/// What a relay sent that this client cannot follow.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// Bytes that are no message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A picture of the wrong size.
    #[error("a reconstruction of side {side} came with {values} values instead of {}", side * side * 3)]
    Picture {
        /// The side announced.
        side: usize,
        /// The values that came.
        values: usize,
    },
}

/// One client of one room.
#[derive(Debug)]
pub struct Client {
    nickname: String,
    device: String,
    ticket: Option<[u8; 16]>,
    assembler: Assembler,
}

impl Client {
    /// A client that asks for `nickname` and trains on `device` (in words).
    pub fn new(nickname: &str, device: &str) -> Self {
        Self { nickname: cut(nickname), device: cut(device), ticket: None, assembler: assembler() }
    }

    /// To be sent first on every new socket; after a dropped one it asks to come back as the same client.
    ///
    /// # Errors
    /// Never in practice: strings are cut to fit.
    pub fn hello(&mut self) -> Result<Vec<Vec<u8>>, WireError> {
        self.assembler = assembler();
        let (nickname, device) = (self.nickname.clone(), self.device.clone());
        frames(&ClientMessage::Hello { nickname, resume: self.ticket, device }, &[])
    }

    /// Says that the device is known now, or has changed.
    ///
    /// # Errors
    /// Never in practice: strings are cut to fit.
    pub fn device(&mut self, device: &str) -> Result<Vec<Vec<u8>>, WireError> {
        self.device = cut(device);
        frames(&ClientMessage::Device { device: self.device.clone() }, &[])
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
                Action::Tell(News::Welcome { client, nickname })
            }
            RelayMessage::Plan { round, policy, model, april_block, classes, defence, batch } => {
                match plan(round, policy, &model, april_block, classes, &defence, batch, values) {
                    Ok(plan) => Action::Train(Box::new(plan)),
                    Err(reason) => Action::Send(self.unable(round, policy, &reason)?),
                }
            }
            RelayMessage::Accepted { round } => Action::Tell(News::Accepted { round }),
            RelayMessage::Closed { round, loss, updates } => Action::Tell(News::Closed { round, loss, updates }),
            RelayMessage::Reconstruction { round, attack, side } => {
                let side = usize::from(side);
                if values.len() != side * side * 3 {
                    return Err(ClientError::Picture { side, values: values.len() });
                }
                Action::Tell(News::Reconstruction { round, attack, side, picture: values })
            }
            RelayMessage::Refused { reason } => Action::Tell(News::Refused { reason }),
            RelayMessage::Goodbye { reason } => Action::Tell(News::Goodbye { reason }),
        }))
    }

    /// Protects what training gave and makes it ready to leave. `seed` must be fresh from the operating system.
    ///
    /// # Errors
    /// Never in practice: the header has no strings.
    pub fn update(&self, plan: &Plan, step: Step, seed: MaskSeed) -> Result<Outgoing, WireError> {
        let Step { loss, gradient, samples } = step;
        let plain_bytes = 4 * gradient.len();
        let update = plan.defence.protect(&plan.layout, gradient.clone(), seed);
        let kind = match &update {
            ProtectedUpdate::Dense(_) => UpdateKind::Dense,
            ProtectedUpdate::Masked { seed, rate, .. } => UpdateKind::Masked { seed: seed.0, zero_rate: rate.bits() },
        };
        let (round, policy) = (plan.round, plan.policy);
        let frames = frames(&ClientMessage::Update { round, policy, loss, samples, kind }, update.values())?;
        let bytes = frames.iter().map(Vec::len).sum();
        Ok(Outgoing { frames, bytes, plain_bytes, groups: leaving(&plan.layout, &gradient, &update) })
    }

    /// Says that this client cannot take part in a round.
    ///
    /// # Errors
    /// Never in practice: the reason is cut to fit.
    pub fn unable(&self, round: u32, policy: u32, reason: &str) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Unable { round, policy, reason: cut(reason) }, &[])
    }

    /// Reports how close a reconstruction came to the private image: two numbers, never the image.
    ///
    /// # Errors
    /// Never in practice: `attack` came from the relay.
    pub fn score(&self, round: u32, attack: &str, psnr: f32, ssim: f32) -> Result<Vec<Vec<u8>>, WireError> {
        frames(&ClientMessage::Score { round, attack: cut(attack), psnr, ssim }, &[])
    }
}

fn assembler() -> Assembler {
    Assembler::new(Assembler::limit_for(MAX_PARAMETERS))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[expect(clippy::too_many_arguments, reason = "the fields of one message")]
fn plan(
    round: u32,
    policy: u32,
    model: &str,
    april_block: bool,
    classes: u16,
    defence: &str,
    batch: u16,
    weights: Vec<f32>,
) -> Result<Plan, String> {
    let preset = model.parse().map_err(|error| format!("{error}; reload the page or update this client"))?;
    let defence = defence.parse().map_err(|error| format!("{error}; reload the page or update this client"))?;
    let spec = ModelSpec { preset, april_block, classes: classes.into() };
    let layout = ParamLayout::vit(&spec.config());
    if weights.len() != layout.len() {
        return Err(format!("the plan has {} weights, {model} has {}", weights.len(), layout.len()));
    }
    if batch == 0 || classes == 0 {
        return Err(format!("the plan asks for a batch of {batch} with {classes} classes"));
    }
    Ok(Plan { round, policy, spec, layout, defence, batch: batch.into(), weights })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_params::Preset;

    use super::*;

    fn layout() -> ParamLayout {
        ParamLayout::vit(&ModelSpec::new(Preset::VitPicoPatch4_16).config())
    }

    fn plan_frames(model: &str, defence: &str, weights: usize) -> Vec<Vec<u8>> {
        let header = RelayMessage::Plan {
            round: 4,
            policy: 2,
            model: model.into(),
            april_block: false,
            classes: 10,
            defence: defence.into(),
            batch: 1,
        };
        frames(&header, &vec![0.1; weights]).unwrap()
    }

    fn receive(client: &mut Client, frames: &[Vec<u8>]) -> Option<Action> {
        frames.iter().map(|frame| client.receive(frame).unwrap()).last().unwrap()
    }

    fn decode(frames: &[Vec<u8>]) -> (ClientMessage, Vec<f32>) {
        let mut assembler = Assembler::new(1 << 20);
        frames.iter().map(|frame| assembler.push(frame).unwrap()).last().unwrap().unwrap()
    }

    fn planned(client: &mut Client, defence: &str) -> Box<Plan> {
        match receive(client, &plan_frames("vit_pico_patch4_16", defence, layout().len())) {
            Some(Action::Train(plan)) => plan,
            other => panic!("no plan but {other:?}"),
        }
    }

    #[test]
    fn comes_back_with_its_ticket() {
        let mut client = Client::new("Ada", "CPU");
        let resume = |frames: Vec<Vec<u8>>| match decode(&frames).0 {
            ClientMessage::Hello { resume, .. } => resume,
            other => panic!("no hello but {other:?}"),
        };
        assert_eq!(resume(client.hello().unwrap()), None);
        let welcome = RelayMessage::Welcome { client: 1, resume: [5; 16], nickname: "Ada".into() };
        receive(&mut client, &frames(&welcome, &[]).unwrap());
        assert_eq!(resume(client.hello().unwrap()), Some([5; 16]));
    }

    #[test]
    fn socket_dropped_in_mid_message_leaves_no_trace() {
        let mut client = Client::new("Ada", "CPU");
        let long = plan_frames("vit_nano_patch4_32", "none", 459_562);
        assert!(client.receive(&long[0]).unwrap().is_none());
        client.hello().unwrap();
        assert_eq!(planned(&mut client, "none").round, 4);
    }

    #[test]
    fn plan_it_cannot_follow_is_answered() {
        let mut client = Client::new("Ada", "CPU");
        for (model, defence, weights, reason) in [
            ("vit_giant", "none", 3, "unknown model"),
            ("vit_pico_patch4_16", "prayer", layout().len(), "unknown defence"),
            ("vit_pico_patch4_16", "none", 3, "the plan has 3 weights"),
        ] {
            let Some(Action::Send(frames)) = receive(&mut client, &plan_frames(model, defence, weights)) else {
                panic!("no answer to {model} {defence}");
            };
            assert!(
                matches!(decode(&frames).0, ClientMessage::Unable { round: 4, reason: text, .. } if text.contains(reason))
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Upload of a masked update: at most (1 - R) 4 P 1.01 + 4096 bytes, and never a dropped value in it.
        #[test]
        fn masked_update_is_small_and_holds_no_dropped_value(seed in any::<[u8; 32]>(), percent in 0u32..100) {
            let mut client = Client::new("Ada", "CPU");
            let plan = planned(&mut client, &format!("random-binary:{}", f64::from(percent) / 100.0));
            let p = plan.layout.len();
            let gradient: Vec<f32> = (0..p).map(|i| i as f32 + 1.0).collect();
            let outgoing = client.update(&plan, Step { loss: 1.0, gradient, samples: 1 }, MaskSeed(seed)).unwrap();
            let limit = (1.0 - f64::from(percent) / 100.0) * 4.0 * p as f64 * 1.01 + 4096.0;
            prop_assert!(outgoing.bytes as f64 <= limit, "{} bytes, limit {limit}", outgoing.bytes);
            let (_, sent) = decode(&outgoing.frames);
            let Defence::RandomBinary { rate } = plan.defence else { panic!() };
            let kept: Vec<f32> = unmask_defence::Mask::new(MaskSeed(seed), rate, p)
                .entries()
                .enumerate()
                .filter(|(_, kept)| *kept)
                .map(|(i, _)| i as f32 + 1.0)
                .collect();
            prop_assert_eq!(sent, kept);
        }
    }
}
