//! Recorded updates: the folders that frameworks leave, and attacks on each update in them.
//!
//! Two forms are read. A *recording* has for each round a folder `round-N` with `global.*`, the weights that the server
//! sent, `config.json`, what it asked for, and for each client `node-NAME.*`, `node-NAME.mask.*` if values are hidden,
//! and `node-NAME.json`, what the client reported. Any other folder of tensor files is a *folder of gradients*: each file
//! is an update, `weights.*` are the weights at which all were made, and `config.json` may say otherwise.

use std::{
    collections::BTreeMap,
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::Value;
use unmask_attack::{SearchOptions, Searches};
use unmask_core::{Rule, SchemaVersion, Verdict};
use unmask_data::{Picture, encode_png};
use unmask_inversion::{
    Asked, DumpError, InferenceAttack, Inversion, InversionError, KnownPictures, LocalTraining, Report, Told, Update,
    UpdateFiles, round_files,
};
use unmask_tensors::TensorFile;

use crate::{Audit, report::not_tried};

/// Folders of rounds start with this.
const ROUND: &str = "round-";
/// Files of clients start with this.
const NODE: &str = "node-";
/// Names of the weights before training.
const BEFORE: [&str; 3] = ["global", "weights", "model"];

/// Whether to go on, asked between steps.
pub type MayGoOn<'a> = &'a dyn Fn() -> ControlFlow<()>;

/// What somebody sent in a round, as values by name.
type Values = BTreeMap<String, Value>;

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("the folder {} cannot be read: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Files(#[from] DumpError),
    #[error("{} has folders of rounds, but no update in them: a client's update is node-NAME.safetensors (or .npz, .pt)", .path.display())]
    NoUpdate { path: PathBuf },
}

/// An update in a folder.
#[derive(Debug, Clone)]
pub struct RecordedFile {
    pub round: Option<u64>,
    /// The client, or the file's name.
    pub name: String,
    pub files: UpdateFiles,
    /// The weights at which it was made.
    pub weights: Option<TensorFile>,
    /// What the client reported.
    metrics: Values,
    /// What the server asked for.
    config: Values,
    /// Why one of both cannot be read.
    unreadable: Option<String>,
}

/// An update, and what attacks found in it.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    pub name: String,
    /// Whether a mask hid values.
    pub is_masked: bool,
    /// What the client reported.
    pub metrics: Values,
    pub attacks: Vec<RecordedAttack>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RecordedAttack {
    pub attack: InferenceAttack,
    pub title: &'static str,
    /// As `report.json` of `unmask invert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
    /// Why the attack cannot work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    pub is_recognisable: bool,
    /// PNG files.
    #[serde(skip)]
    pub pictures: Vec<Vec<u8>>,
    /// The report's summary, as lines.
    #[serde(skip)]
    pub summary: Vec<String>,
}

/// How to attack recorded updates.
#[derive(Debug, Clone, Default)]
pub struct HowToAttack {
    /// By default embedding and label, and completion where values are hidden.
    pub attacks: Vec<InferenceAttack>,
    pub model: Asked,
    /// The local learning rate, if the files do not say it.
    pub rate: Option<f64>,
    /// Whether the private pictures may be those of another update, so that another picture is no failure.
    pub truth_may_be_of_another: bool,
}

/// Lists the updates in `folder`, in the order of rounds and names.
///
/// # Errors
/// [`FolderError`]: the folder cannot be read, or has no update.
pub fn recorded_files(folder: &Path) -> Result<Vec<RecordedFile>, FolderError> {
    let names = |folder: &Path| -> Result<Vec<String>, FolderError> {
        let failed = |source| FolderError::Folder { path: folder.to_owned(), source };
        let entries = fs::read_dir(folder).map_err(failed)?;
        let mut names = entries
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<Vec<_>, FolderError>>()?;
        names.sort_unstable();
        Ok(names)
    };
    let number = |name: &str| name.strip_prefix(ROUND)?.parse::<u64>().ok();
    let mut rounds: Vec<(u64, PathBuf)> =
        names(folder)?.iter().filter_map(|name| Some((number(name)?, folder.join(name)))).collect();
    rounds.sort_unstable();
    if rounds.is_empty() {
        return in_round(folder, None, |_| true);
    }
    let mut all = Vec::new();
    for (round, path) in rounds {
        let has_node = names(&path)?.iter().any(|name| name.starts_with(NODE) && !name.ends_with(".json"));
        if has_node {
            all.extend(in_round(&path, Some(round), |name| name.starts_with(NODE))?);
        }
    }
    if all.is_empty() { Err(FolderError::NoUpdate { path: folder.to_owned() }) } else { Ok(all) }
}

/// The updates in one folder whose names `is_update` accepts.
fn in_round(
    folder: &Path,
    round: Option<u64>,
    is_update: impl Fn(&str) -> bool,
) -> Result<Vec<RecordedFile>, FolderError> {
    let config = values(&folder.join("config.json"));
    let (mut updates, mut weights) = (Vec::new(), None);
    for files in round_files(folder)? {
        let path = PathBuf::from(files.gradients.to_string());
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if BEFORE.contains(&stem.as_str()) {
            weights = Some(files.gradients);
        } else if is_update(&stem) {
            updates.push((stem, files));
        }
    }
    let update = |(stem, files): (String, UpdateFiles)| {
        // A client may report anything.
        let metrics = values(&folder.join(format!("{stem}.json")));
        let unreadable = metrics.as_ref().err().or(config.as_ref().err()).cloned();
        RecordedFile {
            round,
            name: stem.strip_prefix(NODE).unwrap_or(&stem).to_owned(),
            files,
            weights: weights.clone(),
            metrics: metrics.unwrap_or_default(),
            config: config.clone().unwrap_or_default(),
            unreadable,
        }
    };
    Ok(updates.into_iter().map(update).collect())
}

/// The contents of a JSON file with an object, nothing if it is not there, or why it cannot be read.
fn values(path: &Path) -> Result<Values, String> {
    match fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|error| format!("{} is no JSON object: {error}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Values::new()),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

impl RecordedAttack {
    /// Whether it made a picture of which it cannot be told whether it is right.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        let verdict = self.report.as_ref().and_then(|report| report.get("verdict")).and_then(Value::as_str);
        !self.pictures.is_empty() && verdict == Some("cannot-tell")
    }
}

impl RecordedFile {
    /// Attacks the update. `known` gives the private pictures for a model's width and height.
    pub fn attack(
        &self,
        how: &HowToAttack,
        known: &dyn Fn((usize, usize)) -> KnownPictures,
        searches: &dyn Searches,
        go_on: MayGoOn<'_>,
    ) -> RecordedUpdate {
        let is_masked = self.files.mask.is_some();
        let mut attacks = how.attacks.clone();
        if attacks.is_empty() {
            let names = ["embedding", "completion", "label"];
            attacks = names
                .iter()
                .filter(|name| is_masked || **name != "completion")
                .filter_map(|name| name.parse().ok())
                .collect();
        }
        let attacked =
            attacks.into_iter().map(|attack| self.attack_with(attack, how, known, searches, go_on)).collect();
        RecordedUpdate {
            round: self.round,
            name: self.name.clone(),
            is_masked,
            metrics: self.metrics.clone(),
            attacks: attacked,
        }
    }

    fn attack_with(
        &self,
        attack: InferenceAttack,
        how: &HowToAttack,
        known: &dyn Fn((usize, usize)) -> KnownPictures,
        searches: &dyn Searches,
        go_on: MayGoOn<'_>,
    ) -> RecordedAttack {
        let mut told = RecordedAttack {
            attack,
            title: attack.title(),
            report: None,
            refusal: None,
            is_recognisable: false,
            pictures: Vec::new(),
            summary: Vec::new(),
        };
        let fedavg = match self.training(how.rate) {
            Ok(fedavg) => fedavg,
            Err(why) => {
                told.refusal = Some(why);
                return told;
            }
        };
        let inversion = Inversion {
            attack,
            model: how.model,
            update: Update::One(self.files.clone()),
            weights: self.weights.clone(),
            encrypted_weights: None,
            fedavg,
            is_training: true,
            labels: Vec::new(),
            batch: None,
            search: SearchOptions::default(),
        };
        let mut attacked = found(&inversion, known, searches, go_on);
        let is_other = |found: &Found| found.report.verdict == Some(Verdict::NotRecognisableByThisAttack);
        if how.truth_may_be_of_another && attacked.as_ref().is_ok_and(is_other) {
            attacked = found(&inversion, &|_| KnownPictures::default(), searches, go_on);
        }
        match attacked {
            Ok(Found { pictures, report, notes }) => {
                told.is_recognisable = report.verdict == Some(Verdict::Recognisable);
                told.summary =
                    report.summary(Path::new("")).into_iter().skip(usize::from(report.seconds.is_some())).collect();
                told.summary.extend(notes);
                told.report = serde_json::to_value(&report).ok();
                told.pictures = pictures;
            }
            Err(error) => told.refusal = Some(error.to_string()),
        }
        told
    }

    /// The local training behind weights; `None` if the update is a gradient.
    fn training(&self, rate: Option<f64>) -> Result<Option<LocalTraining>, String> {
        if let Some(why) = &self.unreadable {
            return Err(why.clone());
        }
        let text = |values: &Values, name: &str| {
            values.get(name).map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
        };
        let said = |name: &str| text(&self.metrics, name).or_else(|| text(&self.config, name));
        let number = |name: &str, default: f64| match said(name) {
            None => Ok(default),
            Some(text) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
                number
                    .ok_or_else(|| format!("what was recorded does not give a number of local steps: {name} is {text}"))
            }
        };
        let is_gradient = match said("update").as_deref() {
            Some(kind) => kind == "gradient",
            None if said("rule").as_deref() == Some("fedsgd") => true,
            // A recording has weights, and a folder of files has gradients unless a rate says otherwise.
            None => self.round.is_none() && said("lr").is_none() && rate.is_none(),
        };
        if is_gradient {
            return Ok(None);
        }
        let rule: Option<Rule> = said("rule").and_then(|rule| rule.parse().ok());
        let (local_rate, epochs) = match rule {
            Some(Rule::FedAvg { epochs, rate }) => (f64::from(rate), f64::from(epochs)),
            _ => (number("lr", 1.0)?, number("local-epochs", 1.0)?),
        };
        let batch = ["batch", "batch-size"].into_iter().find(|name| said(name).is_some());
        let steps = match (said("steps"), batch) {
            (Some(_), _) => number("steps", 1.0)?,
            (None, Some(batch)) => epochs * (number("num-examples", 1.0)? / number(batch, 1.0)?).ceil(),
            (None, None) => epochs,
        };
        let steps = steps.round().max(1.0);
        format!("rate={},steps={}", rate.unwrap_or(local_rate), steps as u32).parse().map(Some)
    }
}

struct Found {
    /// PNG files.
    pictures: Vec<Vec<u8>>,
    report: Report,
    notes: Vec<String>,
}

fn found(
    inversion: &Inversion,
    known: &dyn Fn((usize, usize)) -> KnownPictures,
    searches: &dyn Searches,
    go_on: MayGoOn<'_>,
) -> Result<Found, InversionError> {
    let Told { model, notes } = match inversion.tell() {
        // Labels need no model, only the gradient of a head.
        Err(InversionError::Dump(DumpError::Shapes(error))) => {
            let report = inversion.labels_alone(None, &mut || go_on());
            let report = report.map_err(|_| InversionError::Dump(DumpError::Shapes(error)))?;
            return Ok(Found { pictures: Vec::new(), report, notes: Vec::new() });
        }
        told => told?,
    };
    let (pictures, report) = inversion.run(&model, &known(model.size), searches, &mut || go_on(), &mut |_| go_on())?;
    let (width, height) = model.size;
    let png = |picture: &Vec<f32>| encode_png(&Picture::from_hwc(width, height, picture).ok()?).ok();
    Ok(Found { pictures: pictures.iter().filter_map(png).collect(), report, notes })
}

pub(crate) fn conclusion(updates: &[RecordedUpdate]) -> String {
    let count = |found: &dyn Fn(&RecordedAttack) -> bool| {
        updates.iter().filter(|update| update.attacks.iter().any(found)).count()
    };
    let all = updates.len();
    let seen = count(&|attack| attack.is_recognisable);
    let tried = count(&|attack| attack.report.is_some());
    let labels = count(&|attack| attack.report.as_ref().is_some_and(|report| report.get("labels_read").is_some()));
    let is_seen = |update: &RecordedUpdate| update.attacks.iter().any(|attack| attack.is_recognisable);
    let is_open =
        |update: &&RecordedUpdate| !is_seen(update) && update.attacks.iter().any(RecordedAttack::is_unconfirmed);
    let open = updates.iter().filter(is_open).count();
    let look = match open {
        0 => String::new(),
        open => format!(" Look at the pictures: {open} gave one that could not be confirmed."),
    };
    let named = if labels == 0 { String::new() } else { format!(" Labels were read off {labels}.") };
    match (seen, tried) {
        (0, 0) => format!("Cannot tell: no attack tried here works on the {all} recorded updates. The table says why."),
        (0, _) if open > 0 => format!(
            "Look at the pictures: {open} of {all} updates gave one that this program could not confirm.{named}"
        ),
        (0, _) => format!(
            "No attack tried here found a recognisable picture in {all} updates. That does not prove that none can.{named}"
        ),
        _ => {
            format!(
                "{seen} of {all} updates gave away a recognisable picture to the server that averages them.{look}{named}"
            )
        }
    }
}

impl Audit {
    /// The report on attacked updates.
    pub fn of_updates(updates: Vec<RecordedUpdate>) -> Self {
        let mut audit = Self {
            schema_version: SchemaVersion,
            deployment: None,
            conclusion: String::new(),
            views: Vec::new(),
            controls: Vec::new(),
            privacy: None,
            updates,
            not_tried: not_tried(),
            notes: Vec::new(),
        };
        audit.conclude();
        audit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(metrics: &str, config: &str, round: Option<u64>) -> RecordedFile {
        let json = |text: &str| serde_json::from_str(text).unwrap();
        RecordedFile {
            round,
            name: "1".to_owned(),
            files: UpdateFiles { gradients: TensorFile::from(PathBuf::from("u")), mask: None },
            weights: Some(TensorFile::from(PathBuf::from("w"))),
            metrics: json(metrics),
            config: json(config),
            unreadable: None,
        }
    }

    #[test]
    fn rate_and_steps_come_from_the_client_or_else_the_server() {
        let training = |metrics, config| {
            let told = file(metrics, config, Some(1)).training(None).unwrap().unwrap();
            serde_json::to_value(told).unwrap()
        };
        let told = |rate: f64, steps: u32| serde_json::json!({"rate": rate, "steps": steps});
        assert_eq!(training("{}", "{}"), told(1.0, 1));
        let config = r#"{"lr": 0.5, "local-epochs": 3, "batch-size": 8}"#;
        assert_eq!(training(r#"{"num-examples": 20.0}"#, config), told(0.5, 9));
        let rule = r#"{"rule": "fedavg:epochs=2,rate=0.25", "batch": "4", "num-examples": 9}"#;
        assert_eq!(training(rule, config), told(0.25, 6));
        let wrong = file(r#"{"num-examples": "many"}"#, config, Some(1)).training(None).unwrap_err();
        assert!(wrong.contains("num-examples is many"), "{wrong}");
    }

    #[test]
    fn files_without_a_rate_are_gradients() {
        assert_eq!(file("{}", "{}", None).training(None).unwrap(), None);
        assert_eq!(file(r#"{"update": "gradient"}"#, r#"{"lr": 0.1}"#, Some(1)).training(None).unwrap(), None);
        assert!(file("{}", r#"{"lr": 0.1}"#, None).training(None).unwrap().is_some());
    }

    #[test]
    fn folders_without_updates_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || recorded_files(folder.path()).unwrap_err().to_string();
        assert!(refused().contains("no updates in"), "{}", refused());
        fs::create_dir(folder.path().join("round-1")).unwrap();
        assert!(refused().contains("no update in them"), "{}", refused());
        fs::write(folder.path().join("round-1/node-7.safetensors"), "").unwrap();
        fs::write(folder.path().join("round-1/node-7.json"), "{").unwrap();
        let found = recorded_files(folder.path()).unwrap();
        let why = found[0].training(None).unwrap_err();
        assert!(why.contains("node-7.json is no JSON object"), "{why}");
        assert_eq!(found.iter().map(|file| (file.round, file.name.as_str())).collect::<Vec<_>>(), [(Some(1), "7")]);
    }
}
