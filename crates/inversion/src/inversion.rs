//! One attack on one update, from files to report.

use std::sync::Arc;

use unmask_attack::{
    AccumulatedRounds, AttackError, BatchSize, Encryption, Evidence, GoOn, HeadGradient, KeySource, KnownStart,
    Membership, Needs, Observation, OnProgress, Rounding, SearchOptions, Searches, TensorNames, TensorSource, Tensors,
    WholeUpdate, batch_size, fished_class, run,
};
use unmask_core::{Architecture, AttackMethod, MembershipVerdict, Param, VitConfig};
use unmask_data::metrics::RECOGNISABLE_FROM;
use unmask_tensors::TensorFile;

use crate::{
    Asked, Check, DumpError, DumpedModel, DumpedUpdate, InferenceAttack, InversionError, LocalTraining, Report, Told,
    UpdateFiles,
    causes::{explained_by, traces},
    decay::Decay,
    fedavg::refuse_weights,
    grid::smoother,
    numbers::Numbers,
    read_model, read_update, read_weights, score, zeros,
};

/// How much more like the picture a truth in another form must be, in SSIM: the best of many is better by chance.
const CLEARLY: f64 = 0.2;
/// timm's name of the position embedding, whose rows before the patches' vary.
const POSITION: &str = "pos_embed";

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

/// Known pictures, `[height, width, 3]` in [0, 1].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownPictures {
    /// The private pictures, for comparison.
    pub truths: Vec<Vec<f32>>,
    /// The same pictures as other training code would have fed them, and how.
    pub other_truths: Vec<(String, Vec<Vec<f32>>)>,
    /// A picture that may have been in the update.
    pub candidate: Option<Vec<f32>>,
}

/// The same update at the model with each other number of heads that fits its width.
fn with_other_heads(observation: &Observation) -> impl Iterator<Item = (usize, Observation)> {
    let whole = observation.whole.clone();
    let config = whole.as_ref().and_then(|whole| whole.architecture.vit());
    let dim = config.map_or(0, |config| config.dim);
    let is_other = move |heads: &usize| dim.is_multiple_of(*heads) && config.is_some_and(|it| it.heads != *heads);
    (1..=dim).filter(is_other).filter_map(move |heads| {
        let architecture = Architecture::Vit(VitConfig { heads, ..config? });
        let whole = WholeUpdate { architecture, ..whole.as_deref()?.clone() };
        let mut other = observation.clone();
        other.whole = Some(Arc::new(whole));
        Some((heads, other))
    })
}

/// Why the patches of a square picture may be arranged in another way, as a clause.
fn arrangement(model: &DumpedModel, method: AttackMethod, pictures: &[Vec<f32>]) -> Option<String> {
    let config = model.architecture.vit().filter(|_| !model.has_size && !method.is_unordered())?;
    let VitConfig { image, patch, .. } = config;
    // Where several pictures come out of a search, noise may join more smoothly than they do.
    if pictures.len() > 1 && method != AttackMethod::Batch {
        return None;
    }
    let columns = pictures.iter().find_map(|picture| smoother(picture, patch, image / patch))?;
    let (width, height) = (columns * patch, config.patches() / columns * patch);
    Some(format!(
        "shapes show {} patches and not how they are arranged; as {width} x {height} pixels they join more smoothly than as \
         a square: give --size {width}x{height}, or --size {image}x{image} if the pictures are squares",
        config.patches()
    ))
}

struct Dump {
    observation: Observation,
    /// The gradient of the last linear layer, if it arrived whole.
    head: Option<HeadGradient>,
    numbers: Numbers,
    /// Why nothing of the picture arrived.
    nothing: Option<String>,
    /// Why the model cannot be run.
    unread: Option<String>,
    /// What the update shows of training that the model does not repeat.
    traces: Option<String>,
    decay: Option<Decay>,
    /// The class that doctored weights fish for.
    fished: Option<usize>,
    /// Share of the read values that masks hid.
    hidden_share: f64,
    by_rank: Pictures,
}

/// How many pictures the ranks of two gradients show, if they do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pictures {
    /// Of the last block's first layer, which only class tokens reach in a standard ViT.
    pub(crate) by_block: Option<BatchSize>,
    /// Of the head, which reads one vector of each picture.
    pub(crate) by_head: Option<usize>,
}

impl Pictures {
    fn of(numbers: Numbers, everything: Option<&Tensors>, head: Option<&HeadGradient>, go_on: GoOn<'_>) -> Self {
        let by_head = head.and_then(HeadGradient::pictures);
        match numbers {
            Numbers::Plain => {
                Self { by_block: everything.and_then(|gradients| batch_size(gradients, go_on).ok()), by_head }
            }
            // Rounding to few levels leaves the strongest direction, but no other.
            Numbers::Quantised => Self { by_block: None, by_head: by_head.filter(|pictures| *pictures == 1) },
            Numbers::Sparse(_) | Numbers::OneSize => Self::default(),
        }
    }

    /// The number to assume. Where more than class tokens reach the block, it counts tokens, and the head decides.
    pub(crate) fn number(self) -> Option<BatchSize> {
        match (self.by_block, self.by_head) {
            (Some(block), Some(head)) if block.seen() > head => Some(BatchSize::Exactly(head)),
            (None, Some(head)) => Some(BatchSize::Exactly(head)),
            (block, _) => block,
        }
    }
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

    /// Attacks the update of `model`, which comes from [`tell`](Self::tell). Returns pictures `[height, width, 3]` in [0,
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
        if known.candidate.is_none() && self.attack == InferenceAttack::Labels && self.head().is_some() {
            return Ok((Vec::new(), self.labels_alone(Some(model), go_on)?));
        }
        let (architecture, pixels) = (model.architecture, model.pixels);
        let findable = |picture: &Vec<f32>| pixels.findable(&model.squared(picture)).into_owned();
        let candidate = known.candidate.as_ref().map(findable);
        let Dump { observation, head, numbers, nothing, unread, traces, decay, fished, hidden_share, by_rank } =
            self.observation(model, candidate.is_some(), go_on)?;
        let mut report = Report::new(self.attack, Some(architecture), (observation.batch, &self.labels), hidden_share);
        report.numbers(numbers, self.fedavg);
        report.decay(decay);
        match fished {
            Some(class) => report.fished(class),
            None => report.pictures_by_rank(by_rank),
        }
        let weights = self.weights.as_ref().and_then(Self::head_of);
        let head_labels = head.map(|head| head.labels(observation.batch, numbers.has_sums(), weights.as_ref()));
        let mut pictures = Vec::new();
        match self.attack {
            InferenceAttack::Reconstruction(method) => {
                let title = method.title();
                let cannot = |source| match (source, nothing) {
                    (AttackError::FixedPosition, Some(why)) => InversionError::NothingArrived { title, why },
                    (AttackError::BatchUnsolved { reason }, _) if model.guesses_heads => {
                        let heads = architecture.vit().map_or(0, |config| config.heads);
                        let reason =
                            format!("{reason}. {heads} attention heads were assumed: give --heads if it has others");
                        InversionError::Attack { title, source: AttackError::BatchUnsolved { reason } }
                    }
                    (source, _) => InversionError::Attack { title, source },
                };
                let mut found = run(method, &observation, searches, self.search, progress).map_err(cannot)?;
                let findable: Vec<Vec<f32>> = known.truths.iter().map(findable).collect();
                let new = |observation: &Observation| Check::new(method, observation, searches, &found, &findable);
                let mut check = new(&observation);
                if model.guesses_heads && !method.is_search() && !check.is_explained() {
                    let others = with_other_heads(&observation).take_while(|_| go_on().is_continue());
                    let others = others.map(|(heads, other)| (heads, new(&other)));
                    let left = |check: &Check| check.misfit.as_ref().map_or(f64::INFINITY, |misfit| misfit.relative);
                    let best = others.min_by(|(_, one), (_, other)| left(one).total_cmp(&left(other)));
                    if let Some((heads, other)) = best.filter(|(_, check)| check.is_explained()) {
                        check = Check { heads: Some(heads), ..other };
                    }
                }
                if let [picture] = found.pictures.as_slice()
                    && !method.is_search()
                    && !check.is_explained()
                    && check.is_only_solution()
                {
                    match explained_by(&observation, searches, picture) {
                        Some((misfit, assuming)) => (check.misfit, check.assuming) = (Ok(misfit), Some(assuming)),
                        None => check.traces = traces,
                    }
                }
                for picture in &mut found.pictures {
                    *picture = pixels.pixels(picture).into_owned();
                }
                check.arrangement = arrangement(model, method, &found.pictures);
                check.no_gradient = numbers == Numbers::OneSize;
                check.unread = unread;
                for picture in &mut found.pictures {
                    *picture = model.arranged(picture);
                }
                let score = |truths: &[Vec<f32>]| score(method, &found.pictures, truths, architecture, model.size);
                let mut scored = (!known.truths.is_empty()).then(|| score(&known.truths)).transpose()?;
                let plain = scored.as_ref().map(|scored| scored.best_ssim);
                if let Some(plain) = plain.filter(|plain| *plain < RECOGNISABLE_FROM) {
                    let others = known.other_truths.iter().filter_map(|(how, truths)| Some((how, score(truths).ok()?)));
                    let best = others.max_by(|(_, one), (_, other)| one.best_ssim.total_cmp(&other.best_ssim));
                    if let Some((how, best)) =
                        best.filter(|(_, best)| best.best_ssim >= RECOGNISABLE_FROM.max(plain + CLEARLY))
                    {
                        report.truth_is(how);
                        scored = Some(best);
                    }
                }
                report.found(&found);
                report.judge(scored.as_ref(), &check);
                pictures = found.pictures;
                // A reconstruction also reports the labels, if the update contains them.
                match head_labels {
                    Some(labels) => report.head_labels(labels),
                    None => report.read_labels(observation.read_labels().ok()),
                }
            }
            InferenceAttack::Labels => match head_labels {
                Some(labels) => report.head_labels(labels),
                None => report.read_labels(Some(observation.read_labels().map_err(InversionError::Labels)?)),
            },
            InferenceAttack::Membership if candidate.is_none() => return Err(InversionError::NoCandidate),
            InferenceAttack::Membership => (),
        }
        if let Some(candidate) = candidate {
            let in_update = (self.batch.is_some() || !self.labels.is_empty()).then_some(observation.batch);
            let mut told = observation.membership(searches, &candidate, in_update, go_on);
            if model.guesses_heads {
                // Nobody is a stranger under a number of heads that is a guess: all must agree.
                for (_, other) in with_other_heads(&observation) {
                    let is_stranger = |told: &Membership| told.verdict == MembershipVerdict::Stranger;
                    if !told.as_ref().is_ok_and(is_stranger) {
                        break;
                    }
                    told = other.membership(searches, &candidate, in_update, go_on);
                }
            }
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
        let runs_block = is_search || self.attack.method() == Some(AttackMethod::Batch);
        dumped.check_fits(self.attack.name(), &needs, runs_block)?;
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
        let mut updates = self.updates(dumped, &read.gradients)?;
        // The reconstruction is checked against all tensors. A file may hold fewer.
        let mut everything = self.everything(dumped);
        if let (Some(everything), None, Update::One(files)) = (&everything, self.fedavg, &self.update) {
            refuse_weights(everything, self.weights_like(dumped, everything).as_ref(), &files.gradients)?;
        }
        let mut decay = None;
        if let Some(whole) = &everything
            && let Some(weights) = self.weights_like(dumped, whole)
            && let Some(found) = Decay::of(whole, &weights)
        {
            let without = found.subtract(whole, &weights)?;
            for update in &mut updates {
                update.gradients = found.subtract(&update.gradients, &weights)?;
            }
            (decay, everything) = (Some(found), Some(without));
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
        let (state, unread) = match state {
            Ok(state) => (state, None),
            Err(error) if runs_model => return Err(error.into()),
            Err(error) => (None, Some(error.to_string())),
        };
        let fished = self.weights.as_ref().and_then(Self::head_of);
        let fished = fished.and_then(|head| fished_class(&head.weight, head.classes));
        let whole = state.map(|state| {
            let gradients = everything.as_ref().unwrap_or(&first.gradients);
            // The pictures of other classes have no other gradient than the head's.
            let alone = fished.map(|_| gradients.without_head());
            let gradients = alone.as_ref().unwrap_or(gradients);
            Arc::new(WholeUpdate::from_tensors(model, state, gradients, self.is_training))
        });
        let mut observation = Observation::new(Ok(first));
        let numbers = everything.as_ref().map_or(Numbers::Plain, Numbers::of);
        let head = self.head();
        let by_rank = Pictures::of(numbers, everything.as_ref(), head.as_ref(), go_on);
        observation.batch = match (self.batch, self.labels.len(), by_rank.number()) {
            (Some(batch), ..) => batch,
            // Several local steps on one picture leave as many directions as steps.
            (None, 0, Some(BatchSize::Exactly(pictures))) if self.fedavg.is_none() => pictures,
            (None, labels, _) => labels.max(1),
        };
        observation.local_steps = self.fedavg.map_or(1, LocalTraining::steps);
        observation.labels = match fished {
            _ if !self.labels.is_empty() => Some(self.labels.clone()),
            Some(class) => Some(vec![class; observation.batch]),
            None => None,
        };
        observation.levels = dumped.pixels.levels();
        observation.whole = whole;
        observation.rounds = gathered.map(Arc::new);
        observation.encryption = encryption;
        let weights = self.weights.as_ref().and_then(Self::head_of);
        let weights = weights.as_ref().map(|head| head.weight.as_slice());
        let nothing = everything.as_ref().and_then(|gradients| zeros::why(gradients, weights));
        // A mask leaves zeros of its own.
        let traces = everything.as_ref().filter(|_| hidden_share == 0.0).and_then(traces);
        Ok(Dump { observation, head, numbers, nothing, unread, traces, decay, fished, hidden_share, by_rank })
    }

    /// Reads only the labels, from the gradient of the last linear layer of whatever network the file is of; `model` if
    /// it is known.
    ///
    /// # Errors
    /// The attack reads more than labels, or the update has no such layer or did not arrive whole.
    pub fn labels_alone(&self, model: Option<&DumpedModel>, go_on: GoOn<'_>) -> Result<Report, InversionError> {
        let gradients = self.update.rounds().first().map(|files| files.gradients.to_string()).unwrap_or_default();
        let head = self.head().filter(|_| self.attack == InferenceAttack::Labels);
        let head = head.ok_or(InversionError::NoHead { file: gradients })?;
        let everything = model.and_then(|model| self.everything(model));
        if let (Some(model), Some(everything), None, Update::One(files)) =
            (model, &everything, self.fedavg, &self.update)
        {
            refuse_weights(everything, self.weights_like(model, everything).as_ref(), &files.gradients)?;
        }
        let numbers = everything.as_ref().map_or(Numbers::Plain, Numbers::of);
        let by_rank = Pictures::of(numbers, everything.as_ref(), Some(&head), go_on);
        let given = self.batch.or(Some(self.labels.len()).filter(|labels| *labels > 0));
        // Several local steps on one picture leave as many directions as steps.
        let shown = by_rank.number().filter(|_| self.fedavg.is_none()).map(BatchSize::seen);
        let pictures = given.or(shown).unwrap_or(1);
        let mut report = Report::new(self.attack, model.map(|model| model.architecture), (pictures, &self.labels), 0.0);
        report.numbers(numbers, self.fedavg);
        report.pictures_by_rank(by_rank);
        let weights = self.weights.as_ref().and_then(Self::head_of);
        report.head_labels(head.labels(pictures, numbers.has_sums(), weights.as_ref()));
        if given.or(shown).is_none() {
            report.assume_one();
        }
        Ok(report)
    }

    /// Reads every tensor of the first update that is there.
    fn everything(&self, dumped: &DumpedModel) -> Option<Tensors> {
        // Tensors of another form belong to a model that is not the known one.
        let mut file = self.update.rounds().first()?.gradients.open().ok()?;
        file.spread_grey();
        let layout = dumped.architecture.layout();
        let fits = |param: &&Param| param.name == POSITION || file.shape(&param.name) == Some(param.shape.as_slice());
        let every = layout.iter().filter(fits).map(|param| param.name.clone()).collect();
        let updates = self.updates(dumped, &TensorNames { required: Vec::new(), optional: every });
        Some(updates.ok()?.into_iter().next()?.gradients)
    }

    /// Reads the gradient of the last linear layer of a single update that arrived whole.
    fn head(&self) -> Option<HeadGradient> {
        let Update::One(UpdateFiles { gradients, mask: None }) = &self.update else { return None };
        let after = Self::head_of(gradients)?;
        let Some(local) = self.fedavg else { return Some(after) };
        let before = Self::head_of(self.weights.as_ref()?)?;
        if before.weight.len() != after.weight.len() {
            return None;
        }
        let decrease = |before: &[f64], after: &[f64]| -> Vec<f64> {
            before.iter().zip(after).map(|(before, after)| (before - after) / local.scale()).collect()
        };
        let bias = before.bias.as_deref().zip(after.bias.as_deref()).map(|(before, after)| decrease(before, after));
        Some(HeadGradient { weight: decrease(&before.weight, &after.weight), bias, classes: after.classes })
    }

    /// The last linear layer of a file, whatever its network is.
    fn head_of(file: &TensorFile) -> Option<HeadGradient> {
        let mut reader = file.open().ok()?;
        let [weight, bias] = reader.head()?;
        let weight = reader.read::<f64>(&weight).ok()?;
        let classes = *weight.shape.first()?;
        let bias = reader.read::<f64>(&bias).ok().map(|bias| bias.values).filter(|bias| bias.len() == classes);
        Some(HeadGradient { weight: weight.values, bias, classes })
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

    /// Reads the weights with the names of `update`'s tensors, as far as they exist, and in its pixel space, so that both
    /// can be compared.
    fn weights_like(&self, dumped: &DumpedModel, update: &Tensors) -> Option<Tensors> {
        let layout = dumped.architecture.layout();
        let names = layout.iter().map(|param| param.name.clone());
        let optional = names.filter(|name| update.values(name).is_some()).collect();
        let names = TensorNames { required: Vec::new(), optional };
        Some(read_update(dumped, self.weights.as_ref()?, None, &names).ok()?.gradients)
    }
}
