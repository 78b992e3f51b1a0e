//! `unmask join`: a headless client.

mod flower;

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use unmask_client::{
    Caution,
    native::{JoinOptions, Passphrase, RoomAddress, join, load_samples, sample_photographs},
};
use unmask_core::{Architecture, VitPreset};
use unmask_model::device::{Compute, OpenDevice, open_blocking, probe_blocking};

use self::flower::FlowerArguments;
use crate::Failure;

const EXAMPLE: &str = "\
Example: train on the pictures of a folder, in the room on the teacher's laptop

    unmask join 'http://192.168.1.5:8080/#room=0a1b2c...' --images photos --name robot
    unmask join http://192.168.1.5:8080 --pin 123456 --images photos --name robot

The relay prints the link; the projector shows the PIN. Quote the link: in a shell, # begins a comment.

The pictures stay on this machine. The room sees only the updates, protected by the defence that the teacher chose.
Under FedSGD an update is the gradient of one batch, and the pictures take turns. Under FedAvg it is the weights after
local epochs over all pictures, weighted by their number. A picture's class is the word among airplane, automobile,
bird, cat, deer, dog, frog, horse, ship and truck that its file name contains, or else follows from its position.

If the teacher runs rounds on shared pictures, the room sends this client its share, and the folder's pictures are not
used in those rounds.

If the teacher announces an encrypted round, everybody in the room needs the same passphrase:

    unmask join http://192.168.1.5:8080 --pin 123456 --passphrase-file passphrase.txt
    UNMASK_PASSPHRASE='violet otter 1867' unmask join http://192.168.1.5:8080 --pin 123456

The passphrase never leaves this machine. No argument takes it, because the system's list of processes would show it to
every user of this machine.

Without a room, as a node of a Flower federation (https://flower.ai) with a SuperLink of flwr 1.41 or newer:

    unmask join --flower http://192.168.1.5:8000 --images photos
    unmask join --flower http://192.168.1.5:8000 --data cifar10 --shard 1/10 --defence random-binary:0.5

The node trains on the weights that the server sends, and sends weights back. The server's settings lr, local-epochs and
batch-size apply if it sends them. Under a mask B the node sends two arrays for each parameter, B W and B, for the
server's strategy MaskedFedAvg in integrations/flower. Clients with the same data, --partition and --seed divide the
data in the same way. Ctrl-C stops the node; a federation in the middle of a round counts that as a failure.

Set RUST_LOG=warn to log less, or RUST_LOG=debug to log more.";

const PASSPHRASE: &str = "UNMASK_PASSPHRASE";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Join {
    /// The room's link, as the relay prints it: with the room's key after `#room=`, or without it and with --pin.
    #[arg(value_name = "URL", required_unless_present = "flower")]
    address: Option<String>,
    /// The six digits that the projector shows, for an address without a key.
    #[arg(long, value_name = "DIGITS", conflicts_with = "flower")]
    pin: Option<String>,
    /// A folder of PNG, JPEG or WebP pictures; without it, the built-in sample photographs.
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Let the class see what leaks of the pictures in the folder, and attack their masked updates; the sample photographs
    /// may always be shown. The room attacks no client that does not agree.
    #[arg(long, conflicts_with = "flower")]
    may_show: bool,
    /// Show the class the picture behind the last update, at 32 x 32 pixels, beside what leaks of it. Pictures from a
    /// folder also need --may-show.
    #[arg(long, conflicts_with = "flower")]
    show: bool,
    /// Answer the class's questions at random, from this seed.
    #[arg(long, value_name = "NUMBER", conflicts_with = "flower")]
    answer_seed: Option<u64>,
    /// The nickname to ask for.
    #[arg(long, value_name = "NAME", default_value = "robot", conflicts_with = "flower")]
    name: String,
    /// What to train on; auto times one step on each device and uses the faster one.
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
    /// A file whose only line is the passphrase of an encrypted room; without it, the variable UNMASK_PASSPHRASE.
    #[arg(long, value_name = "FILE", conflicts_with = "flower")]
    passphrase_file: Option<PathBuf>,
    /// Look at the weights of every round before training, and leave rounds out whose weights look doctored. Without it,
    /// the client trains on them and says so in the log.
    #[arg(long, conflicts_with = "flower")]
    careful: bool,
    /// Accept the relay's self-signed HTTPS certificate, as you would in a browser.
    #[arg(long, conflicts_with = "flower")]
    insecure: bool,
    #[command(flatten)]
    flower: FlowerArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceChoice {
    /// The faster one.
    Auto,
    /// The processor.
    Cpu,
    /// The graphics adapter.
    Gpu,
}

impl Join {
    /// Joins and trains until the relay says goodbye or the process is stopped.
    ///
    /// # Errors
    /// [`Failure::Input`] for a bad address, folder, passphrase file, key or device; [`Failure::Other`] if the room or
    /// the SuperLink does not answer or dismisses this client.
    pub async fn run(self) -> Result<(), Failure> {
        let Some(address) = self.address else {
            let options =
                self.flower.options(self.images.as_deref(), || device(self.device)).map_err(Failure::Input)?;
            return flower::run(options).await;
        };
        RoomAddress::parse(&address).map_err(|error| Failure::Input(error.into()))?;
        let may_show = self.may_show || self.images.is_none();
        if self.show && !may_show {
            let error =
                anyhow!("--show needs --may-show beside --images: without it the class sees none of these pictures");
            return Err(Failure::Input(error));
        }
        let samples = match &self.images {
            Some(folder) => load_samples(folder),
            None => sample_photographs(),
        };
        let options = JoinOptions {
            address,
            pin: self.pin,
            name: self.name,
            samples: samples.map_err(Failure::Input)?,
            may_show,
            shows: self.show,
            answer_seed: self.answer_seed,
            passphrase: passphrase(self.passphrase_file.as_deref()).map_err(Failure::Input)?,
            device: device(self.device).map_err(Failure::Input)?,
            caution: if self.careful { Caution::Refuse } else { Caution::Weights },
            accept_any_certificate: self.insecure,
        };
        tokio::select! {
            ended = join(options) => ended.map_err(Failure::Other),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }
}

/// The passphrase from the file, or else from the environment.
fn passphrase(file: Option<&Path>) -> anyhow::Result<Option<Passphrase>> {
    match (file, env::var_os(PASSPHRASE)) {
        (Some(file), _) => Passphrase::from_file(file).map(Some),
        (None, Some(text)) => {
            let text =
                text.to_str().with_context(|| format!("{PASSPHRASE} is not Unicode text; use a passphrase that is"))?;
            Ok(Passphrase::new(text))
        }
        (None, None) => Ok(None),
    }
}

fn device(choice: DeviceChoice) -> anyhow::Result<OpenDevice> {
    Ok(match choice {
        DeviceChoice::Cpu => OpenDevice::cpu(),
        DeviceChoice::Gpu => open_blocking(Compute::Gpu)?,
        // The room's model is not known before the client joins, so the probe uses the classroom's default.
        DeviceChoice::Auto => {
            // The first step on a GPU compiles its kernels, which can take a while.
            let spinner = ProgressBar::new_spinner().with_message("timing a training step on each device");
            spinner.enable_steady_tick(Duration::from_millis(100));
            let probe = probe_blocking(Architecture::from(VitPreset::Nano), 1)?;
            spinner.finish_and_clear();
            tracing::info!("{}", probe.reason);
            probe.device
        }
    })
}
