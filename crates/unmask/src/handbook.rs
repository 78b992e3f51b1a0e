//! `unmask completions` and `unmask man`: shell completions and manual pages.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::{Failure, say};

/// Print the completions for a shell.
///
/// With them the shell completes commands, options and their values. For bash, in this shell and in later ones:
///
///     source <(unmask completions bash)
///     unmask completions bash > ~/.local/share/bash-completion/completions/unmask
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Write the manual pages, one for each command.
///
/// Afterwards `man -M DIR unmask` and `man -M DIR unmask-relay` show them.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder to put `man1` in.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Completions {
    pub fn run(&self, mut command: Command) -> Result<(), Failure> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        say(&String::from_utf8_lossy(&script));
        Ok(())
    }
}

impl Man {
    pub fn run(&self, command: Command) -> Result<(), Failure> {
        let folder = self.folder.join("man1");
        fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(command, &folder))
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))
            .map_err(Failure::Other)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Arguments;

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        Man { folder: folder.path().to_owned() }.run(Arguments::command()).unwrap();
        for command in Arguments::command().get_subcommands() {
            let page = folder.path().join(format!("man1/unmask-{}.1", command.get_name()));
            let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
            assert!(text.contains(".SH SYNOPSIS"), "{text}");
        }
        let text = fs::read_to_string(folder.path().join("man1/unmask.1")).unwrap();
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    }
}
