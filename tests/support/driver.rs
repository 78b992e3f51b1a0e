//! Browsers, and their drivers.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use super::wait_for;

/// Time for the driver to end one of its browsers.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Neither browser makes a window narrower than this; a narrower size is emulated as a phone.
const NARROWEST_WINDOW: u32 = 500;

/// The kind of browser, and everything that depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Chromium,
    Firefox,
}

impl Kind {
    /// The browser in `UNMASK_BROWSER`, or Chromium.
    pub fn chosen() -> Self {
        match std::env::var("UNMASK_BROWSER").as_deref() {
            Err(_) | Ok("" | "chromium") => Self::Chromium,
            Ok("firefox") => Self::Firefox,
            Ok(other) => panic!("UNMASK_BROWSER={other}: there are chromium and firefox"),
        }
    }

    /// The driver: the one in its variable, or the one on PATH.
    fn driver(self) -> String {
        let (variable, program) = match self {
            Self::Chromium => ("CHROMEDRIVER", "chromedriver"),
            Self::Firefox => ("GECKODRIVER", "geckodriver"),
        };
        std::env::var(variable).unwrap_or_else(|_| program.to_owned())
    }

    pub fn is_there(self) -> bool {
        let starts = |program: &str| {
            let mut version = Command::new(program);
            version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            version.status().is_ok_and(|status| status.success())
        };
        starts(&self.driver()) && (self == Self::Chromium || starts(&firefox()))
    }

    /// The capabilities of a new headless browser with a window of this size.
    fn capabilities(self, profile: &Path, size: (u32, u32), languages: &str) -> Value {
        match self {
            Self::Chromium => chromium(profile, size, languages),
            Self::Firefox => json!({ "moz:firefoxOptions": firefox_options(size, languages) }),
        }
    }
}

fn firefox() -> String {
    std::env::var("FIREFOX").unwrap_or_else(|_| "firefox".to_owned())
}

fn chromium(profile: &Path, (width, height): (u32, u32), languages: &str) -> Value {
    let arguments = [
        "--headless".to_owned(),
        "--no-sandbox".to_owned(),
        "--disable-quic".to_owned(),
        "--no-first-run".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--disable-sync".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--enable-unsafe-webgpu".to_owned(),
        // A fake camera with a moving picture, and a student who allows the page to use it.
        "--use-fake-device-for-media-stream".to_owned(),
        "--use-fake-ui-for-media-stream".to_owned(),
        // A name that is neither localhost nor HTTPS, so that the page is not a secure context.
        "--host-resolver-rules=MAP classroom.test 127.0.0.1".to_owned(),
        format!("--window-size={width},{height}"),
        format!("--user-data-dir={}", profile.display()),
    ];
    let mut options = json!({ "args": arguments, "prefs": { "intl.accept_languages": languages } });
    if width < NARROWEST_WINDOW {
        let metrics = json!({ "width": width, "height": height, "pixelRatio": 1.0, "touch": false, "mobile": true });
        options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
    }
    json!({ "goog:chromeOptions": options })
}

/// A phone is as wide as the narrowest window.
fn firefox_options((width, height): (u32, u32), languages: &str) -> Value {
    json!({
        "binary": firefox(),
        "args": ["-headless", format!("--width={width}"), format!("--height={height}")],
        // As for Chromium.
        "prefs": {
            "network.dns.localDomains": "classroom.test",
            "intl.accept_languages": languages,
            "dom.webgpu.enabled": true,
            "gfx.webgpu.ignore-blocklist": true,
            "media.navigator.streams.fake": true,
            "media.navigator.permission.disabled": true,
        },
    })
}

/// A running driver; stopped when dropped, with its browsers.
pub struct Driver {
    kind: Kind,
    child: Child,
    port: u16,
    sessions: Vec<Session>,
}

#[derive(Debug, Clone)]
pub struct Session(String);

impl Driver {
    pub async fn start(kind: Kind) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let driver = kind.driver();
        let child = Command::new(&driver)
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{driver} does not start ({error}); `cargo xtask setup` installs it"));
        wait_for(&driver, || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok() }).await;
        Self { kind, child, port, sessions: Vec::new() }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// A geckodriver drives only one browser at a time.
    pub fn is_busy(&self) -> bool {
        self.kind == Kind::Firefox && !self.sessions.is_empty()
    }

    /// Starts a browser that stores its data in `profile`, for a user with these languages, the preferred one first.
    pub async fn open(&mut self, profile: &Path, size: (u32, u32), languages: &str) -> (Client, Session) {
        let Value::Object(capabilities) = self.kind.capabilities(profile, size, languages) else {
            unreachable!("an object was written above")
        };
        let address = format!("http://127.0.0.1:{}", self.port);
        let client = ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(&address).await;
        let client = client.unwrap_or_else(|error| panic!("{:?} does not start: {error}", self.kind));
        let id = client.session_id().await.expect("the driver answers").expect("a session");
        let session = Session(format!("{address}/session/{id}"));
        self.sessions.push(session.clone());
        (client, session)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A killed driver leaves its browsers running. If it no longer answers, `cargo check-all` ends them.
        for session in &self.sessions {
            let _ = agent(SHUTDOWN).delete(&session.0).call();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Session {
    /// Runs a command of Chromium's DevTools that WebDriver does not have; returns the answer.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let address = format!("{}/goog/cdp/execute", self.0);
        let body = json!({ "cmd": command, "params": parameters }).to_string();
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer =
                agent(Duration::from_secs(60)).post(&address).content_type("application/json").send(body)?;
            answer.body_mut().with_config().limit(100_000_000).read_to_string()
        });
        let answer = answer.await.expect("the request ends").unwrap_or_else(|error| panic!("{command}: {error}"));
        serde_json::from_str::<Value>(&answer).expect("JSON")["value"].take()
    }
}

fn agent(patience: Duration) -> ureq::Agent {
    ureq::Agent::new_with_config(ureq::Agent::config_builder().timeout_global(Some(patience)).build())
}
