//! Browsers under WebDriver, and their tabs.

use std::{path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use fantoccini::{
    Client, Locator,
    actions::{InputSource, KeyAction, KeyActions},
    elements::Element,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::{
    LOOK,
    driver::{Driver, Kind, Session},
    in_time, skipped,
};

/// Most steps from the top of a page to what is looked for by keyboard.
const FAR: usize = 120;

/// WebDriver's code of the key Tab.
const TAB: char = '\u{e004}';

/// The element with a test id, in JavaScript, after the folds around it were opened.
fn unfolded(id: &str) -> String {
    format!(
        "(element => {{ for (let fold; (fold = element?.closest('details:not([open])')) && fold !== element \
         && element.closest('summary')?.parentElement !== fold;) fold.querySelector(':scope > summary').click(); \
         return element }})(document.querySelector('[data-testid=\"{id}\"]'))"
    )
}

/// A browser that devices of a class have; all of its windows end when it is dropped.
pub struct Browser {
    kind: Kind,
    drivers: Mutex<Vec<Driver>>,
}

/// One tab in a browser of its own, as on a device of its own.
pub struct Tab {
    kind: Kind,
    client: Client,
    session: Session,
    _profile: TempDir,
}

/// What a page's user likes to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub const ALL: [Self; 2] = [Self::Light, Self::Dark];

    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

impl Browser {
    /// Chromium, or what `UNMASK_BROWSER` names.
    pub async fn start() -> Self {
        Self::of(Kind::chosen()).await
    }

    /// Firefox, where it and its driver are there; says so where they are not.
    pub async fn firefox() -> Option<Self> {
        if !Kind::Firefox.is_there() {
            skipped("there is no Firefox with a geckodriver; `cargo xtask setup` installs them");
            return None;
        }
        Some(Self::of(Kind::Firefox).await)
    }

    async fn of(kind: Kind) -> Self {
        Self { kind, drivers: Mutex::new(vec![Driver::start(kind).await]) }
    }

    /// The drivers' numbers; their browsers are their children.
    pub async fn processes(&self) -> Vec<u32> {
        self.drivers.lock().await.iter().map(Driver::process).collect()
    }

    /// Opens `address` in a fresh browser of `width` x `height` pixels, whose user reads English.
    pub async fn open(&self, address: &str, size: (u32, u32)) -> Tab {
        self.open_in(address, size, "en-US,en").await
    }

    /// The same for a user with these languages, the preferred one first.
    pub async fn open_in(&self, address: &str, size: (u32, u32), languages: &str) -> Tab {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut drivers = self.drivers.lock().await;
        if drivers.iter().all(Driver::is_busy) {
            drivers.push(Driver::start(self.kind).await);
        }
        let driver = drivers.iter_mut().find(|driver| !driver.is_busy()).expect("one was started above");
        let (client, session) = driver.open(profile.path(), size, languages).await;
        drop(drivers);
        client.goto(address).await.expect("the page opens");
        Tab { kind: self.kind, client, session, _profile: profile }
    }

    /// The same with a view of `width` x `height` pixels, whatever the browser's frame takes of its window.
    pub async fn open_view(&self, address: &str, size: (u32, u32)) -> Tab {
        let tab = self.open(address, size).await;
        tab.resize(size).await;
        tab
    }
}

impl Tab {
    /// Gives the view this many pixels.
    pub async fn resize(&self, (width, height): (u32, u32)) {
        let frame = self.wait_for("[outerWidth - innerWidth, outerHeight - innerHeight]").await;
        let pixels = |at: usize| frame[at].as_u64().and_then(|pixels| u32::try_from(pixels).ok()).unwrap_or(0);
        self.client.set_window_size(width + pixels(0), height + pixels(1)).await.expect("the window takes a size");
        self.wait_for(&format!("innerWidth == {width} && innerHeight == {height} || null")).await;
    }

    /// What `look`, a JavaScript expression, says once it is neither null, undefined nor empty.
    pub async fn wait_for(&self, look: &str) -> Value {
        let script = format!("return {look}");
        let found = in_time(|| async {
            let value = self.client.execute(&script, Vec::new()).await.unwrap_or_default();
            (!value.is_null() && value != "").then_some(value)
        });
        match found.await {
            Some(value) => value,
            None => {
                let text = self.client.execute("return document.body.innerText", Vec::new()).await;
                panic!("waited in vain for {look}\nthe page says: {}", text.unwrap_or_default());
            }
        }
    }

    /// Runs a script, as a function of no arguments; what it returns.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect("the script runs")
    }

    /// Runs a script that calls its last argument with what it finds.
    pub async fn run_async(&self, script: &str) -> Value {
        self.client.execute_async(script, Vec::new()).await.expect("the script runs")
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

    /// Clicks the element with this test id, once it is there and shown.
    pub async fn click(&self, id: &str) {
        let element = self.element(id).await;
        self.wait_for(&format!("document.querySelector('[data-testid=\"{id}\"]')?.checkVisibility() || null")).await;
        element.click().await.expect("it can be clicked");
    }

    /// Presses and lets go of a key, wherever the focus is; by WebDriver's code where it has no letter.
    pub async fn press(&self, key: char) {
        let actions = KeyActions::new("keyboard".to_owned()).then(KeyAction::Down { value: key });
        let actions = actions.then(KeyAction::Up { value: key });
        self.client.perform_actions(actions).await.expect("the key goes down and up");
    }

    /// Moves the focus by keyboard to the element with this test id, which must then be seen to have it.
    pub async fn tab_to(&self, id: &str) {
        self.wait_for(&format!("document.querySelector('[data-testid=\"{id}\"]')?.checkVisibility() || null")).await;
        // What a label or a fold stands for is named where the label or the fold is.
        let focused = "(element => {
            const shown = element.matches('input[type=file], .segment input') ? element.parentElement : element;
            const named = element.tagName === 'SUMMARY' ? element.parentElement : element;
            return [named.dataset.testid ?? '', getComputedStyle(shown).outlineStyle];
        })(document.activeElement)";
        let mut passed = Vec::new();
        for _ in 0..FAR {
            self.press(TAB).await;
            let focused = self.run(&format!("return {focused}")).await;
            if focused[0] == id {
                assert_ne!(focused[1], "none", "the focus on {id} is not seen");
                return;
            }
            passed.push(focused[0].as_str().unwrap_or("-").to_owned());
        }
        panic!("no way leads to {id} by Tab, only to {}", passed.join(", "));
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
        let element = self.client.wait().every(LOOK).for_element(Locator::Css(&css)).await;
        let element = element.unwrap_or_else(|error| panic!("no {id}: {error}"));
        self.client.execute(&unfolded(id), Vec::new()).await.expect("the page answers");
        element
    }

    /// Loads the page anew, as an impatient student would.
    pub async fn reload(&self) {
        self.client.refresh().await.expect("the page loads");
    }

    /// Whether the page can be told what its user likes, and be as narrow as a phone: what DevTools do, and Chromium's driver alone hands on.
    pub fn has_devtools(&self) -> bool {
        self.kind == Kind::Chromium
    }

    /// Has the page see the colours that its user likes.
    pub async fn prefer(&self, scheme: Scheme) {
        self.emulate("prefers-color-scheme", scheme.name()).await;
    }

    /// Has the page move as little as its user likes.
    pub async fn prefer_less_motion(&self) {
        self.emulate("prefers-reduced-motion", "reduce").await;
    }

    async fn emulate(&self, feature: &str, value: &str) {
        let features = json!([{ "name": feature, "value": value }]);
        self.session.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        self.wait_for(&format!("matchMedia('({feature}: {value})').matches || null")).await;
    }

    /// Sets the browser's letters to this size, where 16 pixels are usual.
    pub async fn set_letters(&self, pixels: u32) {
        let sizes = json!({ "fontSizes": { "standard": pixels, "fixed": pixels } });
        self.session.devtools("Page.setFontSizes", sizes).await;
        let size = "getComputedStyle(document.documentElement).fontSize";
        self.wait_for(&format!("{size} == '{pixels}px' || null")).await;
    }

    /// Runs a script on every page that this tab will load, before anything of it.
    pub async fn on_every_page(&self, script: &str) {
        self.session.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    /// Has the page believe that it is out of sight, or back: headless, every page is in sight.
    pub async fn hide(&self, is_hidden: bool) {
        self.run(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        ))
        .await;
    }

    /// Ends the process that the browser draws and computes in, as a driver does that crashes.
    pub async fn lose_graphics(&self) {
        self.session.devtools("Browser.crashGpuProcess", json!({})).await;
    }

    /// Saves a picture of the page where `UNMASK_SCREENSHOTS` names a folder.
    pub async fn screenshot(&self, name: &str) {
        if let Some(folder) = std::env::var_os("UNMASK_SCREENSHOTS") {
            let picture = self.client.screenshot().await.expect("a screenshot");
            save(&Path::new(&folder).join(format!("{name}.png")), &picture);
        }
    }

    /// Saves a picture of the page as WebP: of what is seen of it, or of all of it.
    pub async fn picture(&self, path: &Path, is_whole: bool) {
        // What came last may still be on its way to the screen.
        tokio::time::sleep(Duration::from_millis(300)).await;
        if is_whole {
            // As tall as all of it: a picture beyond what is seen never comes in the dark.
            let size = self.run("return [innerWidth, document.documentElement.scrollHeight]").await;
            let metrics = json!({ "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": true });
            self.session.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
            self.wait_for(&format!("innerHeight == {} || null", size[1])).await;
        }
        let options = json!({ "format": "webp", "quality": if is_whole { 60 } else { 80 } });
        let answer = self.session.devtools("Page.captureScreenshot", options).await;
        if is_whole {
            self.session.devtools("Emulation.clearDeviceMetricsOverride", json!({})).await;
        }
        let data = answer["data"].as_str().unwrap_or_else(|| panic!("no picture in {answer}"));
        save(path, &STANDARD.decode(data).expect("base64"));
    }

    /// Closes the tab, as a student would.
    pub async fn close(self) {
        self.client.close().await.expect("the tab closes");
    }
}

fn save(path: &Path, picture: &[u8]) {
    std::fs::write(path, picture).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
