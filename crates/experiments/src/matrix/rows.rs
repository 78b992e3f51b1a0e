//! The folder of a matrix: finished rows with their pictures, and a record of their run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use unmask_data::{Picture, encode_png};

use super::{
    ExperimentError, MatrixRow,
    cell::ComputedRow,
    plan::{Key, RunRecord},
};
use crate::store::{Store, at, write};

/// Folder of the reconstructions, inside the matrix's.
pub(crate) const PICTURES: &str = "pictures";

/// Rows on disk, used by one process at a time. Its threads write different rows.
#[derive(Debug)]
pub(super) struct Rows {
    folder: PathBuf,
    store: Store,
}

impl Rows {
    pub(super) fn open(folder: &Path, run: &RunRecord) -> Result<Self, ExperimentError> {
        Ok(Self { folder: folder.to_owned(), store: Store::of_run(folder, run)? })
    }

    /// Returns a finished row, or `None` if one of its pictures is missing, so that it is computed again.
    pub(super) fn get(&self, name: &str, key: &Key) -> Result<Option<MatrixRow>, ExperimentError> {
        let row: Option<MatrixRow> = self.store.get(name, key)?;
        let is_there = |name: &String| self.folder.join(PICTURES).join(name).is_file();
        Ok(row.filter(|row| row.pictures.iter().all(is_there)))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.store.file(name)
    }

    /// Saves a row after its pictures, so that a row always has its pictures.
    pub(super) fn put(
        &self,
        name: &str,
        key: &Key,
        side: usize,
        computed: ComputedRow,
    ) -> Result<MatrixRow, ExperimentError> {
        let ComputedRow { mut row, pictures } = computed;
        for (index, picture) in pictures.iter().enumerate() {
            let file = format!("{name}-{index}.png");
            self.save_picture(&file, side, picture)?;
            row.pictures.push(file);
        }
        self.store.put(name, key, &row)?;
        Ok(row)
    }

    /// Saves a picture `[side, side, 3]` in [0, 1].
    pub(super) fn save_picture(&self, name: &str, side: usize, picture: &[f32]) -> Result<(), ExperimentError> {
        let encode = |reason: String| ExperimentError::Encode { what: name.to_owned(), reason };
        let picture = Picture::from_hwc(side, side, picture).map_err(|error| encode(error.to_string()))?;
        let bytes = encode_png(&picture).map_err(|error| encode(error.to_string()))?;
        write(&self.folder.join(PICTURES).join(name), &bytes)
    }

    pub(super) fn picture(&self, name: &str) -> Result<Vec<u8>, ExperimentError> {
        let path = self.folder.join(PICTURES).join(name);
        fs::read(&path).map_err(at(&path))
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ExperimentError> {
        write(&self.folder.join(name), bytes)
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Defence, ThreatModel, Verdict};
    use unmask_inversion::InferenceAttack;

    use super::*;
    use crate::matrix::plan::{
        MatrixSettings,
        tests::{plan, settings},
    };
    use crate::store::{ROWS, RUN};

    fn computed(run: &RunRecord, image: &str) -> ComputedRow {
        let row = MatrixRow {
            attack: run.settings.attacks[0],
            defence: run.settings.defences[0],
            threat: ThreatModel::Honest,
            image: image.to_owned(),
            seed: 1,
            verdict: Verdict::CannotTell("the search has not converged".to_owned()),
            has_nothing_to_solve: false,
            reason: None,
            psnr: Some(12.5),
            ssim: Some(0.123_456),
            misfit: Some(0.25),
            seconds: 0.25,
            iterations: None,
            pictures: Vec::new(),
        };
        ComputedRow { row, pictures: vec![vec![0.5; 768]] }
    }

    fn run_of(settings: &MatrixSettings) -> RunRecord {
        plan(settings, &["a", "b"]).unwrap().run
    }

    fn key(image: &str) -> Key {
        (InferenceAttack::Labels, Defence::None, ThreatModel::Honest, image.to_owned(), 1)
    }

    #[test]
    fn rows_survive_a_cut_off_file_and_lost_pictures() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_of(&settings("label", "none"));
        let rows = Rows::open(folder.path(), &run).unwrap();
        let put = |image: &str| rows.put(image, &key(image), 16, computed(&run, image)).unwrap();
        let kept = ["a", "b"].map(put);
        drop(rows);
        // An interrupted write leaves a temporary file.
        let whole = fs::read(folder.path().join(ROWS).join("a.json")).unwrap();
        fs::write(folder.path().join(ROWS).join(".c.json-x"), &whole[..whole.len() / 3]).unwrap();
        let rows = Rows::open(folder.path(), &run).unwrap();
        assert!(kept.iter().all(|row| rows.get(&row.image, &key(&row.image)).unwrap().as_ref() == Some(row)));
        assert_eq!(rows.get("a", &key("b")).unwrap(), None, "the row of another picture");
        fs::remove_file(folder.path().join(PICTURES).join("b-0.png")).unwrap();
        assert_eq!(["a", "b", "c"].map(|image| rows.get(image, &key(image)).unwrap().is_some()), [true, false, false]);
    }

    #[test]
    fn another_run_is_refused_and_what_differs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let one = settings("label", "none");
        let rows = Rows::open(folder.path(), &run_of(&one)).unwrap();
        rows.put("a", &key("a"), 16, computed(&run_of(&one), "a")).unwrap();
        drop(rows);
        let refusal = |run: &RunRecord| Rows::open(folder.path(), run).unwrap_err().to_string();
        let error = refusal(&run_of(&MatrixSettings { seed: 7, ..one.clone() }));
        assert!(error.contains("settings.seed was 1 and is now 7") && error.contains("another --out"), "{error}");
        let mut run = run_of(&one);
        run.build.commit = Some("abd".to_owned());
        assert!(refusal(&run).contains("commit was \"abc\" and is now \"abd\""));
        let mut run = run_of(&one);
        run.images[1].sha256 = "0".to_owned();
        assert!(refusal(&run).contains("images[1].sha256 was"));
        assert!(Rows::open(folder.path(), &run_of(&one)).is_ok());
        fs::remove_file(folder.path().join(RUN)).unwrap();
        assert!(refusal(&run_of(&one)).contains("run.json is missing"));
    }
}
