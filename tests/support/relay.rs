//! The `unmask` binary as a relay and as a headless client.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{process::signal, wait_for};

/// A running relay; stopped when dropped.
pub struct Relay {
    child: Child,
    /// Holds the relay's data, also for its successor.
    folder: Arc<TempDir>,
    /// `http://127.0.0.1:PORT`
    pub http: String,
    pub token: String,
    room_key: String,
    projector_secret: String,
    http_port: u16,
    https_port: u16,
}

impl Relay {
    /// Starts a relay on free ports, with the smallest model unless `arguments` name another.
    pub async fn start(arguments: &[&str]) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().expect("a temporary folder")), 0, 0, arguments).await
    }

    async fn start_in(folder: Arc<TempDir>, http_port: u16, https_port: u16, arguments: &[&str]) -> Self {
        let ready = folder.path().join("ready.json");
        let _ = std::fs::remove_file(&ready);
        // The program accepts an option only once, and a test may name another model.
        let unless_given = |option: &'static str, value: &'static str| {
            if arguments.contains(&option) { Vec::new() } else { vec![option, value] }
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_unmask"))
            .arg("relay")
            .args(unless_given("--model", "vit_pico_patch4_16"))
            // Longer attacks would take processor time from the pages.
            .args(unless_given("--attack-seconds", "1"))
            .args(["--pace", "0.3"])
            // A name that browsers map to this machine, and that is not a secure context over plain HTTP.
            .args(["--host", "classroom.test"])
            .args(["--http-port", &http_port.to_string(), "--https-port", &https_port.to_string()])
            .arg("--data-dir")
            .arg(folder.path())
            .arg("--ready-file")
            .arg(&ready)
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("the relay starts");
        let ready: Value = wait_for("the relay", || {
            let ended = child.try_wait().expect("the relay's state");
            assert!(ended.is_none(), "the relay ended immediately: {ended:?}; see its output above");
            std::future::ready(read_json(&ready))
        })
        .await;
        let port = |scheme: &str| {
            let address = ready[scheme].as_str().expect("an address");
            address.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port")
        };
        let (http_port, https_port) = (port("http"), port("https"));
        let secret = |name: &str| ready[name].as_str().expect("a secret").to_owned();
        Self {
            child,
            folder,
            http: format!("http://127.0.0.1:{http_port}"),
            token: secret("token"),
            room_key: secret("room_key"),
            projector_secret: secret("projector").rsplit('=').next().expect("a secret").to_owned(),
            http_port,
            https_port,
        }
    }

    /// Kills the relay and starts another one on the same ports, which resumes its lesson.
    pub async fn restart(mut self) -> Self {
        self.stop();
        Self::start_in(Arc::clone(&self.folder), self.http_port, self.https_port, &[]).await
    }

    /// Stops the relay like a lost network: sockets stay open, and nothing arrives on them any more.
    pub fn freeze(&self) {
        signal("-STOP", self.child.id());
    }

    pub fn thaw(&self) {
        signal("-CONT", self.child.id());
    }

    /// Kills the relay, like a power cut.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub async fn room(&self) -> Value {
        let address = format!("{}/api/room", self.http);
        let token = format!("Bearer {}", self.token);
        tokio::task::spawn_blocking(move || {
            let request = ureq::get(&address).header("Authorization", token);
            let body = request.call().expect("the room answers").body_mut().read_to_string();
            serde_json::from_str(&body.expect("a body")).expect("JSON")
        })
        .await
        .expect("the request ends")
    }

    /// `POST /api/control` with `token`; returns the status.
    pub async fn control_with(&self, token: Option<&str>, control: Value) -> u16 {
        self.ask(token, control).await.0
    }

    async fn ask(&self, token: Option<&str>, control: Value) -> (u16, String) {
        let address = format!("{}/api/control", self.http);
        let token = token.map(|token| format!("Bearer {token}"));
        tokio::task::spawn_blocking(move || {
            let config = ureq::Agent::config_builder().http_status_as_error(false).build();
            let mut request = ureq::Agent::new_with_config(config).post(&address).content_type("application/json");
            if let Some(token) = token {
                request = request.header("Authorization", token);
            }
            let mut answer = request.send(control.to_string()).expect("the relay answers");
            (answer.status().as_u16(), answer.body_mut().read_to_string().expect("a body"))
        })
        .await
        .expect("the request ends")
    }

    /// `POST /api/control` as the teacher; returns the reason of the refusal.
    pub async fn control_refused(&self, control: Value) -> String {
        let (status, reason) = self.ask(Some(&self.token), control.clone()).await;
        assert_eq!(status, 400, "{control}: {reason}");
        reason
    }

    /// `POST /api/control` as the teacher.
    pub async fn control(&self, control: Value) {
        let status = self.control_with(Some(&self.token), control.clone()).await;
        assert_eq!(status, 204, "{control}");
    }

    pub fn teacher_link(&self) -> String {
        format!("{}&expert", self.stage_link())
    }

    /// URL of an expert view without controls.
    pub fn projector_link(&self) -> String {
        format!("{}&expert", self.beamer_link())
    }

    /// URL of the stage with the presenter's bar, as the relay prints it for the teacher.
    pub fn stage_link(&self) -> String {
        format!("http://localhost:{}/projector#token={}", self.http_port, self.token)
    }

    /// URL of the stage without controls, as the relay prints it for a projector.
    pub fn beamer_link(&self) -> String {
        format!("http://localhost:{}/projector#view={}", self.http_port, self.projector_secret)
    }

    /// URL of the student's page on a host with this name.
    pub fn student_link(&self, host: &str, query: &str) -> String {
        format!("http://{host}:{}/?{query}#room={}", self.http_port, self.room_key)
    }

    /// URL of the room for a headless client.
    pub fn join_link(&self) -> String {
        format!("{}/#room={}", self.http, self.room_key)
    }

    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    pub async fn client(&self, nickname: &str) -> Value {
        wait_for(&format!("{nickname} in the room"), || async {
            let room = self.room().await;
            let clients = room["clients"].as_array()?;
            clients.iter().find(|client| client["nickname"] == nickname && client["state"] != "gone").cloned()
        })
        .await
    }

    /// Waits until `attack` has a result under `defence` with a score, or a remark instead of a picture; returns the
    /// last one.
    pub async fn attack(&self, attack: &str, defence: &str) -> Value {
        wait_for(&format!("{attack} under {defence}"), || async {
            let room = self.room().await;
            let attacks = room["attacks"].as_array()?;
            let result = attacks.iter().find(|result| result["attack"] == attack && result["defence"] == defence)?;
            (result["ssim"].is_number() || result["picture"].is_null()).then(|| result.clone())
        })
        .await
    }

    /// Waits for `count` more rounds, and returns their loss points.
    pub async fn rounds(&self, count: usize) -> Vec<Value> {
        let points = |room: &Value| room["losses"].as_array().cloned().unwrap_or_default();
        let before = points(&self.room().await).len();
        wait_for(&format!("{count} rounds"), || async {
            let points = points(&self.room().await);
            (points.len() >= before + count).then(|| points[before..].to_vec())
        })
        .await
    }
}

impl Relay {
    /// Waits for a round that averaged this many updates, and returns the loss points until then.
    pub async fn rounds_with(&self, updates: u32) -> Vec<Value> {
        let mut points = Vec::new();
        loop {
            points.extend(self.rounds(1).await);
            if points.last().is_some_and(|point| point["updates"] == updates) {
                return points;
            }
            assert!(points.len() < 100, "{} rounds, and never {updates} updates: {points:?}", points.len());
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples")
}

/// A headless native client; stopped when dropped.
pub struct Robot(Child);

/// Starts a headless native client that trains on the sample photographs.
pub fn robot(relay: &Relay, name: &str) -> Robot {
    robot_at(&relay.join_link(), name)
}

pub fn robot_at(link: &str, name: &str) -> Robot {
    Robot::spawn(link, name, &mut Command::new(env!("CARGO_BIN_EXE_unmask")))
}

pub fn robot_with_passphrase(relay: &Relay, name: &str, passphrase: &str) -> Robot {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unmask"));
    Robot::spawn(&relay.join_link(), name, command.env("UNMASK_PASSPHRASE", passphrase))
}

impl Robot {
    /// Starts `command` as a client in the room of a link.
    pub fn spawn(link: &str, name: &str, command: &mut Command) -> Self {
        let child = command
            .args(["join", link, "--name", name, "--device", "cpu", "--may-show", "--images"])
            .arg(samples())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("the client starts"))
    }

    pub fn process(&self) -> u32 {
        self.0.id()
    }

    /// Returns its stderr, which must be a pipe, until the room dismisses it.
    pub async fn goodbye(&mut self) -> String {
        let status = wait_for("the client's end", || {
            let ended = self.0.try_wait().expect("a process of our own");
            async move { ended }
        })
        .await;
        let mut said = String::new();
        self.0.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
        assert!(!status.success(), "{said}");
        said
    }
}

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
