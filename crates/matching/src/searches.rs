//! Starts gradient matching by the attack's name, on one update.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{
    AttackError, ModelShape, Search, SearchOptions, SearchProgress, SearchTarget, Searches, WholeUpdate,
};
use unmask_core::{Activation, AttackFamily, AttackMethod, VitConfig};
use unmask_model::{Network, Normalisation, OracleOptions, WeightScope, device::OpenDevice};

use crate::{
    Inputs, Matching, MatchingOptions, NetworkOracle, Objective, Problem, ReceivedGradient, picture::normalise,
};

/// Largest noise added to the starts of a batch, in units of pixels in [0, 1].
const APART: f32 = 0.02;

/// Starts gradient matching searches on a device.
#[derive(Debug, Clone)]
pub struct GradientMatching {
    device: OpenDevice,
}

impl GradientMatching {
    pub fn new(device: OpenDevice) -> Self {
        Self { device }
    }

    fn problem(&self, method: AttackMethod, target: &SearchTarget<'_>) -> Result<Problem, AttackError> {
        let network = Network::new(target.architecture, self.device.device()).map_err(said)?;
        let vit = || ModelShape::from(target.architecture).vit();
        let (objective, scope) = match method.family() {
            AttackFamily::Matching => (Objective::tokens(&vit()?), WeightScope::FirstBlock),
            AttackFamily::Jigsaw => (Objective::tokens_without_position(&vit()?), WeightScope::FirstBlock),
            AttackFamily::Gradients => (Objective::Cosine, WeightScope::All),
            _ => {
                let searches = AttackMethod::ALL.into_iter().filter(|method| method.is_search());
                let searches = searches.map(AttackMethod::name).collect::<Vec<_>>().join(", ");
                let reason = format!("{method} is solved, not searched for; the searches are {searches}");
                return Err(AttackError::Search { reason });
            }
        };
        let received = match target.kept {
            Some(kept) => ReceivedGradient::aware(target.gradient, kept),
            None => ReceivedGradient::naive(target.gradient),
        };
        let normalisation = normalisation(target.is_training);
        let options = OracleOptions { scope, normalisation, ..OracleOptions::default() };
        let oracle = NetworkOracle::new(&network, target.state, &target.labels, options);
        Problem::new(oracle.map_err(said)?, objective, received?)
    }
}

fn said(error: impl std::error::Error) -> AttackError {
    AttackError::Search { reason: error.to_string() }
}

impl Searches for GradientMatching {
    fn begin(
        &self,
        method: AttackMethod,
        target: &SearchTarget<'_>,
        options: SearchOptions,
    ) -> Result<Box<dyn Search>, AttackError> {
        options.check()?;
        let default = MatchingOptions::default();
        let (iterations, step) =
            (options.iterations.unwrap_or(default.iterations), options.step.unwrap_or(default.step));
        let options = MatchingOptions { iterations, step, is_start_exact: target.is_start_exact, ..default };
        let problem = self.problem(method, target)?;
        let start = apart(&target.start, target.labels.len());
        let matching = Matching::new(problem, &start, options)?;
        Ok(Box::new(MatchingSearch { from: self.clone(), method, matching }))
    }

    fn gradient_along(
        &self,
        whole: &WholeUpdate,
        slope: &[f32],
        activation: Activation,
        picture: &[f32],
    ) -> Result<Vec<f64>, AttackError> {
        let network = Network::new(whole.architecture, self.device.device()).map_err(said)?;
        let side = whole.architecture.side();
        let expected = VitConfig::CHANNELS * side * side;
        if picture.len() != expected {
            return Err(AttackError::StartLength { found: picture.len(), expected, batch: 1, side });
        }
        let x = normalise(Inputs { batch: 1, side }, picture);
        let images: Vec<f32> = x.into_iter().map(|x| (0.5 * x + 0.5) as f32).collect();
        let gradient = network.gradient_along(&whole.state, &images, slope, activation).map_err(said)?;
        let gradient = gradient.ok_or(AttackError::NoModel)?;
        Ok(gradient.into_iter().map(f64::from).collect())
    }

    fn gradient(&self, whole: &WholeUpdate, labels: &[usize], pictures: &[f32]) -> Result<Vec<f64>, AttackError> {
        let network = Network::new(whole.architecture, self.device.device()).map_err(said)?;
        let options = OracleOptions { normalisation: normalisation(whole.is_training), ..OracleOptions::default() };
        let oracle = NetworkOracle::new(&network, &whole.state, labels, options).map_err(said)?;
        let inputs = oracle.inputs();
        if pictures.len() != inputs.len() {
            let (found, expected, Inputs { batch, side }) = (pictures.len(), inputs.len(), inputs);
            return Err(AttackError::StartLength { found, expected, batch, side });
        }
        Ok(oracle.gradient(&normalise(inputs, pictures)).map_err(said)?.gradient().to_vec())
    }
}

fn normalisation(is_training: bool) -> Normalisation {
    if is_training { Normalisation::Batch } else { Normalisation::Running }
}

/// Adds separate noise to each picture. Equal starts in a batch would have equal slopes and stay equal.
fn apart(start: &[f32], batch: usize) -> Vec<f32> {
    let mut start = start.to_vec();
    if batch > 1 {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        start.iter_mut().for_each(|value| *value = (*value + rng.random_range(-APART..APART)).clamp(0.0, 1.0));
    }
    start
}

struct MatchingSearch {
    from: GradientMatching,
    method: AttackMethod,
    matching: Matching,
}

impl Search for MatchingSearch {
    fn step(&mut self) -> Result<SearchProgress, AttackError> {
        self.matching.step()
    }

    fn finish(&mut self) -> Option<SearchProgress> {
        self.matching.finish()
    }

    fn retarget(&mut self, target: &SearchTarget<'_>) -> Result<(), AttackError> {
        self.matching.retarget(self.from.problem(self.method, target)?)
    }
}
