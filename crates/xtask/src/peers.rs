//! The same work here and in PyTorch, in turn: what else the machine does hits both alike.

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

/// Measure training steps here and in PyTorch in turn, and print a table of both
///
/// Examples:
///   cargo xtask bench-peers                              everything: about twenty minutes on two cores that do nothing else
///   cargo xtask bench-peers --only vit_nano --only train what has one of these words in its name
///   cargo xtask bench-peers --rounds 1 --steps 3         a try, in a minute
///
/// A step is the loss, the gradient of all weights, and its way into one flat vector; `matching` is an iteration of token matching
/// on the first block's weights, in PyTorch by exact second derivatives; `train` is a round of `unmask train` with
/// configs/masked.toml beside the same in a plain loop, 200 in a turn, on CIFAR-10 where `unmask data cifar10` put it and else
/// on as many pictures as the generated ones.
///
/// In each round both sides have a turn, the one after the other, and the other one first in the next round. A turn is two steps that are
/// not counted, and then the median of those that are. Programs are started and models are made before that. Of `train` both sides time
/// their rounds alone: no start of a program, no reading of pictures and no test is among them.
///
/// The table is Markdown: milliseconds as the median of the turns, the least and the most of them, and the ratio of ours to PyTorch's,
/// turn by turn. Above it stand the processor, the versions, and how busy other programs kept the machine: while they do,
/// two threads of PyTorch wait for each other, and the table is worth nothing.
///
/// PyTorch goes into a virtual environment in ~/.cache/unmask/tools/pytorch, once: 5 GB on Linux on x86, whose usual wheel is that
/// for CUDA, and far less where pip is set up to find the wheel for CPUs alone.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Peers {
    /// How often each side has its turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure only what has this word in its name (may be given more than once)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Steps in a turn, in place of each case's own number: iterations of `matching`, rounds of `train`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Threads of each side (may be given more than once)
    #[arg(long, value_name = "N", default_values_t = [1, 2], value_parser = clap::value_parser!(u32).range(1..))]
    threads: Vec<u32>,
    /// Print the names of what is measured, and stop
    #[arg(long)]
    pub list: bool,
}

impl Peers {
    /// Prints the names of the chosen cases.
    ///
    /// # Errors
    /// Nothing has such a name.
    pub fn print_names(&self) -> Result<()> {
        self.chosen()?.iter().for_each(|case| println!("{}", case.name()));
        Ok(())
    }

    /// Builds our side, gets PyTorch, lets both take turns and prints the table.
    ///
    /// # Errors
    /// PyTorch cannot be had, something does not build, or a program fails.
    pub fn run(&self, env: &Env, turn: Turn) -> Result<()> {
        let cases = self.chosen()?;
        python::ensure_pytorch(env)?;
        let programs = Programs::build(env, &cases)?;
        // What is measured shall not wait for a build, and no build for it.
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

    /// All turns of both sides. Adds to `versions` what the sides say of themselves, and looks before each round at what `others` do.
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
            // Whoever is second finds a warmer processor.
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
            bail!("nothing is called {:?}; there are {}", self.only.join(" or "), names.join(", "));
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
    /// The milliseconds of each step.
    fn turn(&mut self, side: Side) -> Result<Vec<f64>>;

    /// What they say of themselves, after a turn.
    fn versions(&self) -> Vec<String>;
}

/// Two programs that wait for their turns.
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

/// Its name, and how many of it there are.
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
