//! What a relay is started with.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use unmask_attack::Searches;
use unmask_core::{Aggregation, Architecture, Defence, InitialWeights, OptimiserKind, Rule, VitPreset};
use unmask_federation::Quorum;

use crate::room::{data_set::DataConfig, evaluation::ModelEvaluator, initialiser::Pretrained};

#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Address to listen on; the default is every IPv4 address of this machine.
    pub bind: IpAddr,
    /// Port for plain HTTP; 0 takes a free one.
    pub http_port: u16,
    /// Port for HTTPS; 0 takes a free one.
    pub https_port: u16,
    /// Name or address that students shall open, if it is not to be found out from this machine's network.
    pub host: Option<String>,
    /// Folder that keeps the certificate.
    pub data_dir: PathBuf,
    /// A certificate to use in place of the relay's own.
    pub certificate: Option<CertificateFiles>,
    /// Serve everything over HTTPS alone; the HTTP port leads there.
    pub https_only: bool,
    pub architecture: Architecture,
    pub defence: Defence,
    pub rule: Rule,
    /// The server's step under FedSGD.
    pub optimiser: OptimiserKind,
    /// How updates are averaged.
    pub aggregation: Aggregation,
    /// How many clients a round waits for.
    pub quorum: Quorum,
    /// Samples per local step.
    pub batch: u16,
    /// Longest time for a round.
    pub deadline: Duration,
    /// Pause between rounds.
    pub pace: Duration,
    /// Seed of the initial weights; drawn by the operating system if absent.
    pub seed: Option<u64>,
    /// Run rounds from the start, without waiting for the teacher.
    pub start: bool,
    /// Time for the attacks on one round; 0 runs none.
    pub attack_budget: Duration,
    /// Where searches through the model come from; without it the relay has closed forms alone.
    pub searches: Option<Arc<dyn Searches>>,
    /// The data set that clients can be asked to train on.
    pub data: DataConfig,
    /// What runs the model on held-out pictures; without it nothing is measured.
    pub evaluator: Option<Arc<dyn ModelEvaluator>>,
    pub initial_weights: InitialWeights,
    pub pretrained: Option<Pretrained>,
    /// How much the relay bears.
    pub limits: Limits,
}

/// PEM files of a certificate that browsers trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, with the chain behind it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl RelayConfig {
    /// The classroom's defaults: ports 8080 and 8443, the nano model, no defence, Adam at 0.001, 5 s a round for the
    /// attacks.
    ///
    /// # Errors
    /// If this machine's user has no home folder, so that there is no place for the certificate.
    pub fn classroom() -> anyhow::Result<Self> {
        Ok(Self::new(default_data_dir()?))
    }

    /// The same with the certificate kept in `data_dir`.
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            http_port: 8080,
            https_port: 8443,
            host: None,
            data_dir,
            certificate: None,
            https_only: false,
            architecture: Architecture::from(VitPreset::Nano),
            defence: Defence::None,
            rule: Rule::FedSgd,
            optimiser: OptimiserKind::Adam { rate: 0.001 },
            aggregation: Aggregation::default(),
            quorum: Quorum::default(),
            batch: 1,
            deadline: Duration::from_secs(60),
            pace: Duration::from_secs(1),
            seed: None,
            start: false,
            attack_budget: Duration::from_secs(5),
            searches: None,
            data: DataConfig::default(),
            evaluator: None,
            initial_weights: InitialWeights::default(),
            pretrained: None,
            limits: Limits::default(),
        }
    }

    /// What the data set is made, divided and sampled with: the same in every lesson unless a seed is given.
    pub(crate) fn data_seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }
}

/// How much a relay bears before it refuses, and how long before it gives up on somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most clients in the room at one time.
    pub clients: usize,
    /// Time for the first message on a socket.
    pub hello: Duration,
    /// Time between pings.
    pub ping: Duration,
    /// A socket without any sign of life for this long is closed.
    pub silence: Duration,
    /// A client that left without ever sending an update stays in the view for this long.
    pub gone: Duration,
    /// A client that left and had sent updates stays, and can come back with its ticket, for this long.
    pub remembered: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 200,
            hello: Duration::from_secs(10),
            ping: Duration::from_secs(5),
            silence: Duration::from_secs(30),
            gone: Duration::from_secs(30),
            remembered: Duration::from_secs(15 * 60),
        }
    }
}

/// `~/.local/share/unmask` on Linux, and its like elsewhere.
fn default_data_dir() -> anyhow::Result<PathBuf> {
    directories::ProjectDirs::from("", "", "unmask")
        .map(|dirs| dirs.data_dir().to_path_buf())
        .context("this user has no home folder to keep the certificate in; name a folder with --data-dir")
}
