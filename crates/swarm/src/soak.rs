//! Runs clients that join and leave, for a given time.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use crate::{
    client::{LightClient, Notebook},
    measure::{Slope, Times, Usage, least, processor, slope},
    relay::{RUNS, RelayProcess},
    socket::device,
};

const DEADLINE: Duration = Duration::from_secs(60);
/// Interval between two measurements of the relay.
const LOOK: Duration = Duration::from_secs(1);
/// The goal for the memory's growth applies only after this time; before it, the slope mostly shows the start.
const SETTLED: Duration = Duration::from_secs(60 * 60);
/// A minute in hours. Rounds hold updates for a moment, so that the memory between them shows whether something stays.
const MINUTE: f64 = 1.0 / 60.0;
/// Goal: the memory grows by less than this, in MB an hour.
const MAX_GROWTH: f64 = 1.0;
/// Goal: most file descriptors above the minimum, for each client: its socket, and one that is being opened.
const MAX_DESCRIPTORS: usize = 2;

/// The clients and the time.
#[derive(Debug, Clone)]
pub struct SoakOptions {
    /// The `unmask` program, which is the relay.
    pub program: PathBuf,
    /// Name of the room's model.
    pub model: String,
    pub clients: usize,
    pub time: Duration,
    /// The room's pause between rounds.
    pub pace: Duration,
    /// A client stays for one to four times this long, and is away for a tenth of its stay.
    pub stay: Duration,
}

#[derive(Debug)]
pub struct SoakReport {
    options: SoakOptions,
    pub accepted: u64,
    /// Plans without an accepted update.
    pub lost: u64,
    /// Time from one plan to the next beyond the pace, at every client.
    pub overhead: Times,
    /// Growth of the relay's resident memory in MB an hour after the first sixth of the time, if the system tells.
    pub megabytes_an_hour: Option<Slope>,
    /// Fewest and most file descriptors during that time.
    pub descriptors: Option<(usize, usize)>,
    /// Resident memory in MB at the start and the end of that time.
    pub megabytes: Option<(f64, f64)>,
    pub troubles: Vec<String>,
}

/// Opens a room, lets clients join and leave, and prints a line each minute.
///
/// # Errors
/// The relay does not start, or ends.
pub async fn soak(options: SoakOptions) -> anyhow::Result<SoakReport> {
    // A recording is held in memory, and grows by design until it has 32 MiB.
    let arguments = [&RUNS[..], &["--no-recording"]].concat();
    let mut relay =
        RelayProcess::start(&options.program, None, &options.model, options.pace, DEADLINE, &arguments).await?;
    let notebook = Notebook::default();
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let mut client = LightClient::new(relay.door(), device(0), format!("Client {number}"), &notebook);
        let stay = options.stay;
        clients.spawn(async move {
            for visit in 0_usize.. {
                // Longer by some thirds, a different number for each client and visit.
                let thirds = (7 * number + 5 * visit) % 10;
                let stay = stay + stay * thirds as u32 / 3;
                client.visit(stay).await;
                sleep(stay / 10).await;
            }
        });
    }

    let begun = Instant::now();
    let mut looks: Vec<(f64, Usage)> = Vec::new();
    let mut intervals = Vec::new();
    let (mut accepted, mut lost, mut troubles) = (0, 0, Vec::new());
    let mut minutes = 0;
    while begun.elapsed() < options.time {
        sleep(LOOK.min(options.time.saturating_sub(begun.elapsed()))).await;
        relay.check()?;
        let elapsed = begun.elapsed();
        looks.extend(relay.usage().map(|usage| (elapsed.as_secs_f64() / 3600.0, usage)));
        if elapsed.as_secs() / 60 > minutes {
            minutes = elapsed.as_secs() / 60;
            let mut notes = notebook.take();
            println!("{}", line(minutes, looks.last().map(|(_, usage)| usage), &notes.overhead(options.pace)));
            accepted += notes.accepted;
            lost += notes.lost;
            intervals.append(&mut notes.intervals);
            troubles.append(&mut notes.troubles);
        }
    }
    let mut notes = notebook.take();
    notes.intervals.append(&mut intervals);
    troubles.append(&mut notes.troubles);
    let settled = looks.iter().filter(|(hours, _)| *hours >= options.time.as_secs_f64() / 6.0 / 3600.0);
    let settled: Vec<&(f64, Usage)> = settled.collect();
    let memory: Vec<(f64, f64)> = settled.iter().map(|(hours, usage)| (*hours, usage.megabytes)).collect();
    let descriptors = || settled.iter().map(|(_, usage)| usage.descriptors);
    Ok(SoakReport {
        accepted: accepted + notes.accepted,
        lost: lost + notes.lost,
        overhead: notes.overhead(options.pace),
        megabytes_an_hour: slope(&least(&memory, MINUTE)),
        descriptors: descriptors().min().zip(descriptors().max()),
        megabytes: memory.first().map(|(_, first)| *first).zip(memory.last().map(|(_, last)| *last)),
        troubles,
        options,
    })
}

fn line(minute: u64, usage: Option<&Usage>, overhead: &Times) -> String {
    let usage = usage.map_or_else(String::new, |usage| {
        format!("{:.1} MB, {} file descriptors, ", usage.megabytes, usage.descriptors)
    });
    format!("minute {minute}: {usage}a round beyond the pace: {overhead}")
}

impl SoakReport {
    /// The missed goals, in words.
    pub fn missed(&self, overhead: Duration) -> Vec<String> {
        let SoakOptions { clients, time, .. } = &self.options;
        let p99 = self.overhead.percentile(0.99);
        let growth = self.megabytes_an_hour.filter(|_| *time >= SETTLED);
        let Slope { value: growth, error } = growth.unwrap_or(Slope { value: 0.0, error: 0.0 });
        let spread = self.descriptors.map_or(0, |(fewest, most)| most - fewest);
        let most_spread = MAX_DESCRIPTORS * clients;
        let aims = [
            (self.accepted > 0, "no update was taken".to_owned()),
            (self.lost == 0, format!("{} updates were lost", self.lost)),
            (self.troubles.is_empty(), format!("clients had problems: {}", self.troubles.join("; "))),
            (p99 <= overhead, format!("p99 beyond the pace is {p99:?}, the goal is {overhead:?}")),
            // Twice the standard error: what noise does in one run of forty.
            (
                growth - 2.0 * error < MAX_GROWTH,
                format!("the memory grows by {growth:.2} MB an hour (± {error:.2}), the goal is {MAX_GROWTH:.2}"),
            ),
            (
                spread <= most_spread,
                format!("the file descriptors differ by {spread}, the goal is {most_spread} for {clients} clients"),
            ),
        ];
        aims.into_iter().filter(|(is_met, _)| !is_met).map(|(_, missed)| missed).collect()
    }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SoakOptions { model, clients, time, pace, stay, .. } = &self.options;
        writeln!(f, "{}", processor())?;
        writeln!(
            f,
            "{clients} clients of {model} at a pace of {:.1} s for {:.1} min, each staying {:.0} s to {:.0} s at a time",
            pace.as_secs_f64(),
            time.as_secs_f64() / 60.0,
            stay.as_secs_f64(),
            4.0 * stay.as_secs_f64()
        )?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| updates taken | {} |", self.accepted)?;
        writeln!(f, "| updates lost | {} |", self.lost)?;
        writeln!(f, "| a round, beyond the pace | {} |", self.overhead)?;
        if let (Some((first, last)), Some(growth)) = (self.megabytes, self.megabytes_an_hour) {
            writeln!(
                f,
                "| memory of the relay after a sixth of the time, and at the end | {first:.1} MB, {last:.1} MB |"
            )?;
            let Slope { value, error } = growth;
            writeln!(f, "| slope of each minute's least between them | {value:.2} ± {error:.2} MB an hour |")?;
        }
        if let Some((fewest, most)) = self.descriptors {
            writeln!(f, "| its file descriptors in that time | {fewest} to {most} |")?;
        }
        for trouble in &self.troubles {
            writeln!(f, "{trouble}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(minutes: u64) -> SoakReport {
        let (time, pace, stay) = (Duration::from_secs(60 * minutes), Duration::from_secs(1), Duration::from_secs(60));
        SoakReport {
            options: SoakOptions { program: PathBuf::new(), model: String::new(), clients: 3, time, pace, stay },
            accepted: 1,
            lost: 0,
            overhead: Times::default(),
            megabytes_an_hour: Some(Slope { value: 20.0, error: 2.0 }),
            descriptors: Some((10, 16)),
            megabytes: None,
            troubles: Vec::new(),
        }
    }

    #[test]
    fn each_aim_can_be_missed() {
        let aim = Duration::from_millis(200);
        assert_eq!(report(59).missed(aim), [""; 0], "a start grows");
        let growth = report(60).missed(aim);
        assert!(growth.len() == 1 && growth[0].contains("20.00 MB an hour (± 2.00)"), "{growth:?}");
        let bad = SoakReport {
            accepted: 0,
            lost: 2,
            overhead: [Duration::from_millis(201)].into_iter().collect(),
            descriptors: Some((10, 17)),
            troubles: vec!["a refusal".to_owned()],
            ..report(60)
        };
        assert_eq!(bad.missed(aim).len(), 6, "{:?}", bad.missed(aim));
    }
}
