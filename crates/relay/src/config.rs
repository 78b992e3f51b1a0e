//! The relay's configuration.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use unmask_attack::Searches;
use unmask_core::{Architecture, ModelState};
use unmask_data::datasets::{DataSet, default_cifar10_folder};
use unmask_room::{DataConfig, JournalConfig, ModelEvaluator, RoomConfig, ShadowRoom};

use crate::joining::OuterFederation;

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
    pub room: RoomConfig,
    /// Attacks that search through the model. If absent, the relay runs closed-form attacks only.
    pub searches: Option<Arc<dyn Searches>>,
    /// Runs the model on held-out pictures. If absent, accuracy is not measured.
    pub evaluator: Option<Arc<dyn ModelEvaluator>>,
    /// Robots that train alongside the class, for the trade-off scene.
    pub shadow: Option<Arc<dyn ShadowRoom>>,
    /// Writes the model file that the teacher downloads. If absent, the lesson's archive holds no model.
    pub model_file: Option<ModelFile>,
    /// Whether to record what the class sees, in memory and next to the journal.
    pub recording: bool,
    /// Erases lessons that were last written more than so many days ago, at the start. If absent, they stay.
    pub keep_days: Option<u32>,
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
    /// Returns the classroom defaults: ports 8080 and 8443, the room's defaults, a journal.
    ///
    /// # Errors
    /// Fails if the user has no home folder, where the certificate would go.
    pub fn classroom() -> anyhow::Result<Self> {
        let mut config = Self::new(default_data_dir()?);
        config.room.journal = Some(JournalConfig::default());
        Ok(config)
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
            room: RoomConfig::default(),
            searches: None,
            evaluator: None,
            shadow: None,
            model_file: None,
            recording: true,
            keep_days: None,
            outer: None,
            limits: Limits::default(),
        }
    }
}

/// Returns the model as the bytes of a safetensors file, or an error for the user to read.
pub type ModelFile = fn(Architecture, &ModelState) -> anyhow::Result<Vec<u8>>;

/// Resource limits and timeouts of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for the first message on a socket.
    pub hello: Duration,
    pub ping: Duration,
    /// A socket that shows no sign of life for this long is closed.
    pub silence: Duration,
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
            hello: Duration::from_secs(10),
            ping: Duration::from_secs(5),
            silence: Duration::from_secs(30),
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

/// Reads or generates the data set of a room.
pub(crate) fn load_data_set(config: &DataConfig, seed: u64) -> anyhow::Result<DataSet> {
    let cifar10 = config.cifar10.clone().unwrap_or_else(default_cifar10_folder);
    Ok(DataSet::load(&config.source, &cifar10, seed)?)
}
