//! The relay's configuration.

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

use crate::room::{
    data_set::DataConfig, evaluation::ModelEvaluator, initialiser::Pretrained, joining::OuterFederation,
    shadow::ShadowRoom,
};

#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// Address to listen on. The default is every IPv4 address of this machine.
    pub bind: IpAddr,
    /// Port for plain HTTP; 0 picks a free one.
    pub http_port: u16,
    /// Port for HTTPS; 0 picks a free one.
    pub https_port: u16,
    /// Name or address that students open. If absent, it is detected from this machine's network.
    pub host: Option<String>,
    /// Folder for the certificate, the room key and the journal.
    pub data_dir: PathBuf,
    /// A certificate that replaces the relay's self-signed one.
    pub certificate: Option<CertificateFiles>,
    /// Serves everything over HTTPS only; the HTTP port redirects to it.
    pub https_only: bool,
    pub architecture: Architecture,
    pub defence: Defence,
    pub rule: Rule,
    /// The server's optimiser under FedSGD.
    pub optimiser: OptimiserKind,
    pub aggregation: Aggregation,
    /// Number of clients a round waits for.
    pub quorum: Quorum,
    /// Samples per local step.
    pub batch: u16,
    /// Maximum duration of a round.
    pub deadline: Duration,
    pub pace: Duration,
    /// Seed of the initial weights; random if absent.
    pub seed: Option<u64>,
    /// Starts rounds immediately, without waiting for the teacher.
    pub start: bool,
    /// Time for the attacks on one round; 0 disables them.
    pub attack_budget: Duration,
    /// Attacks that search through the model. If absent, the relay runs closed-form attacks only.
    pub searches: Option<Arc<dyn Searches>>,
    /// The data set that clients can be asked to train on.
    pub data: DataConfig,
    /// Runs the model on held-out pictures. If absent, accuracy is not measured.
    pub evaluator: Option<Arc<dyn ModelEvaluator>>,
    /// Robots that train alongside the class, for the trade-off scene.
    pub shadow: Option<Arc<dyn ShadowRoom>>,
    pub initial_weights: InitialWeights,
    pub pretrained: Option<Pretrained>,
    /// Writes the model file that the teacher downloads. If absent, the lesson's archive holds no model.
    pub model_file: Option<ModelFile>,
    /// How the lesson is saved. If absent, nothing is written to the disk and a restart begins a new lesson.
    pub journal: Option<JournalConfig>,
    /// Whether to record what the class sees, in memory and next to the journal.
    pub recording: bool,
    /// A federation of rooms to join.
    pub outer: Option<Arc<dyn OuterFederation>>,
    pub limits: Limits,
}

/// PEM files of a certificate that browsers trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl RelayConfig {
    /// Returns the classroom defaults: ports 8080 and 8443, the nano model, no defence, Adam at 0.001, 5 s of attacks
    /// per round, a journal.
    ///
    /// # Errors
    /// Fails if the user has no home folder, where the certificate would go.
    pub fn classroom() -> anyhow::Result<Self> {
        Ok(Self { journal: Some(JournalConfig::default()), ..Self::new(default_data_dir()?) })
    }

    /// Returns the same defaults without a journal, with `data_dir` as the data folder.
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
            outer: None,
            limits: Limits::default(),
        }
    }

    /// The seed that generates, partitions and samples the data set; the same in every lesson by default.
    pub(crate) fn data_seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }
}

/// Returns the model as the bytes of a safetensors file, or an error for the user to read.
pub type ModelFile = fn(Architecture, &ModelState) -> anyhow::Result<Vec<u8>>;

/// How a lesson is saved in the data folder.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalConfig {
    /// How long a round may wait for the previous round to reach the disk.
    pub most_behind: Duration,
    /// Begins a new lesson and moves the last one aside.
    pub begins_anew: bool,
    /// Flags given on the command line, such as `--model`. A saved lesson with a different value for one of them is
    /// refused. All other settings come from the saved lesson.
    pub given: Vec<String>,
}

impl Default for JournalConfig {
    /// At most 5 s behind; resumes the last lesson with its own settings.
    fn default() -> Self {
        Self { most_behind: Duration::from_secs(5), begins_anew: false, given: Vec::new() }
    }
}

/// Resource limits and timeouts of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub clients: usize,
    /// Time for the first message on a socket.
    pub hello: Duration,
    pub ping: Duration,
    /// A socket that shows no sign of life for this long is closed.
    pub silence: Duration,
    /// How long a client that left without ever sending an update stays in the view.
    pub gone: Duration,
    /// How long a client that left after sending updates stays, and can return with its ticket.
    pub remembered: Duration,
    /// Maximum number of connections over both ports. Lower if the process may not open that many files.
    pub connections: usize,
    /// Maximum number of connections from one address (one /64 network under IPv6). A class behind NAT shares one
    /// address. 127.0.0.1 and ::1 have no such limit.
    pub connections_for_one_address: usize,
    /// Time for a request's header, for a TLS handshake, and between two requests on one connection.
    pub header: Duration,
    pub body: Duration,
    /// Longest a write may stall because the peer reads nothing; the round's deadline if that is longer, since a tab
    /// reads nothing while it trains.
    pub write: Duration,
    /// Time for an update, from its first frame to its last; the round's deadline if that is longer.
    pub update: Duration,
    /// Messages per second that one socket may send on average, pongs included. A socket that sends more waits.
    pub messages_per_second: u32,
    pub messages_at_once: u32,
    /// Clients per second that may join on average. A burst may fill the room; further clients wait.
    pub joins_per_second: u32,
    /// Maximum bytes of updates in flight over all sockets: being received, or not yet processed. One update always
    /// fits.
    pub bytes_in_flight: usize,
}

impl Limits {
    /// Returns the limits of a room whose rounds have this deadline.
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

/// `~/.local/share/unmask` on Linux, and the equivalent elsewhere.
fn default_data_dir() -> anyhow::Result<PathBuf> {
    directories::ProjectDirs::from("", "", "unmask")
        .map(|dirs| dirs.data_dir().to_path_buf())
        .context("this user has no home folder to keep the certificate in; name a folder with --data-dir")
}
