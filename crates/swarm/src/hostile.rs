//! Runs honest clients beside hostile strangers.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    client::{LightClient, Notebook},
    measure::{Times, Usage, processor},
    relay::{Door, RUNS, RelayProcess},
    socket::{connect, device, fetch},
    strangers,
};

/// Time for strangers to join before the honest clients.
const HEAD_START: Duration = Duration::from_secs(2);
/// Rounds before the measurement starts; the first ones wait for strangers who joined and never answer.
const WARM_UP: u64 = 4;
/// Longest wait for these rounds.
const PATIENCE: Duration = Duration::from_secs(180);
/// Interval between two health checks of the relay.
const PROBE: Duration = Duration::from_millis(250);
/// Longest wait for the answer to a health check.
const PROBE_PATIENCE: Duration = Duration::from_secs(30);

/// The clients and strangers, and the time.
#[derive(Debug, Clone)]
pub struct HostileOptions {
    /// The `unmask` program, which is the relay.
    pub program: PathBuf,
    /// Most files that the relay may have open; by default the system's limit.
    pub files: Option<u32>,
    /// Name of the room's model.
    pub model: String,
    /// Clients that take part in every round.
    pub honest: usize,
    /// Connections that send no request, or half of one.
    pub idle: usize,
    /// Connections that send one byte a second.
    pub tricklers: usize,
    /// Clients that join and read nothing.
    pub walls: usize,
    /// Clients that send messages as fast as they can; the same number of connections send requests as fast as they
    /// can.
    pub floods: usize,
    pub time: Duration,
    /// The room's pause between rounds.
    pub pace: Duration,
    /// Longest time for a round; the first rounds last this long, because strangers who joined do not answer.
    pub deadline: Duration,
}

#[derive(Debug)]
pub struct HostileReport {
    options: HostileOptions,
    pub accepted: u64,
    /// Plans of honest clients without an accepted update, counted from each client's first plan.
    pub lost: u64,
    /// Time from one plan to the next beyond the pace, at every honest client.
    pub overhead: Times,
    /// Response times of the relay's health check.
    pub health: Times,
    /// Number of unanswered health checks.
    pub unanswered: u64,
    /// Most resident memory in MB, if the system tells.
    pub megabytes: Option<f64>,
    /// Most file descriptors.
    pub descriptors: Option<usize>,
    pub troubles: Vec<String>,
}

/// Opens a room, starts strangers and honest clients, and measures.
///
/// # Errors
/// The relay does not start or ends, the system has no addresses for strangers, or no round takes place.
pub async fn hostile(options: HostileOptions) -> anyhow::Result<HostileReport> {
    let wanted = options.idle + options.tricklers + options.walls + 2 * options.floods + options.honest;
    raise_descriptors(wanted + 64);
    let HostileOptions { program, files, model, pace, deadline, .. } = &options;
    let mut relay = RelayProcess::start(program, *files, model, *pace, *deadline, &RUNS).await?;
    let door = relay.door().clone();
    drop(connect(&door, device(1), false).await.context("strangers need addresses of their own, as Linux lends them")?);

    let _strangers = let_in(&options, &door);
    sleep(HEAD_START).await;
    let notebook = Notebook::default();
    let mut honest = JoinSet::new();
    for number in 0..options.honest {
        let mut client = LightClient::new(&door, device(0), format!("Honest {number}"), &notebook);
        honest.spawn(async move {
            loop {
                client.visit(Duration::MAX).await;
                sleep(Duration::from_secs(1)).await;
            }
        });
    }
    let (mut accepted, mut lost, mut troubles) = (0, 0, Vec::new());
    let begun = Instant::now();
    while accepted < WARM_UP * options.honest as u64 {
        ensure!(begun.elapsed() < PATIENCE, "only {accepted} updates were taken in {} s", PATIENCE.as_secs());
        sleep(Duration::from_millis(100)).await;
        relay.check()?;
        let mut notes = notebook.take();
        lost += notes.lost;
        troubles.append(&mut notes.troubles);
        let has_waited = notes.intervals.iter().any(|interval| *interval > options.deadline / 2);
        accepted = if has_waited { 0 } else { accepted + notes.accepted };
    }

    let mut health = Vec::new();
    let mut unanswered = 0;
    let mut usage: Option<Usage> = None;
    let begun = Instant::now();
    while begun.elapsed() < options.time {
        match timeout(PROBE_PATIENCE, probe(&door)).await {
            Ok(Ok(time)) => health.push(time),
            Ok(Err(_)) | Err(_) => unanswered += 1,
        }
        if let Some(now) = relay.usage() {
            let most = usage.get_or_insert(now);
            most.megabytes = most.megabytes.max(now.megabytes);
            most.descriptors = most.descriptors.max(now.descriptors);
        }
        relay.check()?;
        sleep(PROBE).await;
    }
    let mut notes = notebook.take();
    lost += notes.lost;
    troubles.append(&mut notes.troubles);
    let overhead = notes.overhead(options.pace);
    Ok(HostileReport {
        options,
        accepted: notes.accepted,
        lost,
        overhead,
        health: health.into_iter().collect(),
        unanswered,
        megabytes: usage.map(|usage| usage.megabytes),
        descriptors: usage.map(|usage| usage.descriptors),
        troubles,
    })
}

fn let_in(options: &HostileOptions, door: &Door) -> JoinSet<()> {
    /// Number of tricklers that join the room. It is small, because a round waits for all its clients until the quorum
    /// is reached, no matter what they send.
    const JOINED: usize = 4;
    let mut tasks = JoinSet::new();
    for number in 0..options.walls {
        let wall = strangers::read_nothing(door.clone(), number);
        tasks.spawn(async move { drop(wall.await) });
    }
    for number in 0..options.tricklers {
        let door = door.clone();
        if number < JOINED {
            tasks.spawn(async move { drop(strangers::trickle_update(door, number).await) });
        } else {
            tasks.spawn(async move { match strangers::trickle_header(door, number).await {} });
        }
    }
    for number in 0..options.idle {
        let door = door.clone();
        tasks.spawn(async move { match strangers::idle(door, number).await {} });
    }
    for number in 0..options.floods {
        let messages = strangers::flood_messages(door.clone(), number);
        tasks.spawn(async move { drop(messages.await) });
        let door = door.clone();
        tasks.spawn(async move { match strangers::flood_requests(door, number).await {} });
    }
    tasks
}

/// Checks the relay's health, on a new connection from this machine's own address.
async fn probe(door: &Door) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    fetch(door, "GET /healthz", None, "").await?;
    Ok(begun.elapsed())
}

/// Raises this process's limit of open connections, as far as the system allows.
pub(crate) fn raise_descriptors(wanted: usize) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = maximum.map_or(wanted as u64, |most| most.min(wanted as u64));
        if current.is_some_and(|current| current < raised)
            && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum })
        {
            eprintln!("only {current:?} files may be open: {error}");
        }
    }
    #[cfg(not(unix))]
    let _ = wanted;
}

impl HostileReport {
    /// The missed goals, in words.
    pub fn missed(&self, overhead: Duration, megabytes: f64) -> Vec<String> {
        let p99 = self.overhead.percentile(0.99);
        let aims = [
            (self.lost == 0, format!("{} updates of honest clients were lost", self.lost)),
            (self.troubles.is_empty(), format!("honest clients had problems: {}", self.troubles.join("; "))),
            (!self.overhead.is_empty(), "no two rounds followed one another".to_owned()),
            (p99 <= overhead, format!("p99 beyond the pace is {p99:?}, the goal is {overhead:?}")),
            (self.unanswered == 0, format!("{} health checks had no answer", self.unanswered)),
            (
                self.megabytes.is_none_or(|most| most <= megabytes),
                format!("{:.0} MB of memory, the goal is {megabytes:.0}", self.megabytes.unwrap_or_default()),
            ),
        ];
        aims.into_iter().filter(|(is_met, _)| !is_met).map(|(_, missed)| missed).collect()
    }
}

impl fmt::Display for HostileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostileOptions { model, honest, idle, tricklers, walls, floods, time, pace, .. } = &self.options;
        writeln!(f, "{}", processor())?;
        writeln!(
            f,
            "{honest} honest clients of {model} at a pace of {:.1} s for {:.0} s, beside {idle} idle connections, \
             {tricklers} tricklers, {walls} clients that do not read, and {floods} floods of messages and of requests",
            pace.as_secs_f64(),
            time.as_secs_f64()
        )?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| updates taken | {} |", self.accepted)?;
        writeln!(f, "| updates lost | {} |", self.lost)?;
        writeln!(f, "| a round, beyond the pace | {} |", self.overhead)?;
        writeln!(f, "| `/healthz` | {}; {} of {} without an answer |", self.health, self.unanswered, self.asked())?;
        if let Some(megabytes) = self.megabytes {
            writeln!(f, "| memory of the relay, at most | {megabytes:.0} MB |")?;
        }
        if let Some(descriptors) = self.descriptors {
            writeln!(f, "| its file descriptors, at most | {descriptors} |")?;
        }
        for trouble in &self.troubles {
            writeln!(f, "{trouble}")?;
        }
        Ok(())
    }
}

impl HostileReport {
    fn asked(&self) -> u64 {
        self.health.len() as u64 + self.unanswered
    }
}
