//! What leaks of the student's own picture under a mask of their choice, while they move its rate.

use std::ops::ControlFlow;

use unmask_attack::{AttackProgress, Needs, NoSearches, Observation, Received, SearchOptions, UpdateScale, run};
use unmask_client::{Client, LocalUpdate, PictureSelection, RoundPlan};
use unmask_core::{AttackMethod, Rule};
use unmask_lesson::MAX_OWN_MASK_PARAMETERS;

use super::{own_attack::compared, views};
use crate::protocol::{OwnMask, Reconstruction};

/// The attack whose picture dissolves.
const ATTACK: AttackMethod = AttackMethod::Embedding;

/// The last gradient before its defence, and the rate that the student asks about.
pub struct OwnGradient {
    round: u32,
    /// `[P]`.
    values: Vec<f32>,
    /// For each entry the rate, in 65536ths, from which on it stays home. Rates nest, so that the picture dissolves.
    /// Empty until a rate is asked for.
    leaves_at: Vec<u16>,
    asked: Option<u8>,
}

impl OwnGradient {
    /// Keeps the gradient of one private picture; `None` for any other update.
    pub fn of(plan: &RoundPlan, trained: &LocalUpdate) -> Option<Self> {
        let is_one = matches!(plan.pictures, PictureSelection::Private) && trained.samples == 1;
        let is_gradient = plan.rule == Rule::FedSgd && plan.cipher.is_none();
        if !is_one
            || !is_gradient
            || trained.values.len() > MAX_OWN_MASK_PARAMETERS
            || plan.architecture.vit().is_none()
        {
            return None;
        }
        Some(Self { round: plan.round, values: trained.values.clone(), leaves_at: Vec::new(), asked: None })
    }

    /// Asks for the picture at a rate in percent. Only the last one asked for is made.
    pub fn ask(&mut self, percent: u8) {
        self.asked = Some(percent);
    }

    pub fn asked(&self) -> Option<u8> {
        self.asked
    }

    #[must_use]
    pub fn asking(self, asked: Option<u8>) -> Self {
        Self { asked, ..self }
    }

    pub fn is_due(&self) -> bool {
        self.asked.is_some()
    }

    /// Attacks the gradient at the rate asked for; `None` if `plan` is of another round.
    pub fn attack(&mut self, plan: &RoundPlan, client: &Client) -> Option<OwnMask> {
        let percent = self.asked.take()?;
        if plan.round != self.round {
            return None;
        }
        if self.leaves_at.is_empty() {
            self.draw()?;
        }
        let found = self.masked(percent, plan, client);
        Some(OwnMask { round: self.round, percent, found })
    }

    fn draw(&mut self) -> Option<()> {
        let mut bytes = vec![0; 2 * self.values.len()];
        getrandom::fill(&mut bytes).ok()?;
        let (pairs, _) = bytes.as_chunks();
        self.leaves_at = pairs.iter().map(|&pair| u16::from_le_bytes(pair)).collect();
        Some(())
    }

    fn masked(&self, percent: u8, plan: &RoundPlan, client: &Client) -> Option<Reconstruction> {
        let rate = u32::from(percent) * 65_536 / 100;
        let stays = |(value, &leaves_at): (&f32, &u16)| if u32::from(leaves_at) < rate { 0.0 } else { *value };
        let values: Vec<f32> = self.values.iter().zip(&self.leaves_at).map(stays).collect();
        let received = Received {
            model: plan.architecture.into(),
            weights: &plan.state.weights,
            values: &values,
            words: None::<std::iter::Empty<(u64, usize)>>,
            scale: UpdateScale::Gradient,
        };
        let evidence = received.evidence(&Needs::of(ATTACK, plan.architecture).ok()?);
        let observation = Observation::new(evidence);
        let go_on = &mut |_: AttackProgress<'_>| ControlFlow::Continue(());
        let found = run(ATTACK, &observation, &NoSearches, SearchOptions::default(), go_on).ok()?;
        let (picture, side) = (found.pictures.first()?, plan.architecture.side());
        let comparison = client.compare(self.round, ATTACK, side, picture).and_then(Result::ok);
        Some(Reconstruction {
            round: self.round,
            attack: ATTACK,
            picture: views::rgba(side, picture),
            comparison: comparison.map(|score| compared(side, score)),
        })
    }
}

#[cfg(test)]
mod tests {
    use unmask_client::{Nonces, PrivatePicture};
    use unmask_core::{Architecture, VitPreset};
    use unmask_data::Picture;
    use unmask_model::{Network, device::OpenDevice};
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    async fn the_picture_dissolves_as_the_rate_grows() {
        let architecture = Architecture::from(VitPreset::Pico);
        let plan = RoundPlan {
            round: 3,
            policy: 1,
            architecture,
            layout: architecture.layout(),
            defence: "random-binary:0.5".parse().expect("a defence"),
            rule: Rule::FedSgd,
            batch: 1,
            pictures: PictureSelection::Private,
            state: architecture.initial(7),
            cipher: None,
            sum: None,
            nonces: Nonces::default(),
            least: 1,
            doubts: Vec::new(),
        };
        let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8 / 4 + (i % 160) as u8;
        let picture = Picture::new(16, 16, (0..16 * 16 * 3).map(byte).collect()).expect("a picture");
        let mut client = Client::new("Ada", "CPU").with_pictures(vec![PrivatePicture::new(picture, 3)]);
        let pictures = client.pictures(&plan).expect("one picture");
        let device = OpenDevice::cpu();
        let network = Network::new(architecture, device.device()).expect("a network");
        let trained = plan.task().train(&network, &pictures).await.expect("a step");
        let mut own = OwnGradient::of(&plan, &trained).expect("a gradient of one picture");
        client.update(&plan, trained, [7; 32]).expect("an update");
        let mut ssim = |percent| {
            own.ask(percent);
            let tried = own.attack(&plan, &client).expect("a try");
            assert_eq!(tried.percent, percent);
            tried.found.and_then(|found| found.comparison).map_or(-1.0, |it| it.ssim)
        };
        let (open, half, most) = (ssim(0), ssim(50), ssim(95));
        assert!(open > 0.9 && half < open && most < 0.5, "SSIM {open}, {half}, {most}");
        assert!(own.attack(&plan, &client).is_none(), "nothing was asked");
        own.ask(10);
        let other = RoundPlan { round: 4, ..plan };
        assert!(own.attack(&other, &client).is_none(), "another round");
    }
}
