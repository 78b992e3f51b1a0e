//! `unmask record`: a lesson that takes place by itself.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::{Args, Parser};
use tokio::time::sleep;
use tracing::info;
use unmask_core::{AttackMethod, InitialWeights, Scene, VitPreset};
use unmask_relay::{Defence, Running};
use unmask_wire::view::{Answers, Control, Poll, RoomView};

use crate::{Failure, relay::Relay, say};

/// What takes longer than this does not come.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at the room.
const LOOK: Duration = Duration::from_millis(100);
/// How long a result stands before the lesson goes on.
const READ: Duration = Duration::from_secs(3);
/// How long the search is watched.
const SEARCH: Duration = Duration::from_secs(40);

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
        let line = line.into_iter().chain(["--headless", robots.as_str(), "--seed", seed.as_str()]);
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
    async fn take(&self, robots: usize) -> anyhow::Result<()> {
        self.until("all robots in the room", |room| room.clients.len() == robots).await?;
        sleep(READ).await;

        self.go_to(Scene::Promise, 0).await?;
        self.round(AttackMethod::Embedding).await?;
        self.go_to(Scene::Guess, 0).await?;
        self.ask().await?;

        let none = Defence::None;
        let half: Defence = "random-binary:0.5".parse()?;
        self.begin_with(VitPreset::NanoPatch8, true).await?;
        for (beat, defence) in (0..).zip([none, half, none]) {
            self.go_to(Scene::April, beat).await?;
            self.defend(defence, AttackMethod::April).await?;
        }

        self.begin_with(VitPreset::NanoPatch8, false).await?;
        for (beat, defence) in (0..).zip(["none", "random-binary:0.05", "random-binary:0.5"]) {
            self.go_to(Scene::Mask, beat).await?;
            self.defend(defence.parse()?, AttackMethod::Embedding).await?;
        }
        for (beat, (defence, shown)) in (0..).zip([
            ("random-binary:0.5", AttackMethod::Completion),
            ("fixed-position", AttackMethod::Embedding),
            ("random-binary:pos=0,0.5", AttackMethod::EmbeddingAware),
        ]) {
            self.go_to(Scene::Attackers, beat).await?;
            self.defend(defence.parse()?, shown).await?;
        }

        self.begin_with(VitPreset::Nano, false).await?;
        self.go_to(Scene::Patience, 0).await?;
        self.control(Control::Search { on: true }).await?;
        self.defend(half, AttackMethod::MatchingAware).await?;
        sleep(SEARCH).await;
        self.control(Control::Search { on: false }).await?;

        self.go_to(Scene::TradeOff, 0).await?;
        for defence in ["none", "random-binary:0.5", "random-binary:0.8", "random-binary:0.95"] {
            self.defend(defence.parse()?, AttackMethod::Embedding).await?;
        }
        self.go_to(Scene::Debrief, 0).await?;
        sleep(READ).await;
        Ok(())
    }

    async fn control(&self, control: Control) -> anyhow::Result<()> {
        self.running.control(control).await
    }

    async fn go_to(&self, scene: Scene, beat: u8) -> anyhow::Result<()> {
        info!(%scene, beat, "the lesson goes on");
        self.control(Control::Lesson { scene, beat }).await
    }

    /// Begins with new weights. A reset would do so, too, but takes the pictures so far out of the recording.
    async fn begin_with(&self, preset: VitPreset, april_block: bool) -> anyhow::Result<()> {
        let (name, initial_weights) = (preset.name().to_owned(), InitialWeights::Scratch);
        self.control(Control::Architecture { name, april_block, initial_weights }).await
    }

    /// Whose picture it is, of all that are there; those who vote have a moment for it.
    async fn ask(&self) -> anyhow::Result<()> {
        let room = self.running.room();
        let names: Vec<String> = room.clients.iter().take(4).map(|client| client.nickname.clone()).collect();
        let place = room.clients.iter().take(4).position(|client| Some(client.id) == room.target);
        let correct = place.and_then(|place| u16::try_from(place).ok());
        let poll = Poll { question: "Who is this?".to_owned(), answers: Answers::Choice(names), correct };
        self.control(Control::AskPoll { poll }).await?;
        sleep(READ).await;
        self.control(Control::ClosePoll).await?;
        sleep(READ).await;
        Ok(())
    }

    /// A round under this defence.
    async fn defend(&self, defence: Defence, shown: AttackMethod) -> anyhow::Result<()> {
        self.control(Control::Defence { defence }).await?;
        self.round(shown).await
    }

    /// One round, until this attack has made of it what it can.
    async fn round(&self, shown: AttackMethod) -> anyhow::Result<()> {
        let before = self.losses();
        self.control(Control::OneRound).await?;
        self.until("a round", |room| room.losses.last().map(|point| (point.round, point.updates)) != before).await?;
        let is_shown = |room: &RoomView| {
            let card = room.attacks.iter().find(|card| card.attack == shown && card.round == room.round);
            card.is_some_and(|card| card.ssim.is_some() || card.picture.is_none())
        };
        self.until("what the attack makes of it", is_shown).await?;
        sleep(READ).await;
        Ok(())
    }

    fn losses(&self) -> Option<(u32, u32)> {
        self.running.room().losses.last().map(|point| (point.round, point.updates))
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
