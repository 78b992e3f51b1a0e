//! Finds the browsers and drivers for the tests of the page.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::env::{self, Env};

pub fn browser(env: &Env) -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"].iter().find_map(|name| env.find(name))
}

/// The browser's WebDriver server; the last two paths are those of Ubuntu's snap and its wrapper package.
pub fn driver(env: &Env) -> Option<PathBuf> {
    let hidden = Path::new("/usr/lib/chromium-browser/chromedriver");
    ["chromedriver", "chromium.chromedriver"]
        .iter()
        .find_map(|name| env.find(name))
        .or_else(|| hidden.is_file().then(|| hidden.to_path_buf()))
}

pub fn required_driver(env: &Env) -> Result<PathBuf> {
    driver(env).context("no chromedriver on PATH: run `cargo xtask setup`")
}

pub fn firefox(env: &Env) -> Option<PathBuf> {
    ["firefox", "firefox-esr"].iter().find_map(|name| env.find(name))
}

/// The WebDriver server of WebKitGTK, which starts the browser that comes with it. That browser needs a screen, so
/// without Xvfb there is none.
pub fn webkit(env: &Env) -> Option<PathBuf> {
    env.find("Xvfb").and_then(|_| env.find("WebKitWebDriver"))
}

/// A browser that runs the end-to-end tests on request. The checks run them in Chromium, and a short lesson in these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    Firefox,
    WebKit,
}

impl Other {
    /// Its value of `UNMASK_BROWSER`, which the tests read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Firefox => "firefox",
            Self::WebKit => "webkit",
        }
    }

    /// # Errors
    /// A program that it needs is missing.
    pub fn require(self, env: &Env) -> Result<()> {
        match self {
            Self::Firefox => {
                env.find("geckodriver").context("no geckodriver on PATH: run `cargo xtask setup`")?;
                firefox(env).context("no Firefox on PATH: run `cargo xtask setup`")
            }
            Self::WebKit => webkit(env).context("no WebKitWebDriver or no Xvfb on PATH: run `cargo xtask setup`"),
        }
        .map(|_| ())
    }
}

/// The variables that tell the end-to-end tests where browsers and drivers are.
pub fn variables(env: &Env) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let all = [
        ("CHROMEDRIVER", driver(env)),
        ("GECKODRIVER", env.find("geckodriver")),
        ("FIREFOX", firefox(env)),
        ("WEBKITDRIVER", webkit(env)),
    ];
    all.into_iter().filter_map(|(name, path)| Some((name, path?)))
}

/// A warning if browser and driver have different major versions, which Chrome refuses.
pub fn mismatch(env: &Env) -> Option<String> {
    let version = |path: PathBuf| {
        let text = env::read(env.command(path.to_str()?).arg("--version"))?;
        env::version_word(&text).map(str::to_owned)
    };
    let (browser, driver) = (version(browser(env)?)?, version(driver(env)?)?);
    (major(&browser) != major(&driver)).then(|| {
        format!("the browser is {browser} and its chromedriver {driver}: install the same major version of both")
    })
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}
