//! Chromium under WebDriver.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource, KeyAction, KeyActions},
    elements::Element,
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wait_for;

/// Time for the driver to end its browsers.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Chromium makes no window narrower than this; what is narrower is a phone.
const NARROWEST_WINDOW: u32 = 500;

/// The element with a test id, in JavaScript, after the folds around it were opened.
fn unfolded(id: &str) -> String {
    format!(
        "(element => {{ for (let fold; (fold = element?.closest('details:not([open])')) && fold !== element \
         && element.closest('summary')?.parentElement !== fold;) fold.querySelector(':scope > summary').click(); \
         return element }})(document.querySelector('[data-testid=\"{id}\"]'))"
    )
}

/// A chromedriver; stopped when dropped, with all its browsers.
pub struct Browser {
    child: Child,
    port: u16,
}

/// One tab in a Chromium of its own, as on a device of its own.
pub struct Tab {
    client: Client,
    _profile: TempDir,
}

impl Browser {
    /// Starts the driver that `CHROMEDRIVER` names, or the one on PATH.
    pub async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let driver = std::env::var("CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".to_owned());
        let child = Command::new(&driver)
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{driver} does not start ({error}); `cargo xtask setup` installs it"));
        wait_for("chromedriver", || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok() }).await;
        Self { child, port }
    }

    /// The driver's number; its browsers are its children.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Opens `address` in a fresh Chromium of `width` x `height` pixels, whose user reads English.
    pub async fn open(&self, address: &str, size: (u32, u32)) -> Tab {
        self.open_in(address, size, "en-US,en").await
    }

    /// The same for a user with these languages, the preferred one first.
    pub async fn open_in(&self, address: &str, (width, height): (u32, u32), languages: &str) -> Tab {
        let profile = tempfile::tempdir().expect("a temporary folder");
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
            // A name that is neither localhost nor HTTPS, so that the page is no secure context.
            "--host-resolver-rules=MAP classroom.test 127.0.0.1".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let mut options = json!({ "args": arguments, "prefs": { "intl.accept_languages": languages } });
        if width < NARROWEST_WINDOW {
            let metrics =
                json!({ "width": width, "height": height, "pixelRatio": 1.0, "touch": false, "mobile": true });
            options["mobileEmulation"] = json!({ "deviceMetrics": metrics });
        }
        let Value::Object(capabilities) = json!({ "goog:chromeOptions": options }) else {
            unreachable!("an object was written above")
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .expect("Chromium starts");
        client.goto(address).await.expect("the page opens");
        Tab { client, _profile: profile }
    }
}

impl Browser {
    /// The same with a view of `width` x `height` pixels, whatever the browser's frame takes of its window.
    pub async fn open_view(&self, address: &str, (width, height): (u32, u32)) -> Tab {
        let tab = self.open(address, (width, height)).await;
        let frame = "[outerWidth - innerWidth, outerHeight - innerHeight]";
        let frame = tab.wait_for(frame).await;
        let pixels = |at: usize| frame[at].as_u64().and_then(|pixels| u32::try_from(pixels).ok()).unwrap_or(0);
        tab.client.set_window_size(width + pixels(0), height + pixels(1)).await.expect("the window takes a size");
        tab.wait_for(&format!("innerWidth == {width} && innerHeight == {height} || null")).await;
        tab
    }

    /// Asks the driver to end its browsers and itself: one that is killed leaves its browsers running.
    fn shut_down(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(SHUTDOWN))?;
        stream.write_all(b"GET /shutdown HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        // Whatever it answers, it answers when its browsers are gone.
        stream.read_to_end(&mut Vec::new())?;
        while self.child.try_wait()?.is_none() && begun.elapsed() < SHUTDOWN {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Where it no longer listens, `cargo check-all` ends what it left.
        let _ = self.shut_down();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tab {
    /// What `look`, a JavaScript expression, says once it is neither null, undefined nor empty.
    pub async fn wait_for(&self, look: &str) -> Value {
        let script = format!("return {look}");
        wait_for(look, || async {
            let value = self.client.execute(&script, Vec::new()).await.unwrap_or_default();
            (!value.is_null() && value != "").then_some(value)
        })
        .await
    }

    /// Attribute `attribute` of the element with this test id, once it has one.
    pub async fn attribute(&self, id: &str, attribute: &str) -> String {
        let look = format!("document.querySelector('[data-testid=\"{id}\"]')?.getAttribute('{attribute}')");
        self.wait_for(&look).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits for that attribute to become `value`.
    pub async fn attribute_is(&self, id: &str, attribute: &str, value: &str) {
        let element = format!("document.querySelector('[data-testid=\"{id}\"]')");
        self.wait_for(&format!("{element}?.getAttribute('{attribute}') === '{value}' || null")).await;
    }

    /// Text of the element with this test id, once it has one; folds around it are opened.
    pub async fn text(&self, id: &str) -> String {
        self.wait_for(&format!("{}?.innerText", unfolded(id))).await.as_str().unwrap_or_default().to_owned()
    }

    /// Whether an element with this test id is shown.
    pub async fn shows(&self, id: &str) -> bool {
        let look = format!("return !!document.querySelector('[data-testid=\"{id}\"]')?.checkVisibility()");
        self.client.execute(&look, Vec::new()).await.expect("the page answers") == true
    }

    /// Clicks the element with this test id, once it is there.
    pub async fn click(&self, id: &str) {
        self.element(id).await.click().await.expect("it can be clicked");
    }

    /// Presses and lets go of a key, wherever the focus is; by WebDriver's code where it has no letter.
    pub async fn press(&self, key: char) {
        let actions = KeyActions::new("keyboard".to_owned()).then(KeyAction::Down { value: key });
        let actions = actions.then(KeyAction::Up { value: key });
        self.client.perform_actions(actions).await.expect("the key goes down and up");
    }

    /// Types `text` into the field with this test id, once it is there, in place of what it holds.
    pub async fn fill(&self, id: &str, text: &str) {
        let element = self.element(id).await;
        element.clear().await.expect("it can be emptied");
        element.send_keys(text).await.expect("it can be typed into");
    }

    /// Chooses the file `path` in the file field with this test id, once it is there.
    pub async fn choose_file(&self, id: &str, path: &str) {
        self.element(id).await.send_keys(path).await.expect("it takes a file");
    }

    /// The element with this test id, once it is there; folds around it are opened.
    async fn element(&self, id: &str) -> Element {
        let css = format!("[data-testid=\"{id}\"]");
        let element = self.client.wait().for_element(Locator::Css(&css)).await;
        let element = element.unwrap_or_else(|error| panic!("no {id}: {error}"));
        self.client.execute(&unfolded(id), Vec::new()).await.expect("the page answers");
        element
    }

    /// Loads the page anew, as an impatient student would.
    pub async fn reload(&self) {
        self.client.refresh().await.expect("the page loads");
    }

    /// Saves a picture of the page where `UNMASK_SCREENSHOTS` names a folder.
    pub async fn screenshot(&self, name: &str) {
        if let Some(folder) = std::env::var_os("UNMASK_SCREENSHOTS") {
            let picture = self.client.screenshot().await.expect("a screenshot");
            let path = std::path::Path::new(&folder).join(format!("{name}.png"));
            std::fs::write(path, picture).expect("the screenshot is saved");
        }
    }

    /// Closes the tab, as a student would.
    pub async fn close(self) {
        self.client.close().await.expect("the tab closes");
    }
}
