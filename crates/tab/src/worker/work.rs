//! What the worker does for the room and the student: train, seal, compare, answer.

use unmask_client::{LocalUpdate, PictureSelection, RoundPictures, RoundPlan, SealTask};
use unmask_core::{AttackMethod, MaskSeed};
use unmask_model::{
    Device, Network,
    device::{Compute, OpenDevice},
};
use web_time::Instant;

use super::{device, page::group_view, picture::rgba, run::Worker};
use crate::protocol::{Comparison, DeviceChoice, FromWorker};

impl Worker {
    /// The step of `plan`, its defence, and the update on its way.
    pub async fn train(&mut self, plan: &RoundPlan) {
        let device = self.device_for(plan).await;
        let Some(session) = &mut self.session else { return };
        self.page.tell(FromWorker::Training {
            round: plan.round,
            model: plan.architecture.to_string(),
            defence: plan.defence,
            rule: plan.rule,
            shared: match &plan.pictures {
                PictureSelection::Private => None,
                PictureSelection::Shared { positions, .. } => Some(positions.len() as u32),
            },
        });
        let begun = Instant::now();
        let trained = match session.client.pictures(plan) {
            Ok(pictures) => train(plan, &pictures, device.device()).await,
            Err(reason) => Err(reason),
        };
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        let outgoing = trained.and_then(|trained| {
            let (loss, samples) = (trained.loss, trained.samples);
            let outgoing = session.client.update(plan, trained, fresh_seed()?).map_err(|error| error.to_string())?;
            Ok((loss, samples, outgoing))
        });
        match outgoing {
            Ok((loss, samples, outgoing)) => {
                self.send(Ok(outgoing.frames));
                self.page.tell(FromWorker::Sent {
                    round: plan.round,
                    loss,
                    milliseconds,
                    bytes: outgoing.bytes as u64,
                    plain_bytes: outgoing.plain_bytes as u64,
                    samples,
                    rule: plan.rule,
                    groups: outgoing.groups.into_iter().map(group_view).collect(),
                });
            }
            Err(reason) => {
                let unable = session.client.unable(plan.round, plan.policy, &reason);
                self.send(unable);
                self.page.tell(FromWorker::Notice { text: format!("no update in round {}: {reason}", plan.round) });
            }
        }
    }

    /// Encrypts the room's model and sends it back.
    pub fn seal(&mut self, task: SealTask) {
        let Some(session) = &self.session else { return };
        let policy = task.policy;
        let sealed = fresh_bytes()
            .map(u64::from_le_bytes)
            .and_then(|fresh| session.client.seal(task, fresh).map_err(|error| error.to_string()));
        match sealed {
            Ok(frames) => {
                self.send(Ok(frames));
                self.page.tell(FromWorker::Sealed {});
            }
            Err(reason) => {
                let unable = session.client.unable(0, policy, &reason);
                self.send(unable);
                self.page.tell(FromWorker::Notice { text: format!("the model could not be encrypted: {reason}") });
            }
        }
    }

    /// Compares a reconstruction with the picture it is of, where there is one alone.
    pub fn attacked(&mut self, round: u32, attack: AttackMethod, side: usize, picture: &[f32]) {
        let Some(session) = &self.session else { return };
        let compared = session.client.compare(round, attack, side, picture);
        match compared.transpose() {
            Ok(comparison) => {
                if let Some(compared) = &comparison {
                    let score = session.client.score(round, attack, compared.psnr, compared.ssim);
                    self.send(score);
                }
                let comparison = comparison.map(|compared| {
                    let unmask_client::ReconstructionScore { own, is_private, psnr, ssim } = compared;
                    Comparison { own: rgba(&own), is_private, psnr, ssim }
                });
                let (side, reconstruction) = (side as u32, rgba(picture));
                self.page.tell(FromWorker::Attacked { round, attack, side, reconstruction, comparison });
            }
            Err(reason) => {
                let text = format!("the reconstruction of round {round} cannot be compared: {reason}");
                self.page.tell(FromWorker::Notice { text });
            }
        }
    }

    /// What the weights at hand make of the picture to try.
    pub async fn answer(&mut self) {
        let Some(session) = &mut self.session else { return };
        session.is_trial_due = false;
        let Some((plan, trial)) = session.trained.take().zip(session.trial.take()) else { return };
        let device = self.device_for(&plan).await;
        let answer = trial.answer(&plan, device.device()).await;
        self.page.tell(FromWorker::Answered { number: trial.number, answer });
        if let Some(session) = &mut self.session {
            session.trained = Some(plan);
            session.trial = Some(trial);
        }
    }

    /// The device chosen for this model; chosen anew when the size changes, since the faster one may be another then.
    async fn device_for(&mut self, plan: &RoundPlan) -> OpenDevice {
        if let Some((architecture, device)) = &self.device
            && architecture.name() == plan.architecture.name()
        {
            return device.clone();
        }
        let wanted = self.session.as_ref().map_or(DeviceChoice::Auto, |session| session.wanted);
        let (device, reason) = device::choose(plan.architecture, 1, compute(wanted)).await;
        self.device = Some((plan.architecture, device.clone()));
        self.page.tell(FromWorker::Device { name: device.compute().to_string(), reason });
        if let Some(session) = &mut self.session {
            let message = session.client.device(&device.description());
            self.send(message);
        }
        device
    }
}

fn compute(wanted: DeviceChoice) -> Option<Compute> {
    match wanted {
        DeviceChoice::Auto => None,
        DeviceChoice::Cpu => Some(Compute::Cpu),
        DeviceChoice::WebGpu => Some(Compute::Gpu),
    }
}

async fn train(plan: &RoundPlan, pictures: &RoundPictures, device: &Device) -> Result<LocalUpdate, String> {
    let network = Network::new(plan.architecture, device).map_err(|error| error.to_string())?;
    plan.task().train(&network, pictures).await.map_err(|error| error.to_string())
}

fn fresh_seed() -> Result<MaskSeed, String> {
    fresh_bytes().map(MaskSeed)
}

fn fresh_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| format!("the browser gives no random numbers: {error}"))?;
    Ok(bytes)
}
