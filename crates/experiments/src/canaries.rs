//! A lower bound of epsilon, by trying: somebody who knows everything but one picture guesses which of two it was.

use std::ops::ControlFlow;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use unmask_attack::{CanaryScore, is_first_likelier};
use unmask_client::{Batch, LocalTask};
use unmask_core::{Defence, GaussianNoise, MaskSeed, ModelState, Rule};
use unmask_defence::clip_factor;
use unmask_model::{Network, block_on};

use crate::{ExperimentError, request::pool};

/// Trials after which the caller is asked whether to go on.
const TOGETHER: usize = 16;

/// A client's noise put to the test in one round of FedSGD, against somebody who knows all pictures but one, the weights
/// and the defence.
///
/// In each trial the client trains on B - 1 known pictures and one of two canaries, decided by a coin. The guess is the
/// canary under which the protected update is likelier ([`is_first_likelier`]).
#[derive(Debug, Clone, Copy)]
pub struct CanaryTrials<'a> {
    pub network: &'a Network,
    pub state: &'a ModelState,
    pub noise: GaussianNoise,
    /// B, at least 1.
    pub batch: usize,
    pub trials: u32,
    pub seed: u64,
    /// Number of threads; one per processor if absent.
    pub threads: Option<usize>,
}

impl CanaryTrials<'_> {
    /// Runs the trials, each by its own seed. `picture` makes pictures `[3, side, side]` in [0, 1] from numbers. `on_progress`
    /// receives the number of finished trials and may end them early.
    ///
    /// # Errors
    /// The model cannot be run on the pictures, its gradient is not finite, or the threads cannot be started.
    pub fn run(
        &self,
        picture: &(dyn Fn(u64) -> Vec<f32> + Sync),
        on_progress: &mut dyn FnMut(u32) -> ControlFlow<()>,
    ) -> Result<CanaryScore, ExperimentError> {
        let (mut score, pool) = (CanaryScore::default(), pool(self.threads)?);
        let numbers: Vec<u32> = (0..self.trials).collect();
        for numbers in numbers.chunks(TOGETHER) {
            let guess = || numbers.par_iter().map(|number| self.is_guessed(*number, picture)).collect();
            let guesses: Result<Vec<bool>, _> = pool.install(guess);
            guesses?.into_iter().for_each(|is_right| score.count(is_right));
            if on_progress(score.trials).is_break() {
                break;
            }
        }
        Ok(score)
    }

    fn is_guessed(&self, number: u32, picture: &(dyn Fn(u64) -> Vec<f32> + Sync)) -> Result<bool, ExperimentError> {
        let mut random = ChaCha20Rng::seed_from_u64(self.seed);
        random.set_stream(u64::from(number));
        let layout = self.network.layout();
        let classes = self.network.architecture().classes();
        let known = self.batch.saturating_sub(1);
        let mut batch = Batch::default();
        for _ in 0..known {
            batch.images.extend(picture(random.random()));
            batch.labels.push(random.random_range(0..classes));
        }
        let task = LocalTask {
            layout,
            state: self.state,
            rule: Rule::FedSgd,
            batch: known + 1,
            defence: Defence::Gaussian(self.noise),
            cipher: None,
        };
        let mut canary = || -> Result<_, ExperimentError> {
            let mut batch = batch.clone();
            batch.images.extend(picture(random.random()));
            batch.labels.push(random.random_range(0..classes));
            let trained = block_on(task.train(self.network, &batch)).map_err(ExperimentError::Client)?;
            let mean = self.mean(&trained.values);
            Ok((trained, mean))
        };
        let [first, second] = [canary()?, canary()?];
        let is_first: bool = random.random();
        let (trained, [first, second]) = match is_first {
            true => (first.0, [first.1, second.1]),
            false => (second.0, [first.1, second.1]),
        };
        let sent = task.protect(trained.values, trained.samples, MaskSeed(random.random()))?.values;
        Ok(is_first_likelier(&sent, [&first, &second]) == is_first)
    }

    /// The protected update without its noise, `[P]`.
    fn mean(&self, trained: &[f32]) -> Vec<f64> {
        let noise = self.noise.of_mean(u32::try_from(self.batch).unwrap_or(u32::MAX));
        let factor = noise.clip().map_or(1.0, |clip| clip_factor(trained, clip));
        trained.iter().map(|value| f64::from(*value) * factor).collect()
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, VitPreset};
    use unmask_model::device::OpenDevice;

    use super::*;

    fn score(noise: &str, batch: usize) -> CanaryScore {
        tried(noise, batch, None).unwrap()
    }

    fn tried(noise: &str, batch: usize, threads: Option<usize>) -> Result<CanaryScore, ExperimentError> {
        let architecture = Architecture::from(VitPreset::Pico);
        let network = Network::new(architecture, OpenDevice::cpu().device()).unwrap();
        let (state, side) = (architecture.initial(1), architecture.side());
        let picture = |number: u64| {
            let mut random = ChaCha20Rng::seed_from_u64(number);
            (0..3 * side * side).map(|_| random.random()).collect()
        };
        let trials = CanaryTrials {
            network: &network,
            state: &state,
            noise: noise.parse().unwrap(),
            batch,
            trials: 300,
            seed: 1,
            threads,
        };
        trials.run(&picture, &mut |_| ControlFlow::Continue(()))
    }

    #[test]
    fn the_score_is_the_same_with_any_number_of_threads() {
        let noise = "eps=8,delta=1e-5,clip=1";
        assert_eq!(tried(noise, 1, Some(1)).unwrap(), tried(noise, 1, Some(3)).unwrap());
        assert!(matches!(tried(noise, 1, Some(0)), Err(ExperimentError::NoThreads)));
    }

    /// Noise that is next to nothing is found out, and noise that drowns everything is not. What is found never exceeds what
    /// the noise allows: sigma of at least 2 S_f sqrt(2 ln(1.25 / delta)) / epsilon gives epsilon.
    #[test]
    fn the_bound_finds_weak_noise_and_stays_below_what_holds() {
        let weak = score("eps=1000,delta=1e-5,clip=1", 1);
        assert!(weak.right >= 299 && weak.epsilon(1e-5) > 4.0, "{weak:?}");
        let strong = score("eps=0.01,delta=1e-5,clip=1", 1);
        assert!(strong.epsilon(1e-5) < 0.3, "{strong:?}");
        for (noise, batch) in [("eps=1,delta=1e-5,clip=1", 1), ("eps=1,delta=1e-5,clip=1,per=picture", 4)] {
            // Two pictures move the sum by up to 2 S_f, twice what the noise is calibrated to.
            let found = score(noise, batch);
            assert!(found.epsilon(1e-5) < 2.0, "{noise}: {found:?}");
        }
    }

    /// Of noise on whole updates, a larger batch hides a picture better; clipped one by one, it hides it as well as before.
    #[test]
    fn noise_of_pictures_is_of_pictures() {
        let alone = score("eps=8,delta=1e-5,clip=1,per=picture", 1);
        let among = score("eps=8,delta=1e-5,clip=1,per=picture", 4);
        assert!(alone.right.abs_diff(among.right) < 40, "{alone:?} {among:?}");
        assert!(among.right > 200, "{among:?}");
    }
}
