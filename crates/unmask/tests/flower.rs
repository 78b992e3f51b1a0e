//! Rooms and native clients in a Flower federation, with a real SuperLink, its own FedAvg and real relays.
#![cfg(target_os = "linux")]

#[path = "../../../tests/support/skipped.rs"]
mod skipped;
#[path = "../../../tests/support/superlink.rs"]
mod superlink;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;
use unmask_core::VitPreset;
use unmask_model::weights::TensorFile;

use self::{
    skipped::skipped,
    superlink::{SuperLink, quoted, tail},
};

const PICO: &str = "vit_pico_patch4_16";
/// The relay's log message after the SuperLink has accepted it.
const IS_NODE: &str = "the room is a node of a federation";

/// Held by each test, because two SuperLinks would slow each other down.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A relay or a client; killed when dropped.
struct Member {
    child: Child,
    folder: PathBuf,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Member {
    fn start(link: &SuperLink, name: &str, arguments: &[&str]) -> Self {
        let folder = link.folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_unmask"))
            .args(arguments)
            .current_dir(&folder)
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Starts a room with two headless clients, in which only the federation starts rounds, and waits until it is a
    /// node. After a kill this takes a minute, during which the SuperLink counts the old node as connected.
    fn relay(link: &SuperLink, name: &str, key: &Path, rounds: &str) -> Self {
        Self::relay_with(link, name, key, rounds, &["--headless", "2"])
    }

    /// Like [`relay`](Self::relay), with other arguments instead of the two clients.
    fn relay_with(link: &SuperLink, name: &str, key: &Path, rounds: &str, more: &[&str]) -> Self {
        let url = link.url();
        let ready = link.folder().join(name).join("ready.json");
        let _ = fs::remove_file(&ready);
        let log = fs::read_to_string(link.folder().join(name).join("log")).unwrap_or_default();
        let before = log.matches(IS_NODE).count();
        let own = [
            "relay",
            "--bind",
            "127.0.0.1",
            "--http-port",
            "0",
            "--https-port",
            "0",
            "--data-dir",
            ".",
            "--no-journal",
            "--ready-file",
            "ready.json",
            "--model",
            PICO,
            "--attack-seconds",
            "0",
            "--pace",
            "0.2",
            "--flower",
            &url,
            "--flower-key",
            key.to_str().unwrap(),
            "--flower-rounds",
            rounds,
        ];
        let relay = Self::start(link, name, &[&own, more].concat());
        link.until("the room", || fs::metadata(&ready).ok());
        relay.says(link, IS_NODE, before + 1);
        relay
    }

    /// Starts a client without a room, on the pictures in a folder.
    fn client(link: &SuperLink, name: &str, pictures: &Path, arguments: &[&str]) -> Self {
        let url = link.url();
        let own = ["join", "--flower", &url, "--images", pictures.to_str().unwrap(), "--device", "cpu"];
        Self::start(link, name, &[&own, arguments].concat())
    }

    /// Flower's number of the node, from the relay's log.
    fn node(&self) -> String {
        let said = self.said();
        let line = said.lines().rfind(|line| line.contains(IS_NODE)).expect("it is a node");
        let number = line.split("node=").nth(1).expect("a number");
        number.chars().take_while(char::is_ascii_digit).collect()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits until the log contains `what` this many times.
    fn says(&self, link: &SuperLink, what: &str, times: usize) {
        link.until(what, || {
            let said = self.said();
            (said.matches(what).count() >= times).then_some(())
        });
    }

    /// The URL of a path on the relay, and the teacher's token.
    fn teacher(&self, path: &str) -> Option<(String, String)> {
        let ready: Value = serde_json::from_slice(&fs::read(self.folder.join("ready.json")).ok()?).ok()?;
        let (port, token) = (ready["http"].as_str()?, ready["token"].as_str()?);
        let port = port.rsplit(':').next()?.trim_end_matches('/');
        Some((format!("http://127.0.0.1:{port}{path}"), format!("Bearer {token}")))
    }

    /// `GET /api/room` of a relay, as its teacher.
    fn room(&self) -> Option<Value> {
        let (address, teacher) = self.teacher("/api/room")?;
        let request = ureq::get(address).header("Authorization", teacher);
        serde_json::from_str(&request.call().ok()?.body_mut().read_to_string().ok()?).ok()
    }

    /// `POST /api/control` of a relay, as its teacher.
    fn control(&self, control: &str) {
        let (address, teacher) = self.teacher("/api/control").expect("a relay");
        let request = ureq::post(address).header("Authorization", teacher).header("Content-Type", "application/json");
        request.send(control).unwrap_or_else(|error| panic!("{control}: {error}"));
    }

    /// Asks the process to stop, and waits until it has left the SuperLink.
    fn ends(mut self, link: &SuperLink) {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        link.until("the end of a member", || self.child.try_wait().unwrap());
    }
}

type Arrays = BTreeMap<String, Vec<f32>>;

fn read(path: &Path) -> Arrays {
    let mut reader = TensorFile::from(path.to_owned()).open().unwrap();
    let names = reader.names();
    names.into_iter().map(|name| (name.clone(), reader.read::<f32>(&name).unwrap().values)).collect()
}

/// An answer of one node in one round.
struct Sent {
    arrays: Arrays,
    masks: Option<Arrays>,
    examples: f64,
}

/// The answers that the strategy received in this round, by node.
fn received(folder: &Path, round: usize) -> BTreeMap<String, Sent> {
    let folder = folder.join(format!("round-{round}"));
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(node) = name.strip_prefix("node-").and_then(|name| name.strip_suffix(".json")) else { continue };
        let values: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        if !values["error"].is_null() {
            continue;
        }
        let file = |end: &str| folder.join(format!("node-{node}{end}"));
        let masks = file(".mask.safetensors");
        nodes.insert(
            node.to_owned(),
            Sent {
                arrays: read(&file(".safetensors")),
                masks: masks.exists().then(|| read(&masks)),
                examples: values["num-examples"].as_f64().unwrap(),
            },
        );
    }
    nodes
}

/// The mean as NumPy computes it: each factor is rounded to f32, then the products are added. With two nodes, their
/// order does not change the result.
fn mean(nodes: &BTreeMap<String, Sent>) -> Arrays {
    let total: f64 = nodes.values().map(|sent| sent.examples).sum();
    let mut means = Arrays::new();
    for sent in nodes.values() {
        let factor = (sent.examples / total) as f32;
        for (name, values) in &sent.arrays {
            match means.get_mut(name) {
                None => drop(means.insert(name.clone(), values.iter().map(|value| value * factor).collect())),
                Some(sums) => sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * factor),
            }
        }
    }
    means
}

struct Runs<'a> {
    link: &'a SuperLink,
    start: PathBuf,
}

impl Runs<'_> {
    fn settings(&self, name: &str, more: &str) -> (PathBuf, PathBuf, String) {
        let folder = self.link.folder().join(name);
        let (out, received) = (folder.join("final.safetensors"), folder.join("received"));
        let settings =
            format!("initial={} out={} received={} {more}", quoted(&self.start), quoted(&out), quoted(&received));
        (out, received, settings)
    }

    /// Runs the app to its end. Returns the final arrays and the folder of the answers.
    fn run(&self, name: &str, more: &str) -> (Arrays, PathBuf) {
        let (out, received, settings) = self.settings(name, more);
        let said = self.link.run(name, &settings).wait(self.link);
        assert!(out.exists(), "{}\n{}", tail(&said), tail(&self.link.said()));
        (read(&out), received)
    }
}

#[test]
fn rooms_are_averaged_exactly_and_one_that_is_killed_is_missed_by_nobody() {
    let _turn = turn();
    let link = match SuperLink::open() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let (one, other) = (link.key("one"), link.key("other"));
    let first = Member::relay(&link, "first", &one.private, "1");
    let second = Member::relay(&link, "second", &other.private, "2");
    let runs = Runs { link: &link, start: link.start_weights(VitPreset::Pico.into()) };

    // Three rounds of an unmodified FedAvg.
    let (end, folder) = runs.run("mean", "strategy=\"fedavg\" num-server-rounds=3 min-nodes=2");
    let mut global = read(&runs.start);
    for round in 1..=3 {
        assert_eq!(read(&folder.join(format!("round-{round}/global.safetensors"))), global, "round {round}");
        let nodes = received(&folder, round);
        assert_eq!(nodes.len(), 2, "round {round}");
        assert!(nodes.values().all(|sent| sent.examples > 0.0 && sent.masks.is_none()));
        let next = mean(&nodes);
        assert!(next != global, "round {round} trained nothing");
        global = next;
    }
    assert_eq!(end, global);
    let both: Vec<String> = received(&folder, 1).into_keys().collect();
    let survivor = first.node();

    // The second room starts a hundred of its own rounds and is killed in the middle of them.
    second.ends(&link);
    let second = Member::relay(&link, "second", &other.private, "100");
    let (out, folder, settings) =
        runs.settings("killed", "strategy=\"fedavg\" num-server-rounds=2 min-nodes=1 round-timeout=20.0");
    let run = link.run("killed", &settings);
    link.until("a round of the second room", || {
        let room = second.room()?;
        room["losses"].as_array().filter(|losses| !losses.is_empty()).map(drop)
    });
    drop(second);
    let said = run.wait(&link);
    assert!(out.exists(), "{}\n{}", tail(&said), tail(&link.said()));
    let (once, twice) = (received(&folder, 1), received(&folder, 2));
    for nodes in [&once, &twice] {
        assert_eq!(nodes.len(), 1, "{}", tail(&said));
        assert_eq!(nodes.keys().next(), Some(&survivor));
    }
    assert_eq!(read(&out), mean(&twice));

    // After a restart it is the same node.
    let second = Member::relay(&link, "second", &other.private, "1");
    let (end, folder) = runs.run("again", "strategy=\"fedavg\" num-server-rounds=1 min-nodes=2");
    let nodes = received(&folder, 1);
    assert_eq!(nodes.keys().cloned().collect::<Vec<_>>(), both);
    assert_eq!(end, mean(&nodes));
    drop((first, second));
}

/// A room on shared pictures and a client with a shard report their accuracy on the pictures that they hold back.
#[test]
fn who_holds_pictures_back_is_asked_for_accuracy() {
    const SHARD: &[&str] = &["--data", "generated", "--shard", "1/50"];
    let _turn = turn();
    let link = match SuperLink::open() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let shared = "--headless 2 --data generated --train-on shared --shard 8 --test-pictures 50 --batch 4";
    let shared: Vec<&str> = shared.split(' ').collect();
    let key = link.key("room");
    let room = Member::relay_with(&link, "room", &key.private, "2", &shared);
    let url = link.url();
    let own = ["join", "--flower", &url, "--model", PICO, "--device", "cpu"];
    let client = Member::start(&link, "client", &[&own, SHARD].concat());
    client.says(&link, "in the federation of", 1);

    let runs = Runs { link: &link, start: link.start_weights(VitPreset::Pico.into()) };
    let (out, folder, settings) =
        runs.settings("asked", "strategy=\"fedavg\" num-server-rounds=1 min-nodes=2 evaluate=true");
    let said = link.run("asked", &settings).wait(&link);
    assert!(out.exists(), "{}", tail(&said));
    let nodes = received(&folder, 1);
    // Two rounds of two clients with four pictures each.
    assert_eq!(nodes[&room.node()].examples, 16.0);
    let trained = client.said();
    let samples = trained.split("samples=").nth(1).and_then(|rest| rest.split(' ').next()).expect("what it trained on");
    let of_client = nodes.iter().find(|(node, _)| **node != room.node()).map(|(_, sent)| sent.examples);
    assert_eq!(of_client, samples.parse().ok(), "{trained}");
    assert!(said.contains("aggregate_evaluate: Received 2 results and 0 failures"), "{}", tail(&said));
    let asked = said.split("Aggregated ClientApp-side Evaluate Metrics").nth(1).expect("what the nodes said");
    let accuracy = asked.split("'accuracy': '").nth(1).and_then(|rest| rest.split('\'').next()).expect("an accuracy");
    assert!((0.0..=1.0).contains(&accuracy.parse::<f64>().unwrap()), "{accuracy}");
}

/// The class's lesson outlives the federation: the room trains on its own, and reconnects when its SuperLink is back.
#[test]
fn a_room_outlives_its_superlink_and_works_for_the_next_one() {
    let _turn = turn();
    let link = match SuperLink::open() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let key = link.key("room");
    let room = Member::relay(&link, "room", &key.private, "1");
    let runs = Runs { link: &link, start: link.start_weights(VitPreset::Pico.into()) };
    let one = "strategy=\"fedavg\" num-server-rounds=1 min-nodes=1";
    runs.run("before", one);

    let trained = || room.room().and_then(|room| room["round"].as_u64());
    link.is_gone_while(|| {
        link.until("the room misses its SuperLink", || (room.room()?["federation"]["link"] == "lost").then_some(()));
        let before = trained().expect("its round");
        room.control(r#"{"do":"start"}"#);
        link.until("rounds of its own", || (trained()? >= before + 3).then_some(()));
        room.control(r#"{"do":"pause"}"#);
    });
    room.says(&link, IS_NODE, 2);
    // The federation does not start a room that the teacher paused.
    room.control(r#"{"do":"start"}"#);

    let (end, folder) = runs.run("after", one);
    let nodes = received(&folder, 1);
    assert_eq!(nodes.keys().collect::<Vec<_>>(), [&room.node()]);
    assert_eq!(end, mean(&nodes));
    assert_eq!(room.room().expect("the room")["federation"]["link"], "connected");
}

/// A room without a client reports this before the round is over; Flower counts a failure and continues.
#[test]
fn nobody_in_a_room_is_a_failure_that_flower_counts() {
    let _turn = turn();
    let link = match SuperLink::open() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let key = link.key("room");
    let room = Member::relay_with(&link, "room", &key.private, "1", &[]);
    let runs = Runs { link: &link, start: link.start_weights(VitPreset::Pico.into()) };
    let (_, folder, settings) =
        runs.settings("nobody", "strategy=\"fedavg\" num-server-rounds=2 min-nodes=1 round-timeout=15.0");
    let said = link.run("nobody", &settings).wait(&link);
    assert_eq!(said.matches("aggregate_train: Received 0 results and 1 failures").count(), 2, "{}", tail(&said));
    for round in 1..=2 {
        let answer = fs::read(folder.join(format!("round-{round}/node-{}.json", room.node()))).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["error"].as_str().is_some_and(|error| error.contains("nobody is in the room")), "{answer}");
    }
}

/// One folder for each photograph.
fn pictures(link: &SuperLink, of: &[&str]) -> Vec<PathBuf> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples");
    let folder = |name: &&str| {
        let folder = link.folder().join(format!("pictures-{name}"));
        fs::create_dir(&folder).unwrap();
        let photograph = fs::read_dir(&samples).unwrap().map(|entry| entry.unwrap().path());
        let photograph = photograph.into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == *name));
        let photograph = photograph.unwrap_or_else(|| panic!("there is no photograph {name}"));
        fs::copy(&photograph, folder.join(photograph.file_name().unwrap())).unwrap();
        folder
    };
    of.iter().map(folder).collect()
}

#[test]
fn masked_clients_are_averaged_over_those_who_sent_an_entry() {
    let _turn = turn();
    let link = match SuperLink::open() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let folders = pictures(&link, &["astronaut", "rocket"]);
    let masked = ["--model", PICO, "--defence", "random-binary:0.5", "--rule", "fedavg:epochs=2,rate=0.05"];
    let clients: Vec<Member> =
        folders.iter().zip(["a", "b"]).map(|(folder, name)| Member::client(&link, name, folder, &masked)).collect();
    clients.iter().for_each(|client| client.says(&link, "in the federation of", 1));

    let runs = Runs { link: &link, start: link.start_weights(VitPreset::Pico.into()) };
    let (end, folder) = runs.run("masked", "strategy=\"masked\" num-server-rounds=2 min-nodes=2");
    for round in 1..=2 {
        let former = read(&folder.join(format!("round-{round}/global.safetensors")));
        let next = if round == 2 { end.clone() } else { read(&folder.join("round-2/global.safetensors")) };
        let nodes = received(&folder, round);
        assert_eq!(nodes.len(), 2);
        let (mut unsent, mut all) = (0, 0);
        for (name, values) in &next {
            for (at, value) in values.iter().enumerate() {
                let (mut sum, mut total) = (0.0, 0.0);
                for sent in nodes.values() {
                    let kept = f64::from(sent.masks.as_ref().expect("masks")[name][at]) * sent.examples;
                    (sum, total) = (sum + kept * f64::from(sent.arrays[name][at]), total + kept);
                }
                let expected = if total > 0.0 { sum / total } else { f64::from(former[name][at]) };
                assert!((f64::from(*value) - expected).abs() < 1e-6, "round {round}, {name} {at}: {value}, {expected}");
                assert!(total > 0.0 || *value == former[name][at], "no client sent {name} {at}, but it changed");
                unsent += usize::from(total == 0.0);
                all += 1;
            }
        }
        // Two masks at one half hide a quarter of the values in both updates.
        assert!((unsent as f64 / all as f64 - 0.25).abs() < 0.02, "{unsent} of {all}");
    }
}

#[test]
fn a_key_that_nobody_registered_is_refused_in_words() {
    let _turn = turn();
    let link = match SuperLink::closed() {
        Ok(link) => link,
        Err(reason) => return skipped(reason),
    };
    let (right, wrong) = (link.key("right"), link.key("wrong"));
    link.register(&right);
    let (url, certificate) = (link.url(), link.certificate());
    let certificate = certificate.to_str().unwrap();
    let join = |key: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
        command.args(["join", "--device", "cpu", "--model", PICO, "--flower", &url, "--flower-ca", certificate]);
        command.arg("--flower-key").arg(key).output().unwrap()
    };
    for (key, code) in [(&wrong.private, 1), (&right.public, 2)] {
        let refused = join(key);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(code), "{said}");
        let words = if code == 1 { "flwr supernode register" } else { "the public half; name the private one" };
        assert!(said.contains(words), "{said}");
    }
    let folders = pictures(&link, &["coffee"]);
    let key = right.private.to_str().unwrap();
    let client = Member::client(
        &link,
        "registered",
        &folders[0],
        &["--model", PICO, "--flower-key", key, "--flower-ca", certificate],
    );
    client.says(&link, "in the federation of", 1);
}

#[test]
fn arguments_that_do_not_go_together_are_named() {
    let refused = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_unmask")).arg("join").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let flower = ["--flower", "http://127.0.0.1:9"];
    for (arguments, words) in [
        (&["--data", "generated", "--shard", "3/2"][..], "\"3/2\" is not a shard"),
        (&["--data", "generated"], "--shard"),
        (&["--data", "generated", "--shard", "1/2", "--images", "x"], "--images"),
        (&["--rule", "fedsgd"], "Flower's strategies average weights"),
        (&["--defence", "encrypted"], "cannot hold an encrypted model"),
        (&["--pin", "123456"], "--pin"),
        (&["http://127.0.0.1:1"], "--flower"),
    ] {
        let said = refused(&[&flower, arguments].concat());
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let said = refused(&["http://127.0.0.1:1", "--defence", "none"]);
    assert!(said.contains("cannot be used with"), "{said}");
    assert!(refused(&["--flower", "ftp://x"]).contains("not the address of a SuperLink"));
}

/// `VmHWM` of a process, in bytes.
fn peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[test]
#[ignore = "takes minutes: cargo xtask test --test flower million -- --ignored --nocapture"]
fn twenty_two_million_parameters_pass() {
    let _turn = turn();
    let link = SuperLink::open().expect("Flower");
    let folders = pictures(&link, &["astronaut", "rocket"]);
    let model = ["--model", "vit_small_patch16_224"];
    let clients: Vec<Member> =
        folders.iter().zip(["a", "b"]).map(|(folder, name)| Member::client(&link, name, folder, &model)).collect();
    clients.iter().for_each(|client| client.says(&link, "in the federation of", 1));
    let runs = Runs { link: &link, start: link.start_weights(VitPreset::Small.into()) };
    // The answers are not kept, so that the measurement does not depend on the disk.
    let out = link.folder().join("large.safetensors");
    let settings = format!(
        "initial={} out={} strategy=\"fedavg\" num-server-rounds=3 min-nodes=2",
        quoted(&runs.start),
        quoted(&out)
    );
    let begun = Instant::now();
    let mut peaks = BTreeMap::new();
    let mut run = link.run("large", &settings);
    link.until("the run's end", || {
        for process in link.processes() {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned();
            let entry = peaks.entry((process, name)).or_insert(0);
            *entry = peak(process).unwrap_or_default().max(*entry);
        }
        run.has_ended().then_some(())
    });
    println!("three rounds: {:.0} s", begun.elapsed().as_secs_f64());
    let parameters: usize = read(&out).values().map(Vec::len).sum();
    println!("{parameters} parameters");
    assert!(parameters > 21_000_000);
    for (process, bytes) in peaks {
        println!("Flower, {process:?}: {} MiB", bytes >> 20);
    }
    for client in &clients {
        println!("a client: {} MiB", peak(client.child.id()).unwrap() >> 20);
    }
    println!("{}", run.said().lines().filter(|line| line.contains("finished in")).collect::<String>());
}
