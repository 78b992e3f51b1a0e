//! `unmask journal`: the state that a relay would resume from.

use std::path::PathBuf;

use clap::Args;
use unmask_relay::{RelayConfig, last_lesson};

use crate::{Failure, counted, say};

#[derive(Debug, Args)]
pub struct Journal {
    /// The relay's data folder; by default the user's.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

impl Journal {
    /// Prints the last lesson's model, its number of rounds and the digest of its weights. Changes nothing in the folder.
    ///
    /// # Errors
    /// [`Failure::Input`] if there is no lesson; [`Failure::Other`] if a relay has it open, or if it cannot be read.
    pub fn run(self) -> Result<(), Failure> {
        let folder = match self.data_dir {
            Some(folder) => folder,
            None => RelayConfig::classroom().map_err(Failure::Input)?.data_dir,
        };
        let (lesson, problems) = last_lesson(&folder).map_err(Failure::Other)?;
        problems.iter().for_each(|problem| eprintln!("unmask: {problem}"));
        let lesson = lesson.ok_or_else(|| {
            Failure::Input(anyhow::anyhow!(
                "there is no lesson in {}; choose another folder with --data-dir",
                folder.display()
            ))
        })?;
        if self.json {
            let json = serde_json::to_string(&lesson).map_err(|error| Failure::Other(error.into()))?;
            say(&format!("{json}\n"));
        } else {
            let rounds = counted(lesson.round, "round");
            say(&format!("{}, after {rounds}\nweights SHA-256 {}\n", lesson.model, lesson.weights));
        }
        Ok(())
    }
}
