//! A recorded lesson, played without a relay.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use serde_json::json;
use tokio::sync::OnceCell;
use unmask_lesson::Scene;
use unmask_recording::{Player, Read, Recording};
use unmask_wire::view::RoomView;

use crate::{
    DESKTOP, ONE_AT_A_TIME,
    support::{Browser, Relay, Tab, assert_accessible, robot},
};

/// A program that is stopped when dropped.
pub struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn recorded(folder: &Path) -> PathBuf {
    static RECORDING: OnceCell<Vec<u8>> = OnceCell::const_new();
    let path = folder.join("lesson.unmask");
    std::fs::write(&path, RECORDING.get_or_init(record).await).expect("the recording is saved");
    path
}

/// Two rounds, the second under a mask, with a robot that agreed to be shown.
async fn record() -> Vec<u8> {
    let relay = Relay::start(&["--seed", "7"]).await;
    let _robot = robot(&relay, "Robot");
    relay.client("Robot").await;
    for (beat, defence) in ["none", "random-binary:0.5"].into_iter().enumerate() {
        relay.control(json!({ "do": "lesson", "scene": "promise", "beat": beat })).await;
        relay.control(json!({ "do": "defence", "defence": defence })).await;
        relay.control(json!({ "do": "one_round" })).await;
        relay.attack("embedding", defence).await;
        // The relay records one state each second.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    }
    let (address, token) = (format!("{}/api/lesson.unmask", relay.http), format!("Bearer {}", relay.token));
    let file = tokio::task::spawn_blocking(move || {
        let request = ureq::get(&address).header("Authorization", token);
        request.call().expect("the relay answers").body_mut().read_to_vec().expect("a body")
    });
    file.await.expect("the request ends")
}

/// Starts a program that prints the page's address first, and returns the address.
pub fn replay(file: &Path) -> (Program, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_unmask"))
        .arg("replay")
        .arg(file)
        .args(["--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("an address");
    (Program(child), line.trim().to_owned())
}

async fn shows_round(page: &Tab, round: u32) {
    page.attribute_is("round", "data-round", &round.to_string()).await;
    let picture = format!(
        "[...document.querySelectorAll('[data-testid=\"card\"][data-round=\"{round}\"] img')]
            .find(image => image.src.startsWith('data:image/png') && image.complete && image.naturalWidth > 0) && 'shown'"
    );
    page.wait_for(&picture).await;
}

async fn press(page: &Tab, key: &str) {
    let script = format!(
        "(document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }})), 'pressed')"
    );
    page.wait_for(&script).await;
}

/// After the relay is gone, the page plays, pauses and seeks, by keyboard too.
#[tokio::test]
async fn a_lesson_plays_without_its_relay() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = recorded(folder.path()).await;
    let (_program, address) = replay(&file);
    let browser = Browser::start().await;
    let page = browser.open(&address, DESKTOP).await;
    // It plays automatically and stops at its end, on the stage and in the expert view.
    page.attribute_is("stage", "data-scene", "1").await;
    page.attribute_is("stage", "data-beat", "1").await;
    page.screenshot("replay-stage").await;
    press(&page, "e").await;
    page.attribute_is("link", "data-state", "recorded").await;
    page.attribute_is("play", "data-playing", "false").await;
    shows_round(&page, 2).await;
    page.screenshot("replay").await;

    press(&page, "Home").await;
    page.attribute_is("time", "data-at", "0").await;
    page.attribute_is("round", "data-round", "0").await;
    page.attribute_is("play", "data-playing", "false").await;
    go_to(&page, first_state_of(&file, 1)).await;
    page.attribute_is("round", "data-round", "1").await;
    page.attribute_is("speed", "data-speed", "1").await;
    press(&page, "+").await;
    page.attribute_is("speed", "data-speed", "2").await;
    press(&page, " ").await;
    shows_round(&page, 2).await;

    // Nothing on the page connects to a room.
    for id in ["bar", "one-round", "search", "lock", "take-home", "take-recording", "pin"] {
        assert!(!page.shows(id).await, "{id} is shown");
    }
    let asked =
        "performance.getEntriesByType('resource').filter(entry => entry.name.includes('/api/')).length === 0 || null";
    page.wait_for(asked).await;
}

/// Moves the slider to this time, in milliseconds.
pub async fn go_to(page: &Tab, time: u64) {
    let scrub = format!(
        "(slider => {{ slider.value = {time}; slider.dispatchEvent(new Event('input', {{ bubbles: true }})); return 'moved' }})\
         (document.querySelector('[data-testid=\"scrub\"]'))"
    );
    page.wait_for(&scrub).await;
}

/// The states of a recorded lesson, each with its start in milliseconds.
fn states(file: &Path) -> impl Iterator<Item = (u64, RoomView)> {
    let Read { recording, .. } = Recording::read(&std::fs::read(file).expect("the recording")).expect("a recording");
    let mut player = Player::new(recording);
    std::iter::from_fn(move || player.step().then(|| (player.time(), player.room().expect("a room"))))
}

/// The first whole second at which the lesson is in this round, in milliseconds.
fn first_state_of(file: &Path, round: u32) -> u64 {
    let first = states(file).find(|(_, room)| room.round == round);
    first.unwrap_or_else(|| panic!("no round {round} is recorded")).0.next_multiple_of(1000)
}

/// The last whole second before the lesson leaves this step of a scene for the first time, in milliseconds.
pub fn last_second_of(file: &Path, scene: Scene, beat: u8) -> u64 {
    let is_there = |room: &RoomView| (room.lesson.scene, room.lesson.beat) == (scene, beat);
    let next = states(file).skip_while(|(_, room)| !is_there(room)).find(|(_, room)| !is_there(room));
    next.unwrap_or_else(|| panic!("the lesson does not leave step {beat} of {scene}")).0.saturating_sub(1) / 1000 * 1000
}

fn export(file: &Path, folder: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
    command.arg("replay").arg(file).arg("--export").arg(folder).stdout(Stdio::null());
    assert!(command.status().expect("the program starts").success());
}

/// The exported folder plays from any web server, below any path.
#[tokio::test]
async fn a_folder_plays_from_any_web_server() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = recorded(folder.path()).await;
    let site = folder.path().join("site");
    export(&file, &site.join("our class"));
    let names: Vec<String> = std::fs::read_dir(site.join("our class"))
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name == "replay.html") && names.iter().any(|name| name == "lesson.unmask"));
    assert!(!names.iter().any(|name| name.starts_with("worker")), "{names:?}");
    let port = serve(site);
    let browser = Browser::start().await;
    let page = browser.open_in(&format!("http://localhost:{port}/our%20class/replay.html#expert"), DESKTOP, "de").await;
    shows_round(&page, 2).await;
    assert!(page.wait_for("document.documentElement.dataset.own").await.to_string().contains("de"));
    // This server sends no policy; the page has its own.
    let refused = "window.refused || (document.addEventListener('securitypolicyviolation', event => {
        window.refused = event.blockedURI;
    }), new Image().src = 'https://foreign.example/a.png', null)";
    assert!(page.wait_for(refused).await.to_string().contains("foreign.example"));
}

fn serve(folder: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || drop(answer(stream, &folder)));
        }
    });
    port
}

fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut request)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
    }
    let path = request.split([' ', '?']).nth(1).unwrap_or("/").replace("%20", " ");
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("svg") => "image/svg+xml",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    let mut bytes = Vec::new();
    let status = match std::fs::File::open(folder.join(path.trim_start_matches('/'))) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes)?;
            "200 OK"
        }
        Err(_) => "404 Not Found",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&bytes)
}

#[tokio::test]
async fn a_page_without_a_lesson_asks_for_one() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = recorded(folder.path()).await;
    let site = folder.path().join("site");
    export(&file, &site);
    std::fs::remove_file(site.join("lesson.unmask")).expect("the lesson goes");
    let port = serve(site);
    let browser = Browser::start().await;
    let page = browser.open(&format!("http://localhost:{port}/replay.html#expert"), DESKTOP).await;
    assert!(page.text("problem").await.contains("404"));
    assert_accessible(&page, "a replay without a lesson").await;
    page.choose_file("recording-file", &file.display().to_string()).await;
    shows_round(&page, 2).await;
}
