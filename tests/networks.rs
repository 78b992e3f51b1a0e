//! Devices whose network changes: they slept, got another address, or had theirs banned.

use std::{
    env,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    ONE_AT_A_TIME, PHONE,
    support::{Browser, Frozen, Line, Relay, Robot, Tab, robot, robot_at, skipped, wait_for},
};

/// A relay closes a socket that was silent for half of this.
const ASLEEP: Duration = Duration::from_secs(62);

/// Longest time for a client to notice a lost connection, plus its wait before it reconnects, plus time for a slow
/// machine.
const BACK: Duration = Duration::from_millis(25_000 + 1_500 + 5_000);

/// Opens a student's page over this link, with all choices made.
async fn join(browser: &Browser, link: &str) -> Tab {
    let tab = browser.open(link, PHONE).await;
    tab.attribute_is("connection", "data-state", "online").await;
    tab
}

fn is_said(room: &Value, line: &str) -> bool {
    room["log"].as_array().is_some_and(|lines| lines.iter().any(|said| said["text"] == line))
}

async fn said(relay: &Relay, line: &str) {
    wait_for(line, || async { is_said(&relay.room().await, line).then_some(()) }).await;
}

/// Time until the room has reported that each of them is back.
async fn until_back(relay: &Relay, names: [&str; 2]) -> Duration {
    let begun = Instant::now();
    for name in names {
        said(relay, &format!("{name} is back.")).await;
    }
    begun.elapsed()
}

/// The lid of a laptop: its processes stop for a minute, and the room closes its sockets. After waking up it is the
/// same client.
#[tokio::test]
async fn devices_that_slept_are_back_as_the_same_clients() {
    if !cfg!(target_os = "linux") {
        return skipped("only Linux lists a browser's processes");
    }
    let turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = join(&browser, &relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1")).await;
    let robot = robot(&relay, "Robot");
    // A client that never sent an update is forgotten sooner.
    relay.rounds_with(2).await;
    relay.control(json!({ "do": "pause" })).await;
    let names = ["Ada", "Robot"];
    let mut before = Vec::new();
    for name in names {
        before.push(relay.client(name).await["id"].clone());
    }
    let mut processes = browser.processes().await;
    processes.push(robot.process());
    let asleep = Frozen::with_children(&processes);
    // The stopped processes no longer slow down other tests.
    drop(turn);
    sleep(ASLEEP).await;
    let _turn = ONE_AT_A_TIME.lock().await;
    let room = relay.room().await;
    let states: Vec<&Value> = room["clients"].as_array().into_iter().flatten().map(|client| &client["state"]).collect();
    assert_eq!(states, ["gone"; 2], "{room:#}");
    drop(asleep);
    let took = until_back(&relay, names).await;
    assert!(took <= BACK, "back after {took:?}");
    for (name, id) in names.into_iter().zip(before) {
        assert_eq!(relay.client(name).await["id"], id, "{name}");
    }
    tab.attribute_is("connection", "data-state", "online").await;
}

/// A device is not told that its address has changed and its connections are dead: what it sends is lost, and nothing
/// arrives.
#[tokio::test]
async fn devices_with_another_address_are_back_as_the_same_clients() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&[]).await;
    let line = Line::to(relay.http_port()).await;
    let browser = Browser::start().await;
    let link = relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1");
    let tab = join(&browser, &line.through(&link)).await;
    let _robot = robot_at(&line.through(&relay.join_link()), "Robot");
    let names = ["Ada", "Robot"];
    let mut before = Vec::new();
    for name in names {
        before.push(relay.client(name).await["id"].clone());
    }
    line.change_address();
    let took = until_back(&relay, names).await;
    assert!(took <= BACK, "back after {took:?}");
    for (name, id) in names.into_iter().zip(before) {
        assert_eq!(relay.client(name).await["id"], id, "{name}");
    }
    tab.attribute_is("connection", "data-state", "online").await;
    // One roster line each: the old connections are not separate clients.
    assert_eq!(relay.room().await["clients"].as_array().map(Vec::len), Some(2));
}

/// Tells the child copy of this program that it has its own network.
const OWN_NETWORK: &str = "UNMASK_TEST_NETWORK";

/// A separate machine on a separate cable, with its own address.
struct Machine {
    /// The process that keeps its network alive.
    child: Child,
    /// The address of this machine, as seen from there.
    relay: String,
}

impl Machine {
    /// The machine with this number. Needs a private network of this program, so that nobody else sees the cables.
    async fn connected(number: u8) -> Self {
        let child = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn().expect("unshare starts");
        let machine = Self { child, relay: format!("10.77.{number}.1") };
        let own = std::fs::read_link("/proc/self/ns/net").expect("a network");
        let there = format!("/proc/{}/ns/net", machine.child.id());
        wait_for("another network", || async { std::fs::read_link(&there).ok().filter(|there| *there != own) }).await;
        let (cable, process) = (format!("cable{number}"), machine.child.id().to_string());
        ip(&["link", "add", &cable, "type", "veth", "peer", "name", "eth", "netns", &process]);
        ip(&["address", "add", &format!("{}/24", machine.relay), "dev", &cable]);
        ip(&["link", "set", &cable, "up"]);
        for arguments in
            [&["address", "add", &format!("10.77.{number}.2/24"), "dev", "eth"][..], &["link", "set", "eth", "up"]]
        {
            let status = machine.command("ip").args(arguments).status().expect("nsenter starts");
            assert!(status.success(), "ip {arguments:?} there: {status}");
        }
        machine
    }

    /// A call of a program on that machine.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.child.id().to_string(), "--net", program]);
        command
    }

    fn join(&self, relay: &Relay, name: &str) -> Robot {
        let link = relay.join_link().replace("127.0.0.1", &self.relay);
        Robot::spawn(&link, name, self.command(env!("CARGO_BIN_EXE_unmask")).stderr(Stdio::piped()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().expect("ip starts");
    assert!(status.success(), "ip {arguments:?}: {status}");
}

/// Runs the test with this name again in its own network. Returns false if this machine does not allow it.
fn has_passed_in_own_network(name: &str) -> bool {
    let unshare = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", program]);
        command
    };
    let can = unshare("ip").args(["link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    let has_nsenter = Command::new("nsenter").arg("--version").stdout(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) || !has_nsenter.is_ok_and(|status| status.success()) {
        return false;
    }
    let own = env::current_exe().expect("this program has a path");
    let output = unshare(&own.to_string_lossy()).args(["--exact", name, "--nocapture"]).env(OWN_NETWORK, "1").output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    // If no test has the name, the run succeeds without tests.
    let has_passed = output.status.success() && said.contains("1 passed");
    assert!(has_passed, "{name}, in its own network: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// A headless client keeps no cookie and is known only by its address. When banned, it stays out under any name, with
/// its ticket and after a restart of the relay; clients with other addresses are not affected.
#[tokio::test]
async fn a_ban_holds_for_an_address_of_its_own() {
    const NAME: &str = "networks::a_ban_holds_for_an_address_of_its_own";
    if env::var_os(OWN_NETWORK).is_none() {
        if !has_passed_in_own_network(NAME) {
            skipped("it needs its own network: Linux, `ip`, `unshare` and `nsenter`, and permission to use them");
        }
        return;
    }
    ip(&["link", "set", "lo", "up"]);
    let (eves, bobs) = (Machine::connected(1).await, Machine::connected(2).await);
    let relay = Relay::start(&[]).await;
    let (mut eve, _bob) = (eves.join(&relay, "Eve"), bobs.join(&relay, "Bob"));
    relay.client("Bob").await;
    let id = relay.client("Eve").await["id"].clone();
    relay.control(json!({ "do": "ban", "client": id })).await;
    assert!(eve.goodbye().await.contains("banned"));
    let room = relay.room().await;
    assert!(is_said(&room, "The teacher banned Eve.") && room["banned"] == 1, "{room:#}");
    assert!(eves.join(&relay, "Mallory").goodbye().await.contains("banned"));
    let relay = relay.restart().await;
    assert!(eves.join(&relay, "Trudy").goodbye().await.contains("banned"));
    relay.client("Bob").await;
    let _carol = bobs.join(&relay, "Carol");
    relay.client("Carol").await;
    relay.control(json!({ "do": "lift_bans" })).await;
    let _back = eves.join(&relay, "Eve");
    relay.client("Eve").await;
}
