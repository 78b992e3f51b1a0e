//! Gradient matching as whoever schedules searches begins it: by the attack's name, on one update.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_attack::{Method, Search, SearchOptions, SearchProgress, Searches, Subject};
use unmask_model::{Precision, Reach, Vit, device::OpenDevice};

use crate::{Matching, MatchingProgress, Objective, Problem, ReceivedGradient, SearchVerdict, Settings, VitNetwork};

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
    fn problem(&self, method: Method, subject: &Subject) -> Result<Problem<VitNetwork>, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let vit = Vit::new(subject.spec, self.device.device()).map_err(|error| said(&error))?;
        let (objective, reach) = match method {
            Method::Matching | Method::MatchingAware => (Objective::tokens(vit.config()), Reach::FirstBlock),
            Method::Jigsaw => (Objective::tokens_without_position(vit.config()), Reach::FirstBlock),
            Method::Gradients | Method::GradientsAware => (Objective::Cosine, Reach::Everything),
            _ => {
                let searches = Method::ALL.into_iter().filter(|method| method.is_search()).map(Method::name);
                let searches = searches.collect::<Vec<_>>().join(", ");
                return Err(format!("{method} is solved, not searched for; the searches are {searches}"));
            }
        };
        let is_naive = matches!(method, Method::Matching | Method::Gradients);
        let evidence = match &subject.kept {
            Some(kept) if !is_naive => ReceivedGradient::aware(&subject.gradient, kept),
            _ => ReceivedGradient::naive(&subject.gradient),
        };
        let evidence = evidence.map_err(|error| said(&error))?;
        let network = VitNetwork::new(&vit, &subject.weights, &subject.labels, reach, Precision::F32);
        Problem::new(network.map_err(|error| said(&error))?, objective, evidence).map_err(|error| said(&error))
    }
}

impl Searches for GradientMatching {
    fn begin(&self, method: Method, subject: &Subject, options: SearchOptions) -> Result<Box<dyn Search>, String> {
        let settings = settings(options)?;
        let problem = self.problem(method, subject)?;
        let start = apart(&subject.start, subject.labels.len());
        let matching = Matching::new(problem, &start, settings).map_err(|error| error.to_string())?;
        Ok(Box::new(MatchingSearch { from: self.clone(), method, settings, matching, over: None }))
    }
}

fn settings(SearchOptions { iterations, step }: SearchOptions) -> Result<Settings, String> {
    let default = Settings::default();
    let (iterations, step) = (iterations.unwrap_or(default.iterations), step.unwrap_or(default.step));
    if iterations == 0 {
        return Err("a search of 0 iterations finds nothing; give at least 1".to_owned());
    }
    if !(step > 0.0 && step <= 2.0) {
        return Err(format!("the first step size is {step}; give a number above 0 and up to 2, such as 0.1"));
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
    matching: Matching<VitNetwork>,
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
    fn step(&mut self) -> Result<SearchProgress, String> {
        if let Some(progress) = &self.over {
            return Ok(progress.clone());
        }
        let progress = self.matching.step_blocking().map_err(|error| error.to_string())?;
        Ok(self.told(progress))
    }

    fn finish(&mut self) -> Option<SearchProgress> {
        let progress = self.matching.finish()?;
        Some(self.told(progress))
    }

    fn retarget(&mut self, subject: &Subject) -> Result<(), String> {
        let problem = self.from.problem(self.method, subject)?;
        self.matching.retarget(problem).map_err(|error| error.to_string())?;
        self.over = None;
        Ok(())
    }
}
