//! Installs what only the system's package manager has: compiler, browser, Vulkan.

use std::io::{self, BufRead, IsTerminal as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::browser;
use crate::env::{self, Env};

/// A program or library of the system that a build or a check uses.
pub struct Need {
    what: &'static str,
    why: &'static str,
    debian: &'static [&'static str],
    ubuntu: &'static [&'static str],
    /// Without it, the checks continue and test less.
    is_optional: bool,
    is_there: fn(&Env) -> bool,
}

impl Need {
    pub fn c_compiler() -> Self {
        Self {
            what: "a C compiler",
            why: "some dependencies are written in C",
            debian: &["build-essential", "pkg-config"],
            ubuntu: &["build-essential", "pkg-config"],
            is_optional: false,
            is_there: |env| ["cc", "gcc", "clang", "cl"].iter().any(|name| env.find(name).is_some()),
        }
    }

    pub fn cpp_compiler() -> Self {
        Self {
            what: "a C++ compiler",
            why: "libFuzzer is written in C++",
            debian: &["g++"],
            ubuntu: &["g++"],
            is_optional: false,
            is_there: has_cpp_compiler,
        }
    }

    pub fn browser() -> Self {
        Self {
            what: "Chromium or Chrome",
            why: "the page is tested in a real browser",
            debian: &["chromium"],
            ubuntu: &["chromium-browser"],
            is_optional: false,
            is_there: |env| browser::browser(env).is_some(),
        }
    }

    pub fn driver() -> Self {
        Self {
            what: "chromedriver",
            why: "the tests drive the browser through it",
            debian: &["chromium-driver"],
            ubuntu: &["chromium-chromedriver"],
            is_optional: false,
            is_there: |env| browser::driver(env).is_some(),
        }
    }

    pub fn firefox() -> Self {
        Self {
            what: "Firefox",
            why: "a short lesson is tested in it, too",
            debian: &["firefox-esr"],
            ubuntu: &["firefox"],
            is_optional: true,
            is_there: |env| browser::firefox(env).is_some(),
        }
    }

    pub fn webkit() -> Self {
        Self {
            what: "WebKit with its driver and Xvfb",
            why: "a short lesson is tested in the engine of Safari, too",
            debian: &["webkit2gtk-driver", "xvfb"],
            ubuntu: &["webkit2gtk-driver", "xvfb"],
            is_optional: true,
            is_there: |env| browser::webkit(env).is_some(),
        }
    }

    pub fn mingw() -> Self {
        Self {
            what: "MinGW-w64's C compiler",
            why: "it compiles and links the program for Windows",
            debian: &["gcc-mingw-w64-x86-64"],
            ubuntu: &["gcc-mingw-w64-x86-64"],
            is_optional: false,
            is_there: |env| env.find(crate::windows::COMPILER).is_some(),
        }
    }

    pub fn wine() -> Self {
        Self {
            what: "Wine",
            why: "the program for Windows is tested under it",
            debian: &["wine", "wine64"],
            ubuntu: &["wine", "wine64"],
            is_optional: true,
            is_there: |env| env.find("wine").is_some(),
        }
    }

    /// A Vulkan driver; on a machine without a GPU, Mesa's software driver.
    pub fn vulkan() -> Self {
        Self {
            what: "a Vulkan driver",
            why: "the native GPU code is tested on it, without a GPU too",
            debian: &["mesa-vulkan-drivers"],
            ubuntu: &["mesa-vulkan-drivers"],
            is_optional: true,
            is_there: |_| !cfg!(target_os = "linux") || has_vulkan_driver(),
        }
    }
}

/// Makes sure that all of `needs` are met. Installs what is missing, if allowed; before it uses sudo, it asks.
///
/// # Errors
/// Something required stays missing; the message has the command to run.
pub fn ensure(env: &Env, needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.is_there)(env)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("Missing: {} ({}).", need.what, need.why);
    }
    if env.find("apt-get").is_none() {
        return stop_unless_optional(&missing, "install it with your system's package manager");
    }
    let is_ubuntu = is_ubuntu(&std::fs::read_to_string("/etc/os-release").unwrap_or_default());
    let packages = packages(&missing, is_ubuntu);
    let mut by_hand = format!("sudo apt-get update && sudo apt-get install -y {}", packages.join(" "));
    if is_ubuntu && missing.iter().any(|need| need.ubuntu.iter().any(|name| name.starts_with("chromium"))) {
        by_hand += "\n(Ubuntu's Chromium is a snap; Google Chrome with its chromedriver on PATH works too)";
    }
    let Some(privilege) = privilege(env) else {
        return stop_unless_optional(&missing, &format!("run this, then start again:\n  {by_hand}"));
    };
    if !privilege.is_empty() && !may_use_sudo(&packages) {
        return stop_unless_optional(&missing, &format!("run this, then start again:\n  {by_hand}"));
    }
    println!("Installing {} with apt (once) ...", packages.join(", "));
    let installed = env::run(&mut apt(env, privilege, &["update"]))
        .and_then(|()| env::run(apt(env, privilege, &["install", "-y"]).args(&packages)));
    if let Err(error) = installed {
        println!("{error:#}");
    }
    let missing: Vec<&Need> = missing.into_iter().filter(|need| !(need.is_there)(env)).collect();
    stop_unless_optional(&missing, &format!("run this, then start again:\n  {by_hand}"))
}

/// Asks the person at the terminal whether sudo may install these packages. A machine that only runs checks says so in
/// the variable `CI`, and is not asked; without a terminal and without that variable, nothing is installed.
fn may_use_sudo(packages: &[&str]) -> bool {
    if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        return true;
    }
    let input = io::stdin();
    input.is_terminal() && agrees(packages, &mut input.lock(), &mut io::stdout())
}

/// Asks, and reads the answer. Only a clear yes is one.
fn agrees(packages: &[&str], input: &mut impl BufRead, output: &mut impl io::Write) -> bool {
    let names = packages.join(", ");
    let asked = write!(output, "May sudo install {names} with apt-get, for all users of this machine? [y/N] ");
    let mut answer = String::new();
    let is_read = asked.and_then(|()| output.flush()).and_then(|()| input.read_line(&mut answer)).is_ok();
    is_read && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

fn stop_unless_optional(missing: &[&Need], remedy: &str) -> Result<()> {
    let names = |is_optional: bool| -> Vec<&str> {
        missing.iter().filter(|need| need.is_optional == is_optional).map(|need| need.what).collect()
    };
    let (required, optional) = (names(false), names(true));
    if !required.is_empty() {
        bail!("missing, and not installed by this program: {}; {remedy}", required.join(", "));
    }
    if !optional.is_empty() {
        println!("Continuing without {}; to get it, {remedy}", optional.join(" and "));
    }
    Ok(())
}

fn packages(missing: &[&Need], is_ubuntu: bool) -> Vec<&'static str> {
    missing.iter().flat_map(|need| if is_ubuntu { need.ubuntu } else { need.debian }).copied().collect()
}

/// Ubuntu and its derivatives have Chromium as a snap, behind packages with other names.
fn is_ubuntu(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .any(|ids| ids.trim_matches('"').split_whitespace().any(|id| id == "ubuntu"))
}

/// The words before apt-get: none for root, sudo if it needs no password; `None` otherwise.
fn privilege(env: &Env) -> Option<&'static [&'static str]> {
    if env::read(env.command("id").arg("-u")).as_deref() == Some("0") {
        return Some(&[]);
    }
    env.find("sudo")?;
    env::read(env.command("sudo").args(["-n", "true"])).map(|_| ["sudo", "-n"].as_slice())
}

fn apt(env: &Env, privilege: &[&str], arguments: &[&str]) -> Command {
    // Through `env`, because sudo drops its caller's variables.
    let words: Vec<&str> =
        privilege.iter().copied().chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).collect();
    let mut command = env.command(words[0]);
    command.args(&words[1..]).args(arguments);
    command
}

/// Whether there is a C++ compiler under one of the usual names.
pub fn has_cpp_compiler(env: &Env) -> bool {
    ["c++", "g++", "clang++"].iter().any(|name| env.find(name).is_some())
}

fn has_vulkan_driver() -> bool {
    ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]
        .iter()
        .any(|dir| Path::new(dir).read_dir().is_ok_and(|mut entries| entries.next().is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(is_optional: bool) -> Need {
        Need { is_optional, is_there: |_| false, ..Need::browser() }
    }

    #[test]
    fn ubuntu_and_its_children_are_told_from_debian() {
        assert!(is_ubuntu("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n"));
        assert!(is_ubuntu("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_ubuntu("PRETTY_NAME=\"not ubuntu\"\nID=debian\n"));
        assert!(!is_ubuntu(""));
    }

    #[test]
    fn packages_are_named_as_the_distribution_names_them() {
        let needs = [Need::browser(), Need::driver()];
        let missing: Vec<&Need> = needs.iter().collect();
        assert_eq!(packages(&missing, false), ["chromium", "chromium-driver"]);
        assert_eq!(packages(&missing, true), ["chromium-browser", "chromium-chromedriver"]);
    }

    #[test]
    fn sudo_is_asked_for_with_the_names_of_all_packages() {
        for (answer, is_agreed) in
            [("y\n", true), ("Yes\n", true), ("\n", false), ("n\n", false), ("", false), ("why?\n", false)]
        {
            let mut output = Vec::new();
            assert_eq!(agrees(&["chromium", "xvfb"], &mut answer.as_bytes(), &mut output), is_agreed, "{answer:?}");
            let asked = String::from_utf8(output).expect("text");
            assert!(asked.contains("sudo install chromium, xvfb with apt-get"), "{asked}");
        }
    }

    #[test]
    fn what_is_optional_only_warns() {
        let (required, optional) = (absent(false), absent(true));
        assert!(stop_unless_optional(&[&optional], "do this").is_ok());
        let error = stop_unless_optional(&[&optional, &required], "do this").expect_err("required").to_string();
        assert!(error.ends_with("do this"), "{error}");
    }
}
