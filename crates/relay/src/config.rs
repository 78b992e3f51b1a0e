//! What a relay is started with.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use unmask_attack::Searches;
use unmask_core::{Aggregation, Architecture, Defence, InitialWeights, ModelState, OptimiserKind, Rule, VitPreset};
use unmask_federation::Quorum;
use unmask_flower::NodeOptions;

use crate::room::{ShadowRoom, data_set::DataConfig, evaluation::ModelEvaluator, initialiser::Pretrained};

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
    /// Folder that keeps the certificate, the lesson's key and its journal.
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
    /// Robots that train beside the class, for the scene of the trade-off.
    pub shadow: Option<Arc<dyn ShadowRoom>>,
    pub initial_weights: InitialWeights,
    pub pretrained: Option<Pretrained>,
    /// What makes a file of a model, for the teacher to take home; without it the lesson's archive holds no model.
    pub model_file: Option<ModelFile>,
    /// What is kept of the lesson on the disk; without it nothing is, and a relay that starts again begins another one.
    pub journal: Option<JournalConfig>,
    /// Whether the lesson is recorded: what the class is shown, in memory and beside the journal.
    pub recording: bool,
    /// The federation of rooms that this one is a member of, if any.
    pub flower: Option<FlowerConfig>,
    /// How much the relay bears.
    pub limits: Limits,
}

/// How a room is a node of a Flower federation.
#[derive(Debug, Clone)]
pub struct FlowerConfig {
    pub node: NodeOptions,
    /// Rounds of this room for each round of the federation.
    pub rounds: u32,
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
    /// attacks, a journal.
    ///
    /// # Errors
    /// If this machine's user has no home folder, so that there is no place for the certificate.
    pub fn classroom() -> anyhow::Result<Self> {
        Ok(Self { journal: Some(JournalConfig::default()), ..Self::new(default_data_dir()?) })
    }

    /// The same without a journal, with the certificate kept in `data_dir`.
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
            shadow: None,
            initial_weights: InitialWeights::default(),
            pretrained: None,
            model_file: None,
            journal: None,
            recording: true,
            flower: None,
            limits: Limits::default(),
        }
    }

    /// What the data set is made, divided and sampled with: the same in every lesson unless a seed is given.
    pub(crate) fn data_seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }
}

/// The bytes of a safetensors file of the model, or why there are none, in words for people.
pub type ModelFile = fn(Architecture, &ModelState) -> Result<Vec<u8>, String>;

/// How a lesson is kept in the data folder.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalConfig {
    /// How long a round may wait for the one before to be on the disk.
    pub most_behind: Duration,
    /// Begin another lesson, and move the last one out of the way.
    pub begins_anew: bool,
    /// Flags that were given on the command line, such as `--model`: a lesson that began with another value is refused.
    /// Of all others the lesson's own values hold.
    pub given: Vec<String>,
}

impl Default for JournalConfig {
    /// At most 5 s behind; goes on with the last lesson, whatever it began with.
    fn default() -> Self {
        Self { most_behind: Duration::from_secs(5), begins_anew: false, given: Vec::new() }
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
    /// Most connections at one time, over both ports; fewer where this process may not have as many files open.
    pub connections: usize,
    /// Most connections at one time from one address (one /64 network under IPv6). A class behind a router that translates
    /// addresses has one for all. This machine's own address has no such limit.
    pub connections_for_one_address: usize,
    /// Time for a request's header, a TLS handshake, and between two requests on one connection.
    pub header: Duration,
    /// Time for a request's body.
    pub body: Duration,
    /// Time for the other side to take anything of what is sent to it; the room's deadline where that is longer, since a tab
    /// that trains reads nothing meanwhile.
    pub write: Duration,
    /// Time for an update, from its first frame to its last; the room's deadline where that is longer.
    pub update: Duration,
    /// Messages a second that one socket may send in the long run, answers to pings included. Whoever sends more waits.
    pub messages_per_second: u32,
    /// Messages that may come at once.
    pub messages_at_once: u32,
    /// Clients a second that may join in the long run; as many as the room takes may come at once, and the others wait.
    pub joins_per_second: u32,
    /// Most bytes of updates in flight over all sockets: received, or not yet dealt with. One update always fits.
    pub bytes_in_flight: usize,
}

impl Limits {
    /// These limits in a room with this deadline for a round.
    pub(crate) fn for_rounds_of(self, deadline: Duration) -> Self {
        Self { write: self.write.max(deadline), update: self.update.max(deadline), ..self }
    }
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
            connections: 2000,
            connections_for_one_address: 256,
            header: Duration::from_secs(10),
            body: Duration::from_secs(30),
            write: Duration::from_secs(60),
            update: Duration::from_secs(60),
            messages_per_second: 20,
            messages_at_once: 60,
            joins_per_second: 50,
            bytes_in_flight: 1 << 30,
        }
    }
}

/// `~/.local/share/unmask` on Linux, and its like elsewhere.
fn default_data_dir() -> anyhow::Result<PathBuf> {
    directories::ProjectDirs::from("", "", "unmask")
        .map(|dirs| dirs.data_dir().to_path_buf())
        .context("this user has no home folder to keep the certificate in; name a folder with --data-dir")
}
