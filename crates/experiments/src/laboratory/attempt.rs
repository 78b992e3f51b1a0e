//! One attack by its name.

mod search;

use std::{ops::ControlFlow, time::Instant};

use unmask_attack::{
    Accumulated, Added, AlsOptions, Attack, AttackKind, CannotAttack, Evidence, Method, Reconstruction, RecoveredKey,
    SearchOptions, Searches, Tensors, als, embedding_inversion, run_attack,
};
use unmask_core::ParamLayout;
use unmask_defence::KeyError;

use crate::laboratory::{Observation, observation::Flat};

/// What an attempt works with besides the observation.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// Where searches come from.
    pub searches: &'a dyn Searches,
    /// How long and how fast they search.
    pub options: SearchOptions,
    /// Of the noise that a search starts from where no closed form finds anything better.
    pub seed: u64,
}

/// Where an attack that works step by step stands.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Steps done.
    pub iteration: usize,
    /// Steps to do in all.
    pub iterations: usize,
    /// What is being made small.
    pub objective: f64,
    /// `[batch, side, side, 3]` in [0, 1].
    pub pictures: &'a [f32],
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Each `[side, side, 3]` in [0, 1]. A closed form sees one mixture, however many pictures were in the update.
    pub pictures: Vec<Vec<f32>>,
    /// Time of the attack, the search for its start included.
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

/// Why nothing came out, as a sentence.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CannotAttempt {
    /// A closed form has nothing to solve, or lacks something.
    #[error(transparent)]
    ClosedForm(#[from] CannotAttack),
    /// The searcher's own words.
    #[error("{0}")]
    Search(String),
    /// Without labels the model has no loss.
    #[error("the search needs the label of each picture, and the update does not tell: {0}; give the labels")]
    NoLabels(CannotAttack),
    /// Another number of labels than pictures.
    #[error("{labels} labels were given for {batch} pictures; give one for each")]
    LabelCount {
        /// Labels given.
        labels: usize,
        /// Pictures in the update.
        batch: usize,
    },
    /// No update to attack.
    #[error("there is no update to attack")]
    NoUpdate,
    /// A search through a model that nobody has.
    #[error(
        "the weights are cipher text: the model cannot be run on pictures, so there is no gradient to compare the update \
         with"
    )]
    CipherText,
    /// A way to a key that there is not.
    #[error("nothing is encrypted, so there is no key to find")]
    NotEncrypted,
    /// The relay never saw the plain model.
    #[error("under the keyed start the relay never had the plain model; it takes both forms to compute the key")]
    NoPlainStart,
    /// No client gave the key away.
    #[error("no client has given the key away")]
    NoKey,
    /// The key is of another model.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Runs `method` on `observation`. `progress` hears of every step of a search and of gathered rounds, and may end it: what was
/// found so far is the result then.
///
/// # Errors
/// [`CannotAttempt`] says why there is nothing to see.
pub fn attempt(
    method: Method,
    observation: &Observation,
    means: Means<'_>,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Attempt, CannotAttempt> {
    let clock = Instant::now();
    let first = observation.rounds.first().ok_or(CannotAttempt::NoUpdate)?;
    let mut found = if let Some(attack) = Attack::of(method) {
        Attempt::from(run_attack(attack, first)?)
    } else if method.is_search() {
        search::search(method, observation, first, means, progress)?
    } else if method == Method::Rounds {
        rounds(observation, progress)?
    } else {
        Attempt::from(embedding_inversion(&decrypted(method, observation, first)?)?)
    };
    if observation.batch > 1 && !method.is_search() {
        found
            .notes
            .push(format!("{} pictures are mixed in the update; a closed form sees their mixture.", observation.batch));
    }
    found.seconds = clock.elapsed().as_secs_f64();
    Ok(found)
}

impl From<Reconstruction> for Attempt {
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

/// Gathers all rounds, then solves for the picture and what no round kept.
fn rounds(
    observation: &Observation,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Attempt, CannotAttempt> {
    let mut gathered = Accumulated::new(&observation.spec.config());
    for round in &observation.rounds {
        if gathered.add(round)? == Added::Drifted {
            break;
        }
    }
    let mut done = 0;
    let found = als(&gathered, AlsOptions::default(), |standing| {
        done = standing.iteration;
        progress(Progress {
            iteration: standing.iteration,
            iterations: standing.iterations,
            objective: standing.misfit,
            pictures: &standing.picture.image,
        })
    })?;
    let mut found = Attempt::from(found);
    found.iterations = Some(done);
    found.notes.push(format!("{} of {} rounds were gathered.", gathered.rounds(), observation.rounds.len()));
    Ok(found)
}

/// The gradients of both embeddings in the plain, by the way to the key that `method` takes.
fn decrypted(method: Method, observation: &Observation, first: &Evidence) -> Result<Tensors, CannotAttempt> {
    if !observation.is_encrypted {
        return Err(CannotAttempt::NotEncrypted);
    }
    if method == Method::KnownStart {
        let plain = observation.plain_start.as_ref().ok_or(CannotAttempt::NoPlainStart)?;
        return Ok(RecoveredKey::from_known_start(plain, &first.weights)?.decrypt(&first.gradients)?);
    }
    let key = observation.key.as_deref().ok_or(CannotAttempt::NoKey)?;
    let layout = ParamLayout::vit(&observation.spec.config());
    let mut values = Flat::of(&first.gradients, &layout, |_| true).values;
    key.decrypt(&mut values)?;
    let names = Attack::naive(AttackKind::Embedding).gradients();
    Ok(Tensors::from_flat(unmask_attack::Source::Gradients, &observation.spec.config(), &values, names)?)
}
