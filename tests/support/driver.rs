//! Browsers, and their drivers.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{screen::Screen, wait_for};

/// Time for the driver to start a browser.
const START: Duration = Duration::from_secs(90);

/// Time for the driver to end one of its browsers.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Neither Chromium nor Firefox makes a window narrower than this. Chromium emulates a phone in that case.
const NARROWEST_WINDOW: u32 = 500;

/// What a user has told the browser to keep from pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shield {
    Nothing,
    Cookies,
    Storage,
    /// Pages read other pixels from a canvas than were drawn.
    Pixels,
}

/// The kind of browser, and everything that depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Chromium,
    Firefox,
    /// WebKitGTK, which shares its engine with Safari.
    WebKit,
}

impl Kind {
    /// The browser in `UNMASK_BROWSER`, or Chromium.
    pub fn chosen() -> Self {
        match std::env::var("UNMASK_BROWSER").as_deref() {
            Err(_) | Ok("" | "chromium") => Self::Chromium,
            Ok("firefox") => Self::Firefox,
            Ok("webkit") => Self::WebKit,
            Ok(other) => panic!("UNMASK_BROWSER={other}: there are chromium, firefox and webkit"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Chromium => "Chromium",
            Self::Firefox => "Firefox",
            Self::WebKit => "WebKit",
        }
    }

    /// The driver: the one in its variable, or the one on PATH.
    fn driver(self) -> String {
        let (variable, program) = match self {
            Self::Chromium => ("CHROMEDRIVER", "chromedriver"),
            Self::Firefox => ("GECKODRIVER", "geckodriver"),
            Self::WebKit => ("WEBKITDRIVER", "WebKitWebDriver"),
        };
        std::env::var(variable).unwrap_or_else(|_| program.to_owned())
    }

    pub fn is_there(self) -> bool {
        let runs = |program: &str, option: &str| {
            let mut command = Command::new(program);
            command.arg(option).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let driver = self.driver();
        match self {
            Self::Chromium => runs(&driver, "--version"),
            Self::Firefox => runs(&driver, "--version") && runs(&firefox(), "--version"),
            Self::WebKit => runs(&driver, "--help") && runs("Xvfb", "-help"),
        }
    }

    /// Whether it can be told to keep this from pages.
    pub fn has(self, shield: Shield) -> bool {
        matches!(shield, Shield::Nothing | Shield::Cookies) || self == Self::Firefox
    }

    /// The capabilities of a new headless browser with a window of this size.
    fn capabilities(self, profile: &Path, size: (u32, u32), languages: &str, shield: Shield) -> Value {
        match self {
            Self::Chromium => {
                let mut options = chromium(profile, size, languages);
                if shield == Shield::Cookies {
                    options["prefs"]["profile.default_content_setting_values.cookies"] = json!(2);
                }
                json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "SEVERE" } })
            }
            Self::Firefox => {
                let mut options = firefox_options(size, languages);
                match shield {
                    Shield::Nothing => {}
                    Shield::Cookies => options["prefs"]["network.cookie.cookieBehavior"] = json!(2),
                    Shield::Storage => options["prefs"]["dom.storage.enabled"] = json!(false),
                    Shield::Pixels => options["prefs"]["privacy.resistFingerprinting"] = json!(true),
                }
                json!({ "moz:firefoxOptions": options })
            }
            Self::WebKit => {
                let policy = (shield == Shield::Cookies).then_some("--cookies-policy=never");
                let arguments: Vec<&str> = WEBKIT_ARGUMENTS.into_iter().chain(policy).collect();
                json!({ "webkitgtk:browserOptions": { "args": arguments } })
            }
        }
    }
}

fn firefox() -> String {
    std::env::var("FIREFOX").unwrap_or_else(|_| "firefox".to_owned())
}

/// Debian's script `chromium` starts this program, and takes longer than it to start.
const CHROMIUM: &str = "/usr/lib/chromium/chromium";

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
    if Path::new(CHROMIUM).exists() {
        options["binary"] = json!(CHROMIUM);
    }
    if width < NARROWEST_WINDOW {
        let metrics = json!({ "width": width, "height": height, "pixelRatio": 1.0, "touch": false, "mobile": true });
        options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
    }
    options
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

/// A fake camera, and a student who allows the page to use it, as for Chromium.
const WEBKIT_ARGUMENTS: [&str; 4] = [
    "--automation",
    "--enable-media-stream=TRUE",
    "--enable-mock-capture-devices=TRUE",
    "--features=!MockCaptureDevicesPrompt,!GetUserMediaRequiresFocus",
];

/// Buttons without a size, so that the browser's toolbar does not keep its window wider than a phone.
const SMALL_TOOLBAR: &str = "* { min-width: 0; min-height: 0; margin: 0; border: 0; padding: 0; font-size: 1px; }";

/// What a driver of WebKit needs to run: a screen, and a folder with the settings of GTK.
struct Surroundings {
    screen: Screen,
    settings: TempDir,
}

impl Surroundings {
    fn new() -> Self {
        let settings = tempfile::tempdir().expect("a temporary folder");
        let folder = settings.path().join("gtk-3.0");
        fs::create_dir(&folder).and_then(|()| fs::write(folder.join("gtk.css"), SMALL_TOOLBAR)).expect("it is written");
        Self { screen: Screen::start(), settings }
    }

    /// The browser inherits its driver's variables.
    fn give_to(&self, driver: &mut Command) {
        driver
            .env("DISPLAY", &self.screen.name)
            // Not the desktop of the person who runs the tests.
            .env("GDK_BACKEND", "x11")
            .env("NO_AT_BRIDGE", "1")
            .env("XDG_CONFIG_HOME", self.settings.path())
            // The page's language is that of the system.
            .env("LC_ALL", "en_US.UTF-8")
            // As for Chromium: the sandbox does not start as root or in a container, and all pages are our own.
            .env("WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS", "1");
    }
}

/// A running driver; stopped when dropped, with its browsers.
pub struct Driver {
    kind: Kind,
    child: Child,
    port: u16,
    sessions: Vec<Session>,
    surroundings: Option<Surroundings>,
}

#[derive(Debug, Clone)]
pub struct Session(String);

impl Driver {
    pub async fn start(kind: Kind) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let driver = kind.driver();
        let mut command = Command::new(&driver);
        command.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let surroundings = (kind == Kind::WebKit).then(Surroundings::new);
        if let Some(surroundings) = &surroundings {
            surroundings.give_to(&mut command);
        }
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{driver} does not start ({error}); `cargo xtask setup` installs it"));
        wait_for(&driver, || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok() }).await;
        Self { kind, child, port, sessions: Vec::new(), surroundings }
    }

    /// The driver's process and that of its screen; the browsers are the driver's children.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let screen = self.surroundings.as_ref().map(|surroundings| surroundings.screen.process());
        [self.child.id()].into_iter().chain(screen)
    }

    /// Only Chromium's driver drives several browsers at a time.
    pub fn is_busy(&self) -> bool {
        self.kind != Kind::Chromium && !self.sessions.is_empty()
    }

    /// Starts a browser that stores its data in `profile`, for a user with these languages, the preferred one first, and
    /// this shield.
    pub async fn open(
        &mut self,
        profile: &Path,
        size: (u32, u32),
        (languages, shield): (&str, Shield),
    ) -> (Client, Session) {
        let Value::Object(capabilities) = self.kind.capabilities(profile, size, languages, shield) else {
            unreachable!("an object was written above")
        };
        let address = format!("http://127.0.0.1:{}", self.port);
        let mut builder = ClientBuilder::new(HttpConnector::new());
        // WebKit's driver waits for ever for a browser that has ended at once.
        let started = tokio::time::timeout(START, builder.capabilities(capabilities).connect(&address)).await;
        let started = started.unwrap_or_else(|_| panic!("{} has not started within {START:?}", self.kind.name()));
        let client = started.unwrap_or_else(|error| panic!("{} does not start: {error}", self.kind.name()));
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
        self.ask(command, "goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// The errors in Chromium's console since the last call.
    pub async fn errors(&self) -> Value {
        self.ask("the console", "se/log", json!({ "type": "browser" })).await
    }

    async fn ask(&self, command: &str, path: &str, body: Value) -> Value {
        let (address, body) = (format!("{}/{path}", self.0), body.to_string());
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
