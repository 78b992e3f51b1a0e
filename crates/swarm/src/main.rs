//! `cargo xtask hostile` and `cargo xtask soak`: load for a relay, and measurements of it.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::{env, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand};
use unmask_swarm::{HostileOptions, SoakOptions, attempts, hostile, soak};

/// Put load on a relay, and measure it
#[derive(Parser)]
struct Cli {
    /// The `unmask` program
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    Hostile(Hostile),
    Soak(Soak),
}

/// Run honest clients beside hostile strangers, then what hostile clients of a room try (half a minute more); fails if a goal
/// is missed
#[derive(Args)]
struct Hostile {
    #[command(flatten)]
    room: Room,
    /// Clients that take part in every round
    #[arg(long, default_value_t = 30)]
    honest: usize,
    /// Connections that send no request, or half of one
    #[arg(long, default_value_t = 2000)]
    idle: usize,
    /// Connections that send one byte a second
    #[arg(long, default_value_t = 200)]
    tricklers: usize,
    /// Clients that join and read nothing
    #[arg(long, default_value_t = 50)]
    walls: usize,
    /// Clients that send messages as fast as they can; the same number of connections send requests as fast as they can
    #[arg(long, default_value_t = 4)]
    floods: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Most files that the relay may have open; by default the system's limit
    #[arg(long)]
    files: Option<u32>,
    /// Longest time for a round in seconds; the first rounds last this long, because strangers who joined do not answer
    #[arg(long, default_value_t = 10)]
    deadline: u64,
    /// Goal: most milliseconds of a round beyond the pace, for 99 of 100 rounds
    #[arg(long, default_value_t = 200)]
    overhead: u64,
    /// Goal: most memory of the relay in MB
    #[arg(long, default_value_t = 512.0)]
    memory: f64,
}

/// Let clients join and leave; prints a line each minute and the memory's growth at the end; fails if a goal is missed
#[derive(Args)]
struct Soak {
    #[command(flatten)]
    room: Room,
    /// Clients at the same time
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// Minutes to run
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Shortest stay of a client, in seconds
    #[arg(long, default_value_t = 60)]
    stay: u64,
    /// Goal: most milliseconds of a round beyond the pace, for 99 of 100 rounds
    #[arg(long, default_value_t = 200)]
    overhead: u64,
}

#[derive(Args)]
struct Room {
    /// The room's model
    #[arg(long, default_value = "vit_nano_patch4_32")]
    model: String,
    /// Seconds between rounds
    #[arg(long, default_value_t = 1.0)]
    pace: f64,
}

impl Room {
    fn pace(&self) -> anyhow::Result<Duration> {
        Ok(Duration::try_from_secs_f64(self.pace)?)
    }
}

/// Continues in a network of its own, where strangers can have addresses of other machines.
#[cfg(unix)]
fn move_to_own_network() {
    use std::os::unix::process::CommandExt as _;

    use unmask_swarm::{has_foreign_addresses, in_own_network};

    if has_foreign_addresses() {
        return;
    }
    match env::current_exe().ok().and_then(|program| in_own_network(&program)) {
        Some(mut again) => eprintln!("swarm: {}", again.args(env::args_os().skip(1)).exec()),
        None => {
            eprintln!("swarm: this system lends no network (Linux, `unshare`, `ip`); nobody tries to take all places")
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { program, load } = Cli::parse();
    #[cfg(unix)]
    if matches!(load, Load::Hostile(_)) {
        move_to_own_network();
    }
    let outcome = match load {
        Load::Hostile(load) => run_hostile(program, load).await,
        Load::Soak(load) => run_soak(program, load).await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("swarm: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all goals were met.
async fn run_hostile(program: PathBuf, load: Hostile) -> anyhow::Result<bool> {
    let Hostile { honest, idle, tricklers, walls, floods, files, .. } = load;
    let (pace, time) = (load.room.pace()?, Duration::from_secs(load.seconds));
    let (model, deadline) = (load.room.model, Duration::from_secs(load.deadline));
    let options =
        HostileOptions { program, files, model, honest, idle, tricklers, walls, floods, time, pace, deadline };
    let program = options.program.clone();
    let report = hostile(options).await?;
    println!("{report}");
    let attempts = attempts(&program).await?;
    print!("{attempts}");
    let mut missed = report.missed(Duration::from_millis(load.overhead), load.memory);
    missed.extend(attempts.missed());
    Ok(are_met(&missed))
}

/// Returns whether all goals were met.
async fn run_soak(program: PathBuf, load: Soak) -> anyhow::Result<bool> {
    let (pace, time) = (load.room.pace()?, Duration::from_secs(60 * load.minutes));
    let (clients, stay) = (load.clients, Duration::from_secs(load.stay));
    let report = soak(SoakOptions { program, model: load.room.model, clients, time, pace, stay }).await?;
    print!("{report}");
    Ok(are_met(&report.missed(Duration::from_millis(load.overhead))))
}

/// Prints the missed goals; returns whether there are none.
fn are_met(missed: &[String]) -> bool {
    for missed in missed {
        println!("Missed: {missed}");
    }
    missed.is_empty()
}
