//! Which rows there are, and what decides them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unmask_attack::{Method, SearchOptions};
use unmask_core::{Architecture, Defence, MaskSeed, Rule, VitPreset, VitSpec};
use unmask_data::{CLASSES, Picture, chw_to_hwc, class_in_name};

use super::ExperimentError;
use crate::InferenceAttack;

/// The range of a pixel in [-1, 1]: a longer step leaves it at once.
const MOST_STEP: f64 = 2.0;

/// What decides the rows of a matrix, besides the pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The model, at its initial weights.
    pub model: VitPreset,
    /// Whether block 0 is the one that APRIL's closed form needs.
    pub april_block: bool,
    /// In the order they are shown.
    pub attacks: Vec<InferenceAttack>,
    /// In the order they are shown.
    pub defences: Vec<Defence>,
    /// Of weights, masks, noise, keys and starts.
    pub seed: u64,
    /// Steps of a search; `None` takes what suits the method.
    pub iterations: Option<usize>,
    /// First step size of a search; `None` takes what suits the method.
    pub step: Option<f64>,
    /// Rounds that the client takes part in with the same pictures.
    pub rounds: usize,
    /// The server's learning rate between the rounds, under FedSGD.
    pub rate: f32,
    /// What the client sends.
    pub rule: Rule,
    /// Pictures in one update.
    pub batch: usize,
}

impl Settings {
    /// The defences that are compared unless others are named.
    pub fn default_defences() -> Vec<Defence> {
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
        .collect()
    }

    /// All attacks that have something to work on: APRIL with the April block, ways to a key where something is encrypted.
    pub fn default_attacks(april_block: bool, defences: &[Defence]) -> Vec<InferenceAttack> {
        let is_encrypted = defences.iter().any(Defence::is_encrypted);
        let applies = |trial: &InferenceAttack| match trial.method() {
            Some(Method::April | Method::AprilAware) => april_block,
            Some(Method::KnownStart | Method::Colluder) => is_encrypted,
            _ => true,
        };
        InferenceAttack::all().into_iter().filter(applies).collect()
    }

    /// The model.
    pub fn architecture(&self) -> Architecture {
        Architecture::Vit(self.spec())
    }

    /// The model as a ViT.
    pub(super) fn spec(&self) -> VitSpec {
        VitSpec::new(self.model).with_april_block(self.april_block)
    }

    pub(super) fn search_options(&self) -> SearchOptions {
        SearchOptions { iterations: self.iterations, step: self.step, ..SearchOptions::default() }
    }

    /// 32 bytes that follow from the seed and from what they are for.
    pub(super) fn seed_of(&self, purpose: &[&str]) -> MaskSeed {
        let mut hash = Sha256::new();
        hash.update(b"unmask matrix");
        hash.update(self.seed.to_le_bytes());
        for part in purpose {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        MaskSeed(hash.finalize().into())
    }
}

/// What `run.json` holds: a folder's rows are all of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// Of the program: another one may compute other rows.
    pub(super) version: String,
    pub(super) settings: Settings,
    pub(super) images: Vec<Image>,
}

/// A picture by its name and pixels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) name: String,
    pub(super) sha256: String,
}

/// The pictures of one update.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Their names, joined by `+`.
    pub(super) name: String,
    /// Each `[side, side, 3]` in [0, 1].
    pub(super) truths: Vec<Vec<f32>>,
    /// `[batch, 3, side, side]` in [0, 1].
    pub(super) chw: Vec<f32>,
    pub(super) labels: Vec<usize>,
}

/// One row to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// Its place among all rows.
    pub(super) number: usize,
    pub(super) group: usize,
    pub(super) defence: Defence,
    pub(super) attack: InferenceAttack,
}

/// What tells a row from the others.
pub(super) type Key = (InferenceAttack, Defence, String);

/// All rows to be.
#[derive(Debug)]
pub(super) struct MatrixPlan {
    pub(super) run: RunRecord,
    pub(super) groups: Vec<Group>,
}

impl MatrixPlan {
    pub(super) fn new(settings: &Settings, pictures: &[(String, Picture)]) -> Result<Self, ExperimentError> {
        if settings.attacks.is_empty() || settings.defences.is_empty() {
            return Err(ExperimentError::EmptyMatrix);
        }
        let counts = [("--rounds", Some(settings.rounds)), ("--batch", Some(settings.batch))];
        for (what, count) in counts.into_iter().chain([("--iterations", settings.iterations)]) {
            if count == Some(0) {
                return Err(ExperimentError::ZeroCount { what });
            }
        }
        if let Some(step) = settings.step.filter(|step| !(*step > 0.0 && *step <= MOST_STEP)) {
            return Err(ExperimentError::StepSize { step });
        }
        let rate = settings.rate;
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(ExperimentError::LearningRate { rate });
        }
        refuse_duplicates(settings.attacks.iter().map(InferenceAttack::to_string), "the attack")?;
        refuse_duplicates(settings.defences.iter().map(Defence::to_string), "the defence")?;
        refuse_duplicates(pictures.iter().map(|(name, _)| name.clone()), "the picture name")?;
        if pictures.is_empty() || !pictures.len().is_multiple_of(settings.batch) {
            return Err(ExperimentError::UnevenBatches { pictures: pictures.len(), batch: settings.batch });
        }
        let side = settings.spec().config().image;
        let labelled: Vec<(usize, &(String, Picture))> = pictures.iter().enumerate().collect();
        let groups = labelled.chunks(settings.batch).map(|members| group(members, side)).collect();
        let images = pictures.iter().map(|(name, picture)| Image { name: name.clone(), sha256: digest(picture) });
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Self { run: RunRecord { version, settings: settings.clone(), images: images.collect() }, groups })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// By picture, then defence, then attack.
    pub(super) fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let Settings { attacks, defences, .. } = self.settings();
        let pairs = defences.iter().flat_map(|&defence| attacks.iter().map(move |&attack| (defence, attack)));
        let all = (0..self.groups.len()).flat_map(move |group| pairs.clone().map(move |pair| (group, pair)));
        all.enumerate().map(|(number, (group, (defence, attack)))| Cell { number, group, defence, attack })
    }

    pub(super) fn key(&self, cell: &Cell) -> Key {
        (cell.attack, cell.defence, self.groups[cell.group].name.clone())
    }

    /// The name of its file, with which those of its pictures begin.
    pub(super) fn file(&self, cell: &Cell) -> String {
        format!("{:04}-{}", cell.number, cell.attack)
    }

    /// Roughly, in steps of a search.
    pub(super) fn work(&self, cell: &Cell) -> u64 {
        const SEARCH: u64 = 2000;
        const CLOSED_FORM: u64 = 20;
        // A step through every parameter takes three times as long as one through the first block's.
        const EVERYTHING: u64 = 3;
        let steps = self.settings().iterations.map_or(SEARCH, |iterations| iterations as u64);
        let is_idle = self.redundancy(cell).is_some() || cell.defence.is_encrypted();
        match cell.attack.method() {
            Some(Method::Gradients | Method::GradientsAware) if !is_idle => EVERYTHING * steps,
            Some(method) if method.is_search() && !is_idle => steps,
            _ => CLOSED_FORM,
        }
    }

    /// Why a row is not worth its time: another row of the matrix says the same or more.
    pub(super) fn redundancy(&self, cell: &Cell) -> Option<String> {
        let settings = self.settings();
        let is_listed = |method| settings.attacks.contains(&InferenceAttack::Reconstruction(method));
        let drops_nothing = matches!(cell.defence, Defence::None | Defence::Gaussian(_));
        let as_well = |twin: Method| {
            let dropped_nothing = drops_nothing && is_listed(twin);
            dropped_nothing.then(|| format!("no entry was dropped, so that this is {twin}"))
        };
        match cell.attack.method()? {
            Method::MatchingAware => as_well(Method::Matching),
            Method::GradientsAware => as_well(Method::Gradients),
            Method::Jigsaw => {
                let is_hidden = matches!(cell.defence, Defence::FixedPosition | Defence::Encrypted { .. });
                let sharper = is_listed(Method::Matching) || is_listed(Method::MatchingAware);
                (!is_hidden && sharper).then(|| {
                    "the position embedding's gradient arrived: token matching uses it and sees more".to_owned()
                })
            }
            Method::Rounds if settings.rounds == 1 => {
                Some("one round was played; --rounds 5 plays five over the same picture".to_owned())
            }
            _ => None,
        }
    }
}

/// The file of a group's picture, before any attack.
pub(super) fn truth_file(group: usize, index: usize) -> String {
    format!("truth-{group:03}-{index}.png")
}

fn refuse_duplicates(names: impl Iterator<Item = String>, what: &'static str) -> Result<(), ExperimentError> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ExperimentError::Duplicate { what, name: pair[0].clone() }),
        None => Ok(()),
    }
}

fn group(members: &[(usize, &(String, Picture))], side: usize) -> Group {
    let mut group = Group { name: String::new(), truths: Vec::new(), chw: Vec::new(), labels: Vec::new() };
    for (position, (name, picture)) in members {
        let chw = picture.for_model(side);
        group.name += if group.name.is_empty() { "" } else { "+" };
        group.name += name;
        group.truths.push(chw_to_hwc(&chw, side, side));
        group.chw.extend(chw);
        group.labels.push(class_in_name(name).unwrap_or(position % CLASSES.len()));
    }
    group
}

fn digest(picture: &Picture) -> String {
    let mut hash = Sha256::new();
    hash.update((picture.width() as u64).to_le_bytes());
    hash.update(picture.rgb());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn settings(attacks: &str, defences: &str) -> Settings {
        Settings {
            model: VitPreset::Pico,
            april_block: false,
            attacks: attacks.split(',').map(|name| name.parse().unwrap()).collect(),
            defences: defences.split(';').map(|name| name.parse().unwrap()).collect(),
            seed: 1,
            iterations: Some(4),
            step: None,
            rounds: 2,
            rate: 1e-5,
            rule: Rule::FedSgd,
            batch: 1,
        }
    }

    pub(crate) fn pictures(names: &[&str]) -> Vec<(String, Picture)> {
        let picture = |seed: usize| {
            let wave = |i: usize| ((i * (seed + 2)) as f32 * 0.05).sin() * 0.4 + 0.5;
            Picture::from_hwc(16, 16, &(0..768).map(wave).collect::<Vec<_>>()).unwrap()
        };
        names.iter().enumerate().map(|(seed, name)| ((*name).to_owned(), picture(seed))).collect()
    }

    #[test]
    fn settings_that_make_no_matrix_are_refused_with_their_operands() {
        let refusal = |change: &dyn Fn(&mut Settings), names: &[&str]| {
            let mut settings = settings("embedding,label", "none;fixed-position");
            change(&mut settings);
            MatrixPlan::new(&settings, &pictures(names)).unwrap_err().to_string()
        };
        assert!(
            refusal(&|settings| settings.batch = 2, &["a", "b", "c"]).contains("3 pictures do not make batches of 2")
        );
        assert!(refusal(&|settings| settings.rounds = 0, &["a"]).contains("--rounds"));
        assert!(refusal(&|settings| settings.step = Some(2.5), &["a"]).contains("2.5"));
        assert!(refusal(&|settings| settings.rate = f32::NAN, &["a"]).contains("NaN"));
        assert!(refusal(&|_| (), &["a", "a"]).contains("picture name a"));
        assert!(
            refusal(&|settings| settings.attacks.push(InferenceAttack::Labels), &["a"]).contains("the attack label")
        );
        assert!(refusal(&|settings| settings.defences.clear(), &["a"]).contains("at least one"));
    }

    /// Seeds tell purposes apart however these are cut, and nothing else decides them.
    #[test]
    fn seeds_follow_from_their_purpose() {
        let settings = settings("label", "none");
        assert_eq!(settings.seed_of(&["mask", "none"]), settings.seed_of(&["mask", "none"]));
        assert_ne!(settings.seed_of(&["mask", "none"]), settings.seed_of(&["masknone"]));
        let other = Settings { seed: 2, ..settings.clone() };
        assert_ne!(settings.seed_of(&["mask"]), other.seed_of(&["mask"]));
    }

    #[test]
    fn rows_that_say_nothing_new_are_not_worth_their_time() {
        let mut settings = settings("matching,matching-aware,jigsaw,rounds", "none;random-binary:0.5;fixed-position");
        settings.rounds = 1;
        let plan = MatrixPlan::new(&settings, &pictures(&["a"])).unwrap();
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
