//! `unmask train` as a user runs it.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const CONFIG: &str = "\
model = \"vit_pico_patch4_16\"
data = \"generated\"
train-slice = \"0..200\"
clients = 2
batch = 4
rounds = 6
defence = \"random-binary:0.5\"
evaluate-every = 3
test-pictures = 20
checkpoint-every = 2
";

fn unmask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
    command.stdin(Stdio::null());
    command
}

/// Runs `unmask train` with the config in `folder`.
fn train(folder: &Path, arguments: &[&str]) -> Output {
    fs::write(folder.join("config.toml"), CONFIG).unwrap();
    unmask().current_dir(folder).args(["train", "--config", "config.toml"]).args(arguments).output().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn model(folder: &Path, run: &str) -> Vec<u8> {
    fs::read(folder.join(run).join("model.safetensors")).unwrap()
}

#[test]
fn trains_and_says_where_the_results_are() {
    let folder = tempfile::tempdir().unwrap();
    let output = train(folder.path(), &["--threads", "2"]);
    assert!(output.status.success(), "{}", error(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("6 rounds, ") && said.contains("% of the test pictures right in "), "{said}");
    for name in ["model.safetensors", "metrics.csv", "loss.svg", "accuracy.svg", "run.json"] {
        assert!(folder.path().join("runs/config").join(name).is_file(), "{name}");
    }
    // The progress lines printed where no bar can be drawn.
    let said = error(&output);
    assert!(
        said.contains("vit_pico_patch4_16 on generated (200 pictures), 2 clients, 6 rounds, fedsgd, adam:0.001"),
        "{said}"
    );
    assert!(said.contains("round 3, loss ") && said.contains("left"), "{said}");
    let again = train(folder.path(), &["--threads", "1", "--out", "again"]);
    assert!(again.status.success());
    let averaged = ["--out", "averaged", "--set", "rounds=1", "--set", "clients=1", "--set", "train-slice=0..8"];
    let averaged = train(folder.path(), &[&averaged[..], &["--set", "rule=fedavg:epochs=1,rate=0.05"]].concat());
    let said = error(&averaged);
    assert!(said.contains("(8 pictures), 1 client, 1 round, fedavg:epochs=1,rate=0.05, defence"), "{said}");
    assert_eq!(model(folder.path(), "runs/config"), model(folder.path(), "again"), "threads changed the weights");
}

/// Weak noise is found out, strong noise is not, and no bound exceeds what the accountant allows.
#[test]
fn noise_is_put_to_the_test() {
    let folder = tempfile::tempdir().unwrap();
    for (epsilon, right) in [("1000", 60..=60), ("0.1", 15..=45)] {
        let noise = format!("defence=gaussian:eps={epsilon},delta=1e-5,clip=1");
        let run = ["--set", "rounds=2", "--set", "batch=1", "--set", &noise, "--canaries", "60", "--out", epsilon];
        let output = train(folder.path(), &run);
        assert!(output.status.success(), "{}", error(&output));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(" of 60 trials, so epsilon of one round is at least "), "{said}");
        let record = fs::read(folder.path().join(epsilon).join("run.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        let tried = |key: &str| record["tried_noise"][key].as_f64().unwrap();
        assert!(right.contains(&(tried("right") as u32)) && tried("trials") == 60.0, "{record}");
        assert!(record["test_accuracy"].is_f64(), "{record}");
    }
    let averaged = ["--set", "rounds=1", "--set", "rule=fedavg:epochs=1,rate=0.05", "--set", "defence=gaussian"];
    let output = train(folder.path(), &[&averaged[..], &["--set", "train-slice=0..8"]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains("FedAvg sends weights"), "{}", error(&output));
}

#[test]
fn a_killed_run_goes_on_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    assert!(train(folder.path(), &["--out", "whole", "--set", "rounds=400"]).status.success());
    let arguments = ["train", "--config", "config.toml", "--out", "killed", "--set", "rounds=400"];
    let mut running = unmask().current_dir(folder.path()).args(arguments).stderr(Stdio::null()).spawn().unwrap();
    let checkpoints = folder.path().join("killed/checkpoints");
    let begin = Instant::now();
    while fs::read_dir(&checkpoints).map_or(0, |files| files.filter_map(Result::ok).count()) < 2 {
        assert!(begin.elapsed() < Duration::from_secs(120) && running.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(2));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let resumed = train(folder.path(), &["--out", "killed", "--set", "rounds=400", "--resume"]);
    assert!(resumed.status.success(), "{}", error(&resumed));
    assert!(error(&resumed).contains("continuing after round "), "{}", error(&resumed));
    assert_eq!(model(folder.path(), "whole"), model(folder.path(), "killed"));
}

/// A machine that shuts down sends SIGTERM first.
#[cfg(unix)]
#[test]
fn a_run_that_is_asked_to_end_writes_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
    let mut command = unmask();
    command.current_dir(folder.path()).args(["train", "--config", "config.toml", "--out", "run"]);
    command.args(["--set", "rounds=100000", "--set", "evaluate-every=0", "--set", "checkpoint-every=100000"]);
    let running = command.stderr(Stdio::piped()).spawn().unwrap();
    let metrics = folder.path().join("run/metrics.csv");
    let begin = Instant::now();
    while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 5 {
        assert!(begin.elapsed() < Duration::from_secs(120));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap().success());
    let output = running.wait_with_output().unwrap();
    assert!(error(&output).contains("--resume continues from there"), "{}", error(&output));
    assert_eq!(fs::read_dir(folder.path().join("run/checkpoints")).unwrap().count(), 1);
}

/// Before the first checkpoint, `--resume` has nothing to continue from, and a new start is not blocked.
#[cfg(unix)]
#[test]
fn no_room_for_the_first_checkpoint_advises_no_resume() {
    let folder = tempfile::tempdir().unwrap();
    assert!(train(folder.path(), &["--out", "whole"]).status.success());
    let largest = fs::read_dir(folder.path().join("whole/checkpoints")).unwrap();
    let largest = largest.map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap();
    let script =
        format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" train --config config.toml --out run", largest / 1024 / 2);
    let mut full = Command::new("bash");
    full.current_dir(folder.path()).args(["-c", &script, env!("CARGO_BIN_EXE_unmask")]);
    let full = full.output().unwrap();
    assert_eq!(full.status.code(), Some(1), "{}", error(&full));
    let said = error(&full);
    assert!(said.contains("could not be written") && said.contains("start again"), "{said}");
    assert!(!said.contains("--resume"), "{said}");
    let again = train(folder.path(), &["--out", "run"]);
    assert!(again.status.success(), "{}", error(&again));
    assert_eq!(model(folder.path(), "whole"), model(folder.path(), "run"));
}

/// A limit on file sizes simulates a full disk: in both cases a write fails half way.
#[cfg(unix)]
#[test]
fn no_room_for_a_checkpoint_costs_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    assert!(train(folder.path(), &["--out", "whole"]).status.success());
    assert!(train(folder.path(), &["--out", "run", "--set", "rounds=3"]).status.success());
    let kept = folder.path().join("run/checkpoints/round-00000003.ckpt");
    let before = fs::read(&kept).unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec \"$0\" train --config config.toml --out run --resume",
        before.len() / 1024 / 2
    );
    let mut full = Command::new("bash");
    full.current_dir(folder.path()).args(["-c", &script, env!("CARGO_BIN_EXE_unmask")]);
    let full = full.output().unwrap();
    assert_eq!(full.status.code(), Some(1), "{}", error(&full));
    let said = error(&full);
    assert!(
        said.contains("the checkpoint of round 4 could not be written to run/checkpoints (File too large"),
        "{said}"
    );
    assert!(said.contains("that of round 3 is whole; make room there and go on with --resume"), "{said}");
    assert_eq!(fs::read(&kept).unwrap(), before);
    let files: Vec<_> = fs::read_dir(kept.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.iter().all(|name| name.to_string_lossy().ends_with(".ckpt")), "{files:?}");
    let resumed = train(folder.path(), &["--out", "run", "--resume"]);
    assert!(resumed.status.success(), "{}", error(&resumed));
    assert_eq!(model(folder.path(), "whole"), model(folder.path(), "run"));
}

#[test]
fn what_cannot_work_is_said_in_one_line_and_with_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (&["--set", "clinets=3"][..], "config.toml: --set: there is no key \"clinets\"; did you mean \"clients\"?"),
        (&["--set", "batch=0"], "config.toml: a batch of 0 samples trains nothing; give at least 1"),
        (&["--set", "data=folder:nowhere"], "nowhere"),
        (&["--set", "start=nothing.safetensors"], "nothing.safetensors"),
        (&["--set", "data=cifar10", "--set", "data-dir=nowhere"], "`unmask data cifar10` fetches the files"),
        (&["--set", "data=cifar10", "--cifar10", "nope"], "there is no folder nope with CIFAR-10 in it"),
        (&["--set", "train-slice=0..999999"], "reaches beyond the 10000 training pictures"),
        (&["--set", "train-slice=0..3", "--set", "clients=4"], "at most 3 can share them"),
        (&["--resume", "--out", "empty"], "empty/checkpoints holds no checkpoint to go on from"),
    ] {
        let output = train(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", error(&output));
        let last = error(&output).lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("unmask: ") && last.contains(expected), "{arguments:?}: {last}");
        assert_eq!(error(&output).lines().count(), 1, "a refused run announces nothing: {}", error(&output));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the config");
    let output = unmask().arg("train").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("`unmask train --config my.toml` trains by it"), "{}", error(&output));
    fs::write(folder.path().join("bad.toml"), "rounds = 3\nclients = \"five\"\n").unwrap();
    let output = unmask().current_dir(folder.path()).args(["train", "--config", "bad.toml"]).output().unwrap();
    let expected =
        "bad.toml: line 2: clients: \"five\" will not do; give a whole number from 1 to 10000, such as clients = 5";
    assert!(error(&output).contains(expected), "{}", error(&output));
    let output = unmask().current_dir(folder.path()).args(["train", "--config", "none.toml"]).output().unwrap();
    assert!(error(&output).contains("none.toml cannot be read"), "{}", error(&output));
}

#[test]
fn the_example_is_a_config() {
    let folder = tempfile::tempdir().unwrap();
    let example = unmask().args(["train", "--example"]).output().unwrap();
    assert!(example.status.success());
    fs::write(folder.path().join("example.toml"), &example.stdout).unwrap();
    let small = ["data=generated", "model=vit_pico_patch4_16", "rounds=1", "test-pictures=4", "batch=2"];
    let small = small.iter().flat_map(|set| ["--set", set]);
    let run =
        unmask().current_dir(folder.path()).args(["train", "--config", "example.toml"]).args(small).output().unwrap();
    assert!(run.status.success(), "{}", error(&run));
}

/// Every config in the repository is valid.
#[test]
fn configs_of_the_repository_fit_together() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut seen = 0;
    for file in fs::read_dir(configs).unwrap() {
        let path = file.unwrap().path();
        let config = unmask_simulation::Config::read(&fs::read_to_string(&path).unwrap(), &[]);
        config.unwrap().validate().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        seen += 1;
    }
    assert!(seen > 1);
}
