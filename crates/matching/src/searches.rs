//! Gradient matching as whoever schedules searches begins it: by the attack's name, on one update.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{CannotAttack, Knowledge, Method, Search, SearchOptions, SearchProgress, Searches, Subject};
use unmask_model::{Network, OracleOptions, WeightScope, device::OpenDevice};

use crate::{Matching, MatchingProgress, NetworkOracle, Objective, Problem, ReceivedGradient, SearchVerdict, Settings};

/// Most that the pictures of a batch are moved apart before the first step, in units of pixels in [0, 1].
const APART: f32 = 0.02;

/// Begins searches by gradient matching on a device.
#[derive(Debug, Clone)]
pub struct GradientMatching {
    device: OpenDevice,
}

impl GradientMatching {
    /// Searches that compute on `device`.
    pub fn new(device: OpenDevice) -> Self {
        Self { device }
    }

    /// What `method` matches of `subject`.
    fn problem(&self, method: Method, subject: &Subject<'_>) -> Result<Problem<NetworkOracle>, CannotAttack> {
        let architecture = subject.architecture;
        let network = Network::new(architecture, self.device.device()).map_err(said)?;
        let vit = || architecture.vit().ok_or(CannotAttack::NotVit { architecture });
        let (objective, scope) = match method {
            Method::Matching | Method::MatchingAware => (Objective::tokens(&vit()?), WeightScope::FirstBlock),
            Method::Jigsaw => (Objective::tokens_without_position(&vit()?), WeightScope::FirstBlock),
            Method::Gradients | Method::GradientsAware => (Objective::Cosine, WeightScope::All),
            _ => {
                let searches = Method::ALL.into_iter().filter(|method| method.is_search()).map(Method::name);
                let searches = searches.collect::<Vec<_>>().join(", ");
                let reason = format!("{method} is solved, not searched for; the searches are {searches}");
                return Err(CannotAttack::Search { reason });
            }
        };
        let kept = subject.kept.filter(|_| method.knowledge() == Knowledge::Aware);
        let received = match kept {
            Some(kept) => ReceivedGradient::aware(subject.gradient, kept),
            None => ReceivedGradient::naive(subject.gradient),
        };
        let options = OracleOptions { scope, ..OracleOptions::default() };
        let oracle = NetworkOracle::new(&network, subject.state, &subject.labels, options);
        Problem::new(oracle.map_err(said)?, objective, received.map_err(said)?).map_err(said)
    }
}

/// In the words of the search.
fn said(error: impl std::error::Error) -> CannotAttack {
    CannotAttack::Search { reason: error.to_string() }
}

impl Searches for GradientMatching {
    fn begin(
        &self,
        method: Method,
        subject: &Subject<'_>,
        options: SearchOptions,
    ) -> Result<Box<dyn Search>, CannotAttack> {
        let settings = settings(options)?;
        let problem = self.problem(method, subject)?;
        let start = apart(&subject.start, subject.labels.len());
        let matching = Matching::new(problem, &start, settings).map_err(said)?;
        Ok(Box::new(MatchingSearch { from: self.clone(), method, settings, matching, over: None }))
    }
}

fn settings(SearchOptions { iterations, step, .. }: SearchOptions) -> Result<Settings, CannotAttack> {
    let default = Settings::default();
    let (iterations, step) = (iterations.unwrap_or(default.iterations), step.unwrap_or(default.step));
    if iterations == 0 {
        let reason = "a search of 0 iterations finds nothing; give at least 1".to_owned();
        return Err(CannotAttack::Search { reason });
    }
    if !(step > 0.0 && step <= 2.0) {
        let reason = format!("the first step size is {step}; give a number above 0 and up to 2, such as 0.1");
        return Err(CannotAttack::Search { reason });
    }
    Ok(Settings { iterations, step, ..default })
}

/// Pictures of a batch that start alike have the same slope and stay alike, so each of them is moved by noise of its own.
fn apart(start: &[f32], batch: usize) -> Vec<f32> {
    let mut start = start.to_vec();
    if batch > 1 {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        start.iter_mut().for_each(|value| *value = (*value + rng.random_range(-APART..APART)).clamp(0.0, 1.0));
    }
    start
}

/// One search by one method.
struct MatchingSearch {
    from: GradientMatching,
    method: Method,
    settings: Settings,
    matching: Matching<NetworkOracle>,
    /// The last step's, once there is nothing more to do.
    over: Option<SearchProgress>,
}

impl MatchingSearch {
    fn told(&mut self, progress: MatchingProgress) -> SearchProgress {
        let MatchingProgress { iteration, objective, image, verdict, .. } = progress;
        let is_over = verdict != SearchVerdict::Running;
        let kept_start = "No picture was found that explains the update better than the one the search started from.";
        let note = (verdict == SearchVerdict::KeptStart).then(|| kept_start.to_owned());
        let iterations = self.settings.iterations;
        let progress = SearchProgress { iteration, iterations, objective, image, is_over, note };
        if is_over {
            self.over = Some(progress.clone());
        }
        progress
    }
}

impl Search for MatchingSearch {
    fn step(&mut self) -> Result<SearchProgress, CannotAttack> {
        if let Some(progress) = &self.over {
            return Ok(progress.clone());
        }
        let progress = self.matching.step_blocking().map_err(said)?;
        Ok(self.told(progress))
    }

    fn finish(&mut self) -> Option<SearchProgress> {
        let progress = self.matching.finish()?;
        Some(self.told(progress))
    }

    fn retarget(&mut self, subject: &Subject<'_>) -> Result<(), CannotAttack> {
        let problem = self.from.problem(self.method, subject)?;
        self.matching.retarget(problem).map_err(said)?;
        self.over = None;
        Ok(())
    }
}
