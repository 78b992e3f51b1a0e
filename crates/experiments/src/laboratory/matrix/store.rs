//! The folder in which rows are kept as soon as they are finished.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use unmask_data::{Picture, encode_png};

use super::{
    MatrixError, Row,
    cell::Tried,
    plan::{Key, Run},
};

const RUN: &str = "run.json";
const ROWS: &str = "rows.jsonl";
const PICTURES: &str = "pictures";

/// Rows on disk, one writer at a time.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    /// Locked as long as this lives.
    file: File,
    rows: HashMap<Key, Row>,
}

impl Store {
    /// Opens the rows of `run`, or begins them.
    ///
    /// A last line that was cut off is dropped: its row is computed again.
    pub(super) fn open(folder: &Path, run: &Run) -> Result<Self, MatrixError> {
        let pictures = folder.join(PICTURES);
        fs::create_dir_all(&pictures).map_err(at(&pictures))?;
        let path = folder.join(ROWS);
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Err(MatrixError::Busy { folder: folder.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(at(&path))?;
        let mut store = Self { folder: folder.to_owned(), file, rows: HashMap::new() };
        store.check_run(run, text.is_empty())?;

        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            store.file.set_len(whole as u64).map_err(at(&path))?;
        }
        for (number, line) in text[..whole].split(|&byte| byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let row: Row = serde_json::from_slice(line).map_err(|error| MatrixError::Damaged {
                path: path.clone(),
                problem: format!("line {} is no row: {error}", number + 1),
            })?;
            // Pictures that somebody deleted are made again.
            if row.pictures.iter().all(|name| pictures.join(name).is_file()) {
                store.rows.insert(key(&row), row);
            }
        }
        Ok(store)
    }

    /// The run must be that of the folder; a folder without rows takes any.
    fn check_run(&self, run: &Run, is_empty: bool) -> Result<(), MatrixError> {
        let path = self.folder.join(RUN);
        let text = serde_json::to_vec_pretty(run).map_err(|error| damaged(&path, &error))?;
        // Both from their text, in which an f32 has fewer digits than as a value.
        let parse = |text: &[u8]| serde_json::from_slice(text).map_err(|error| damaged(&path, &error));
        match fs::read(&path) {
            Ok(bytes) if !is_empty => match difference("", &parse(&bytes)?, &parse(&text)?) {
                Some(difference) => Err(MatrixError::OtherRun { folder: self.folder.clone(), difference }),
                None => Ok(()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_empty => Err(MatrixError::Damaged {
                path: self.folder.join(ROWS),
                problem: format!("nothing says which run the rows are of, {RUN} is missing"),
            }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
            _ => self.write(RUN, &text),
        }
    }

    /// The finished row of a key.
    pub(super) fn row(&self, key: &Key) -> Option<&Row> {
        self.rows.get(key)
    }

    /// Keeps a row: its pictures first, named after `files`, so that a row never stands without them.
    pub(super) fn keep(&mut self, files: &str, side: usize, tried: Tried) -> Result<&Row, MatrixError> {
        let Tried { mut row, pictures } = tried;
        for (index, picture) in pictures.iter().enumerate() {
            let name = format!("{files}-{index}.png");
            self.save_picture(&name, side, picture)?;
            row.pictures.push(name);
        }
        let path = self.folder.join(ROWS);
        let mut line = serde_json::to_vec(&row).map_err(|error| damaged(&path, &error))?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(at(&path))?;
        Ok(self.rows.entry(key(&row)).insert_entry(row).into_mut())
    }

    /// Saves a picture `[side, side, 3]` in [0, 1].
    pub(super) fn save_picture(&self, name: &str, side: usize, picture: &[f32]) -> Result<(), MatrixError> {
        let encode = |reason: String| MatrixError::Encode { what: name.to_owned(), reason };
        let picture = Picture::from_hwc(side, side, picture).map_err(|error| encode(error.to_string()))?;
        let bytes = encode_png(&picture).map_err(|error| encode(error.to_string()))?;
        self.write(&format!("{PICTURES}/{name}"), &bytes)
    }

    /// The bytes of a picture.
    pub(super) fn picture(&self, name: &str) -> Result<Vec<u8>, MatrixError> {
        let path = self.folder.join(PICTURES).join(name);
        fs::read(&path).map_err(at(&path))
    }

    /// Writes a file that is there whole or not at all.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), MatrixError> {
        let path = self.folder.join(name);
        let part = path.with_added_extension("part");
        fs::write(&part, bytes).and_then(|()| fs::rename(&part, &path)).map_err(at(&path))
    }
}

fn key(row: &Row) -> Key {
    (row.attack, row.defence.to_string(), row.image.clone())
}

fn at(path: &Path) -> impl Fn(io::Error) -> MatrixError {
    move |source| MatrixError::Io { path: path.to_owned(), source }
}

fn damaged(path: &Path, error: &serde_json::Error) -> MatrixError {
    MatrixError::Damaged { path: path.to_owned(), problem: error.to_string() }
}

/// The first place where two values differ, with what stands there.
fn difference(place: &str, held: &serde_json::Value, wanted: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    let inner = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    match (held, wanted) {
        (held, wanted) if held == wanted => None,
        (Value::Object(held), Value::Object(wanted)) => wanted
            .iter()
            .find_map(|(key, value)| difference(&inner(key), held.get(key).unwrap_or(&Value::Null), value))
            .or_else(|| Some(format!("{place} has other parts"))),
        _ => Some(format!("{place} was {held} and is now {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laboratory::{
        Verdict,
        matrix::plan::{
            Plan, Settings,
            tests::{pictures, settings},
        },
    };

    fn tried(run: &Run, image: &str) -> Tried {
        let row = Row {
            attack: run.settings.attacks[0],
            defence: run.settings.defences[0],
            image: image.to_owned(),
            verdict: Verdict::Protected,
            reason: None,
            psnr: Some(12.5),
            ssim: Some(0.123_456),
            seconds: 0.25,
            iterations: None,
            pictures: Vec::new(),
        };
        Tried { row, pictures: vec![vec![0.5; 768]] }
    }

    fn run_of(settings: &Settings) -> Run {
        Plan::new(settings, &pictures(&["a", "b"])).unwrap().run
    }

    #[test]
    fn rows_survive_a_cut_off_line_and_lost_pictures() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_of(&settings("label", "none"));
        let mut store = Store::open(folder.path(), &run).unwrap();
        let kept: Vec<Row> =
            ["a", "b"].map(|image| store.keep(image, 16, tried(&run, image)).unwrap().clone()).to_vec();
        drop(store);
        let path = folder.path().join(ROWS);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole, &whole[..whole.len() / 3]].concat()).unwrap();
        let store = Store::open(folder.path(), &run).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole, "what was cut off is gone");
        assert!(kept.iter().all(|row| store.row(&key(row)) == Some(row)));
        drop(store);
        fs::remove_file(folder.path().join(PICTURES).join("b-0.png")).unwrap();
        let store = Store::open(folder.path(), &run).unwrap();
        assert_eq!([0, 1].map(|i: usize| store.row(&key(&kept[i])).is_some()), [true, false]);
    }

    #[test]
    fn another_run_is_refused_and_what_differs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let one = settings("label", "none");
        let mut store = Store::open(folder.path(), &run_of(&one)).unwrap();
        store.keep("a", 16, tried(&run_of(&one), "a")).unwrap();
        drop(store);
        let refusal = |run: &Run| Store::open(folder.path(), run).unwrap_err().to_string();
        let error = refusal(&run_of(&Settings { seed: 7, ..one.clone() }));
        assert!(error.contains("settings.seed was 1 and is now 7") && error.contains("another --out"), "{error}");
        let mut run = run_of(&one);
        run.images[1].sha256 = "0".to_owned();
        assert!(refusal(&run).contains("images was"));
        assert!(Store::open(folder.path(), &run_of(&one)).is_ok());
    }

    #[test]
    fn one_writer_at_a_time_and_no_broken_rows() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_of(&settings("label", "none"));
        let store = Store::open(folder.path(), &run).unwrap();
        let error = Store::open(folder.path(), &run).unwrap_err().to_string();
        assert!(error.contains("another unmask matrix"), "{error}");
        drop(store);
        fs::write(folder.path().join(ROWS), "{}\n").unwrap();
        let error = Store::open(folder.path(), &run).unwrap_err().to_string();
        assert!(error.contains("line 1 is no row") && error.contains("delete that file"), "{error}");
    }
}
