//! The config of a run, and its validation.

mod read;
mod values;
mod words;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use unmask_core::{
    Architecture, Defence, InitialWeights, NoEmbeddings, OptimiserKind, Partition, RoundSettings, Rule, SecureSumError,
    SecureSumSettings, SettingsError, UnknownArchitecture,
};
use unmask_data::datasets::Source;
use unmask_federation::Quorum;
use unmask_model::device::Compute;
use unmask_secagg::MOST_CLIENTS as MOST_IN_A_SUM;

use crate::model_file::{ModelFileError, is_model_file, read_model_file};

pub use self::{
    read::{KEYS, Origin},
    words::{MaskPeriod, ParseSliceError, Schedule, Slice, StartWeights},
};

/// A config file with every key, explained.
pub const EXAMPLE: &str = include_str!("config/example.toml");

const MOST_CLIENTS: usize = 10_000;

/// The config of a run: model, data, federation and training. The keys of a config file are the field names with
/// dashes.
///
/// On the same kind of processor, two configs that differ only in `threads`, `evaluate_every` and `checkpoint_every`
/// train the same weights, bit for bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// The model: a name such as `vit_nano_patch4_32` or `resnet_nano`, a name made of numbers, or the path of a TOML
    /// file until the config is [resolved](Config::resolved).
    pub model: String,
    /// Whether a ViT has the first block that APRIL needs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub april_block: bool,
    pub start: StartWeights,
    /// Whether a new head, drawn from the seed, replaces the one of `start`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh_head: bool,
    pub data: Source,
    /// The folder of the CIFAR-10 files, if not the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// The training pictures to use; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_slice: Option<Slice>,
    /// Number of clients N.
    pub clients: usize,
    /// How the pictures are divided among the clients.
    pub partition: Partition,
    /// What a client computes, and how the server uses it.
    pub rule: Rule,
    /// The server's optimiser under FedSGD, with its rate per round.
    pub optimiser: OptimiserKind,
    /// How the learning rate changes over the rounds: the server's under FedSGD, the clients' under FedAvg.
    pub schedule: Schedule,
    /// How a client protects its update before sending it.
    pub defence: Defence,
    /// How long a client keeps a mask, if the defence uses masks.
    #[serde(skip_serializing_if = "is_default")]
    pub masks: MaskPeriod,
    /// How many of a round's clients must keep a parameter for the step to move it.
    #[serde(skip_serializing_if = "is_default_minimum")]
    pub min_kept: u32,
    /// Whether the server learns only the sum of the updates, and how long they may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secure_sum: Option<SecureSumSettings>,
    /// The passphrase for the clients' keys, if the defence encrypts. Never written to a file.
    #[serde(skip_serializing)]
    pub passphrase: Option<String>,
    /// Pictures per local gradient.
    pub batch: u16,
    /// Number of rounds. Give either this or `epochs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Number of passes of all clients together over all training pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Whether pictures are randomly mirrored, and shifted by up to an eighth of their side.
    pub augment: bool,
    /// Seed of everything random: start, shards, order, augmentation, masks, noise, the test sample.
    pub seed: u64,
    #[serde(serialize_with = "write_device", deserialize_with = "read_device")]
    pub device: Compute,
    /// Number of threads; one per processor if absent. Does not affect the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Rounds between tests; 0 for one test at the end.
    pub evaluate_every: u32,
    /// Number of test pictures, drawn with the seed; all if there are fewer.
    pub test_pictures: usize,
    /// Rounds between checkpoints; 0 for one checkpoint at the end.
    pub checkpoint_every: u32,
}

impl Default for Config {
    /// The nano ViT from scratch on the generated pictures, with five clients and FedSGD with Adam. `rounds` or
    /// `epochs` must still be given.
    fn default() -> Self {
        Self {
            model: "vit_nano_patch4_32".to_owned(),
            april_block: false,
            start: StartWeights::Initial(InitialWeights::Scratch),
            fresh_head: false,
            data: Source::Generated,
            data_dir: None,
            train_slice: None,
            clients: 5,
            partition: Partition::Iid,
            rule: Rule::FedSgd,
            optimiser: OptimiserKind::Adam { rate: 0.001 },
            schedule: Schedule::Constant,
            defence: Defence::None,
            masks: MaskPeriod::Round,
            min_kept: 1,
            secure_sum: None,
            passphrase: None,
            batch: 16,
            rounds: None,
            epochs: None,
            augment: false,
            seed: 1,
            device: Compute::Cpu,
            threads: None,
            evaluate_every: 50,
            test_pictures: 1000,
            checkpoint_every: 100,
        }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error("line {line}: {reason}")]
    Syntax { line: usize, reason: String },
    #[error("{origin}: there is no key \"{key}\"; did you mean \"{nearest}\"? `unmask train --example` shows all keys")]
    UnknownKey { origin: Origin, key: String, nearest: &'static str },
    #[error("{origin}: {key}: {reason}")]
    Value { origin: Origin, key: String, reason: String },
    #[error("\"{0}\" sets nothing; write KEY=VALUE, such as clients=10")]
    Override(String),
    #[error("model: {0}")]
    Model(#[from] UnknownArchitecture),
    #[error("model: {reason}")]
    ModelFile { reason: String },
    #[error("april-block = true, but {model} has no transformer block to change; leave it out, or choose a ViT")]
    AprilBlock { model: String },
    #[error(transparent)]
    RoundSettings(#[from] SettingsError),
    #[error("{key} = {given} will not do; give {range}")]
    Range { key: &'static str, given: String, range: String },
    #[error("nothing says how long to train; give rounds = 300 or epochs = 10")]
    NoLength,
    #[error("rounds = {rounds} and epochs = {epochs} both say how long to train; leave one of them out")]
    TwoLengths { rounds: u32, epochs: u32 },
    #[error("defence = \"{0}\" needs a passphrase that the clients make their keys from; add passphrase = \"...\"")]
    NoPassphrase(Defence),
    #[error("a passphrase is given, but defence = \"{0}\" encrypts nothing; leave it out or choose encrypted")]
    IdlePassphrase(Defence),
    #[error(
        "secure-sum adds up 3 to {MOST_IN_A_SUM} clients, and there are {0}: with fewer, the sum hides nobody; change clients, or leave \
         secure-sum out"
    )]
    SumOf(usize),
    #[error("secure-sum: {0}")]
    Sum(#[from] SecureSumError),
    #[error(
        "masks = \"epoch\" keeps a client's mask for a pass over its pictures, but defence = \"{0}\" draws none; leave it out, or \
         choose random-binary:R"
    )]
    NoMasks(Defence),
    #[error("defence: {0}")]
    Defence(#[from] NoEmbeddings),
    #[error(
        "start = \"pretrained\" is available for {}, not for {model}; choose that model, start = \"scratch\", or the path of a \
         safetensors file",
        if available.is_empty() { "no model in this build" } else { available }
    )]
    NotPretrained { model: String, available: String },
}

impl Config {
    /// Replaces the path of a model file with the network it describes, so that the config needs no other file. The
    /// number of classes comes from the pictures.
    ///
    /// # Errors
    /// [`ConfigError::ModelFile`] names the file and the invalid number.
    pub fn resolved(mut self) -> Result<Self, ConfigError> {
        if is_model_file(&self.model) {
            let refused = |error: ModelFileError| ConfigError::ModelFile { reason: error.to_string() };
            let architecture = read_model_file(Path::new(&self.model)).map_err(refused)?;
            self.april_block |= architecture.april_block();
            self.model = architecture.to_string();
        }
        Ok(self)
    }

    /// The model for pictures of so many classes.
    ///
    /// # Errors
    /// There is no such model, or it has no transformer block for `april_block`.
    pub fn architecture(&self, classes: usize) -> Result<Architecture, ConfigError> {
        let architecture = Architecture::named(&self.model, classes)?.with_april_block(self.april_block);
        match architecture.april_block() == self.april_block {
            true => Ok(architecture),
            false => Err(ConfigError::AprilBlock { model: self.model.clone() }),
        }
    }

    /// Checks every value and their combinations, and returns the settings of the rounds.
    ///
    /// # Errors
    /// [`ConfigError`] names the first invalid value and the remedy.
    pub fn validate(&self) -> Result<RoundSettings, ConfigError> {
        let range = |key, given: String, range: &str| Err(ConfigError::Range { key, given, range: range.to_owned() });
        let architecture = self.architecture(10)?;
        if self.clients == 0 || self.clients > MOST_CLIENTS {
            return range("clients", self.clients.to_string(), "1 to 10000");
        }
        if self.min_kept == 0 || self.min_kept as usize > self.clients {
            let range_of = format!("1 to {}, the number of clients: with more, nothing would move", self.clients);
            return range("min-kept", self.min_kept.to_string(), &range_of);
        }
        match (self.rounds, self.epochs) {
            (None, None) => return Err(ConfigError::NoLength),
            (Some(rounds), Some(epochs)) => return Err(ConfigError::TwoLengths { rounds, epochs }),
            (Some(0), None) => return range("rounds", "0".to_owned(), "at least 1"),
            (None, Some(0)) => return range("epochs", "0".to_owned(), "at least 1"),
            _ => {}
        }
        if let (Schedule::Cosine { warmup }, Some(rounds)) = (self.schedule, self.rounds)
            && warmup >= rounds
        {
            return range(
                "schedule",
                self.schedule.to_string(),
                &format!("a warm-up shorter than the {rounds} rounds"),
            );
        }
        if self.threads == Some(0) {
            return range("threads", "0".to_owned(), "at least 1, or leave it out for all processors");
        }
        if self.test_pictures == 0 {
            return range("test-pictures", "0".to_owned(), "at least 1");
        }
        match (self.defence.is_encrypted(), &self.passphrase) {
            (true, None) => return Err(ConfigError::NoPassphrase(self.defence)),
            (false, Some(_)) => return Err(ConfigError::IdlePassphrase(self.defence)),
            _ => {}
        }
        self.defence.check(architecture)?;
        let draws_masks = self.defence.rates().is_some() && !self.defence.has_common_mask();
        if self.masks == MaskPeriod::Epoch && !draws_masks {
            return Err(ConfigError::NoMasks(self.defence));
        }
        if let Some(settings) = self.secure_sum {
            self.check_sum(settings, architecture)?;
        }
        if self.start == StartWeights::Initial(InitialWeights::Pretrained)
            && crate::start::pretrained(&self.model).is_none()
        {
            let available = crate::start::pretrained_models().join(", ");
            return Err(ConfigError::NotPretrained { model: self.model.clone(), available });
        }
        Ok(RoundSettings::new(self.defence, self.rule, self.batch, self.optimiser)?)
    }

    /// A sum needs a bound on every value: the noise's own clip or, without noise, the sum's.
    fn check_sum(&self, settings: SecureSumSettings, architecture: Architecture) -> Result<(), ConfigError> {
        if !(Quorum::HIDES as usize..=MOST_IN_A_SUM).contains(&self.clients) {
            return Err(ConfigError::SumOf(self.clients));
        }
        settings.check_model(architecture)?;
        settings.check_defence(self.defence)?;
        Ok(())
    }

    /// The config as TOML: every key that has a value, except the passphrase.
    pub fn to_toml(&self) -> String {
        // This cannot fail: TOML has numbers, flags and strings. An empty text would be noticed immediately.
        toml::to_string(self).unwrap_or_default()
    }
}

fn is_default_minimum(min_kept: &u32) -> bool {
    *min_kept == 1
}

fn is_default(period: &MaskPeriod) -> bool {
    *period == MaskPeriod::default()
}

fn write_device<S: Serializer>(device: &Compute, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match device {
        Compute::Cpu => "cpu",
        Compute::Gpu => "gpu",
    })
}

fn read_device<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Compute, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "cpu" => Ok(Compute::Cpu),
        "gpu" => Ok(Compute::Gpu),
        other => Err(D::Error::custom(format!("there is no device \"{other}\"; write cpu or gpu"))),
    }
}
