//! Devices whose network is not what it was: they slept, they got another address, or theirs was banned.

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

/// A relay gives up a socket that was silent for half of this.
const ASLEEP: Duration = Duration::from_secs(62);

/// Longest that a client takes to notice a lost connection, and to wait before it tries again; and what a slow machine may add
/// until it is in.
const BACK: Duration = Duration::from_millis(25_000 + 1_500 + 5_000);

/// Opens the page of a student who has chosen everything, over this link.
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

/// How long it takes until the room has said of each of them that they are back.
async fn until_back(relay: &Relay, names: [&str; 2]) -> Duration {
    let begun = Instant::now();
    for name in names {
        said(relay, &format!("{name} is back.")).await;
    }
    begun.elapsed()
}

/// The lid of a laptop: for a minute nothing of it runs, and the room has given it up. Opened again it is the same client.
#[tokio::test]
async fn devices_that_slept_are_back_as_the_same_clients() {
    if !cfg!(target_os = "linux") {
        return skipped("it finds a browser's processes as Linux lists them");
    }
    let turn = ONE_AT_A_TIME.lock().await;
    let relay = Relay::start(&["--start"]).await;
    let browser = Browser::start().await;
    let tab = join(&browser, &relay.student_link("localhost", "nickname=Ada&image=cat&device=cpu&join=1")).await;
    let robot = robot(&relay, "Robot");
    // Who never sent anything is forgotten sooner.
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
    // They are in nobody's way meanwhile.
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

/// Nobody tells a device whose address has changed that its connections lead nowhere: what it sends is lost, and nothing comes.
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
    // One line each: the old connections are no clients of their own.
    assert_eq!(relay.room().await["clients"].as_array().map(Vec::len), Some(2));
}

/// Tells the copy of this program that has a network of its own that it has one.
const OWN_NETWORK: &str = "UNMASK_TEST_NETWORK";

/// A machine of its own on a cable of its own: what runs there has another address than anybody else.
struct Machine {
    /// What keeps its network there.
    child: Child,
    /// Of this machine, as seen from there.
    relay: String,
}

impl Machine {
    /// The `number`th one. Needs a network of this program's own, whose cables nobody else sees.
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

    /// A program that runs there.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.child.id().to_string(), "--net", program]);
        command
    }

    /// A headless client there.
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

/// Runs the test of this name once more, in a network of its own. Whether this machine lets it.
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
    // A name that no test has runs none, and succeeds.
    let has_passed = output.status.success() && said.contains("1 passed");
    assert!(has_passed, "{name}, in a network of its own: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// A headless client keeps no cookie: it is known by its address alone. Banned, it stays out under any name, with its ticket
/// and after a restart of the relay; who has another address comes and goes.
#[tokio::test]
async fn a_ban_holds_for_an_address_of_its_own() {
    const NAME: &str = "networks::a_ban_holds_for_an_address_of_its_own";
    if env::var_os(OWN_NETWORK).is_none() {
        if !has_passed_in_own_network(NAME) {
            skipped("it needs a network of its own: Linux, `ip`, `unshare` and `nsenter`, and leave to use them");
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
