//! The folder of results, and the progress of a search.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use indicatif::ProgressBar;
use unmask_attack::AttackProgress;
use unmask_core::{AttackMethod, VitConfig};
use unmask_data::{Picture, encode_png};
use unmask_inversion::{DumpedModel, InferenceAttack, Report};
use unmask_model::weights::encode;
use unmask_simulation::files::write_whole;

use crate::progress::style;

/// How often a search writes its current picture.
const WATCHED_EVERY: Duration = Duration::from_secs(3);

/// The folder of results, created when there is a result to write.
#[derive(Debug)]
pub(super) struct Output {
    folder: PathBuf,
    model: DumpedModel,
    /// Whether progress counts the tokens of a batch instead of steps.
    counts_tokens: bool,
    bar: Option<ProgressBar>,
    shown: Instant,
}

impl Output {
    pub(super) fn new(folder: &Path, model: DumpedModel, attack: InferenceAttack) -> Self {
        let counts_tokens = attack.method() == Some(AttackMethod::Batch);
        Self { folder: folder.to_owned(), model, counts_tokens, bar: None, shown: Instant::now() }
    }

    /// Moves the bar and regularly writes the current picture.
    pub(super) fn progress(&mut self, progress: AttackProgress<'_>) {
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(progress.iterations as u64);
            style(
                &bar,
                match self.counts_tokens {
                    true => "{bar:30} {pos} of {len} tokens, pictures left: {msg}",
                    false => "{bar:30} {pos} of {len}, {eta} left, objective {msg}",
                },
            );
            bar
        });
        bar.set_position(progress.iteration as u64);
        let digits = if self.counts_tokens { 0 } else { 4 };
        bar.set_message(format!("{:.digits$}", progress.objective));
        if self.shown.elapsed() >= WATCHED_EVERY {
            self.shown = Instant::now();
            // The results are written again at the end, which reports any problem.
            let pictures = self.split(&self.model.pixels.pixels(progress.pictures));
            let _ = self.save_pictures(&pictures);
        }
    }

    pub(super) fn progress_ends(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Writes the reconstructions, each `[height, width, 3]` in [0, 1].
    pub(super) fn pictures(&self, pictures: &[Vec<f32>]) -> anyhow::Result<()> {
        self.save_pictures(pictures)?;
        let (width, height) = self.model.size;
        let shape = [pictures.len(), height, width, VitConfig::CHANNELS];
        let shape = if pictures.len() == 1 { &shape[1..] } else { &shape };
        let values = pictures.concat();
        self.save("reconstruction.safetensors", &encode([("reconstruction", shape, values.as_slice())])?)
    }

    pub(super) fn report(&self, report: &Report) -> anyhow::Result<()> {
        self.save("report.json", &serde_json::to_vec_pretty(report)?)
    }

    fn split(&self, pictures: &[f32]) -> Vec<Vec<f32>> {
        let side = self.model.architecture.side();
        pictures.chunks(side * side * VitConfig::CHANNELS).map(|picture| self.model.arranged(picture)).collect()
    }

    fn save_pictures(&self, pictures: &[Vec<f32>]) -> anyhow::Result<()> {
        for (index, picture) in pictures.iter().enumerate() {
            let name = if pictures.len() == 1 {
                "reconstruction.png".to_owned()
            } else {
                format!("reconstruction-{index}.png")
            };
            let (width, height) = self.model.size;
            self.save(&name, &encode_png(&Picture::from_hwc(width, height, picture)?)?)?;
        }
        Ok(())
    }

    /// Writes the file atomically, so that a program that watches it always sees a whole file.
    fn save(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("the folder {} cannot be made", self.folder.display()))?;
        let path = self.folder.join(name);
        write_whole(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))
    }
}
