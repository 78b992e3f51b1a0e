//! Measures the same work here and in PyTorch, in alternating turns, so that other load on the machine affects both.

mod build;
mod cases;
mod idle;
mod process;
mod table;
mod train;

use std::fs;

use anyhow::{Result, bail};
use clap::Args;

use self::build::Programs;
use self::cases::{Case, Work};
use self::idle::Others;
use self::process::Peer;
use self::table::{Row, Turns};
use crate::checkout::Turn;
use crate::env::{self, Env};
use crate::python;

/// Measure training steps here and in PyTorch in turns, and print a table of both
///
/// Examples:
///   cargo xtask bench-peers                              everything: about twenty minutes on two idle cores
///   cargo xtask bench-peers --only vit_nano --only train only cases with one of these words in their names
///   cargo xtask bench-peers --rounds 1 --steps 3         a trial, in a minute
///
/// A step computes the loss and the gradient of all weights, and copies it into one flat vector. `matching` is an
/// iteration of token matching on the first block's weights; PyTorch uses exact second derivatives. `train` is a round
/// of `unmask train` with configs/masked.toml, compared with the same training in a plain loop, 200 rounds in a turn.
/// It uses CIFAR-10 if `unmask data cifar10` fetched it, or else the same number of generated pictures.
///
/// In each round both sides have a turn; the side that goes first changes every round. A turn is two warm-up steps,
/// then the median of the measured steps. Programs are started and models are created before that. For `train` both
/// sides time only their rounds: no program start, no reading of pictures, no test.
///
/// The table is Markdown: milliseconds as the median, minimum and maximum of the turns, and the ratio of our time to
/// PyTorch's, turn by turn. Above it are the processor, the versions, and the load from other programs. Under such a
/// load PyTorch's two threads wait for each other, and the table is worthless.
///
/// PyTorch is installed once, into a virtual environment in ~/.cache/unmask/tools/pytorch: 5 GB on Linux on x86, where
/// the default wheel is for CUDA, and far less if pip is configured for the CPU wheel.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Peers {
    /// Number of turns of each side
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure only cases with this word in their names (may be given more than once)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Steps in a turn, instead of each case's own number: iterations of `matching`, rounds of `train`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Threads of each side (may be given more than once)
    #[arg(long, value_name = "N", default_values_t = [1, 2], value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// Print the names of the cases, and stop
    #[arg(long)]
    pub list: bool,
}

impl Peers {
    /// Prints the names of the chosen cases.
    ///
    /// # Errors
    /// No case has such a name.
    pub fn print_names(&self) -> Result<()> {
        self.chosen()?.iter().for_each(|case| println!("{}", case.name()));
        Ok(())
    }

    /// Builds our side, installs PyTorch, runs the turns and prints the table.
    ///
    /// # Errors
    /// PyTorch cannot be installed, a build fails, or a program fails.
    pub fn run(&self, env: &Env, turn: Turn) -> Result<()> {
        let cases = self.chosen()?;
        python::ensure_pytorch(env)?;
        let programs = Programs::build(env, &cases)?;
        // The measurement needs no lock: it does not build, and other builds should not wait for it.
        drop(turn);
        let (mut versions, mut others) = (Vec::new(), Others::default());
        let mut rows: Vec<Row> = cases.iter().map(|case| Row::new(case.to_string())).collect();
        for &threads in &self.threads {
            for (case, row) in cases.iter().zip(&mut rows) {
                let turns = self.measure(env, &programs, case, threads, &mut versions, &mut others)?;
                row.turns.push(turns);
            }
        }
        println!();
        println!("{}; {}, {}.", processor(), commit(env), versions.join(", "));
        if let Some(sentence) = others.sentence() {
            println!("{sentence}");
        }
        println!();
        print!("{}", table::markdown(&self.threads, &rows));
        Ok(())
    }

    /// Runs all turns of both sides. Adds the sides' versions to `versions`, and checks the load from `others` before
    /// each round.
    fn measure(
        &self,
        env: &Env,
        programs: &Programs,
        case: &Case,
        threads: u32,
        versions: &mut Vec<String>,
        others: &mut Others,
    ) -> Result<Turns> {
        let steps = self.steps.unwrap_or(case.steps);
        let mut sides: Box<dyn Sides> = match case.work {
            Work::Train => Box::new(train::Training::new(env, programs, threads, steps)?),
            Work::Step { .. } | Work::Matching { .. } => Box::new(Asked {
                ours: Peer::start(&mut programs.ours(env, case, threads)?)?,
                pytorch: Peer::start(&mut programs.pytorch(env, case, threads)?)?,
                request: case.request(steps),
            }),
        };
        let mut turns = Turns::default();
        for round in 0..self.rounds {
            others.look()?;
            // The second side finds a warmer processor.
            let order = if round % 2 == 0 { [Side::Ours, Side::PyTorch] } else { [Side::PyTorch, Side::Ours] };
            for side in order {
                let milliseconds = table::median(&sides.turn(side)?);
                match side {
                    Side::Ours => turns.ours.extend(milliseconds),
                    Side::PyTorch => turns.pytorch.extend(milliseconds),
                }
            }
            eprintln!("{case}, {}, round {} of {}: {turns}", counted(threads), round + 1, self.rounds);
        }
        for version in sides.versions() {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        Ok(turns)
    }

    fn chosen(&self) -> Result<Vec<Case>> {
        let is_chosen =
            |case: &Case| self.only.is_empty() || self.only.iter().any(|word| case.name().contains(word.as_str()));
        let chosen: Vec<Case> = cases::ALL.into_iter().filter(is_chosen).collect();
        if chosen.is_empty() {
            let names: Vec<String> = cases::ALL.iter().map(Case::name).collect();
            bail!("no case is called {:?}; there are {}", self.only.join(" or "), names.join(", "));
        }
        Ok(chosen)
    }
}

#[derive(Clone, Copy)]
enum Side {
    Ours,
    PyTorch,
}

/// Both sides of a case.
trait Sides {
    /// Runs a turn and returns the milliseconds of each step.
    fn turn(&mut self, side: Side) -> Result<Vec<f64>>;

    /// The names and versions of both sides, after a turn.
    fn versions(&self) -> Vec<String>;
}

/// Two programs that wait for requests.
struct Asked {
    ours: Peer,
    pytorch: Peer,
    request: String,
}

impl Sides for Asked {
    fn turn(&mut self, side: Side) -> Result<Vec<f64>> {
        match side {
            Side::Ours => self.ours.ask(&self.request),
            Side::PyTorch => self.pytorch.ask(&self.request),
        }
    }

    fn versions(&self) -> Vec<String> {
        vec![self.ours.version.clone(), self.pytorch.version.clone()]
    }
}

fn counted(threads: u32) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// The processor's name and its number of cores.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = model_name(&info).unwrap_or(std::env::consts::ARCH);
    match std::thread::available_parallelism() {
        Ok(count) => format!("{name} ({count} processors)"),
        Err(_) => name.to_owned(),
    }
}

fn model_name(info: &str) -> Option<&str> {
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim()).filter(|name| !name.is_empty())
}

fn commit(env: &Env) -> String {
    let commit = env::read(env.command("git").args(["describe", "--always", "--dirty", "--exclude", "*"]));
    commit.map_or_else(|| "commit unknown".to_owned(), |commit| format!("commit {commit}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        peers: Peers,
    }

    fn names(words: &[&str]) -> Result<Vec<String>> {
        let words = std::iter::once("bench-peers").chain(words.iter().copied());
        let Line { peers } = Line::try_parse_from(words).expect("a valid command line");
        Ok(peers.chosen()?.iter().map(Case::name).collect())
    }

    #[test]
    fn cases_are_chosen_by_a_part_of_their_names() {
        assert_eq!(names(&[]).expect("all").len(), cases::ALL.len());
        let chosen = names(&["--only", "resnet34", "--only", "train"]).expect("two");
        assert_eq!(chosen, ["resnet34-b1", "train"]);
        let error = names(&["--only", "alexnet"]).expect_err("there is none").to_string();
        assert!(error.contains("alexnet") && error.contains("vit_nano_patch4_32-b16"), "{error}");
    }

    #[test]
    fn a_side_has_one_turn_in_a_round_at_least() {
        for option in ["--rounds", "--steps", "--threads"] {
            assert!(Line::try_parse_from(["bench-peers", option, "0"]).is_err(), "{option}");
        }
    }

    #[test]
    fn the_processor_is_called_by_its_name() {
        assert_eq!(model_name("processor\t: 0\nmodel name\t: AMD EPYC\nstepping : 1\n"), Some("AMD EPYC"));
        assert_eq!(model_name("CPU implementer\t: 0x41\n"), None);
    }
}
