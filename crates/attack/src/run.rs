//! One attack by its name.

use std::{ops::ControlFlow, time::Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    AlsOptions, Attack, AttackKind, CannotAttack, Knowledge, Method, Observation, Reconstruction, Search,
    SearchOptions, Searches, Subject, als, embedding_inversion,
};

/// Updates of more pictures than this are not searched: a start for each would take memory by the client's word.
const MOST_PICTURES: usize = 16;

/// What was measured where several pictures are mixed.
const MIXTURE: &str = "Measured on photographs, embedding inversion reached an SSIM of at most 0.35 with two pictures in an \
                       update and at most 0.15 with four or more, where 0.5 counts as seen.";

/// Where an attack that works step by step stands.
#[derive(Debug, Clone, Copy)]
pub struct AttackProgress<'a> {
    /// Steps done.
    pub iteration: usize,
    /// Steps to do in all.
    pub iterations: usize,
    /// What is being made small.
    pub objective: f64,
    /// `[batch, side, side, 3]` in [0, 1].
    pub pictures: &'a [f32],
}

/// What an attack recovered.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Each `[side, side, 3]` in [0, 1]. A closed form sees one mixture, however many pictures are in the update.
    pub pictures: Vec<Vec<f32>>,
    /// Time of the attack, the closed form that a search starts from included.
    pub seconds: f64,
    /// Steps done, of an attack that works step by step.
    pub iterations: Option<usize>,
    /// The last objective, of a search.
    pub objective: Option<f64>,
    /// Smallest over largest singular value, of a closed form.
    pub singular_ratio: Option<f64>,
    /// What to know about the result, in sentences.
    pub notes: Vec<String>,
}

impl From<Reconstruction> for Recovered {
    fn from(Reconstruction { image, singular_ratio, notes, .. }: Reconstruction) -> Self {
        Self {
            pictures: vec![image],
            seconds: 0.0,
            iterations: None,
            objective: None,
            singular_ratio: Some(singular_ratio),
            notes,
        }
    }
}

/// Runs `method` on `observation`; searches come from `searches`. `progress` hears of every step of a search and of gathered
/// rounds, and may end it: the best found so far is the result then.
///
/// # Errors
/// [`CannotAttack`] says why there is nothing to see.
pub fn run(
    method: Method,
    observation: &Observation,
    searches: &dyn Searches,
    options: SearchOptions,
    progress: &mut dyn FnMut(AttackProgress<'_>) -> ControlFlow<()>,
) -> Result<Recovered, CannotAttack> {
    let clock = Instant::now();
    let closed_form = |attack| observation.solve(attack).map(Recovered::from);
    let mut recovered = match method {
        Method::Embedding => closed_form(Attack::naive(AttackKind::Embedding))?,
        Method::EmbeddingAware => closed_form(Attack::aware(AttackKind::Embedding))?,
        Method::April => closed_form(Attack::naive(AttackKind::April))?,
        Method::AprilAware => closed_form(Attack::aware(AttackKind::April))?,
        Method::Rounds => rounds(observation, progress)?,
        Method::KnownStart | Method::Colluder => embedding_inversion(&observation.decrypted(method)?)?.into(),
        Method::Matching | Method::MatchingAware | Method::Gradients | Method::GradientsAware | Method::Jigsaw => {
            search(method, observation, searches, options, progress)?
        }
    };
    if observation.batch > 1 && !method.is_search() {
        recovered.notes.push(format!(
            "{} pictures are mixed in this update: a closed form solves for one and sees their mixture. {MIXTURE}",
            observation.batch,
        ));
    }
    recovered.seconds = clock.elapsed().as_secs_f64();
    Ok(recovered)
}

/// Solves for the picture behind all rounds gathered, and for what no round kept.
fn rounds(
    observation: &Observation,
    progress: &mut dyn FnMut(AttackProgress<'_>) -> ControlFlow<()>,
) -> Result<Recovered, CannotAttack> {
    let rounds = observation.rounds.as_ref().map_err(Clone::clone)?;
    let mut done = 0;
    let found = als(rounds, AlsOptions::default(), |step| {
        done = step.iteration;
        progress(AttackProgress {
            iteration: step.iteration,
            iterations: step.iterations,
            objective: step.misfit,
            pictures: &step.picture.image,
        })
    })?;
    let mut recovered = Recovered::from(found);
    recovered.iterations = Some(done);
    recovered.notes.push(format!("{} of {} rounds were gathered.", rounds.rounds(), rounds.seen()));
    Ok(recovered)
}

/// Searches until it is over, or `progress` ends it.
fn search(
    method: Method,
    observation: &Observation,
    searches: &dyn Searches,
    options: SearchOptions,
    progress: &mut dyn FnMut(AttackProgress<'_>) -> ControlFlow<()>,
) -> Result<Recovered, CannotAttack> {
    let mut search = begin(method, observation, searches, options)?;
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
            notes.push(format!("Stopped after {} of {} steps.", step.iteration, step.iterations));
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
                notes,
            });
        }
    }
}

/// Begins a search by `method`: from what the closed form of the same knowledge finds where there is one, otherwise from
/// noise of the options' seed. The labels are those that are known, or those that the update gives away.
///
/// # Errors
/// [`CannotAttack`] says why there is nothing to search for.
pub fn begin(
    method: Method,
    observation: &Observation,
    searches: &dyn Searches,
    options: SearchOptions,
) -> Result<Box<dyn Search>, CannotAttack> {
    let mut subject = subject(method, observation)?;
    let values = subject.labels.len() * subject.picture_len();
    subject.start = match start(method, observation) {
        Some(picture) => picture.repeat(subject.labels.len()),
        None => noise(options.seed, values),
    };
    searches.begin(method, &subject, options)
}

/// Goes on with a search by `method` on another update of the same client, from the pictures found so far.
///
/// # Errors
/// [`CannotAttack`] says why it cannot; the search goes on as it was.
pub fn retarget(search: &mut dyn Search, method: Method, observation: &Observation) -> Result<(), CannotAttack> {
    search.retarget(&subject(method, observation)?)
}

/// What a search is given, but for its start. A naive attacker is not told the mask.
fn subject(method: Method, observation: &Observation) -> Result<Subject<'_>, CannotAttack> {
    if observation.encryption.is_some() {
        return Err(CannotAttack::CipherText);
    }
    let whole = observation.whole.as_deref().ok_or(CannotAttack::NoModel)?;
    let batch = observation.batch;
    if batch > MOST_PICTURES {
        return Err(CannotAttack::TooManyPictures { batch, most: MOST_PICTURES });
    }
    let labels = match &observation.labels {
        Some(labels) if labels.len() == batch => labels.clone(),
        Some(labels) => return Err(CannotAttack::LabelCount { labels: labels.len(), batch }),
        None => observation.read_labels().map_err(|why| CannotAttack::NoLabels(Box::new(why)))?.labels(),
    };
    let kept = whole.kept.as_deref().filter(|_| method.knowledge() == Knowledge::Aware);
    Ok(Subject {
        architecture: whole.architecture,
        state: &whole.state,
        gradient: &whole.gradient,
        kept,
        labels,
        start: Vec::new(),
    })
}

/// The picture of the closed form of the same knowledge: a naive attacker must not start from what only a better one sees.
/// Without the position embedding, and for networks without one, there is none.
fn start(method: Method, observation: &Observation) -> Option<Vec<f32>> {
    let attack = match method {
        Method::Matching => Attack::naive(AttackKind::Embedding),
        Method::MatchingAware => Attack::aware(AttackKind::Embedding),
        _ => return None,
    };
    observation.solve(attack).ok().map(|found| found.image)
}

/// Uniform in [0, 1).
fn noise(seed: u64, values: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..values).map(|_| rng.random_range(0.0..1.0)).collect()
}
