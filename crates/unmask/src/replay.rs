//! `unmask replay`: plays a recorded lesson without a room.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use rust_embed::RustEmbed;
use unmask_recording::{MAX_BYTES, NAME, Read, Recording};
use unmask_relay::{export_replay, replay};

use crate::{Failure, interrupt::asked_to_stop, relay::browser::open_page, run_async, say};

const EXAMPLE: &str = "\
Examples

    unmask replay                              the lesson that comes with this program
    unmask replay lesson.unmask --open         your own, in the browser of this machine
    unmask replay lesson.unmask --export site  a folder for any web server: it needs no relay and no other program

The teacher's page offers the file (Take the recording); a relay also keeps it beside its journal. In the page, Space
plays and pauses, the arrow keys jump five seconds, and + and - change the speed.

Serve the exported folder from a web server, because a browser loads no WebAssembly for pages opened from a disk:

    python3 -m http.server -d site 8000        then open http://localhost:8000/replay.html

The folder contains the class's nicknames, and the pictures of those who agreed to show them.";

/// The lesson that comes with this program, if it was recorded before the build.
#[derive(RustEmbed)]
#[folder = "../../assets"]
#[include = "lesson.unmask"]
struct Shipped;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Replay {
    /// The recorded lesson; by default the one that comes with this program.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Port on this machine; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
    /// Open the page here, if there is a desktop.
    #[arg(long)]
    open: bool,
    /// Write the page and the recording into this folder instead of serving them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["port", "open"])]
    export: Option<PathBuf>,
}

impl Replay {
    /// Serves the lesson until the process is stopped, or writes it into a folder.
    ///
    /// # Errors
    /// [`Failure::Input`] for a file that is not a recording, a port that is taken or a folder that cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let recording = recording(self.file.as_deref()).map_err(Failure::Input)?;
        if let Some(folder) = &self.export {
            export_replay(&recording, folder).map_err(Failure::Input)?;
            let folder = folder.display();
            say(&format!(
                "{folder} holds the lesson. Put it on any web server, or try it here:\n\n    python3 -m http.server -d \
                 {folder} 8000\n\nand open http://localhost:8000/replay.html\n"
            ));
            return Ok(());
        }
        run_async(async move {
            let mut replaying = replay(&recording, self.port).map_err(Failure::Input)?;
            say(&format!("{}\nCtrl-C ends it.\n", replaying.address()));
            if self.open {
                open_page(&replaying.address());
            }
            tokio::select! {
                () = asked_to_stop() => Ok(()),
                () = replaying.broken() => Err(Failure::Other(anyhow::anyhow!("the port is no longer served"))),
            }
        })
    }
}

/// Returns the readable part of a file, or of the lesson that comes with this program.
fn recording(file: Option<&Path>) -> anyhow::Result<Recording> {
    let (bytes, name) = match file {
        Some(path) => (read(path)?, path.display().to_string()),
        None => {
            let shipped = Shipped::get(NAME).context("no lesson comes with this program; name a file")?;
            (shipped.data.into_owned(), "the lesson that comes with this program".to_owned())
        }
    };
    let Read { recording, torn } = Recording::read(&bytes).with_context(|| format!("{name} cannot be played"))?;
    anyhow::ensure!(!recording.is_empty(), "{name} cannot be played: {}", torn.as_deref().unwrap_or("it is empty"));
    if let Some(torn) = torn {
        eprintln!("unmask: only a part of {name} can be played: {torn}");
    }
    Ok(recording)
}

/// Reads at most as many bytes as a recording can have.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(cannot)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use unmask_core::TradeOffColumns;
    use unmask_data::decode;
    use unmask_recording::Player;
    use unmask_wire::view::RoomView;

    use super::*;

    #[test]
    fn files_are_read_or_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.unmask");
        let error = |path: &Path| format!("{:#}", recording(Some(path)).unwrap_err());
        assert!(error(&path).contains("cannot read") && error(&path).contains("a.unmask"));
        std::fs::write(&path, "no recording").unwrap();
        assert!(error(&path).contains("a.unmask cannot be played: this is no recording"), "{}", error(&path));
        let mut lesson = Recording::new("0.1.0", 7);
        std::fs::write(&path, lesson.packed().unwrap()).unwrap();
        assert!(error(&path).contains("it is empty"));
        lesson.add(0, &RoomView { round: 3, ..RoomView::default() }, |_| None).unwrap();
        std::fs::write(&path, lesson.packed().unwrap()).unwrap();
        assert_eq!(recording(Some(&path)).unwrap().len(), 1);
    }

    /// Everybody downloads it with the program.
    #[test]
    fn the_lesson_that_comes_along_is_whole_and_small() {
        let Some(file) = Shipped::get(NAME) else { return };
        assert!(file.data.len() < 1_000_000, "{} bytes", file.data.len());
        let Read { recording, torn } = Recording::read(&file.data).unwrap();
        assert!(torn.is_none() && recording.last_at() > 30_000);
    }

    /// A room in a browser shows them in scene 7.
    #[test]
    fn the_columns_are_from_the_lesson_that_comes_along() {
        let Some(file) = Shipped::get(NAME) else { return };
        let mut player = Player::new(Recording::read(&file.data).unwrap().recording);
        while player.step() {}
        let columns: TradeOffColumns = serde_json::from_str(include_str!("../../../assets/columns.json")).unwrap();
        assert_eq!(player.recorded().unwrap().columns, Some(columns), "run scripts/make_columns.py");
    }

    /// The animation that plays while the page loads must show pictures of the lesson.
    #[test]
    fn the_opening_is_from_the_lesson_that_comes_along() {
        const SIDE: usize = 32;
        let Some(file) = Shipped::get(NAME) else { return };
        let mut player = Player::new(Recording::read(&file.data).unwrap().recording);
        let mut shown = HashSet::new();
        while player.step() {
            let room = player.recorded().unwrap();
            let attacks = room.attacks.iter().filter_map(|attack| attack.picture.clone());
            let originals = room.clients.iter().filter_map(|client| client.original.clone());
            for address in attacks.chain(originals) {
                shown.extend(player.picture(&address).map(|png| decode(png).unwrap().rgb().to_vec()));
            }
        }
        let strip = decode(include_bytes!("../../../www/opening/strip.png")).unwrap();
        assert_eq!((strip.width(), strip.height()), (9 * SIDE, SIDE));
        for tile in 0..9 {
            let rows = strip.rgb().chunks_exact(3 * strip.width());
            let tile_rgb: Vec<u8> = rows.flat_map(|row| &row[3 * SIDE * tile..][..3 * SIDE]).copied().collect();
            assert!(shown.contains(&tile_rgb), "tile {tile}: run scripts/make_opening.py");
        }
    }
}
