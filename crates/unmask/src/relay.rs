//! `unmask relay`: the room.

pub mod browser;
mod check;
mod evaluation;
mod greeting;
mod help;
mod shadow;
mod weights;

use std::{io::Write as _, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use clap::Args;
use tokio::{task::JoinSet, time::sleep};
use tracing::warn;
use unmask_client::{
    Caution, PHOTOGRAPHS,
    native::{JoinOptions, Passphrase, join, sample_photographs},
    nickname,
};
use unmask_core::{Aggregation, Architecture, ModelState, Partition, TrainOn, VitPreset};
use unmask_flower::{Limits, NodeKey, NodeOptions, SuperLinkAddress};
use unmask_matching::GradientMatching;
use unmask_model::{
    device::OpenDevice,
    weights::{Storage, encode_state},
};
use unmask_relay::{
    CertificateFiles, DataConfig, FlowerConfig, JournalConfig, OuterFederation, Quorum, RelayConfig, RoomConfig,
    RoomLimits, Running, ShadowRoom, Source, serve,
};
use unmask_simulation::StartWeights;

use self::{
    browser::open_secret_link,
    evaluation::OnHeldOut,
    greeting::{greeting, write_ready},
    shadow::ShadowRobots,
};
use crate::{Failure, interrupt::asked_to_stop, model::model_argument, with_april_block};

#[derive(Debug, Args)]
#[command(after_help = help::EXAMPLE, allow_negative_numbers = true)]
pub struct Relay {
    /// The model to train: vit_pico_patch4_16, vit_nano_patch4_32, vit_lab_patch4_32, vit_nano_patch8_32,
    /// vit_lab_patch8_32, vit_tiny_patch16_224, vit_small_patch16_224, vit_small_patch32_224, resnet_nano, resnet18,
    /// resnet34 or resnet50; a name made of numbers, such as vit_patch8_dim128_depth6_heads2_64; or a TOML file with
    /// such numbers. Attacks on patch embeddings, and defences against them, need a ViT.
    #[arg(long, value_name = "NAME|FILE", default_value_t = Architecture::from(VitPreset::Nano), value_parser = model_argument)]
    model: Architecture,
    /// Start with the April block, which APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The defence of the first round; all forms are listed below.
    #[arg(long, value_name = "DEFENCE", default_value = "none")]
    defence: unmask_relay::Defence,
    /// The update rule of the first round: fedsgd or fedavg:epochs=E,rate=RATE.
    #[arg(long, value_name = "RULE", default_value = "fedsgd")]
    rule: unmask_relay::Rule,
    /// The relay's optimiser under fedsgd: sgd:RATE or adam:RATE.
    #[arg(long, value_name = "STEP", default_value = "adam:0.001")]
    optimiser: unmask_relay::OptimiserKind,
    /// How updates are averaged. mean: as in the papers. clipped: scales down updates much larger than the others.
    /// aligned: also leaves out updates that point against the others, which repairs most of the damage of
    /// flipped signs under Adam. aligned, trimmed-mean:SHARE and median hold every update of a round in memory.
    #[arg(long, value_name = "WAY", default_value = "clipped")]
    aggregate: Aggregation,
    /// Share of the clients that a round waits for. The others then get twice the median answer time, at least 5 s,
    /// instead of the whole deadline.
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = share)]
    quorum: f64,
    /// A new lesson begins with newcomers who wait until you let them in, in the first scene or on the expert view. What
    /// you choose there later holds, also after a restart.
    #[arg(long)]
    approve_first: bool,
    /// With this many devices of people in the room, newcomers wait until you let them in.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    expect: Option<u32>,
    /// A round with fewer updates than this takes no step. With N people in the room, N people's updates are needed;
    /// with fewer, those of robots count. Without this option: 3, or 1 where fewer than 3 clients are there, who could
    /// then compute each other's updates.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_updates: Option<u32>,
    /// The step moves a parameter only if N updates of the round have its value; fewer updates take no step. Under random
    /// masks, a client would alone move what it alone keeps. 1: as in the papers. The higher the share of zeros and the
    /// smaller the class, the fewer parameters 3 lets move.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    min_kept: u32,
    /// Samples per local step: of the one gradient under fedsgd, of each step under fedavg. Most attacks are exact only
    /// for 1; the attack batch takes small batches apart on models with patches of 8 x 8.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// Source of the shared pictures: generated, cifar10 or folder:PATH, as listed below.
    #[arg(long, value_name = "SOURCE", default_value = "generated")]
    data: Source,
    /// Folder of the CIFAR-10 files, if not the default of `unmask data cifar10`.
    #[arg(long, value_name = "DIR")]
    cifar10: Option<PathBuf>,
    /// What the first round trains on: private (each client's own picture) or shared (its shard of the shared
    /// pictures).
    #[arg(long, value_name = "PICTURES", default_value_t)]
    train_on: TrainOn,
    /// How the shared pictures are divided: iid or dirichlet:ALPHA.
    #[arg(long, value_name = "PARTITION", default_value = "iid")]
    partition: Partition,
    /// Number of shards of the shared pictures. With more clients than shards, some clients get the same shard.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    seats: u16,
    /// Most pictures in a shard.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    shard: u32,
    /// Held-out pictures to test the model on after each round.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    test_pictures: u32,
    /// Time for the test in seconds per round, which may be too short for all pictures; 0 skips the test. Rounds never
    /// wait for it.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    test_seconds: Duration,
    /// The initial weights: scratch, pretrained (a checkpoint of vit_nano_patch4_32), or a file: safetensors, .npz or
    /// torch.save.
    #[arg(long, value_name = "WEIGHTS", default_value = "scratch")]
    weights: StartWeights,
    /// Longest time for a round, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = some_seconds)]
    deadline: Duration,
    /// Pause between rounds, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pace: Duration,
    /// Time for all attacks on one round together, in seconds; 0 runs none. The teacher can change it.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    attack_seconds: Duration,
    /// Start the rounds immediately, without waiting for the teacher.
    #[arg(long)]
    start: bool,
    /// Seed of the initial weights; random at each start if absent.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Start this many robots on this machine. A robot is a client that trains on the sample photographs, shows them to
    /// the class and answers its questions at random.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=32))]
    headless: u16,
    /// Also train robots in a second room, hidden from the class, at R = 0, 0.5, 0.8 and 0.95. The scene of the
    /// trade-off shows what each R costs and what it still leaks; without this option it has nothing to show. This
    /// takes one core for one to two minutes.
    #[arg(long)]
    shadow_room: bool,
    /// A file with the passphrase of an encrypted room, for the --headless clients. Only for trials: a relay whose
    /// machine knows the passphrase could read along.
    #[arg(long, value_name = "FILE", requires = "headless")]
    passphrase_file: Option<PathBuf>,
    /// Open the teacher's page on this machine, if there is a desktop.
    #[arg(long)]
    open: bool,
    /// Port for plain HTTP; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    http_port: u16,
    /// Port for HTTPS; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8443)]
    https_port: u16,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    bind: IpAddr,
    /// Name or address for the students' link, if the detected one is wrong. The relay answers only to this name, to
    /// localhost and to this machine's own names and addresses.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// A certificate that browsers trust (PEM, followed by its chain), in place of the relay's own; --host gives its
    /// name.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Serve only over HTTPS. The HTTP port then redirects to HTTPS, except for /healthz.
    #[arg(long)]
    https_only: bool,
    /// Start a new lesson and set the last one aside.
    #[arg(long, conflicts_with = "no_journal")]
    new: bool,
    /// Start a new lesson and keep nothing of it on the disk.
    #[arg(long)]
    no_journal: bool,
    /// Do not record what the class sees. An existing recording of the lesson is deleted.
    #[arg(long)]
    no_recording: bool,
    /// At the start, erase lessons in the data folder that were last written more than N days ago. erased.jsonl there
    /// says what went.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_days: Option<u32>,
    /// Longest time that a round waits until the previous one is on the disk, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    journal_seconds: Duration,
    /// Take part in a Flower federation: the room is a node of this SuperLink, http://HOST:PORT or https://HOST:PORT.
    /// It trains the model that the SuperLink sends, and sends the weights back.
    #[arg(long, value_name = "URL")]
    flower: Option<SuperLinkAddress>,
    /// The room's private key for a SuperLink that only accepts registered nodes: ECDSA on P-384, in OpenSSH's format,
    /// PKCS#8 or SEC1. Without it, the room creates a key at each start and registers itself.
    #[arg(long, value_name = "FILE", requires = "flower")]
    flower_key: Option<PathBuf>,
    /// Certificates (PEM) that signed the SuperLink's, if browsers do not trust it.
    #[arg(long, value_name = "FILE", requires = "flower")]
    flower_ca: Option<PathBuf>,
    /// Rounds of this room for each round of the federation.
    #[arg(long, value_name = "K", default_value_t = 1, requires = "flower", value_parser = clap::value_parser!(u32).range(1..))]
    flower_rounds: u32,
    /// Folder for the certificate and the lesson; by default the user's data folder.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Test the network before class: say what this machine can tell, and wait for a phone that tells the rest. Opens no
    /// room.
    #[arg(long, conflicts_with = "new")]
    check: bool,
    /// Write addresses, links and secrets to this file as JSON when the room is open.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

impl Relay {
    /// Runs the room until the process is stopped. `given` are the flags on the command line; a resumed lesson must
    /// agree with them.
    ///
    /// # Errors
    /// [`Failure::Input`] for unusable ports, folders, pictures, weights or addresses; [`Failure::Other`] if the room
    /// breaks down.
    pub async fn run(self, given: Vec<String>) -> Result<(), Failure> {
        if self.check {
            return check::run(&self.config(given).map_err(Failure::Input)?).await;
        }
        let (mut running, mut clients) = self.start(given).await?;
        // A closed pipe is not an error: nobody reads the greeting then.
        let _ = std::io::stdout().write_all(greeting(&running).as_bytes());
        if let Some(file) = &self.ready_file {
            write_ready(&running, file).map_err(Failure::Input)?;
        }
        let page = if self.open { open_secret_link(&running.local_teacher_link()) } else { None };
        tokio::select! {
            () = asked_to_stop() => {}
            () = running.broken() => return Err(Failure::Other(anyhow::anyhow!("the room broke down; its log says why"))),
        }
        drop(page);
        clients.shutdown().await;
        running.shutdown().await;
        Ok(())
    }

    /// Opens the room and starts the headless clients.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn start(&self, given: Vec<String>) -> Result<(Running, JoinSet<()>), Failure> {
        let config = self.config(given).map_err(Failure::Input)?;
        let passphrase =
            self.passphrase_file.as_deref().map(Passphrase::from_file).transpose().map_err(Failure::Input)?;
        let running = serve(config).await.map_err(Failure::Input)?;
        let robots = (self.headless, self.seed.unwrap_or_default());
        let clients = headless(&running, robots, passphrase.as_ref()).map_err(Failure::Other)?;
        Ok((running, clients))
    }

    /// The federation that the room joins, if any.
    fn flower(&self) -> anyhow::Result<Option<Arc<dyn OuterFederation>>> {
        let Some(address) = self.flower.clone() else { return Ok(None) };
        let key = self.flower_key.as_deref().map_or_else(NodeKey::generate, NodeKey::read)?;
        let node = NodeOptions { address, key, certificates: self.flower_ca.clone(), limits: Limits::default() };
        Ok(Some(Arc::new(FlowerConfig { node, rounds: self.flower_rounds })))
    }

    fn quorum(&self, places: usize) -> anyhow::Result<Quorum> {
        let (kept, updates) = (self.min_kept, self.min_updates);
        if let Some(updates) = updates.filter(|updates| *updates < kept) {
            bail!(
                "with --min-kept {kept}, a step on the {updates} updates that --min-updates {updates} allows would move \
                 nothing; give --min-updates {kept} or more, or a lower --min-kept"
            );
        }
        ensure!(
            kept as usize <= places,
            "--min-kept {kept} is more than the {places} clients of a room; give at most {places}"
        );
        Ok(Quorum { share: self.quorum, updates, kept })
    }

    fn config(&self, given: Vec<String>) -> anyhow::Result<RelayConfig> {
        let base = match &self.data_dir {
            Some(folder) => RelayConfig::new(folder.clone()),
            None => RelayConfig::classroom()?,
        };
        let data = DataConfig {
            source: self.data.clone(),
            partition: self.partition,
            shards: self.seats,
            shard_pictures: self.shard,
            train_on: self.train_on,
            test_pictures: self.test_pictures,
            evaluation_budget: self.test_seconds,
            cifar10: self.cifar10.clone(),
        };
        let architecture = with_april_block(self.model, self.april_block)?;
        Ok(RelayConfig {
            bind: self.bind,
            http_port: self.http_port,
            https_port: self.https_port,
            host: self.host.clone(),
            certificate: self
                .cert
                .clone()
                .zip(self.key.clone())
                .map(|(certificate, key)| CertificateFiles { certificate, key }),
            https_only: self.https_only,
            room: RoomConfig {
                architecture,
                defence: self.defence,
                rule: self.rule,
                optimiser: self.optimiser,
                aggregation: self.aggregate,
                quorum: self.quorum(base.room.limits.clients)?,
                batch: self.batch,
                deadline: self.deadline,
                pace: self.pace,
                seed: self.seed,
                start: self.start,
                attack_budget: self.attack_seconds,
                data,
                initial_weights: weights::initial_weights(&self.weights),
                pretrained: weights::choice(&self.weights, architecture)?,
                journal: (!self.no_journal).then_some(JournalConfig {
                    most_behind: self.journal_seconds,
                    begins_anew: self.new,
                    given,
                }),
                approve_first: self.approve_first,
                locked: false,
                limits: RoomLimits { expected: self.expect.map(|expected| expected as usize), ..base.room.limits },
            },
            searches: Some(Arc::new(GradientMatching::new(OpenDevice::cpu()))),
            evaluator: Some(Arc::new(OnHeldOut(OpenDevice::cpu()))),
            shadow: self.shadow_room.then(|| Arc::new(ShadowRobots(OpenDevice::cpu())) as Arc<dyn ShadowRoom>),
            model_file: Some(model_file),
            outer: self.flower()?,
            recording: !self.no_recording,
            keep_days: self.keep_days,
            ..base
        })
    }
}

/// The model as a file that timm and PyTorch read.
fn model_file(architecture: Architecture, state: &ModelState) -> anyhow::Result<Vec<u8>> {
    Ok(encode_state(architecture, state, Storage::F32)?)
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.0..=86_400.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is not a time; give seconds between 0 and 86400, such as 1.5"))
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| format!("{text:?} is not a share of the clients; give a number above 0, at most 1, such as 0.8"))
}

/// A positive time.
fn some_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(|time| match time {
        Duration::ZERO => Err("in 0 seconds nobody can train; give some, such as 60".to_owned()),
        time => Ok(time),
    })
}

/// Time between the arrivals of two headless clients.
const BETWEEN_ROBOTS: Duration = Duration::from_millis(100);

/// Starts the headless clients, each with another photograph.
fn headless(
    running: &Running,
    (count, seed): (u16, u64),
    passphrase: Option<&Passphrase>,
) -> anyhow::Result<JoinSet<()>> {
    let mut clients = JoinSet::new();
    if count == 0 {
        return Ok(clients);
    }
    let mut samples = sample_photographs()?;
    samples.sort_by_key(|sample| PHOTOGRAPHS.iter().position(|name| *name == sample.name));
    for number in 0..usize::from(count) {
        // One picture each, like a student, so that only the defence changes what the attacks show of a robot.
        let samples = samples.iter().cycle().skip(number).take(1).cloned().collect();
        let options = JoinOptions {
            address: running.own_robot_link(),
            pin: None,
            name: nickname(number),
            samples,
            may_show: true,
            shows: true,
            answer_seed: Some(seed.wrapping_add(number as u64)),
            passphrase: passphrase.cloned(),
            device: OpenDevice::cpu(),
            // Its relay is this process.
            caution: Caution::Off,
            // The relay is this process, and a given certificate does not name the loopback address.
            accept_any_certificate: running.is_https_only(),
        };
        clients.spawn(async move {
            // In their order: the first client is the first under attack, and its photograph is the easiest.
            sleep(BETWEEN_ROBOTS * number as u32).await;
            if let Err(error) = join(options).await {
                warn!("{}: {error:#}", nickname(number));
            }
        });
    }
    Ok(clients)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Room {
        #[command(flatten)]
        relay: Relay,
    }

    #[test]
    fn rooms_train_every_model() {
        let model = |name: &str| Room::try_parse_from(["room", "--model", name]).map(|room| room.relay.model);
        for name in Architecture::names() {
            assert_eq!(model(name).unwrap().name(), name);
        }
        let error = model("vgg16").unwrap_err().to_string();
        assert!(error.contains("unknown model \"vgg16\""), "{error}");
    }

    #[test]
    fn robots_have_the_samples() {
        let mut names: Vec<String> = sample_photographs().unwrap().into_iter().map(|sample| sample.name).collect();
        let mut robots = PHOTOGRAPHS;
        names.sort();
        robots.sort_unstable();
        assert_eq!(names, robots);
    }

    #[test]
    fn a_parameter_needs_no_more_updates_than_a_step() {
        let quorum = |arguments: &[&str]| {
            let arguments = ["room"].iter().chain(arguments);
            Room::try_parse_from(arguments).map_err(anyhow::Error::from).and_then(|room| room.relay.quorum(200))
        };
        assert_eq!(quorum(&[]).unwrap().kept, 1);
        assert_eq!(quorum(&["--min-kept", "3"]).unwrap().kept, 3);
        assert_eq!(quorum(&["--min-kept", "3", "--min-updates", "3"]).unwrap().kept, 3);
        for (arguments, expected) in [
            (&["--min-kept", "0"][..], "0 is not in 1.."),
            (&["--min-kept", "4", "--min-updates", "3"], "give --min-updates 4 or more, or a lower --min-kept"),
            (&["--min-kept", "201"], "give at most 200"),
        ] {
            let error = quorum(arguments).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(seconds("0.3").unwrap(), Duration::from_millis(300));
        assert!(some_seconds("0").unwrap_err().contains("nobody can train") && some_seconds("60").is_ok());
        for bad in ["", "-1", "nan", "1e9", "soon"] {
            assert!(seconds(bad).unwrap_err().contains("is not a time"), "{bad}");
        }
    }
}
