//! Types that every crate shares: networks, the layout of their flat parameter vector, and the settings of a room. Each
//! setting is parsed and named only here.
//!
//! This crate uses no tensors, files or network, so the relay, the defences, the attacks and the browser page can read
//! a flat `f32` vector without a deep learning framework.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod activation;
mod aggregation;
mod architecture;
mod attack;
mod backoff;
mod client_state;
mod defence;
mod init;
mod layout;
mod lenet;
mod nth_of;
mod optimiser;
mod picture_address;
mod pictures;
mod processor;
mod resnet;
mod rule;
mod schema;
mod secure_sum;
mod settings;
mod size;
mod text;
mod threat;
mod trade_off;
mod update;
mod vit;

pub use activation::Activation;
pub use aggregation::{Aggregation, ParseAggregationError};
pub use architecture::{
    Architecture, ModelDescription, ModelState, NoTransformerBlock, StatisticsError, UnknownArchitecture,
};
pub use attack::{
    AttackFamily, AttackMethod, Explanation, Knowledge, MembershipVerdict, Outlook, UnknownFamily, UnknownMethod,
    UnknownOutlook, UnknownVerdict, Verdict,
};
pub use backoff::Backoff;
pub use client_state::ClientState;
pub use defence::{
    Defence, DefenceKind, EncryptionStart, GaussianNoise, GroupRates, NoEmbeddings, NoiseUnit, NumberParameter,
    ParseDefenceError, ParseNoiseError, ParseRatesError, RateError, RateRun, UnknownEncryptionStart, UnknownNoiseUnit,
    ZeroRate,
};
pub use init::{InitOptions, LenetInit, initial_lenet, initial_weights};
pub use layout::{Param, ParamGroup, ParamLayout, UnknownGroup};
pub use lenet::LenetConfig;
pub use nth_of::{NthOf, ParseNthOfError};
pub use optimiser::{OptimiserKind, ParseOptimiserError};
pub use picture_address::{ForeignAddress, PictureAddress};
pub use pictures::{
    InitialWeights, ParsePartitionError, Partition, TrainOn, TrainingPictures, UnknownInitialWeights, UnknownTrainOn,
};
pub use processor::processor_name;
pub use resnet::{BlockKind, Convolution, ResidualBlock, ResnetConfig, ResnetPreset, ResnetSpec, Stem};
pub use rule::{ParseRuleError, Rule};
pub use schema::SchemaVersion;
pub use secure_sum::{ParseSecureSumError, SecureSumError, SecureSumSettings, Threshold, UnknownThreshold};
pub use settings::{RoundSettings, SettingsError};
pub use size::SizeError;
pub use threat::{SentWeights, ThreatModel, UnknownThreat};
pub use trade_off::{
    CurveAttacker, CurvePoint, CurveProvenance, CurveSetup, MeanInterval, ModelStage, TradeOffColumn, TradeOffColumns,
    TradeOffCurve, TradeOffPoint, UnknownModelStage,
};
pub use update::{ClientId, KeyCheck, MaskSeed, UpdateForm};
pub use vit::{UnknownVit, VitConfig, VitPreset};
