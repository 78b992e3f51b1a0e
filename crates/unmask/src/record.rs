//! `unmask record`: a lesson that takes place by itself.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::{Args, Parser};
use tokio::time::sleep;
use tracing::info;
use unmask_core::Scene;
use unmask_relay::Running;
use unmask_tab::page::text::lesson::{Place, plan};
use unmask_wire::view::RoomView;

use crate::{Failure, relay::Relay, say};

/// What takes longer than this does not come.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at the room.
const LOOK: Duration = Duration::from_millis(100);
/// How long a step of the lesson lasts.
const STEP: Duration = Duration::from_secs(7);
/// How long one of the scene lasts that searches.
const SEARCH: Duration = Duration::from_secs(20);
/// Seconds between two rounds: each has pictures, and the recording is to be small.
const PACE: &str = "3";

#[derive(Debug, Args)]
pub struct Record {
    /// Where the recording goes, such as lesson.unmask.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Clients of this machine, which train on the sample photographs.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=32))]
    robots: u16,
    /// Seed of the first weights.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

/// The room, on this machine alone.
#[derive(Parser)]
struct Room {
    #[command(flatten)]
    relay: Relay,
}

/// The lesson as it goes on.
struct Lesson<'a> {
    running: &'a Running,
}

impl Record {
    /// Opens a room, takes it through the scenes of the lesson, and writes what was recorded.
    ///
    /// # Errors
    /// [`Failure::Input`] if the file cannot be written or the room not opened; [`Failure::Other`] if something does not
    /// come about that must.
    pub async fn run(self) -> Result<(), Failure> {
        let (robots, seed) = (self.robots.to_string(), self.seed.to_string());
        let line = ["record", "--no-journal", "--bind", "127.0.0.1", "--http-port", "0", "--https-port", "0"];
        let line = line.into_iter().chain(["--headless", robots.as_str(), "--seed", seed.as_str(), "--pace", PACE]);
        let Room { relay } = Room::try_parse_from(line).map_err(|error| Failure::Other(error.into()))?;
        let (running, mut clients) = relay.start(Vec::new()).await?;
        let taken = Lesson { running: &running }.take(self.robots.into()).await;
        let recording = running.recording().await;
        clients.shutdown().await;
        running.shutdown().await;
        taken.map_err(Failure::Other)?;
        let recording = recording.map_err(Failure::Other)?;
        std::fs::write(&self.file, &recording)
            .with_context(|| format!("cannot write {}", self.file.display()))
            .map_err(Failure::Input)?;
        say(&format!("{}: {} kB\n", self.file.display(), recording.len() / 1000));
        Ok(())
    }
}

impl Lesson<'_> {
    /// Goes through all scenes, as a presenter would by pressing Space alone.
    async fn take(&self, robots: usize) -> anyhow::Result<()> {
        self.until("all robots in the room", |room| room.clients.len() == robots).await?;
        let mut next = Some(Place::start(Scene::Lobby));
        while let Some(place) = next {
            info!(scene = %place.scene, beat = place.beat, "the lesson goes on");
            for control in plan(&self.running.room(), place).controls {
                self.running.control(control).await?;
            }
            self.until("the room to be where the lesson is", |room| Place::of(room) == place).await?;
            sleep(if place.scene == Scene::Patience { SEARCH } else { STEP }).await;
            next = place.next();
        }
        Ok(())
    }

    async fn until(&self, what: &str, is_there: impl Fn(&RoomView) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !is_there(&self.running.room()) {
            ensure!(begun.elapsed() < PATIENCE, "waited {} s in vain for {what}", PATIENCE.as_secs());
            sleep(LOOK).await;
        }
        Ok(())
    }
}
