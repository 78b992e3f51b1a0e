//! `unmask relay` and `unmask join` as a user runs them: who gets in, and clients that learn from shared pictures.

#[path = "../../../tests/support/program.rs"]
mod program;

use std::{
    fs,
    io::{Cursor, Read},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use unmask_core::{Architecture, VitPreset};
use unmask_model::weights::{Imported, TensorReader, import_from};
use zip::ZipArchive;

use program::unmask;

/// Under Wine everything takes longer.
const PATIENCE: Duration = Duration::from_secs(if cfg!(windows) { 300 } else { 120 });

/// A running relay with the smallest model; stopped when dropped.
struct Relay {
    child: Child,
    folder: TempDir,
    ready: Value,
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = unmask();
    command.current_dir(folder.path());
    command.args(["relay", "--bind", "127.0.0.1", "--https-port", "0", "--data-dir", "."]);
    if !arguments.contains(&"--http-port") {
        command.args(["--http-port", "0"]);
    }
    command.args(arguments);
    command
}

/// The error of a relay that cannot start.
fn fails(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = command(&folder, arguments).output().unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&stderr).into_owned()
}

impl Relay {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        let arguments = [&["--model", "vit_pico_patch4_16", "--ready-file", "ready.json"][..], arguments].concat();
        let child = command(&folder, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut relay = Self { child, folder, ready: Value::Null };
        relay.ready = relay.until("the room", |relay| {
            fs::read(relay.folder.path().join("ready.json")).ok().and_then(|json| serde_json::from_slice(&json).ok())
        });
        relay
    }

    fn until<T>(&self, what: &str, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(found) = found(self) {
                return found;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("waited in vain for {what}: {:#}", self.room());
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.ready["http"].as_str().unwrap().trim_end_matches('/'))
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.ready["token"].as_str().unwrap())
    }

    fn room(&self) -> Value {
        let request = ureq::get(self.address("/api/room")).header("Authorization", self.bearer());
        let body = request.call().unwrap().body_mut().read_to_string().unwrap();
        serde_json::from_str(&body).unwrap()
    }

    fn control(&self, control: &Value) {
        let request = ureq::post(self.address("/api/control")).header("Authorization", self.bearer());
        request.send(control.to_string()).unwrap();
    }

    /// The room once the model after this round has been measured.
    fn measured(&self, round: u64) -> Value {
        self.until("an evaluation", |relay| {
            let room = relay.room();
            (room["evaluation"]["round"].as_u64() >= Some(round)).then_some(room)
        })
    }
}

/// The teacher's model file has timm's names, and `invert` and other programs read it.
#[test]
fn the_model_in_a_session_is_one_that_others_read() {
    let relay = Relay::start(&["--headless", "1", "--start", "--pace", "0.1", "--attack-seconds", "0"]);
    relay.until("three rounds", |relay| (relay.room()["round"].as_u64()? > 3).then_some(()));
    relay.control(&json!({ "do": "pause" }));
    relay.until("a pause", |relay| (relay.room()["phase"] == "paused").then_some(()));
    let request = ureq::get(relay.address("/api/session.zip")).header("Authorization", relay.bearer());
    let mut archive = ZipArchive::new(Cursor::new(request.call().unwrap().body_mut().read_to_vec().unwrap())).unwrap();
    let mut bytes = Vec::new();
    archive.by_name("model.safetensors").unwrap().read_to_end(&mut bytes).unwrap();

    let architecture = Architecture::from(VitPreset::Pico);
    let file = TensorReader::from_bytes("model.safetensors", &bytes).unwrap();
    let Imported { state, head_replaced, surplus } = import_from(file, architecture, 0).unwrap();
    assert_eq!((head_replaced, surplus), (None, Vec::<String>::new()));
    assert_eq!(state.weights.len(), architecture.layout().len());
}

/// Two robots with skewed shards improve the model within 160 rounds.
#[test]
fn robots_learn_from_their_shards_and_the_projector_sees_it() {
    let relay = Relay::start(&[
        "--headless",
        "2",
        "--start",
        "--train-on",
        "shared",
        "--partition",
        "dirichlet:5",
        "--seats",
        "2",
        "--shard",
        "400",
        "--test-pictures",
        "200",
        "--test-seconds",
        "30",
        "--batch",
        "32",
        "--pace",
        "0.1",
        "--seed",
        "3",
        "--optimiser",
        "adam:0.003",
        "--attack-seconds",
        "0",
    ]);
    let room = relay.measured(160);
    let (data, found) = (&room["data"], &room["evaluation"]);
    assert_eq!(
        (&data["source"], &data["train_on"], &data["seats"]),
        (&json!("generated"), &json!("shared"), &json!(2))
    );
    assert_eq!(found["pictures"], 200);
    let confusion: Vec<u64> = found["confusion"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!((confusion.len(), confusion.iter().sum::<u64>()), (100, 200));
    let right: u64 = (0..10).map(|class| confusion[11 * class]).sum();
    assert_eq!(found["accuracy"].as_f64().unwrap(), right as f64 / 200.0);
    let curve = room["accuracies"].as_array().unwrap();
    let losses: Vec<f64> = curve.iter().map(|point| point["loss"].as_f64().unwrap()).collect();
    // With Adam on skewed shards, the loss of single rounds goes up and down.
    let latest = &losses[losses.len() - 10..];
    let (first, last) = (losses[0], latest.iter().sum::<f64>() / latest.len() as f64);
    eprintln!("held-out loss {first:.3} before, {last:.3} after {} rounds; {right} of 200", found["round"]);
    assert!(curve[0]["round"] == 0 && last < first - 0.15, "{losses:?}");

    // Back to one private picture each: an attack reconstructs it and the robot scores the result.
    relay.control(&json!({ "do": "batch", "samples": 1 }));
    relay.control(&json!({ "do": "attack_budget", "seconds": 20 }));
    relay.control(&json!({ "do": "train_on", "pictures": "private" }));
    relay.until("a score", |relay| {
        let room = relay.room();
        let cards = room["attacks"].as_array()?.iter().filter(|card| card["ssim"].as_f64() > Some(0.9)).count();
        (room["data"]["train_on"] == "private" && cards > 0).then_some(())
    });
    let remark = relay.room()["evaluation"]["remark"].as_str().unwrap_or_default().to_owned();
    assert!(remark.contains("whose classes are not those of generated shapes"), "{remark}");
}

/// A headless client; stopped when dropped.
struct Robot(Child);

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn join(arguments: &[&str]) -> Command {
    let mut command = unmask();
    command.args(["join", "--device", "cpu"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Clients join over HTTP and HTTPS, by link and by PIN. Without either, or with a wrong one, the error helps.
#[test]
fn room_opens_to_its_key_and_to_its_pin() {
    let relay = Relay::start(&[]);
    let ready = |name: &str| relay.ready[name].as_str().unwrap();
    let (http, https, pin) = (ready("http"), ready("https"), ready("pin"));
    let link = format!("{http}#room={}", ready("room_key"));
    let ways = [
        ("Ada", vec![link.as_str()]),
        ("Bob", vec![http, "--pin", pin]),
        ("Eve", vec![https, "--pin", pin, "--insecure"]),
    ];
    let _robots: Vec<Robot> =
        ways.iter().map(|(name, way)| Robot(join(way).args(["--name", name]).spawn().unwrap())).collect();
    for (name, way) in &ways {
        relay.until(name, |relay| {
            let room = relay.room();
            let client = room["clients"].as_array()?.iter().find(|client| client["nickname"] == *name)?.clone();
            assert_eq!(client["may_show"], true, "the sample photographs may always be shown: {way:?}");
            Some(())
        });
    }
    let wrong = format!("{:06}", (pin.parse::<u32>().unwrap() + 1) % 1_000_000);
    let wrong_key = format!("{http}#room={}", "0".repeat(32));
    for (way, part) in [
        (vec![http], "--pin"),
        (vec![wrong_key.as_str()], "--pin"),
        (vec![http, "--pin", &wrong], "not the PIN that the projector shows"),
        (vec![http, "--pin", "12"], "six digits"),
    ] {
        let Output { status, stderr, .. } = join(&way).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stderr.contains(part), "{way:?}: {stderr}");
    }
}

/// Two clients send half of their values under a mask of R = 0.5, and come back to a relay that was killed, whose
/// lesson goes on.
#[test]
fn masked_clients_outlive_a_killed_relay() {
    // Bytes and number of both clients' updates.
    let sent = |room: &Value| {
        let clients = room["clients"].as_array().unwrap();
        let sum = |name: &str| clients.iter().map(|client| client[name].as_u64().unwrap()).sum::<u64>();
        (sum("bytes_sent") as f64, sum("updates") as f64)
    };
    // Waits for `count` rounds with both clients' updates under this defence after round `after`.
    let rounds = |relay: &Relay, defence: &str, after: u64, count: usize| {
        relay.until("rounds of two clients", |relay| {
            let room = relay.room();
            let is_meant = |point: &&Value| {
                point["defence"] == defence && point["updates"] == 2 && point["round"].as_u64() > Some(after)
            };
            (room["losses"].as_array()?.iter().filter(is_meant).count() >= count).then_some(room)
        })
    };
    let mask = "random-binary:0.5";
    let options = ["--start", "--pace", "0.1", "--attack-seconds", "0", "--test-seconds", "0"];
    let mut relay = Relay::start(&options);
    let link = format!("{}#room={}", relay.ready["http"].as_str().unwrap(), relay.ready["room_key"].as_str().unwrap());
    let _robots = ["Ada", "Bob"].map(|name| Robot(join(&[&link, "--name", name]).spawn().unwrap()));
    let plain = sent(&rounds(&relay, "none", 0, 3));
    relay.control(&json!({ "do": "defence", "defence": mask }));
    let first = sent(&rounds(&relay, mask, 0, 1));
    let second = sent(&rounds(&relay, mask, 0, 5));
    let masked = (second.0 - first.0) / (second.1 - first.1);
    let share = masked / (plain.0 / plain.1);
    assert!((0.45..0.55).contains(&share), "{share} of the bytes of an update");

    let port = relay.ready["http"].as_str().unwrap().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let closed = relay.room()["losses"].as_array().unwrap().last().unwrap()["round"].as_u64().unwrap();
    relay.child.kill().unwrap();
    relay.child.wait().unwrap();
    let folder = std::mem::replace(&mut relay.folder, tempfile::tempdir().unwrap());
    drop(relay);
    fs::remove_file(folder.path().join("ready.json")).unwrap();
    let relay = Relay::start_in(folder, &[&["--http-port", &port][..], &options].concat());
    let resumed = relay.ready["resumed"]["round"].as_u64().unwrap_or_else(|| panic!("{:#}", relay.ready));
    assert!(resumed + 1 >= closed, "round {closed} was closed, and {resumed} is on disk");
    rounds(&relay, mask, resumed, 2);
}

#[test]
fn what_cannot_start_says_what_helps() {
    for (arguments, part) in [
        (&["--data", "mnist"][..], "cifar10, generated, or folder:PATH"),
        (&["--data", "folder:nowhere"], "nowhere"),
        (&["--data", "cifar10", "--cifar10", "nowhere"], "unmask data cifar10"),
        (&["--partition", "dirichlet:-1"], "dirichlet:0.5"),
        (&["--train-on", "shared", "--seats", "1000", "--shard", "9999999", "--data", "folder:nowhere"], "nowhere"),
        (&["--train-on", "shared", "--seats", "1", "--shard", "9999999"], "give each client fewer"),
        (&["--cert", "nowhere.pem", "--key", "nowhere.key"], "nowhere.pem"),
        (&["--cert", "nowhere.pem"], "--key"),
        (&["--model", "vgg16"], "unknown model \"vgg16\""),
        (&["--seats", "2000"], "'--seats <N>': 2000 is not in 1..=1000"),
        (&["--batch", "-1"], "-1 is not in 1..=65535"),
        (&["--weights", "nowhere.safetensors"], "write scratch or pretrained"),
        (&["--weights", "pretrained", "--model", "vit_pico_patch4_16"], "pretrained weights"),
    ] {
        let told = fails(arguments);
        assert!(told.contains(part), "{arguments:?}: {told}");
    }
}

/// A script that calls the program without arguments gets help, also on Windows, where a double click opens a room.
#[test]
fn without_arguments_and_without_a_window_there_is_help() {
    let Output { status, stderr, .. } = unmask().stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(2) && stderr.contains("Usage: unmask"), "{stderr}");
}
