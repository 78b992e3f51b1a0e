//! Runs an attack by name.

use std::ops::ControlFlow;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{AttackMethod, Knowledge};
use web_time::Instant;

use crate::{
    ALS_ITERATIONS, AttackError, AttackProgress, Ending, Evidence, Needs, Observation, Reconstruction, SAME_PICTURE,
    Search, SearchOptions, SearchTarget, Searches, WholeUpdate, als, completion_of_rounds, embedding_inversion,
    method::{Solver, definition},
    pixel_uncertainty,
};

/// Largest number of pictures in a searched update. The client claims that number, and each picture takes memory.
const MOST_PICTURES: usize = 16;

/// Measured results for updates that mix several pictures.
const MIXTURE: &str = "Measured on photographs, embedding inversion reached an SSIM of at most 0.35 with two pictures in an \
                       update and at most 0.15 with four or more, where 0.5 counts as seen.";

/// Receives each step and may end the attack.
pub type OnProgress<'a> = &'a mut dyn FnMut(AttackProgress<'_>) -> ControlFlow<()>;

#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Pictures `[side, side, 3]` in [0, 1]. A closed form sees one mixture of all pictures in the update.
    pub pictures: Vec<Vec<f32>>,
    /// Duration of the attack, including the closed form that a search starts from.
    pub seconds: f64,
    /// Steps done, for attacks that work step by step.
    pub iterations: Option<usize>,
    /// The last objective, for searches.
    pub objective: Option<f64>,
    /// Smallest over largest singular value, for closed forms.
    pub singular_ratio: Option<f64>,
    pub ending: Ending,
    /// Of a batch that was taken apart: how many of the first pictures are certain, by their own evidence.
    pub certain: Option<usize>,
    /// A label for each picture, where the update shows which is whose.
    pub labels: Option<Vec<usize>>,
    /// Remarks about the result, in sentences.
    pub notes: Vec<String>,
}

impl From<Reconstruction> for Recovered {
    fn from(Reconstruction { image, singular_ratio, ending, notes }: Reconstruction) -> Self {
        Self {
            pictures: vec![image],
            seconds: 0.0,
            iterations: None,
            objective: None,
            singular_ratio: Some(singular_ratio),
            ending,
            certain: None,
            labels: None,
            notes,
        }
    }
}

/// Runs `method` on `observation`, with searches from `searches`. `progress` is called at each step of a search, of
/// gathered rounds and of a completion. It may end the attack, which then returns the best result so far, if there is
/// one.
///
/// # Errors
/// [`AttackError`] says why nothing can be seen.
pub fn run(
    method: AttackMethod,
    observation: &Observation,
    searches: &dyn Searches,
    options: SearchOptions,
    progress: OnProgress<'_>,
) -> Result<Recovered, AttackError> {
    let clock = Instant::now();
    let mut recovered: Recovered = match definition(method).solver {
        Solver::ClosedForm(solve) => observation.solve(method, solve, progress)?.into(),
        Solver::Rounds => rounds(observation, progress)?,
        Solver::Batch => crate::batch::whole_batch(observation, searches, progress)?,
        Solver::Decryption(key) => embedding_inversion(&observation.decrypted(key)?)?.into(),
        Solver::Search(_) => search(begin(method, observation, searches, options)?.as_mut(), observation, progress)?,
    };
    if observation.batch > 1 && !method.is_search() && method != AttackMethod::Batch {
        recovered.notes.push(format!(
            "{} pictures are mixed in this update: a closed form solves for one and sees their mixture. {MIXTURE}{}",
            observation.batch,
            if observation.may_be_taken_apart() { " The attack batch may take them apart." } else { "" },
        ));
    }
    recovered.seconds = clock.elapsed().as_secs_f64();
    if let Some(because) = recovered.ending.because(recovered.seconds).filter(|_| !method.is_search()) {
        recovered
            .notes
            .push(format!("Cannot tell, because {because}: the picture may be wrong, and more may be seen."));
    }
    Ok(recovered)
}

/// Solves for the picture behind all gathered rounds, and for the entries that no round kept.
fn rounds(observation: &Observation, progress: OnProgress<'_>) -> Result<Recovered, AttackError> {
    observation.evidence()?.gradients.vit()?;
    let rounds = observation.rounds.as_ref().map_err(Clone::clone)?;
    // Completion and least squares count different steps. The note counts those of the attack that was ended.
    let (mut done, mut of) = (0, 0);
    let mut hear = |step: AttackProgress<'_>| {
        (done, of) = (step.iteration, step.iterations);
        progress(step)
    };
    // Try completion first, because it is exact. Least squares, which assumes smooth photographs, handles the rest.
    let rounding = observation.evidence()?.gradients.rounding();
    let completed = match observation.batch {
        1 => completion_of_rounds(rounds, rounding, &mut hear),
        _ => Err(AttackError::NoRounds),
    };
    let found = match completed {
        Ok(found) if found.ending != Ending::Unsettled => found,
        Err(AttackError::Ended { seconds }) => return Err(AttackError::Ended { seconds }),
        _ => als(rounds, ALS_ITERATIONS, &mut hear)?,
    };
    let mut recovered = Recovered::from(found);
    recovered.iterations = Some(done);
    recovered.notes.push(format!("{} of {} rounds were gathered.", rounds.rounds(), rounds.seen()));
    if recovered.ending == Ending::Ended {
        recovered.notes.push(stopped(done, of));
    }
    Ok(recovered)
}

fn stopped(done: usize, of: usize) -> String {
    format!("Stopped after {done} of {of} steps.")
}

fn search(
    search: &mut dyn Search,
    observation: &Observation,
    progress: OnProgress<'_>,
) -> Result<Recovered, AttackError> {
    let mut notes = Vec::new();
    if observation.labels.is_none() {
        let labels: Vec<String> = observation.read_labels()?.labels().iter().map(ToString::to_string).collect();
        notes.push(format!("Labels read off the update: {}.", labels.join(", ")));
    }
    loop {
        let mut step = search.step()?;
        let at = AttackProgress {
            iteration: step.iteration,
            iterations: step.iterations,
            objective: step.objective,
            pictures: &step.image,
        };
        let is_stopped = progress(at).is_break() && !step.is_over;
        if is_stopped {
            notes.push(stopped(step.iteration, step.iterations));
            step = search.finish().unwrap_or(step);
        }
        if is_stopped || step.is_over {
            notes.extend(step.note);
            let values = (step.image.len() / observation.batch.max(1)).max(1);
            return Ok(Recovered {
                pictures: step.image.chunks(values).map(<[f32]>::to_vec).collect(),
                seconds: 0.0,
                iterations: Some(step.iteration),
                objective: Some(step.objective),
                singular_ratio: None,
                ending: if is_stopped { Ending::Ended } else { Ending::Settled },
                certain: None,
                labels: None,
                notes,
            });
        }
    }
}

/// Begins a search by `method`. It starts from the result of the closed form with the same knowledge or, without one,
/// from noise with the options' seed. The labels are the known ones, or those that the update reveals.
///
/// # Errors
/// [`AttackError`] says why there is nothing to search for.
pub fn begin(
    method: AttackMethod,
    observation: &Observation,
    searches: &dyn Searches,
    options: SearchOptions,
) -> Result<Box<dyn Search>, AttackError> {
    let mut target = target(method, observation)?;
    let pictures = target.labels.len();
    target.start = match start(method, observation) {
        Some(found) => {
            let error = |evidence: &Evidence| pixel_uncertainty(&evidence.gradients, &found.image);
            target.is_start_exact =
                observation.evidence().ok().and_then(error).is_some_and(|error| error < SAME_PICTURE);
            found.image.repeat(pictures)
        }
        None => noise(options.seed, pictures * target.picture_len()),
    };
    searches.begin(method, &target, options)
}

/// Continues a search by `method` on another update of the same client, from the pictures found so far.
///
/// # Errors
/// [`AttackError`] says why it cannot; the search stays as it was.
pub fn retarget(search: &mut dyn Search, method: AttackMethod, observation: &Observation) -> Result<(), AttackError> {
    search.retarget(&target(method, observation)?)
}

/// The input of a search, except for its start. A naive attacker does not get the mask.
fn target(method: AttackMethod, observation: &Observation) -> Result<SearchTarget<'_>, AttackError> {
    if observation.encryption.is_some() {
        return Err(AttackError::CipherText);
    }
    let whole = observation.whole.as_deref().ok_or(AttackError::NoModel)?;
    // Check this first: reading labels would be in vain.
    Needs::of(method, whole.architecture)?;
    let batch = observation.batch;
    if batch > MOST_PICTURES {
        return Err(AttackError::TooManyPictures { batch, most: MOST_PICTURES });
    }
    let labels = observation.known_labels()?;
    let kept = whole.kept.as_deref().filter(|_| method.knowledge() == Knowledge::Aware);
    let WholeUpdate { architecture, ref state, ref gradient, is_training, .. } = *whole;
    Ok(SearchTarget {
        architecture,
        state,
        gradient,
        kept,
        is_training,
        labels,
        start: Vec::new(),
        is_start_exact: false,
    })
}

/// The closed form's result that the search starts from. There is none without a position embedding.
fn start(method: AttackMethod, observation: &Observation) -> Option<Reconstruction> {
    let Solver::Search(Some(method)) = definition(method).solver else { return None };
    let Solver::ClosedForm(solve) = definition(method).solver else { return None };
    observation.solve(method, solve, &mut |_| ControlFlow::Continue(())).ok()
}

fn noise(seed: u64, values: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..values).map(|_| rng.random_range(0.0..1.0)).collect()
}
