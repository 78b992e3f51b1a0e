//! The rows of a matrix, and what determines them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unmask_attack::{ModelShape, Needs, SearchOptions};
use unmask_client::Batch;
use unmask_core::{
    Architecture, AttackFamily, AttackMethod, Defence, Knowledge, MaskSeed, ModelState, Rule, ThreatModel,
};
use unmask_data::{CLASSES, Picture, chw_to_hwc, class_in_name};
use unmask_inversion::InferenceAttack;

use super::{ExperimentError, MatrixRequest};
use crate::{
    parts::Build,
    store::{self, ROWS, hexadecimal},
};

/// What determines the rows of a matrix, except the pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixSettings {
    /// The model, at its initial weights unless the request has others.
    pub model: Architecture,
    /// In display order.
    pub attacks: Vec<InferenceAttack>,
    /// In display order.
    pub defences: Vec<Defence>,
    /// The first seed of weights, masks, noise, keys and starts; the others follow it.
    pub seed: u64,
    /// Number of seeds with which every row is computed.
    pub seeds: u64,
    /// Steps of a search; `None` for the method's default.
    pub iterations: Option<usize>,
    /// First step size of a search; `None` for the method's default.
    pub step: Option<f64>,
    /// Number of rounds that the client trains on the same pictures.
    pub rounds: usize,
    /// The server's learning rate between the rounds, under FedSGD.
    pub rate: f32,
    pub rule: Rule,
    /// Pictures in each client's update.
    pub batch: usize,
    /// Clients whose protected updates are averaged before anybody attacks, as in a secure sum; 1 for single updates.
    #[serde(default = "one")]
    pub sum: usize,
    /// What the relay does with the weights, in display order.
    #[serde(default = "honest")]
    pub threats: Vec<ThreatModel>,
}

fn honest() -> Vec<ThreatModel> {
    vec![ThreatModel::Honest]
}

fn one() -> usize {
    1
}

impl MatrixSettings {
    /// The default defences, without those that protect nothing in `model`.
    pub fn default_defences(model: Architecture) -> Vec<Defence> {
        [
            "none",
            "random-binary:0.2",
            "random-binary:0.5",
            "random-binary:0.8",
            "fixed-position",
            "gaussian",
            "encrypted",
            "encrypted:keyed",
        ]
        .iter()
        .filter_map(|text| text.parse().ok())
        .filter(|defence: &Defence| defence.check(model).is_ok())
        .collect()
    }

    /// All attacks that can work on the model.
    pub fn default_attacks(model: Architecture, defences: &[Defence]) -> Vec<InferenceAttack> {
        let is_encrypted = defences.iter().any(Defence::is_encrypted);
        let applies =
            |needs: &Needs| (model.april_block() || !needs.april_block) && (is_encrypted || needs.key.is_none());
        let all = InferenceAttack::all().into_iter();
        all.filter(|attack| attack.needs(model).is_ok_and(|needs| applies(&needs))).collect()
    }

    /// Pictures behind what the attacks receive.
    pub(super) fn pictures(&self) -> usize {
        self.batch.saturating_mul(self.sum)
    }

    pub(super) fn search_options(&self) -> SearchOptions {
        SearchOptions { iterations: self.iterations, step: self.step, ..SearchOptions::default() }
    }

    pub(super) fn all_seeds(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let first = self.seed;
        (0..self.seeds).map(move |number| first.wrapping_add(number))
    }
}

/// 32 bytes derived from the seed and the purpose.
pub(super) fn seed_of(seed: u64, purpose: &[&str]) -> MaskSeed {
    let mut hash = Sha256::new();
    hash.update(b"unmask matrix");
    hash.update(seed.to_le_bytes());
    for part in purpose {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    MaskSeed(hash.finalize().into())
}

/// The contents of `run.json`. All rows in a folder belong to one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    #[serde(flatten)]
    pub(super) build: Build,
    pub(super) settings: MatrixSettings,
    /// SHA-256 of the initial weights and statistics, if they are not the model's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<String>,
    pub(super) images: Vec<Image>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) name: String,
    pub(super) sha256: String,
}

/// Pictures of one update. The plan of a finished run has only their names.
#[derive(Debug, Clone, Default)]
pub(super) struct PictureBatch {
    /// Their names, joined by `+`.
    pub(super) name: String,
    /// Each `[side, side, 3]` in [0, 1].
    pub(super) truths: Vec<Vec<f32>>,
    /// The same as the client's batch.
    pub(super) batch: Batch,
}

impl PictureBatch {
    /// The pictures of one client, of which each has `each`.
    pub(super) fn of(&self, client: usize, each: usize) -> Batch {
        let Batch { images, labels } = &self.batch;
        let values = images.len() / labels.len().max(1);
        let range = client * each..(client + 1) * each;
        Batch { images: images[range.start * values..range.end * values].to_vec(), labels: labels[range].to_vec() }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) number: usize,
    pub(super) seed: u64,
    pub(super) batch: usize,
    pub(super) threat: ThreatModel,
    pub(super) defence: Defence,
    pub(super) attack: InferenceAttack,
}

impl Cell {
    pub(super) fn update(&self) -> (u64, usize, ThreatModel, Defence) {
        (self.seed, self.batch, self.threat, self.defence)
    }
}

pub(super) type Key = (InferenceAttack, Defence, ThreatModel, String, u64);

#[derive(Debug)]
pub(super) struct MatrixPlan {
    pub(super) run: RunRecord,
    pub(super) batches: Vec<PictureBatch>,
}

impl MatrixPlan {
    pub(super) fn new(request: &MatrixRequest<'_>) -> Result<Self, ExperimentError> {
        let MatrixRequest { settings, pictures, start, .. } = *request;
        if settings.attacks.is_empty() || settings.defences.is_empty() || settings.threats.is_empty() {
            return Err(ExperimentError::EmptyMatrix);
        }
        let counts = [("--rounds", settings.rounds), ("--batch", settings.batch), ("--sum", settings.sum)];
        for (what, count) in counts {
            if count == 0 {
                return Err(ExperimentError::ZeroCount { what });
            }
        }
        if settings.seeds == 0 {
            return Err(ExperimentError::NoSeeds);
        }
        // Clients normalise their own pictures, and attacks assume the moments of all.
        if settings.sum > 1 && settings.model.vit().is_none() {
            return Err(ExperimentError::SumOfResnets { model: settings.model.to_string() });
        }
        settings.search_options().check()?;
        let rate = settings.rate;
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(ExperimentError::LearningRate { rate });
        }
        for defence in &settings.defences {
            defence.check(settings.model)?;
        }
        refuse_duplicates(settings.attacks.iter().map(InferenceAttack::to_string), "the attack")?;
        refuse_duplicates(settings.defences.iter().map(Defence::to_string), "the defence")?;
        refuse_duplicates(settings.threats.iter().map(ThreatModel::to_string), "the threat model")?;
        if settings.threats.contains(&ThreatModel::FeatureFishing) {
            ModelShape::from(settings.model).vit()?;
        }
        refuse_duplicates(pictures.iter().map(|(name, _)| name.clone()), "the picture name")?;
        if pictures.is_empty() || !pictures.len().is_multiple_of(settings.pictures()) {
            let MatrixSettings { batch, sum, .. } = *settings;
            return Err(ExperimentError::UnevenBatches { pictures: pictures.len(), batch, sum });
        }
        let side = settings.model.side();
        let labelled: Vec<(usize, &(String, Picture))> = pictures.iter().enumerate().collect();
        let batches = labelled.chunks(settings.pictures()).map(|members| batch(members, side)).collect();
        let images = pictures.iter().map(|(name, picture)| Image { name: name.clone(), sha256: digest(picture) });
        let run = RunRecord {
            build: Build::new(request.commit.as_ref(), request.device),
            settings: settings.clone(),
            start: start.map(digest_of_state),
            images: images.collect(),
        };
        Ok(Self { run, batches })
    }

    /// The plan of a run with all rows finished.
    pub(super) fn finished(run: RunRecord) -> Self {
        let names: Vec<&str> = run.images.iter().map(|image| image.name.as_str()).collect();
        let batches = names.chunks(run.settings.pictures().max(1));
        let batches = batches.map(|names| PictureBatch { name: names.join("+"), ..PictureBatch::default() }).collect();
        Self { run, batches }
    }

    /// The files of all rows, relative to the matrix's folder.
    pub(super) fn files(&self) -> Vec<String> {
        self.cells().map(|cell| format!("{ROWS}/{}", store::file(&self.file(&cell)))).collect()
    }

    pub(super) fn settings(&self) -> &MatrixSettings {
        &self.run.settings
    }

    /// By seed, then picture, then threat model, then defence, then attack.
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let MatrixSettings { attacks, defences, threats, .. } = self.settings();
        let pairs = defences.iter().flat_map(|&defence| attacks.iter().map(move |&attack| (defence, attack)));
        let of_batch = threats.iter().flat_map(move |&threat| pairs.clone().map(move |pair| (threat, pair)));
        let of_seed = (0..self.batches.len()).flat_map(move |batch| of_batch.clone().map(move |cell| (batch, cell)));
        let all = self.settings().all_seeds().flat_map(move |seed| of_seed.clone().map(move |cell| (seed, cell)));
        all.enumerate().map(|(number, (seed, (batch, (threat, (defence, attack)))))| Cell {
            number,
            seed,
            batch,
            threat,
            defence,
            attack,
        })
    }

    pub(super) fn key(&self, cell: &Cell) -> Key {
        (cell.attack, cell.defence, cell.threat, self.batches[cell.batch].name.clone(), cell.seed)
    }

    /// Name of the row's file, and prefix of the names of its pictures.
    pub(super) fn file(&self, cell: &Cell) -> String {
        format!("{:04}-{}", cell.number, cell.attack)
    }

    /// Approximate work, in steps of a search.
    pub(super) fn work(&self, cell: &Cell) -> u64 {
        const SEARCH: u64 = 2000;
        const CLOSED_FORM: u64 = 20;
        const BATCH: u64 = 1000;
        // A step through all parameters takes three times as long as one through the first block.
        const EVERYTHING: u64 = 3;
        let steps = self.settings().iterations.map_or(SEARCH, |iterations| iterations as u64);
        let is_idle = self.redundancy(cell).is_some() || cell.defence.is_encrypted();
        let is_search = cell.attack.method().is_some_and(AttackMethod::is_search);
        match cell.attack.needs(self.settings().model) {
            Ok(Needs { gradients, weights, .. }) if is_search && !is_idle => {
                let reads_everything = gradients.required.len() == weights.required.len();
                if reads_everything { EVERYTHING * steps } else { steps }
            }
            _ if cell.attack.method() == Some(AttackMethod::Batch) && !is_idle => BATCH,
            _ => CLOSED_FORM,
        }
    }

    /// The reason for skipping a row: another row of the matrix shows the same or more.
    pub(super) fn redundancy(&self, cell: &Cell) -> Option<String> {
        let (settings, method) = (self.settings(), cell.attack.method()?);
        // An attack that does not work on the model reports that itself.
        let needs = cell.attack.needs(settings.model).ok()?;
        let listed = || settings.attacks.iter().filter_map(|attack| attack.method());
        let is_naive_twin = |other: &AttackMethod| {
            (other.family(), other.knowledge()) == (method.family(), Knowledge::Naive) && *other != method
        };
        if method.is_search()
            && matches!(cell.defence, Defence::None | Defence::Gaussian(_))
            && let Some(twin) = listed().find(is_naive_twin)
        {
            return Some(format!("no entry was dropped, so that this is {twin}"));
        }
        let hides_positions = matches!(cell.defence, Defence::FixedPosition | Defence::Encrypted { .. });
        if method.is_unordered() && !hides_positions && listed().any(|other| other.family() == AttackFamily::Matching) {
            return Some("the position embedding's gradient arrived: token matching uses it and sees more".to_owned());
        }
        if cell.threat == ThreatModel::InconsistentModels && settings.sum == 1 {
            return Some("one client has nobody to be told another model than; --sum 2 gives it company".to_owned());
        }
        if method == AttackMethod::Batch && settings.pictures() == 1 {
            return Some(
                "the update has one picture, which embedding inversion sees; --batch 2 or --sum 2 gives more"
                    .to_owned(),
            );
        }
        (settings.rounds == 1 && needs.rounds)
            .then(|| "one round was played; --rounds 5 plays five over the same picture".to_owned())
    }
}

pub(super) fn truth_file(batch: usize, index: usize) -> String {
    format!("truth-{batch:03}-{index}.png")
}

fn refuse_duplicates(names: impl Iterator<Item = String>, what: &'static str) -> Result<(), ExperimentError> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ExperimentError::Duplicate { what, name: pair[0].clone() }),
        None => Ok(()),
    }
}

fn batch(members: &[(usize, &(String, Picture))], side: usize) -> PictureBatch {
    let mut batch = PictureBatch::default();
    for (position, (name, picture)) in members {
        let chw = picture.for_model(side);
        batch.name += if batch.name.is_empty() { "" } else { "+" };
        batch.name += name;
        batch.truths.push(chw_to_hwc(&chw, side, side));
        batch.batch.images.extend(chw);
        batch.batch.labels.push(class_in_name(name).unwrap_or(position % CLASSES.len()));
    }
    batch
}

fn digest(picture: &Picture) -> String {
    let mut hash = Sha256::new();
    hash.update((picture.width() as u64).to_le_bytes());
    hash.update(picture.rgb());
    hexadecimal(hash)
}

fn digest_of_state(state: &ModelState) -> String {
    let mut hash = Sha256::new();
    for values in [&state.weights, &state.statistics] {
        hash.update((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| hash.update(value.to_le_bytes()));
    }
    hexadecimal(hash)
}

#[cfg(test)]
pub(super) mod tests {
    use unmask_core::{ResnetPreset, VitPreset};
    use unmask_model::device::OpenDevice;
    use unmask_simulation::Commit;

    use super::*;

    pub(crate) fn settings(attacks: &str, defences: &str) -> MatrixSettings {
        MatrixSettings {
            model: VitPreset::Pico.into(),
            attacks: attacks.split(',').map(|name| name.parse().unwrap()).collect(),
            defences: defences.split(';').map(|name| name.parse().unwrap()).collect(),
            seed: 1,
            seeds: 1,
            iterations: Some(4),
            step: None,
            rounds: 2,
            rate: 1e-5,
            rule: Rule::FedSgd,
            batch: 1,
            sum: 1,
            threats: vec![ThreatModel::Honest],
        }
    }

    pub(crate) fn pictures(names: &[&str]) -> Vec<(String, Picture)> {
        let picture = |seed: usize| {
            let wave = |i: usize| ((i * (seed + 2)) as f32 * 0.05).sin() * 0.4 + 0.5;
            Picture::from_hwc(16, 16, &(0..768).map(wave).collect::<Vec<_>>()).unwrap()
        };
        names.iter().enumerate().map(|(seed, name)| ((*name).to_owned(), picture(seed))).collect()
    }

    pub(crate) fn plan(settings: &MatrixSettings, names: &[&str]) -> Result<MatrixPlan, ExperimentError> {
        let (pictures, device) = (pictures(names), OpenDevice::cpu());
        let commit = Some(Commit { sha: "abc".to_owned(), has_local_changes: false });
        let request = MatrixRequest {
            settings,
            pictures: &pictures,
            start: None,
            device: &device,
            threads: None,
            commit,
            out: std::path::Path::new(""),
        };
        MatrixPlan::new(&request)
    }

    #[test]
    fn settings_that_make_no_matrix_are_refused_with_their_operands() {
        let refusal = |change: &dyn Fn(&mut MatrixSettings), names: &[&str]| {
            let mut settings = settings("embedding,label", "none;fixed-position");
            change(&mut settings);
            plan(&settings, names).unwrap_err().to_string()
        };
        assert!(
            refusal(&|settings| settings.batch = 2, &["a", "b", "c"]).contains("3 pictures do not make batches of 2")
        );
        let sums = |settings: &mut MatrixSettings| (settings.batch, settings.sum) = (2, 2);
        assert!(refusal(&sums, &["a", "b"]).contains("2 pictures do not make sums of 2 batches of 2"));
        assert!(refusal(&|settings| settings.sum = 0, &["a"]).contains("--sum"));
        let resnets = |settings: &mut MatrixSettings| {
            (settings.model, settings.sum) = (ResnetPreset::Nano.into(), 2);
            settings.defences = vec![Defence::None];
        };
        assert!(refusal(&resnets, &["a", "b"]).contains("batch norm"));
        assert!(refusal(&|settings| settings.rounds = 0, &["a"]).contains("--rounds"));
        assert!(refusal(&|settings| settings.seeds = 0, &["a"]).contains("--seeds 1 or more"));
        assert!(refusal(&|settings| settings.step = Some(2.5), &["a"]).contains("2.5"));
        assert!(refusal(&|settings| settings.rate = f32::NAN, &["a"]).contains("NaN"));
        assert!(refusal(&|_| (), &["a", "a"]).contains("picture name a"));
        assert!(
            refusal(&|settings| settings.attacks.push(InferenceAttack::Labels), &["a"]).contains("the attack label")
        );
        assert!(refusal(&|settings| settings.defences.clear(), &["a"]).contains("at least one"));
        let resnet = |settings: &mut MatrixSettings| settings.model = ResnetPreset::Nano.into();
        assert!(refusal(&resnet, &["a"]).contains("resnet_nano has none"));
    }

    #[test]
    fn defaults_are_what_works_on_the_model() {
        let names = |model: Architecture| {
            let defences = MatrixSettings::default_defences(model);
            let attacks = MatrixSettings::default_attacks(model, &defences);
            (defences.len(), attacks.into_iter().map(InferenceAttack::name).collect::<Vec<_>>())
        };
        let vit = Architecture::from(VitPreset::Pico);
        let (defences, attacks) = names(vit);
        assert!(defences == 8 && attacks.len() == 14 && !attacks.contains(&"april"), "{attacks:?}");
        assert_eq!(names(vit.with_april_block(true)).1.len(), 16);
        let resnet = ["inverting-gradients", "inverting-gradients-aware", "label"];
        assert_eq!(names(ResnetPreset::Nano.into()), (5, resnet.to_vec()));
        let plain = MatrixSettings::default_attacks(vit, &[Defence::None]);
        assert!(plain.iter().all(|attack| attack.name() != "colluder"));
    }

    /// A seed depends only on its parts, and where they are split matters.
    #[test]
    fn seeds_follow_from_their_purpose() {
        assert_eq!(seed_of(1, &["mask", "none"]), seed_of(1, &["mask", "none"]));
        assert_ne!(seed_of(1, &["mask", "none"]), seed_of(1, &["masknone"]));
        assert_ne!(seed_of(1, &["mask"]), seed_of(2, &["mask"]));
    }

    #[test]
    fn every_seed_has_every_row() {
        let settings =
            MatrixSettings { seed: u64::MAX, seeds: 2, ..settings("embedding,label", "none;fixed-position") };
        let plan = plan(&settings, &["a", "b"]).unwrap();
        let cells: Vec<Cell> = plan.cells().collect();
        assert_eq!(cells.len(), 2 * 2 * 2 * 2);
        assert!(cells.iter().enumerate().all(|(number, cell)| cell.number == number));
        assert_eq!((cells[0].seed, cells[8].seed), (u64::MAX, 0), "counted on from the greatest");
        assert_eq!(cells.chunk_by(|one, next| one.update() == next.update()).count(), 8, "two attacks on each update");
    }

    #[test]
    fn rows_that_say_nothing_new_are_not_worth_their_time() {
        let mut settings = settings("matching,matching-aware,jigsaw,rounds", "none;random-binary:0.5;fixed-position");
        settings.rounds = 1;
        let plan = plan(&settings, &["a"]).unwrap();
        let redundancy: Vec<bool> = plan.cells().map(|cell| plan.redundancy(&cell).is_some()).collect();
        #[rustfmt::skip]
        assert_eq!(redundancy, [
            false, true, true, true,
            false, false, true, true,
            false, false, false, true,
        ]);
        assert_eq!(plan.cells().map(|cell| plan.work(&cell)).collect::<Vec<_>>()[..3], [4, 20, 20]);
    }
}
