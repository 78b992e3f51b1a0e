//! Runs that are divided into parts, and their reports from `unmask merge`.
#![cfg(unix)]

#[path = "../../../tests/support/schema.rs"]
mod schema;
#[path = "../../../tests/support/skipped.rs"]
mod skipped;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use self::{schema::assert_conforms, skipped::skipped};

const CONFIG: &str = "\
model = \"vit_pico_patch4_16\"
data = \"generated\"
train-slice = \"0..200\"
clients = 2
batch = 4
rounds = 2
evaluate-every = 2
test-pictures = 20
threads = 1
";

const UNMASK: &str = env!("CARGO_BIN_EXE_unmask");

/// A folder in which commands run.
struct Case(TempDir);

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
        Self(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(UNMASK);
        command.current_dir(self.0.path()).args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn succeed(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }

    fn read(&self, path: &str) -> Vec<u8> {
        let path = self.0.path().join(path);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn json(&self, path: &str) -> Value {
        without_times(serde_json::from_slice(&self.read(path)).unwrap())
    }

    /// Asserts that both folders hold the same sweep, byte for byte except for its folder and times.
    fn assert_same_sweep(&self, one: &str, other: &str) {
        for file in ["sweep.html", "sweep.csv"] {
            let [one, other] = [one, other].map(|folder| self.read(&format!("{folder}/{file}")));
            assert!(one == other, "{file}:\n{}\n{}", text(&one), text(&other));
        }
        let [one, other] = [one, other].map(|folder| format!("{folder}/sweep.json"));
        assert_eq!(self.json(&one), self.json(&other));
        assert_conforms(&serde_json::from_slice(&self.read(&one)).unwrap(), "sweep");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value without its folder and times.
fn without_times(value: Value) -> Value {
    const TIMES: [&str; 3] = ["seconds", "threads", "provenance"];
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| !TIMES.contains(&key.as_str()))
            .map(|(key, value)| (key, without_times(value)))
            .collect(),
        Value::Array(values) => values.into_iter().map(without_times).collect(),
        value => value,
    }
}

/// Eight trainings, half of them long. The first of three parts has a short one, then two long ones.
const SWEEP: [&str; 9] = [
    "sweep",
    "--config",
    "config.toml",
    "--vary",
    "defence=none; random-binary:0.5",
    "--vary",
    "rounds=2; 150",
    "--seeds",
    "2",
];

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SWEEP[..], more].concat()
}

/// Parts in any order, one of them killed and one computed twice.
#[test]
fn a_sweep_in_parts_is_the_sweep_in_one_go() {
    let case = Case::new();
    case.succeed(&sweep(&["--out", "whole"]));
    let rows = fs::read_dir(case.0.path().join("whole/rows")).unwrap().count();
    assert_eq!(rows, 8 + 1, "a file for each training, and the lock");

    case.succeed(&sweep(&["--out", "parts", "--part", "3/3"]));
    let mut killed = case.command(&sweep(&["--out", "parts", "--part", "1/3"])).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(killed.stderr.take().unwrap());
    let begun = said.lines().map_while(Result::ok).any(|line| line.contains("case 2 of 3"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(begun, "it had begun the second of its three trainings");
    case.succeed(&sweep(&["--out", "parts", "--part", "2/3"]));
    case.succeed(&sweep(&["--out", "again", "--part", "2/3"]));

    let merge = ["merge", "parts", "again", "--out", "merged"];
    let lacks = case.run(&merge);
    let said = text(&lacks.stderr);
    assert_eq!(lacks.status.code(), Some(1), "{said}");
    assert!(said.contains("part 1/3 is missing, ") && said.contains(" of its 3 cases"), "{said}");
    assert!(said.contains("1 part is missing; compute it, and merge again"), "{said}");
    assert!(!case.0.path().join("merged").exists());
    let command = said.lines().find_map(|line| line.trim().strip_prefix("unmask sweep ")).unwrap();
    let mut shell = Command::new("sh");
    let again = shell.current_dir(case.0.path()).arg("-c").arg(format!("{UNMASK} sweep {command}")).output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    let heard = text(&again.stderr);
    assert!(heard.contains("3 cases, ") && heard.contains(" of them finished before"), "{heard}");

    case.succeed(&merge);
    case.assert_same_sweep("whole", "merged");
    case.succeed(&merge);
    case.assert_same_sweep("whole", "merged");
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let case = Case::new();
    let part = |out: &str, part: &str, more: &[&str]| {
        let own = ["sweep", "--config", "config.toml", "--out", out, "--part", part, "--vary", "batch=2; 4"];
        case.succeed(&[&own, more].concat());
    };
    part("one", "1/2", &[]);
    part("other", "2/2", &["--set", "clients=3"]);
    let refusal = |folders: &[&str]| {
        let refused = case.run(&[&["merge"], folders].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
        text(&refused.stderr)
    };
    let said = refusal(&["one", "other"]);
    assert!(said.contains("settings.config.clients is 2 in the first and 3 in the second"), "{said}");
    assert!(said.contains("one/part-1-of-2") && said.contains("other/part-2-of-2"), "{said}");
    assert!(refusal(&["whole"]).contains("whole"));

    part("same", "2/2", &[]);
    part("twice", "2/2", &[]);
    let row = case.0.path().join("twice/part-2-of-2/rows/00001-seed-1.json");
    let changed = fs::read_to_string(&row).unwrap().replace("\"rounds\":2", "\"rounds\":3");
    fs::write(&row, changed).unwrap();
    let said = refusal(&["one", "same", "twice"]);
    for folder in ["same", "twice"] {
        assert!(said.contains(&format!("{folder}/part-2-of-2/rows/00001-seed-1.json")), "{said}");
    }
    assert!(!case.0.path().join("merged").exists());

    let bad = case.run(&sweep(&["--out", "bad", "--part", "4/3"]));
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("write i/n"), "{}", text(&bad.stderr));
}

/// The rows of a matrix, with the pictures on its page.
#[test]
fn a_matrix_in_parts_is_the_matrix_in_one_go() {
    let case = Case::new();
    let photos = case.0.path().join("photos");
    fs::create_dir(&photos).unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    for name in ["cat.png", "cameraman.jpg"] {
        fs::copy(samples.join(name), photos.join(name)).unwrap();
    }
    let matrix = |more: &[&str]| {
        let own = ["matrix", "--model", "vit_pico_patch4_16", "--images", "photos", "--iterations", "5"];
        let lists = ["--attacks", "embedding,matching-aware,label", "--defences", "none; random-binary:0.5"];
        case.succeed(&[&own[..], &lists, more].concat());
    };
    matrix(&["--out", "whole"]);
    for part in ["2/2", "1/2"] {
        matrix(&["--out", "parts", "--part", part]);
    }
    // The pictures may be missing when parts are merged.
    fs::remove_dir_all(&photos).unwrap();
    case.succeed(&["merge", "parts", "--out", "merged"]);
    let [whole, merged] = ["whole", "merged"].map(|folder| case.json(&format!("{folder}/matrix.json")));
    assert_eq!(whole["rows"].as_array().unwrap().len(), 12);
    assert_eq!(whole, merged);
    let page = text(&case.read("merged/matrix.html"));
    assert_eq!(page.matches("<img").count(), text(&case.read("whole/matrix.html")).matches("<img").count());
    assert!(!page.contains("not yet computed"));
}

/// Experiments whose cases are trainings, matrices, dependent searches or counts, and one with two kinds.
#[test]
fn experiments_in_parts_are_the_experiments_in_one_go() {
    let case = Case::new();
    // The two shortest have a second seed, so that means and intervals are tested too.
    for (name, seeds) in
        [("encrypted", "2"), ("attacks-vit", "1"), ("attacks-cnn", "1"), ("update-ratios", "2"), ("trade-off", "1")]
    {
        let reproduce = |more: &[&str]| {
            let own = ["reproduce", name, "--scale", "tiny", "--cifar10", "nowhere", "--seeds", seeds];
            case.succeed(&[&own, more].concat());
        };
        reproduce(&["--out", "whole"]);
        reproduce(&["--out", "parts", "--part", "2/2"]);
        let lacks = case.run(&["merge", "parts", "--out", "merged"]);
        assert!(text(&lacks.stderr).contains("part 1/2 is missing"), "{name}: {}", text(&lacks.stderr));
        reproduce(&["--out", "parts", "--part", "1/2"]);
        case.succeed(&["merge", "parts", "--out", "merged"]);
        let [whole, merged] = ["whole", "merged"].map(|folder| case.json(&format!("{folder}/{name}/results.json")));
        assert_eq!(whole, merged, "{name}");
        assert!(text(&case.read(&format!("merged/{name}/report.html"))).contains("<svg"), "{name}");
    }
    assert!(text(&case.read("merged/README.md")).contains("update-ratios"));
}

/// Killed when dropped.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// HyperQueue's own server with two workers of one core each; one is killed while it computes a part.
#[test]
fn hyperqueue_computes_parts_though_a_worker_is_killed() {
    let Ok(programs) = env::var("UNMASK_HYPERQUEUE_PROGRAMS") else {
        return skipped("HyperQueue is not there; `cargo xtask test --test parts` fetches it");
    };
    let case = Case::new();
    let python = |arguments: &[&str]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/parts_queue.py");
        let mut command = Command::new(Path::new(&programs).join("python"));
        command.arg("-B").arg(script).args(arguments).current_dir(case.0.path()).stdin(Stdio::null());
        Helper(command.stdout(Stdio::null()).spawn().unwrap())
    };
    let until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let parts = ["1", "2", "3", "4"];
    let job = sweep(&["--out", "parts"]);
    let mut server = python(&[&["server", "queue", "4", UNMASK][..], &job].concat());
    until("the server", &mut || case.0.path().join("queue/hq-current/access.json").exists());
    let mut killed = python(&["worker", "first", "queue"]);
    let begun = |case: &Case| {
        let begun = |part: &&&str| case.0.path().join(format!("parts/part-{part}-of-4/part.json")).exists();
        parts.iter().filter(begun).count()
    };
    until("the first worker's first part", &mut || begun(&case) >= 1);
    let other = python(&["worker", "second", "queue"]);
    until("the second worker's first part", &mut || begun(&case) >= 2);
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    until("the end of the job", &mut || server.0.try_wait().unwrap().is_some());
    assert!(server.0.wait().unwrap().success());
    drop(other);
    case.succeed(&["merge", "parts", "--out", "merged"]);
    case.succeed(&sweep(&["--out", "whole"]));
    case.assert_same_sweep("whole", "merged");
}
