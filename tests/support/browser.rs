//! Browsers under WebDriver, and their tabs.

use std::{path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use fantoccini::{
    Client, Locator,
    actions::{InputSource, KeyAction, KeyActions},
    elements::Element,
    wd::WindowHandle,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::{
    LOOK,
    driver::{Driver, Kind, Session, Shield},
    in_time, skipped,
};

/// Most presses of Tab from the top of a page to an element.
const FAR: usize = 120;

const TAB: char = '\u{e004}';

/// JavaScript for the element with a test id; opens the folds around it first.
fn unfolded(id: &str) -> String {
    format!(
        "(element => {{ for (let fold; (fold = element?.closest('details:not([open])')) && fold !== element \
         && element.closest('summary')?.parentElement !== fold;) fold.querySelector(':scope > summary').click(); \
         return element }})(document.querySelector('[data-testid=\"{id}\"]'))"
    )
}

/// A browser for the devices of a class; its windows close when it is dropped.
pub struct Browser {
    kind: Kind,
    drivers: Mutex<Vec<Driver>>,
}

/// A tab in its own browser, like a separate device.
pub struct Tab {
    kind: Kind,
    client: Client,
    session: Session,
    _profile: TempDir,
}

/// The user's preferred colour scheme.
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
    /// Starts Chromium, or the browser in `UNMASK_BROWSER`.
    pub async fn start() -> Self {
        Self::of(Kind::chosen()).await
    }

    /// Starts Firefox; reports a skipped test if Firefox or its driver is missing.
    pub async fn firefox() -> Option<Self> {
        Self::if_there(Kind::Firefox, "there is no Firefox with a geckodriver").await
    }

    /// Starts WebKit; reports a skipped test if WebKit's driver or Xvfb is missing.
    pub async fn webkit() -> Option<Self> {
        Self::if_there(Kind::WebKit, "there is no WebKitWebDriver with an Xvfb").await
    }

    async fn if_there(kind: Kind, missing: &str) -> Option<Self> {
        if !kind.is_there() {
            skipped(format!("{missing}; `cargo xtask setup` installs them"));
            return None;
        }
        Some(Self::of(kind).await)
    }

    async fn of(kind: Kind) -> Self {
        Self { kind, drivers: Mutex::new(vec![Driver::start(kind).await]) }
    }

    /// The process numbers of the drivers and their screens; the browsers are child processes.
    pub async fn processes(&self) -> Vec<u32> {
        self.drivers.lock().await.iter().flat_map(Driver::processes).collect()
    }

    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    pub fn is_webkit(&self) -> bool {
        self.kind == Kind::WebKit
    }

    /// Whether its windows can be as narrow as a phone.
    pub fn is_narrow_enough(&self) -> bool {
        self.kind != Kind::Firefox
    }

    /// Opens `address` in a new browser of `width` x `height` pixels, for a user who reads English.
    pub async fn open(&self, address: &str, size: (u32, u32)) -> Tab {
        self.open_in(address, size, "en-US,en").await
    }

    /// Like [`open`](Self::open), for a user with these languages, the preferred one first.
    pub async fn open_in(&self, address: &str, size: (u32, u32), languages: &str) -> Tab {
        self.open_for(address, size, (languages, Shield::Nothing)).await
    }

    /// Like [`open`](Self::open), for a user with this shield; reports a skipped test if the browser has none.
    pub async fn open_behind(&self, address: &str, size: (u32, u32), shield: Shield) -> Option<Tab> {
        if !self.kind.has(shield) {
            skipped(format!("{} keeps no {shield:?} from pages", self.name()));
            return None;
        }
        Some(self.open_for(address, size, ("en-US,en", shield)).await)
    }

    async fn open_for(&self, address: &str, size: (u32, u32), user: (&str, Shield)) -> Tab {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut drivers = self.drivers.lock().await;
        if drivers.iter().all(Driver::is_busy) {
            drivers.push(Driver::start(self.kind).await);
        }
        let driver = drivers.iter_mut().find(|driver| !driver.is_busy()).expect("one was started above");
        let (client, session) = driver.open(profile.path(), size, user).await;
        drop(drivers);
        let tab = Tab { kind: self.kind, client, session, _profile: profile };
        if self.kind == Kind::WebKit {
            // No argument tells it the size of its window.
            tab.resize(size).await;
        }
        tab.client.goto(address).await.expect("the page opens");
        tab
    }

    /// Like [`open`](Self::open), with a view of exactly `width` x `height` pixels, without the browser's frame.
    pub async fn open_view(&self, address: &str, size: (u32, u32)) -> Tab {
        let tab = self.open(address, size).await;
        tab.resize(size).await;
        tab
    }
}

impl Tab {
    pub async fn resize(&self, (width, height): (u32, u32)) {
        let frame = self.wait_for("[outerWidth - innerWidth, outerHeight - innerHeight]").await;
        let pixels = |at: usize| frame[at].as_u64().and_then(|pixels| u32::try_from(pixels).ok()).unwrap_or(0);
        self.client.set_window_size(width + pixels(0), height + pixels(1)).await.expect("the window takes a size");
        self.wait_for(&format!("innerWidth == {width} && innerHeight == {height} || null")).await;
    }

    /// Waits until the JavaScript expression `look` is not null, undefined or empty, and returns its value.
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

    /// Runs a script as the body of a function, and returns its result.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect("the script runs")
    }

    /// Runs a script that passes its result to its last argument.
    pub async fn run_async(&self, script: &str) -> Value {
        self.client.execute_async(script, Vec::new()).await.expect("the script runs")
    }

    /// Waits for the attribute `attribute` of the element with this test id.
    pub async fn attribute(&self, id: &str, attribute: &str) -> String {
        let look = format!("document.querySelector('[data-testid=\"{id}\"]')?.getAttribute('{attribute}')");
        self.wait_for(&look).await.as_str().unwrap_or_default().to_owned()
    }

    pub async fn attribute_is(&self, id: &str, attribute: &str, value: &str) {
        let element = format!("document.querySelector('[data-testid=\"{id}\"]')");
        self.wait_for(&format!("{element}?.getAttribute('{attribute}') === '{value}' || null")).await;
    }

    /// Waits for the text of the element with this test id; opens the folds around it.
    pub async fn text(&self, id: &str) -> String {
        self.wait_for(&format!("{}?.innerText", unfolded(id))).await.as_str().unwrap_or_default().to_owned()
    }

    pub async fn shows(&self, id: &str) -> bool {
        let look = format!("return !!document.querySelector('[data-testid=\"{id}\"]')?.checkVisibility()");
        self.client.execute(&look, Vec::new()).await.expect("the page answers") == true
    }

    /// Clicks the element with this test id when it is visible.
    pub async fn click(&self, id: &str) {
        // Opens the folds around it.
        self.element(id).await;
        self.wait_for(&format!("document.querySelector('[data-testid=\"{id}\"]')?.checkVisibility() || null")).await;
        self.rests(id).await;
        if self.element(id).await.click().await.is_err() {
            // The page may have drawn it again since.
            self.element(id).await.click().await.expect("it can be clicked");
        }
    }

    /// Scrolls to this element, and waits until it stays where it is. A pointer would miss one that moves, and
    /// WebDriver would not say so.
    async fn rests(&self, id: &str) {
        let script = "const [look, done] = arguments;
            const place = () => {
                const element = document.querySelector(look);
                element?.scrollIntoView({ behavior: 'instant', block: 'nearest' });
                const { x, y } = element?.getBoundingClientRect() ?? {};
                return [x, y].join();
            };
            const before = place();
            setTimeout(() => done(before === place() || null), 50);";
        let look = format!("[data-testid=\"{id}\"]");
        let rest = in_time(|| async {
            let rests = self.client.execute_async(script, vec![json!(look)]).await.unwrap_or_default();
            (!rests.is_null()).then_some(())
        });
        rest.await.unwrap_or_else(|| panic!("{id} never rests"));
    }

    /// Presses and releases a key in the focused element; a key without a letter is given by WebDriver's code.
    pub async fn press(&self, key: char) {
        let actions = KeyActions::new("keyboard".to_owned()).then(KeyAction::Down { value: key });
        let actions = actions.then(KeyAction::Up { value: key });
        self.client.perform_actions(actions).await.expect("the key goes down and up");
    }

    /// Moves the focus by keyboard to the element with this test id, and asserts that the focus is visible.
    pub async fn tab_to(&self, id: &str) {
        self.wait_for(&format!("document.querySelector('[data-testid=\"{id}\"]')?.checkVisibility() || null")).await;
        // A label or a fold is identified by the element that it belongs to.
        let focused = "(element => {
            const shown = element.matches('input[type=file], .segment input') ? element.parentElement : element;
            const named = element.tagName === 'SUMMARY' ? element.parentElement : element;
            // Without a window manager, no window has the focus, and WebKit shows none.
            const outline = document.hasFocus() ? getComputedStyle(shown).outlineStyle : 'unknown';
            return [named.dataset.testid ?? '', outline];
        })(document.activeElement)";
        let mut passed = Vec::new();
        for _ in 0..FAR {
            self.press(TAB).await;
            let focused = self.run(&format!("return {focused}")).await;
            if focused[0] == id {
                assert_ne!(focused[1], "none", "the focus on {id} is not visible");
                return;
            }
            passed.push(focused[0].as_str().unwrap_or("-").to_owned());
        }
        panic!("Tab never reaches {id}, only {}", passed.join(", "));
    }

    /// Replaces the content of the field with this test id by `text`.
    pub async fn fill(&self, id: &str, text: &str) {
        let element = self.element(id).await;
        element.clear().await.expect("it can be emptied");
        element.send_keys(text).await.expect("it can be typed into");
    }

    pub async fn choose_file(&self, id: &str, path: &str) {
        self.element(id).await.send_keys(path).await.expect("it takes a file");
    }

    /// Waits for the element with this test id; opens the folds around it.
    async fn element(&self, id: &str) -> Element {
        let css = format!("[data-testid=\"{id}\"]");
        let element = self.client.wait().every(LOOK).for_element(Locator::Css(&css)).await;
        let element = element.unwrap_or_else(|error| panic!("no {id}: {error}"));
        self.client.execute(&unfolded(id), Vec::new()).await.expect("the page answers");
        element
    }

    /// Reloads the page, like an impatient student.
    pub async fn reload(&self) {
        self.client.refresh().await.expect("the page loads");
    }

    /// Opens a copy of this page with its storage, as a browser's *Duplicate* does, and turns to it. Returns the original.
    pub async fn duplicate(&self) -> WindowHandle {
        let original = self.client.window().await.expect("a window");
        let before = self.client.windows().await.expect("windows");
        self.run("open(location.href)").await;
        let copy = in_time(|| async {
            let now = self.client.windows().await.ok()?;
            now.into_iter().find(|window| !before.contains(window))
        });
        self.turn_to(copy.await.expect("a second window")).await;
        original
    }

    pub async fn turn_to(&self, window: WindowHandle) {
        self.client.switch_to_window(window).await.expect("it is open");
    }

    /// Whether the page's user preferences can be set. This needs DevTools, which only Chromium's driver offers.
    pub fn has_devtools(&self) -> bool {
        self.kind == Kind::Chromium
    }

    pub async fn prefer(&self, scheme: Scheme) {
        self.emulate("prefers-color-scheme", scheme.name()).await;
    }

    pub async fn prefer_less_motion(&self) {
        self.emulate("prefers-reduced-motion", "reduce").await;
    }

    async fn emulate(&self, feature: &str, value: &str) {
        let features = json!([{ "name": feature, "value": value }]);
        self.session.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
        self.wait_for(&format!("matchMedia('({feature}: {value})').matches || null")).await;
    }

    /// Sets the size of the browser's letters; the default is 16 pixels. Where the browser cannot be told, the page is,
    /// until it is reloaded.
    pub async fn set_letters(&self, pixels: u32) {
        if self.has_devtools() {
            let sizes = json!({ "fontSizes": { "standard": pixels, "fixed": pixels } });
            self.session.devtools("Page.setFontSizes", sizes).await;
        } else {
            self.run(&format!("document.documentElement.style.fontSize = '{pixels}px'")).await;
        }
        let size = "getComputedStyle(document.documentElement).fontSize";
        self.wait_for(&format!("{size} == '{pixels}px' || null")).await;
    }

    /// Runs a script on every page that this tab will load, before the page's own scripts.
    pub async fn on_every_page(&self, script: &str) {
        self.session.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    /// The errors in the page's console since the last call; none where the browser cannot be asked.
    pub async fn console_errors(&self) -> Vec<Value> {
        if !self.has_devtools() {
            return Vec::new();
        }
        self.session.errors().await.as_array().cloned().unwrap_or_default()
    }

    /// Makes the page believe that it is hidden, or visible again: in a headless browser, every page is visible.
    pub async fn hide(&self, is_hidden: bool) {
        self.run(&format!(
            "Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        ))
        .await;
    }

    /// Ends the browser's graphics process, like a crashing driver.
    pub async fn lose_graphics(&self) {
        self.session.devtools("Browser.crashGpuProcess", json!({})).await;
    }

    /// Saves a screenshot if `UNMASK_SCREENSHOTS` names a folder.
    pub async fn screenshot(&self, name: &str) {
        if let Some(folder) = std::env::var_os("UNMASK_SCREENSHOTS") {
            let picture = self.client.screenshot().await.expect("a screenshot");
            save(&Path::new(&folder).join(format!("{name}.png")), &picture);
        }
    }

    /// Saves a screenshot as WebP, of the visible part or of the whole page.
    pub async fn picture(&self, path: &Path, is_whole: bool) {
        // The last change may not be painted yet.
        tokio::time::sleep(Duration::from_millis(300)).await;
        if is_whole {
            // The view is made as tall as the page, because a screenshot beyond the visible part is never dark.
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

    pub async fn close(self) {
        self.client.close().await.expect("the tab closes");
    }
}

fn save(path: &Path, picture: &[u8]) {
    std::fs::write(path, picture).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
