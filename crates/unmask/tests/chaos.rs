//! Kills the real relay at random times and checks that it resumes.
//!
//! `cargo xtask chaos --kills 200` runs this with more kills than the regular checks.

#[path = "../../../tests/support/program.rs"]
mod program;

use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use serde_json::Value;

use program::unmask;

/// Longest time until a killed relay has resumed. Under Wine a program takes seconds to start.
const BACK: Duration = Duration::from_secs(if cfg!(windows) { 20 } else { 5 });
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest life of a relay after a round has closed.
const LIFE: Duration = Duration::from_millis(600);

/// Held by each test, because two relays would slow each other down.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chosen(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}: no number")))
}

/// A field of the relay's log lines on standard error: `INFO on disk round=3 weights=ab12`.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split_whitespace().next().map(|value| value.trim_matches('"'))
}

fn rounds<'a>(lines: &'a [String], message: &'a str) -> impl Iterator<Item = (u32, &'a str)> {
    lines
        .iter()
        .filter(move |line| line.contains(message))
        .filter_map(|line| Some((field(line, "round")?.parse().ok()?, line.as_str())))
}

/// The round and the weights' digest from each such line.
fn weights(lines: &[String], message: &str) -> BTreeMap<u32, String> {
    rounds(lines, message).filter_map(|(round, line)| Some((round, field(line, "weights")?.to_owned()))).collect()
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// A running relay with three headless clients; killed when dropped.
struct Relay {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    began: Instant,
    port: u16,
}

impl Relay {
    fn start(mut command: Command, folder: &Path, ports: [u16; 2]) -> Self {
        let [http, https] = ports.map(|port| port.to_string());
        command
            .args(["relay", "--bind", "127.0.0.1", "--model", "vit_pico_patch4_16", "--headless", "3", "--start"])
            .args(["--pace", "0.05", "--attack-seconds", "0", "--test-seconds", "0"])
            .args(["--http-port", &http, "--https-port", &https, "--data-dir"])
            .arg(folder)
            .arg("--ready-file")
            .arg(folder.join("ready.json"))
            .env("RUST_LOG", "info")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command.spawn().expect("the relay starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (stderr, heard) = (child.stderr.take().unwrap(), Arc::clone(&lines));
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                heard.lock().unwrap().push(line);
            }
        });
        Self { child, lines, reader: Some(reader), began, port: ports[0] }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a condition; returns the time since the start.
    fn until(&self, what: &str, is_found: impl Fn() -> bool) -> Duration {
        while !is_found() {
            assert!(self.began.elapsed() < PATIENCE, "waited in vain for {what}: {:#?}", self.lines());
            sleep(Duration::from_millis(5));
        }
        self.began.elapsed()
    }

    fn is_healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else { return false };
        let mut answer = String::new();
        write!(stream, "GET /healthz HTTP/1.0\r\nHost: localhost:{}\r\n\r\n", self.port).is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.contains(" 200 ")
    }

    fn newest(&self, message: &str) -> u32 {
        rounds(&self.lines(), message).map(|(round, _)| round).max().unwrap_or(0)
    }

    /// Kills the relay and returns its whole log.
    fn kill(mut self) -> Vec<String> {
        self.end();
        self.lines()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

/// The content of the journal, read by a program other than the relay.
fn journal(folder: &Path) -> (u32, String) {
    let mut command = unmask();
    let Output { status, stdout, stderr } =
        command.args(["journal", "--json", "--data-dir"]).arg(folder).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let found: Value = serde_json::from_slice(&stdout).unwrap();
    (found["round"].as_u64().unwrap() as u32, found["weights"].as_str().unwrap().to_owned())
}

/// Returns an integer below `most` (splitmix64).
fn random(state: &mut u64, most: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % most
}

/// The links and the PIN from the relay's ready file.
fn opens(ready: &Path) -> Option<Value> {
    let ready: Value = serde_json::from_slice(&fs::read(ready).ok()?).ok()?;
    let names = ["student", "projector", "teacher", "room_key", "pin", "token"];
    Some(names.map(|name| ready[name].as_str().expect(name).to_owned()).to_vec().into())
}

#[test]
fn a_killed_relay_goes_on() {
    let _turn = turn();
    let (kills, mut seed) = (chosen("UNMASK_KILLS", 20), chosen("UNMASK_CHAOS_SEED", 7));
    let (folder, ports) = (tempfile::tempdir().unwrap(), free_ports());
    let mut table = "kill  lived ms  closed  on disk  lost  healthy ms  next round ms\n".to_owned();
    let mut expected: Option<(u32, String)> = None;
    let ready = folder.path().join("ready.json");
    let mut opened: Option<Value> = None;
    let (mut slowest, mut lost_rounds) = (Duration::ZERO, 0);
    for kill in 1..=kills + 1 {
        let _ = fs::remove_file(&ready);
        let relay = Relay::start(unmask(), folder.path(), ports);
        let healthy = relay.until("an answer", || relay.is_healthy());
        // Links and PIN are the same as before.
        relay.until("links and PIN", || opens(&ready).is_some());
        let opens = opens(&ready);
        assert_eq!(opens, opened.take().or_else(|| opens.clone()), "after kill {}", kill - 1);
        opened = opens;
        let before = expected.as_ref().map_or(0, |(round, _)| *round);
        if let Some((round, digest)) = &expected {
            // The log arrives through another thread than the answer.
            relay.until("word of the last lesson", || !weights(&relay.lines(), "goes on with").is_empty());
            let resumed = weights(&relay.lines(), "goes on with the last lesson");
            assert_eq!(resumed.get(round), Some(digest), "after kill {}: {resumed:?}", kill - 1);
        }
        let next = relay.until("a round", || relay.newest("round closed") > before);
        if expected.is_some() {
            assert!(next < BACK, "after kill {} it took {next:?} to go on", kill - 1);
            slowest = slowest.max(next);
        }
        if expected.is_none() {
            relay.until("the first state on disk", || !weights(&relay.lines(), "on disk").is_empty());
        }
        if kill > kills {
            break;
        }
        let life = Duration::from_micros(random(&mut seed, LIFE.as_micros() as u64));
        sleep(life);
        let lived = relay.began.elapsed();
        let lines = relay.kill();
        let closed = rounds(&lines, "round closed").map(|(round, _)| round).max().unwrap();
        let (round, digest) = journal(folder.path());
        let said = weights(&lines, "on disk");
        match said.get(&round) {
            Some(committed) => assert_eq!(committed, &digest, "kill {kill}: other weights than were committed"),
            // Killed between the commit and its log line, or after rounds without an update.
            None => assert!(said.keys().all(|said| *said < round), "kill {kill}: {round} after {said:?}"),
        }
        let lost = closed.saturating_sub(round);
        assert!(lost <= 1, "kill {kill}: round {closed} was closed, and round {round} is on disk");
        lost_rounds += lost;
        let (lived, healthy, next) = (lived.as_millis(), healthy.as_millis(), next.as_millis());
        let _ = writeln!(table, "{kill:>4}  {lived:>8}  {closed:>6}  {round:>7}  {lost:>4}  {healthy:>10}  {next:>13}");
        expected = Some((round, digest));
    }
    println!("{table}");
    println!(
        "{kills} kills: it always resumed from the weights of the last commit, the slowest after {} ms; {lost_rounds} \
         rounds were closed but not on disk",
        slowest.as_millis()
    );
}

/// A real limit of the operating system simulates a full disk: no file may grow above 32 kB.
#[cfg(unix)]
#[test]
fn a_full_disk_stops_no_round() {
    let _turn = turn();
    let (folder, ports) = (tempfile::tempdir().unwrap(), free_ports());
    let mut command = Command::new("sh");
    // The limit counts blocks of 512 bytes. Without the trap, the first long write would kill the relay.
    command.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""]).arg(unmask().get_program());
    let relay = Relay::start(command, folder.path(), ports);
    relay.until("three rounds", || relay.newest("round closed") >= 3);
    let ready: Value = serde_json::from_slice(&fs::read(folder.path().join("ready.json")).unwrap()).unwrap();
    let token = format!("Bearer {}", ready["token"].as_str().unwrap());
    let mut answer =
        ureq::get(format!("http://127.0.0.1:{}/api/room", ports[0])).header("Authorization", &token).call().unwrap();
    let room: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
    let failure = room["journal"]["failure"].as_str().unwrap_or_default();
    assert!(failure.contains("The lesson is not on the disk") && failure.contains("too large"), "{room:#}");
    let lines = relay.kill();
    assert!(weights(&lines, "on disk").is_empty(), "{lines:#?}");
    let kept: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!kept.iter().any(|name| name == "journal-a.redb" || name == "journal-b.redb"), "{kept:?}");
}
