//! `unmask relay`: the room.

use std::{
    fs,
    io::Write as _,
    net::IpAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use tokio::task::JoinSet;
use tracing::warn;
use unmask_matching::GradientMatching;
use unmask_model::device::OpenDevice;
use unmask_params::{ModelSpec, Preset};
use unmask_relay::{RelayConfig, Running, serve};
use unmask_trainer::{JoinOptions, Passphrase, join, sample_photographs};

use crate::Failure;

const EXAMPLE: &str = "\
Defences (--defence), what each client does to its update before it leaves the device

    none                                   the plain update: the attacks show what it gives away
    fixed-position                         the position embedding is not updated
    random-binary:0.5                      each value is dropped with probability R = 0.5, under a mask of its own for
                                           each client and round
    random-binary:patch=0.95,pos=0.95,0.2  R per parameter group: patch, pos, attn, mlp, norm, head; the last number is
                                           for all the others
    frozen-binary:0.5                      one mask for all clients and rounds: what it drops is never trained
    gaussian:eps=4,delta=1e-5,clip=0.5     clipped to an L2 norm, then Gaussian noise; the projector says what that
                                           really guarantees
    encrypted                              embeddings under a key that the students make from a passphrase; a client
                                           encrypts the relay's model first
    encrypted:keyed                        the same, but a client also makes the model, so that the relay never sees it

Rules (--rule), what a client computes and what the relay makes of it

    fedsgd                                 one gradient of one batch goes up; the relay takes the step (--optimiser)
    fedavg:epochs=2,rate=0.05              clients train so many passes over their pictures at that rate; their weights
                                           are averaged by number of pictures

The steps of fedsgd (--optimiser) are sgd:0.1, which the papers use, and adam:0.001, which learns faster. Adam is not
linear: it cannot step on encrypted gradients.

Examples

    unmask relay --open                                a lesson, with the projector's page opened here
    unmask relay --headless 4 --start                  a room that trains at once, with four clients of its own
    unmask relay --defence random-binary:0.5           masks from the first round on
    unmask relay --rule fedavg:epochs=2,rate=0.05      weights go up, not gradients
    unmask relay --defence encrypted --optimiser sgd:0.1
                                                       students agree on a passphrase and type it into their tabs
    unmask relay --model vit_lab_patch4_32 --optimiser sgd:0.1

The teacher can change defence, rule, optimiser and batch size at any time; the change holds from the next round on.
Students open the address printed; the controls need the teacher link. RUST_LOG=debug says more.";

/// Arguments of `unmask relay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Relay {
    /// The model to train: vit_pico_patch4_16, vit_nano_patch4_32, vit_lab_patch4_32, vit_tiny_patch16_224 or
    /// vit_small_patch16_224.
    #[arg(long, value_name = "NAME", default_value_t = Preset::VitNanoPatch4_32)]
    model: Preset,
    /// Begin with the April block, which APRIL needs.
    #[arg(long)]
    april_block: bool,
    /// The defence of the first round; all forms are listed below.
    #[arg(long, value_name = "DEFENCE", default_value = "none")]
    defence: unmask_relay::Defence,
    /// The update rule of the first round: fedsgd or fedavg:epochs=E,rate=RATE.
    #[arg(long, value_name = "RULE", default_value = "fedsgd")]
    rule: unmask_relay::Rule,
    /// The relay's step under fedsgd: sgd:RATE or adam:RATE.
    #[arg(long, value_name = "STEP", default_value = "adam:0.001")]
    optimiser: unmask_relay::OptimiserKind,
    /// Samples per local step: of the one gradient under fedsgd, of each step under fedavg. The attacks are exact for 1
    /// alone.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
    /// Longest time for a round, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    deadline: Duration,
    /// Pause between rounds, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pace: Duration,
    /// Time for the attacks on one round, in seconds, over all of them; 0 runs none. The teacher can change it.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    attack_seconds: Duration,
    /// Run rounds at once, without waiting for the teacher.
    #[arg(long)]
    start: bool,
    /// Seed of the first weights; drawn anew each time if absent.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Start so many clients of this machine's own, which train on the sample photographs.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=32))]
    headless: u16,
    /// A file with the passphrase of an encrypted room, for the --headless clients; to try things out, since a relay
    /// whose machine knows the passphrase could read along.
    #[arg(long, value_name = "FILE", requires = "headless")]
    passphrase_file: Option<PathBuf>,
    /// Open the projector's page here, if there is a desktop.
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
    /// Name or address for the students' link, if the one found is not the right one.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Folder that keeps the certificate; the user's own data folder if absent.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Write addresses and token to this file as JSON once the room is open.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

impl Relay {
    /// Runs the room until the process is stopped.
    ///
    /// # Errors
    /// [`Failure::Input`] for ports, folders or addresses that cannot be used; [`Failure::Other`] if the room breaks down.
    pub async fn run(self) -> Result<(), Failure> {
        let config = self.config().map_err(Failure::Input)?;
        let passphrase =
            self.passphrase_file.as_deref().map(Passphrase::from_file).transpose().map_err(Failure::Input)?;
        let mut running = serve(config).await.map_err(Failure::Input)?;
        // With nobody at the other end of the pipe there is nobody to tell.
        let _ = std::io::stdout().write_all(greeting(&running).as_bytes());
        if let Some(file) = &self.ready_file {
            write_ready(&running, file).map_err(Failure::Input)?;
        }
        if self.open {
            open_page(&running.local_teacher_link());
        }
        let mut clients = headless(&running, self.headless, passphrase.as_ref()).map_err(Failure::Other)?;
        tokio::select! {
            () = stopped() => {}
            () = running.broken() => return Err(Failure::Other(anyhow::anyhow!("the room broke down; its log says why"))),
        }
        clients.shutdown().await;
        running.shutdown().await;
        Ok(())
    }

    fn config(&self) -> anyhow::Result<RelayConfig> {
        let base = match &self.data_dir {
            Some(folder) => RelayConfig::new(folder.clone()),
            None => RelayConfig::classroom()?,
        };
        Ok(RelayConfig {
            bind: self.bind,
            http_port: self.http_port,
            https_port: self.https_port,
            host: self.host.clone(),
            spec: ModelSpec::new(self.model).with_april_block(self.april_block),
            defence: self.defence,
            rule: self.rule,
            optimiser: self.optimiser,
            batch: self.batch,
            deadline: self.deadline,
            pace: self.pace,
            seed: self.seed,
            start: self.start,
            attack_budget: self.attack_seconds,
            searches: Some(Arc::new(GradientMatching::new(OpenDevice::cpu()))),
            ..base
        })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.0..=86_400.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is no time; give seconds between 0 and 86400, such as 1.5"))
}

/// What a teacher needs to see.
fn greeting(running: &Running) -> String {
    let mut text = String::new();
    let addresses = running.student_addresses();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    if let Some((https, http)) = addresses.first() {
        line(&format!("\n{}\n", running.qr_text()));
        line(&format!("Students   {https}   (the browser warns once: Advanced, Continue)"));
        line(&format!("           {http}   (no warning, but no WebGPU either)"));
    }
    for (https, http) in addresses.iter().skip(1) {
        line(&format!("           also {https} {http}"));
    }
    line(&format!("Teacher    {}", running.local_teacher_link()));
    line(&format!("           {}   (from another machine; do not show it)", running.teacher_link()));
    line(&format!("Certificate SHA-256 {}", running.fingerprint()));
    if let Some(reason) = running.certificate_made_because() {
        line(&format!("           made just now: {reason}"));
    }
    if !running.has_page() {
        line("The page is not in this program: build it and start the relay with `cargo demo`.");
    }
    line("Ctrl-C ends the lesson.\n");
    text
}

/// Renamed into place, so that whoever waits for it never reads half of it.
fn write_ready(running: &Running, file: &Path) -> anyhow::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    fs::write(&unfinished, running.ready_json()?)
        .and_then(|()| fs::rename(&unfinished, file))
        .with_context(|| format!("cannot write {}; choose another place with --ready-file", file.display()))
}

/// A desktop is a courtesy: without one the link is printed all the same.
fn open_page(link: &str) {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opener = match std::env::consts::OS {
        "macos" => "open",
        _ if has_desktop => "xdg-open",
        _ => return,
    };
    let started =
        Command::new(opener).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = started {
        warn!("{opener} does not start ({error}); open the teacher link by hand");
    }
}

/// Clients of this machine's own, each beginning with another photograph.
fn headless(running: &Running, count: u16, passphrase: Option<&Passphrase>) -> anyhow::Result<JoinSet<()>> {
    let mut clients = JoinSet::new();
    if count == 0 {
        return Ok(clients);
    }
    let samples = sample_photographs()?;
    for number in 0..usize::from(count) {
        // One picture each, like a student, so that what the attacks show of a robot changes with the defence alone.
        let samples = samples.iter().cycle().skip(number).take(1).cloned().collect();
        let options = JoinOptions {
            address: running.own_address(),
            name: format!("robot {}", number + 1),
            samples,
            passphrase: passphrase.cloned(),
            device: OpenDevice::cpu(),
            accept_any_certificate: false,
        };
        clients.spawn(async move {
            if let Err(error) = join(options).await {
                warn!("robot {}: {error:#}", number + 1);
            }
        });
    }
    Ok(clients)
}

/// Ctrl-C, or the system's wish that this process end.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    // Where the signal cannot be listened for, the process ends by it anyway.
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(seconds("0.3").unwrap(), Duration::from_millis(300));
        for bad in ["", "-1", "nan", "1e9", "soon"] {
            assert!(seconds(bad).unwrap_err().contains("is no time"), "{bad}");
        }
    }
}
