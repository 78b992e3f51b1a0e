//! `unmask record`: records a lesson without a class.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::{Args, Parser};
use tokio::time::sleep;
use tracing::info;
use unmask_lesson::{Beat, Place, Scene, plan};
use unmask_relay::Running;
use unmask_wire::view::RoomView;

use crate::{Failure, relay::Relay, say};

/// Longest wait for the room to reach a state.
const PATIENCE: Duration = Duration::from_secs(180);
/// Interval between two checks of the room.
const LOOK: Duration = Duration::from_millis(100);
/// Duration of one step of the lesson.
const STEP: Duration = Duration::from_secs(7);
/// Duration of a step in the scene that searches.
const SEARCH: Duration = Duration::from_secs(20);
/// Seconds between two rounds. Every round adds pictures to the recording, which should stay small.
const PACE: &str = "3";

#[derive(Debug, Args)]
pub struct Record {
    /// File for the recording, such as lesson.unmask.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of headless clients, which train on the sample photographs.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=32))]
    robots: u16,
    /// Seed of the initial weights.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
}

/// A room for this machine only.
#[derive(Parser)]
struct Room {
    #[command(flatten)]
    relay: Relay,
}

struct Lesson<'a> {
    running: &'a Running,
}

impl Record {
    /// Opens a room, takes it through the scenes of the lesson, and writes the recording.
    ///
    /// # Errors
    /// [`Failure::Input`] if the file cannot be written or the room cannot be opened; [`Failure::Other`] if the room
    /// does not reach a scene in time.
    pub async fn run(self) -> Result<(), Failure> {
        let (robots, seed) = (self.robots.to_string(), self.seed.to_string());
        let line = ["record", "--no-journal", "--bind", "127.0.0.1", "--http-port", "0", "--https-port", "0"];
        let line = line.into_iter().chain([
            "--headless",
            robots.as_str(),
            "--seed",
            seed.as_str(),
            "--pace",
            PACE,
            "--shadow-room",
        ]);
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
    /// Goes through all scenes, like a presenter who only presses Space.
    async fn take(&self, robots: usize) -> anyhow::Result<()> {
        self.until("all robots in the room", |room| room.clients.len() == robots).await?;
        let mut next = Some(Place::start(Scene::Lobby));
        while let Some(place) = next {
            info!(scene = %place.scene, beat = place.beat, "next step of the lesson");
            for change in plan(&self.running.room().situation(), place).changes {
                self.running.control(change.into()).await?;
            }
            self.until("the room to be where the lesson is", |room| room.lesson.place() == place).await?;
            sleep(if place.scene == Scene::Patience { SEARCH } else { STEP }).await;
            // Only people attack each other's updates.
            let is_for_people = |place: &Place| matches!(place.beat(), Beat::AttackOthers | Beat::ShowScores);
            next = std::iter::successors(place.next(), |place| place.next()).find(|place| !is_for_people(place));
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
