//! One attack on one update, from files to report.

use std::sync::Arc;

use unmask_attack::{
    AccumulatedRounds, AttackError, BatchSize, Encryption, Evidence, GoOn, KeySource, KnownStart, Needs, Observation,
    OnProgress, Rounding, SearchOptions, Searches, TensorNames, TensorSource, Tensors, WholeUpdate, batch_size, run,
};
use unmask_core::AttackMethod;
use unmask_tensors::TensorFile;

use crate::{
    Asked, Check, DumpError, DumpedModel, DumpedUpdate, InferenceAttack, InversionError, LocalTraining, Report, Told,
    UpdateFiles, fedavg::refuse_weights, read_model, read_update, read_weights, score,
};

#[derive(Debug, Clone)]
pub enum Update {
    One(UpdateFiles),
    /// Updates of several rounds with the same picture.
    Rounds {
        /// Their name in errors, such as their folder.
        name: String,
        rounds: Vec<UpdateFiles>,
    },
}

/// An attack and its inputs.
#[derive(Debug, Clone)]
pub struct Inversion {
    pub attack: InferenceAttack,
    pub model: Asked,
    pub update: Update,
    /// The weights at which the gradient was taken.
    pub weights: Option<TensorFile>,
    /// The same weights as an encrypted room holds them.
    pub encrypted_weights: Option<TensorFile>,
    /// Set if the update consists of weights instead of a gradient.
    pub fedavg: Option<LocalTraining>,
    /// Whether batch norm used the batch's own moments.
    pub is_training: bool,
    /// The pictures' labels, if known.
    pub labels: Vec<usize>,
    /// The number of pictures in the update, if known.
    pub batch: Option<usize>,
    pub search: SearchOptions,
}

/// Known pictures, `[side, side, 3]` in [0, 1].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownPictures {
    /// The private pictures, for comparison.
    pub truths: Vec<Vec<f32>>,
    /// A picture that may have been in the update.
    pub candidate: Option<Vec<f32>>,
}

struct Dump {
    observation: Observation,
    /// Share of the read values that masks hid.
    hidden_share: f64,
    /// Number of pictures by the gradient's rank, if it shows one.
    by_rank: Option<BatchSize>,
}

impl Update {
    fn rounds(&self) -> &[UpdateFiles] {
        match self {
            Self::One(files) => std::slice::from_ref(files),
            Self::Rounds { rounds, .. } => rounds,
        }
    }
}

impl Inversion {
    /// Identifies the model from what the user says and from the files.
    ///
    /// # Errors
    /// A file cannot be read, or the shapes do not identify a network, or contradict the requested one.
    pub fn tell(&self) -> Result<Told, InversionError> {
        let update = self.update.rounds().first().map(|files| files.gradients.clone());
        let files: Vec<TensorFile> = self.weights.iter().cloned().chain(update).collect();
        Ok(DumpedModel::tell(&self.model, &files)?)
    }

    /// Attacks the update of `model`, which comes from [`tell`](Self::tell). Returns pictures `[side, side, 3]` in [0,
    /// 1]; the label and membership attacks return none. `searches` run the model. `progress` receives each step and
    /// may end the attack. `go_on` may end the work that has no steps: counting the pictures, and looking for members
    /// behind a mask.
    ///
    /// # Errors
    /// [`InversionError`] gives the reason and a remedy.
    pub fn run(
        &self,
        model: &DumpedModel,
        known: &KnownPictures,
        searches: &dyn Searches,
        go_on: GoOn<'_>,
        progress: OnProgress<'_>,
    ) -> Result<(Vec<Vec<f32>>, Report), InversionError> {
        let (architecture, pixels) = (model.architecture, model.pixels);
        let candidate = known.candidate.as_ref().map(|picture| pixels.findable(picture).into_owned());
        let Dump { observation, hidden_share, by_rank } = self.observation(model, candidate.is_some(), go_on)?;
        let mut report =
            Report::new(self.attack, architecture, (observation.batch, &self.labels), hidden_share, self.fedavg);
        report.pictures_by_rank(by_rank);
        let mut pictures = Vec::new();
        match self.attack {
            InferenceAttack::Reconstruction(method) => {
                let cannot = |source| InversionError::Attack { title: method.title(), source };
                let mut found = run(method, &observation, searches, self.search, progress).map_err(cannot)?;
                let findable: Vec<Vec<f32>> =
                    known.truths.iter().map(|truth| pixels.findable(truth).into_owned()).collect();
                let check = Check::new(method, &observation, searches, &found, &findable);
                for picture in &mut found.pictures {
                    *picture = pixels.pixels(picture).into_owned();
                }
                let score = (!known.truths.is_empty())
                    .then(|| score(method, &found.pictures, &known.truths, architecture))
                    .transpose()?;
                report.found(&found);
                report.judge(score.as_ref(), &check);
                pictures = found.pictures;
                // A reconstruction also reports the labels, if the update contains them.
                report.read_labels(observation.read_labels().ok());
            }
            InferenceAttack::Labels => {
                report.read_labels(Some(observation.read_labels().map_err(InversionError::Labels)?));
            }
            InferenceAttack::Membership if candidate.is_none() => return Err(InversionError::NoCandidate),
            InferenceAttack::Membership => (),
        }
        if let Some(candidate) = candidate {
            let in_update = (self.batch.is_some() || !self.labels.is_empty()).then_some(observation.batch);
            let told = observation.membership(searches, &candidate, in_update, go_on);
            report.membership(&told.map_err(InversionError::Membership)?);
        }
        Ok((pictures, report))
    }

    /// Reads what the attack needs and what else the report can use.
    fn observation(&self, dumped: &DumpedModel, has_candidate: bool, go_on: GoOn<'_>) -> Result<Dump, InversionError> {
        let model = dumped.architecture;
        if self.batch == Some(0) {
            return Err(InversionError::EmptyBatch);
        }
        let cannot = |source| InversionError::Attack { title: self.attack.title(), source };
        let needs = self.attack.needs(model).map_err(cannot)?;
        self.check_arguments(&needs)?;
        let is_search = self.attack.method().is_some_and(AttackMethod::is_search);
        dumped.check_fits(self.attack.name(), &needs, is_search)?;
        let is_encrypted = needs.key.is_some();
        // A search reads the whole state instead.
        let weights = if is_search { TensorNames::default() } else { needs.weights };
        let mut read = Needs { weights, ..needs }.and(Needs::of_labels(model).if_there());
        if has_candidate {
            read = read.and(Needs::of_membership(model).map_err(InversionError::Membership)?);
        }
        let weights_of = |file: Option<&TensorFile>| match file {
            Some(file) => read_weights(dumped, file, &read.weights),
            None => Ok(Tensors::new(TensorSource::Weights, model, Rounding::F32)),
        };
        let weights = weights_of(self.weights.as_ref())?;
        let updates = self.updates(dumped, &read.gradients)?;
        // Read every tensor, because the reconstruction is checked against all of them. A file may hold fewer.
        let every = model.layout().iter().map(|param| param.name.clone()).collect();
        let everything = self.updates(dumped, &TensorNames { required: Vec::new(), optional: every });
        let everything = everything.ok().and_then(|updates| Some(updates.into_iter().next()?.gradients));
        if let (Some(everything), None, Update::One(files)) = (&everything, self.fedavg, &self.update) {
            refuse_weights(everything, self.weights_like(dumped, everything).as_ref(), &files.gradients)?;
        }
        let hidden_share = updates.iter().map(|update| update.hidden_share).sum::<f64>() / updates.len() as f64;
        let mut encryption = None;
        let held = if is_encrypted {
            let encrypted = weights_of(self.encrypted_weights.as_ref())?;
            let known_start = Some(Arc::new(KnownStart::new(weights, encrypted.clone())));
            encryption = Some(Encryption { known_start, key: None });
            encrypted
        } else {
            weights
        };
        let round = |update: DumpedUpdate| Evidence { weights: held.clone(), gradients: update.gradients };
        let rounds: Vec<Evidence> = updates.into_iter().map(round).collect();
        let gathered = AccumulatedRounds::gather(&rounds);
        let first = rounds.into_iter().next().ok_or(AttackError::NoRounds)?;
        // A closed form may run with only some of the weights. Its result is checked if all are there.
        let runs_model = is_search || has_candidate;
        let state = self.weights.as_ref().map(|file| read_model(dumped, file)).transpose();
        let state = if runs_model { state? } else { state.unwrap_or_default() };
        let whole = state.map(|state| {
            let gradients = everything.as_ref().unwrap_or(&first.gradients);
            Arc::new(WholeUpdate::from_tensors(model, state, gradients, self.is_training))
        });
        let mut observation = Observation::new(Ok(first));
        let by_rank = everything.as_ref().and_then(|gradients| batch_size(gradients, go_on).ok());
        observation.batch = match (self.batch, self.labels.len(), by_rank) {
            (Some(batch), ..) => batch,
            // Several local steps on one picture leave as many directions as steps.
            (None, 0, Some(BatchSize::Exactly(pictures))) if self.fedavg.is_none() => pictures,
            (None, labels, _) => labels.max(1),
        };
        observation.local_steps = self.fedavg.map_or(1, LocalTraining::steps);
        observation.labels = (!self.labels.is_empty()).then(|| self.labels.clone());
        observation.whole = whole;
        observation.rounds = gathered.map(Arc::new);
        observation.encryption = encryption;
        Ok(Dump { observation, hidden_share, by_rank })
    }

    /// Checks that the files that the attack needs are given, and no others.
    fn check_arguments(&self, needs: &Needs) -> Result<(), InversionError> {
        let attack = self.attack;
        match (needs.key, &self.encrypted_weights, &self.update) {
            (Some(KeySource::Colluder), ..) => Err(InversionError::Key { attack }),
            (Some(KeySource::KnownStart), None, _) => Err(InversionError::OneForm { attack }),
            (None, Some(file), _) => Err(InversionError::EncryptedWeights { file: file.to_string() }),
            (.., Update::Rounds { name, .. }) if !needs.rounds => {
                Err(InversionError::SeveralRounds { attack, rounds: name.clone() })
            }
            _ if self.weights.is_none() && !needs.weights.required.is_empty() => {
                Err(InversionError::NoWeights { attack, name: needs.weights.required[0].clone() })
            }
            _ => Ok(()),
        }
    }

    fn updates(&self, model: &DumpedModel, wanted: &TensorNames) -> Result<Vec<DumpedUpdate>, InversionError> {
        let read = |files: &UpdateFiles| read_update(model, &files.gradients, files.mask.as_ref(), wanted);
        let mut updates = self.update.rounds().iter().map(read).collect::<Result<Vec<_>, DumpError>>()?;
        if let Some(local) = self.fedavg {
            for update in &mut updates {
                let before = self.weights_like(model, &update.gradients);
                update.gradients = local.gradient(before.as_ref(), &update.gradients)?;
            }
        }
        Ok(updates)
    }

    /// Reads the weights with the names of `update`'s tensors, as far as they exist.
    fn weights_like(&self, dumped: &DumpedModel, update: &Tensors) -> Option<Tensors> {
        let layout = dumped.architecture.layout();
        let names = layout.iter().map(|param| param.name.clone());
        let optional = names.filter(|name| update.values(name).is_some()).collect();
        read_weights(dumped, self.weights.as_ref()?, &TensorNames { required: Vec::new(), optional }).ok()
    }
}
