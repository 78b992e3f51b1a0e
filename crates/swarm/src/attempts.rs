//! What hostile clients try against a room, each time against a relay of its own: to hold rounds up, to stop learning, to
//! take all places, and to fill the log.

use std::{
    fmt,
    future::Future,
    net::IpAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
    try_join,
};
use unmask_wire::{RelayMessage, view::Control};

use crate::{
    client::{Conduct, LightClient, Notebook, Notes},
    hostile::raise_descriptors,
    measure::{Times, processor},
    network::{foreign, has_foreign_addresses},
    relay::{Door, RelayProcess},
    socket::{Socket, device},
};

const MODEL: &str = "vit_pico_patch4_16";
/// Longest wait for clients to join, and for the relay's answer to a hello.
const PATIENCE: Duration = Duration::from_secs(20);
/// Sockets that one address opens.
const SOCKETS: usize = 200;

/// One attempt and its outcome.
#[derive(Debug)]
pub struct Attempt {
    pub what: &'static str,
    pub measured: String,
    pub promise: &'static str,
    pub is_kept: bool,
}

#[derive(Debug)]
pub struct Attempts(pub Vec<Attempt>);

/// Makes all attempts, which take about half a minute together. Those to take all places need a network [of their
/// own](crate::in_own_network).
///
/// # Errors
/// A relay does not start or ends, or its honest clients do not get in.
pub async fn attempts(program: &Path) -> anyhow::Result<Attempts> {
    raise_descriptors(2 * SOCKETS + 64);
    // Each has relays of its own, which mostly wait.
    let (stalling, tiny, names) = try_join!(stalling(program), tiny_updates(program), chosen_names(program))?;
    let mut all = vec![stalling, tiny, names];
    // The relay counts no places of its own machine.
    if has_foreign_addresses() {
        all.extend(places(program).await?);
    }
    Ok(Attempts(all))
}

/// Two of twelve never train: one says so when the round is over, the other says nothing.
async fn stalling(program: &Path) -> anyhow::Result<Attempt> {
    let (alone, beside) = try_join!(
        intervals(program, [Conduct::QUICK; 2], Duration::from_secs(20)),
        intervals(program, [Conduct::Unable, Conduct::Silent], Duration::from_secs(20))
    )?;
    let [usual, now] = [&alone, &beside].map(|times| times.percentile(0.5));
    Ok(Attempt {
        what: "2 of 12 clients never train",
        measured: format!("rounds took {beside}; with 12 honest clients {alone}"),
        promise: "others wait twice for 5 s, then in one round of nine",
        is_kept: now <= usual + Duration::from_millis(500) && beside.percentile(1.0) < Duration::from_secs(8),
    })
}

/// Times from plan to plan at ten honest clients, beside two others, at a pace of one second.
async fn intervals(program: &Path, others: [Conduct; 2], time: Duration) -> anyhow::Result<Times> {
    let conducts = [Conduct::QUICK; 10].into_iter().chain(others);
    let notes = class(program, Duration::from_secs(1), conducts.collect(), time).await?;
    let times = notes.overhead(Duration::ZERO);
    ensure!(!times.is_empty(), "no two rounds followed one another in {} s", time.as_secs());
    Ok(times)
}

/// Three of eleven answer before the others, with next to nothing.
async fn tiny_updates(program: &Path) -> anyhow::Result<Attempt> {
    let trains = Conduct::Honest(Duration::from_millis(200));
    let [usual, now] = [Conduct::QUICK, Conduct::Tiny].map(|quick| async move {
        let conducts = [trains; 8].into_iter().chain([quick; 3]);
        let pace = Duration::from_millis(100);
        let notes = class(program, pace, conducts.collect(), Duration::from_secs(8)).await?;
        let rounds = notes.steps.len();
        ensure!(rounds > 1, "{rounds} steps in 8 s");
        anyhow::Ok(notes.steps.iter().sum::<f64>() / rounds as f64)
    });
    let (usual, now) = try_join!(usual, now)?;
    Ok(Attempt {
        what: "3 of 11 clients answer first, with values of 1e-12",
        measured: format!("a step of {now:.1e}; with 11 honest clients {usual:.1e}"),
        promise: "0.3 to 2 times the usual step",
        is_kept: (0.3 * usual..=2.0 * usual).contains(&now),
    })
}

/// Lets clients with these conducts join, starts the rounds, and returns what those that are honest noted. The first of
/// them measures the steps.
async fn class(program: &Path, pace: Duration, conducts: Vec<Conduct>, time: Duration) -> anyhow::Result<Notes> {
    let mut relay = RelayProcess::start(program, None, MODEL, pace, Duration::from_secs(60), &[]).await?;
    let (honest, hostile, count) = (Notebook::default(), Notebook::default(), conducts.len());
    let mut clients = JoinSet::new();
    for (number, conduct) in conducts.into_iter().enumerate() {
        let notebook = if matches!(conduct, Conduct::Honest(_)) { &honest } else { &hostile };
        let mut client = LightClient::new(relay.door(), device(0), format!("Client {number}"), notebook);
        (client.conduct, client.measures_steps) = (conduct, number == 0);
        clients.spawn(async move { client.visit(Duration::MAX).await });
    }
    within("all clients in the room", async || Ok(in_room(&relay).await? == count)).await?;
    relay.control(&Control::Start).await?;
    sleep(time).await;
    relay.check()?;
    let notes = honest.take();
    ensure!(notes.troubles.is_empty(), "honest clients had problems: {}", notes.troubles.join("; "));
    Ok(notes)
}

/// One address and one browser open sockets, while a student's connection is broken.
async fn places(program: &Path) -> anyhow::Result<Vec<Attempt>> {
    let mut relay =
        RelayProcess::start(program, None, MODEL, Duration::from_millis(100), Duration::from_secs(60), &[]).await?;
    let notebook = Notebook::default();
    let mut student = LightClient::new(relay.door(), foreign(1), "Student".to_owned(), &notebook);
    let (come, _) = tokio::join!(student.visit(Duration::ZERO), async {
        within("the student", async || Ok(in_room(&relay).await? == 1)).await?;
        relay.control(&Control::OneRound).await
    });
    let () = come;
    let mut attempts = Vec::new();
    let mut sockets = Vec::new();
    let browser = Door { browser: Some(7), ..relay.door().clone() };
    for (what, promise, most, door, from) in [
        ("200 sockets of one program's address", "32 get a place", 32, relay.door().clone(), foreign(2)),
        ("200 tabs of one browser", "4 get a place", 4, browser, foreign(3)),
    ] {
        let begun = Instant::now();
        let came = crowd(&door, from, &mut sockets).await;
        let seconds = begun.elapsed().as_secs_f64();
        attempts.push(Attempt {
            what,
            measured: format!("{came} got a place in {seconds:.1} s"),
            promise,
            is_kept: came == most,
        });
    }
    let back = enter(relay.door(), foreign(1), "Student", student.ticket).await;
    attempts.push(Attempt {
        what: "a student then returns with a ticket",
        measured: if back.is_some() { "let in" } else { "turned away" }.to_owned(),
        promise: "finds its place kept",
        is_kept: student.ticket.is_some() && back.is_some(),
    });
    relay.check()?;
    Ok(attempts)
}

/// Tries to join from one address, with all sockets at once. Returns how many clients came in; `held` keeps them there.
async fn crowd(door: &Door, from: IpAddr, held: &mut Vec<Socket>) -> usize {
    let mut tries = JoinSet::new();
    for number in 0..SOCKETS {
        let door = door.clone();
        tries.spawn(async move { enter(&door, from, &format!("Stranger {number}"), None).await });
    }
    let before = held.len();
    while let Some(socket) = tries.join_next().await {
        held.extend(socket.ok().flatten());
    }
    held.len() - before
}

/// Asks to join. Returns the socket if the relay let it in.
async fn enter(door: &Door, from: IpAddr, nickname: &str, ticket: Option<[u8; 16]>) -> Option<Socket> {
    let entry = async {
        let mut socket = Socket::open(door, from, false).await?;
        socket.hello(nickname, ticket).await?;
        let answer = socket.message().await?;
        anyhow::Ok(matches!(answer, Some((RelayMessage::Welcome { .. }, _))).then_some(socket))
    };
    timeout(PATIENCE, entry).await.ok()?.ok()?
}

/// A locked room turns away 250 clients with names that would be seen on the teacher's page.
async fn chosen_names(program: &Path) -> anyhow::Result<Attempt> {
    const NAMES: usize = 250;
    let mut relay =
        RelayProcess::start(program, None, MODEL, Duration::from_secs(1), Duration::from_secs(60), &[]).await?;
    relay.control(&Control::Lock { on: true }).await?;
    // The room's state is recorded once a second at most.
    let recording = async || {
        sleep(Duration::from_secs(2)).await;
        anyhow::Ok(relay.page("/api/lesson.unmask").await?.len())
    };
    let before = recording().await?;
    let lines_before = log(&relay).await?.len();
    for number in 0..NAMES {
        let came = enter(relay.door(), device(4), &format!("Chosen {number}"), None).await;
        ensure!(came.is_none(), "client {number} came into a locked room");
    }
    let grown = recording().await?.saturating_sub(before);
    let log = log(&relay).await?;
    let named = log.iter().filter(|line| line.contains("Chosen")).count();
    let lines = log.len() - lines_before;
    relay.check()?;
    Ok(Attempt {
        what: "250 chosen names at a locked door",
        measured: format!("{named} names in the log, {lines} more lines, {grown} more bytes of recording"),
        promise: "no name, one line",
        is_kept: named == 0 && lines <= 1,
    })
}

async fn room(relay: &RelayProcess) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&relay.page("/api/room").await?)?)
}

async fn in_room(relay: &RelayProcess) -> anyhow::Result<usize> {
    Ok(room(relay).await?["clients"].as_array().context("the room has no clients")?.len())
}

async fn log(relay: &RelayProcess) -> anyhow::Result<Vec<String>> {
    let room = room(relay).await?;
    let lines = room["log"].as_array().context("the room has no log")?;
    Ok(lines.iter().filter_map(|line| line["text"].as_str().map(str::to_owned)).collect())
}

/// Waits until the condition holds.
async fn within<F: Future<Output = anyhow::Result<bool>>>(
    what: &str,
    mut holds: impl FnMut() -> F,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds().await? {
        ensure!(begun.elapsed() < PATIENCE, "{} s passed without {what}", PATIENCE.as_secs());
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

impl Attempts {
    /// The broken promises, in words.
    pub fn missed(&self) -> Vec<String> {
        let broken = self.0.iter().filter(|attempt| !attempt.is_kept);
        broken.map(|Attempt { what, measured, promise, .. }| format!("{what}: {measured}, not: {promise}")).collect()
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", processor())?;
        writeln!(f, "| attempt | measured | promise |\n|---|---|---|")?;
        self.0
            .iter()
            .try_for_each(|Attempt { what, measured, promise, .. }| writeln!(f, "| {what} | {measured} | {promise} |"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_is_missed_with_what_was_measured() {
        let attempt =
            |is_kept| Attempt { what: "crowd", measured: "33 came".to_owned(), promise: "32 get in", is_kept };
        let attempts = Attempts(vec![attempt(true), attempt(false)]);
        assert_eq!(attempts.missed(), ["crowd: 33 came, not: 32 get in"]);
        assert_eq!(attempts.to_string().matches("| crowd | 33 came | 32 get in |").count(), 2);
    }
}
