//! `unmask matrix` as a user runs it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use super::schema;

/// A folder with pictures in which the command runs.
struct Case {
    folder: TempDir,
}

impl Case {
    fn new(photographs: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("photos")).unwrap();
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
        for name in photographs {
            fs::copy(samples.join(name), folder.path().join("photos").join(name)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
        command.current_dir(self.folder.path());
        command.args(["matrix", "--model", "vit_pico_patch4_16", "--images", "photos", "--out", "out"]);
        command.args(arguments).output().unwrap()
    }

    /// Each finished row as stored, including its time.
    fn stored_rows(&self) -> BTreeMap<PathBuf, String> {
        let files = fs::read_dir(self.path("out/rows")).unwrap().map(|entry| entry.unwrap().path());
        let rows = files.filter(|path| path.extension().is_some());
        rows.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
    }

    fn rows(&self) -> Vec<Value> {
        let table: Value = serde_json::from_slice(&fs::read(self.path("out/matrix.json")).unwrap()).unwrap();
        table["rows"].as_array().unwrap().clone()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Attackers of the papers and better ones, both kinds of lists, and a file that is not a picture.
#[test]
fn one_command_makes_tables_and_a_page() {
    let case = Case::new(&["cat.png", "cameraman.jpg"]);
    fs::write(case.path("photos/broken.png"), "GIF89a").unwrap();
    let arguments = [
        "--attacks",
        "embedding,matching-aware",
        "--attacks",
        "label",
        "--defences",
        "none; random-binary:pos=0,0.5",
        "--defences",
        "encrypted:keyed",
        "--iterations",
        "5",
    ];
    let output = case.run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("broken.png is left out"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("18 rows"), "{}", text(&output.stdout));
    let rows = case.rows();
    assert_eq!(rows.len(), 3 * 3 * 2);
    let seen = |row: &&Value| row["attack"] == "embedding" && row["defence"] == "none";
    let seen: Vec<f64> = rows.iter().filter(seen).map(|row| row["ssim"].as_f64().unwrap()).collect();
    assert!(seen.len() == 2 && seen.iter().all(|&ssim| ssim > 0.95), "{seen:?}");
    let page = fs::read_to_string(case.path("out/matrix.html")).unwrap();
    assert!(page.contains("cameraman") && page.contains("random-binary:pos=0,0.5"));
    assert_eq!(fs::read_to_string(case.path("out/matrix.csv")).unwrap().lines().count(), 19);

    let before = case.stored_rows();
    assert_eq!(before.len(), 18);
    assert!(case.run(&arguments).status.success());
    assert_eq!(case.stored_rows(), before, "nothing is computed twice");
}

/// A matrix records the build and the device, not the folder in which the command ran.
#[test]
fn a_matrix_says_which_build_computed_it() {
    let case = Case::new(&["cat.png"]);
    let arguments = ["--attacks", "label", "--defences", "none", "--seeds", "2", "--threads", "2"];
    let output = case.run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("2 rows: 2 recognisable"), "{}", text(&output.stdout));
    let table: Value = serde_json::from_slice(&fs::read(case.path("out/matrix.json")).unwrap()).unwrap();
    schema::assert_conforms(&table, "matrix");
    let version = Command::new(env!("CARGO_BIN_EXE_unmask")).arg("--version").output().unwrap();
    let version = text(&version.stdout);
    let commit = table["run"]["commit"].as_str().map(|commit| format!("({commit})"));
    assert!(commit.is_none_or(|commit| version.contains(&commit)), "{version}: {table}");
    assert_eq!((&table["run"]["device"], &table["threads"]), (&"CPU".into(), &2.into()));
}

/// By default: every kind of defence, and every attack that has something to work on.
#[test]
fn defaults_cover_every_kind() {
    let case = Case::new(&["cat.png"]);
    let output = case.run(&["--iterations", "2", "--rounds", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = case.rows();
    let has = |key: &str, value: &str| rows.iter().any(|row| row[key].as_str().unwrap().starts_with(value));
    for defence in ["none", "random-binary", "fixed-position", "gaussian", "encrypted"] {
        assert!(has("defence", defence), "{defence}");
    }
    for attack in ["embedding", "rounds", "matching", "inverting-gradients", "jigsaw", "known-start", "membership"] {
        assert!(has("attack", attack), "{attack}");
    }
    assert!(!has("attack", "april"), "this model has no April block");
}

#[test]
fn bad_input_exits_with_2_and_says_what_to_do() {
    let case = Case::new(&["cat.png", "coffee.png", "rocket.png"]);
    for (arguments, says) in [
        (["--attacks", "embedding,magic", "--seed", "1"], "unknown attack \"magic\""),
        (["--defences", "none;masks", "--seed", "1"], "unknown defence \"masks\""),
        (["--attacks", "label,label", "--seed", "1"], "the attack label is there twice"),
        (["--attacks", "label", "--batch", "2"], "3 pictures do not make batches of 2"),
        (["--attacks", "label", "--rounds", "0"], "--rounds is 0"),
        (["--attacks", "label", "--rule", "fedprox"], "unknown rule \"fedprox\""),
        (["--attacks", "label", "--seeds", "0"], "0 seeds give no numbers"),
        (["--attacks", "label", "--threads", "0"], "0 threads compute nothing"),
        (["--attacks", "label", "--device", "tpu"], "unknown device \"tpu\"; the devices are cpu and gpu"),
    ] {
        let output = case.run(&arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(says), "{message}");
    }
    let empty = Case::new(&[]).run(&["--attacks", "label"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("no pictures in photos"), "{}", text(&empty.stderr));

    assert!(case.run(&["--attacks", "label", "--defences", "none"]).status.success());
    let other = case.run(&["--attacks", "label", "--defences", "none", "--seed", "2"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("settings.seed was 1 and is now 2"), "{}", text(&other.stderr));
}
