//! Folders, and calls of other programs.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::leftovers;

/// Arguments of `nice` for work beside tests with deadlines: it gets what time those leave.
pub const ASIDE: [&str; 2] = ["-n", "19"];

/// Folders, search path and terminal of this run.
#[derive(Clone)]
pub struct Env {
    pub root: PathBuf,
    /// The only target folder of all child builds, so that the page, the tests and the demo compile a dependency once.
    pub target_dir: PathBuf,
    /// Tools installed by us, separate from the user's (`bin` below it).
    pub tools_dir: PathBuf,
    /// No colours and no progress bars, for a log file or a CI machine.
    pub plain: bool,
    /// Marks the processes of this run; see [`leftovers`].
    pub mark: String,
    path: OsString,
    /// The program that gives children a lower priority, if they are to have one.
    nice: Option<PathBuf>,
}

impl Env {
    /// Reads the process's environment. Fails if no cache folder can be determined.
    pub fn detect() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest)
            .ancestors()
            .nth(2)
            .with_context(|| format!("{} is not a crate of a workspace", Path::new(&manifest).display()))?
            .to_path_buf();
        let home = std::env::home_dir();
        let cache = cache_dir(std::env::var_os("XDG_CACHE_HOME").as_deref(), home.as_deref())?;
        let target_dir = match std::env::var_os("UNMASK_TARGET_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => std::path::absolute(&dir)
                .with_context(|| format!("UNMASK_TARGET_DIR={} is not a path", Path::new(&dir).display()))?,
            None => cache.join("target"),
        };
        let tools_dir = cache.join("tools");
        let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| home.map(|h| h.join(".cargo")));
        let path = search_path(
            &tools_dir.join("bin"),
            &std::env::var_os("PATH").unwrap_or_default(),
            cargo_home.map(|home| home.join("bin")),
        )?;
        let wants_plain = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "false");
        let plain = wants_plain("CI") || wants_plain("NO_COLOR") || !std::io::stderr().is_terminal();
        Ok(Self { root, target_dir, tools_dir, plain, mark: leftovers::new_mark(), path, nice: None })
    }

    /// The same for work beside other work: with a lower priority, and with the mark of this guest.
    pub fn aside(&self, guest: usize) -> Self {
        Self { mark: leftovers::of_guest(&self.mark, guest), nice: self.find("nice"), ..self.clone() }
    }

    /// A call of `program`, found on the children's search path, in the top folder.
    ///
    /// Drops the variables that `cargo run` sets. Otherwise build scripts that watch them would run again whenever this
    /// program and plain cargo take turns.
    pub fn command(&self, program: &str) -> Command {
        let program = self.find(program).unwrap_or_else(|| program.into());
        let mut command = Command::new(self.nice.as_ref().unwrap_or(&program));
        if self.nice.is_some() {
            command.args(ASIDE).arg(&program);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(is_left_by_cargo_run) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.root)
            .env("PATH", &self.path)
            .env("CARGO_TARGET_DIR", &self.target_dir)
            .env(leftovers::VARIABLE, &self.mark);
        if self.plain {
            command.env("CARGO_TERM_COLOR", "never").env("CARGO_TERM_PROGRESS_WHEN", "never").env("CLICOLOR", "0");
        }
        command
    }

    /// The first executable with this name on the children's search path.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
        std::env::split_paths(&self.path).map(|dir| dir.join(&file)).find(|path| is_executable(path))
    }

    /// The children's search path with `folder` before it.
    ///
    /// # Errors
    /// The name of the folder cannot be part of PATH.
    pub fn path_behind(&self, folder: &Path) -> Result<OsString> {
        let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&self.path));
        std::env::join_paths(folders).with_context(|| format!("{} cannot be part of PATH", folder.display()))
    }

    /// The path of the executable `name` in the shared target folder.
    pub fn release_binary(&self, name: &str) -> PathBuf {
        self.target_dir.join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }
}

/// Prints the call and runs it to its end. The error of a failed call names it.
pub fn run(command: &mut Command) -> Result<()> {
    run_with(command, Command::status)
}

/// Like [`run`]; also passes each line of stdout on while it is printed.
pub fn run_watched(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<()> {
    run_with(command, |command| {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = Vec::new();
        let mut buffer = [0; 8192];
        if let Some(mut output) = child.stdout.take() {
            loop {
                let count = output.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                let mut terminal = std::io::stdout().lock();
                terminal.write_all(&buffer[..count])?;
                terminal.flush()?;
                for part in buffer[..count].split_inclusive(|&byte| byte == b'\n') {
                    line.extend_from_slice(part);
                    if line.ends_with(b"\n") {
                        on_line(String::from_utf8_lossy(&line).trim_end());
                        line.clear();
                    }
                }
            }
        }
        child.wait()
    })
}

/// Like [`run`]; passes each line of stdout on instead of printing it.
pub fn run_read(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<()> {
    run_with(command, |command| {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).split(b'\n') {
                match line {
                    Ok(line) => on_line(&String::from_utf8_lossy(&line)),
                    Err(_) => break,
                }
            }
        }
        child.wait()
    })
}

fn run_with(command: &mut Command, to_its_end: impl FnOnce(&mut Command) -> std::io::Result<ExitStatus>) -> Result<()> {
    leftovers::wait_if_interrupted();
    let line = describe(command);
    eprintln!("$ {line}");
    let status = to_its_end(command).with_context(|| format!("cannot run `{line}`"))?;
    // An interrupted call is not a failure.
    leftovers::wait_if_interrupted();
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// What the call printed on stdout, trimmed; `None` if it cannot start or fails.
pub fn read(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

/// The version in the output of `--version`: `geckodriver 0.37.1 (...)` or `ChromeDriver 120.0.1 (...)`.
pub fn version_word(text: &str) -> Option<&str> {
    text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
}

/// Replaces this process, so that Ctrl-C and the exit code are those of `command`.
#[cfg(unix)]
pub fn become_process(mut command: Command) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

#[cfg(not(unix))]
pub fn become_process(mut command: Command) -> Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or(command.get_program());
    let mut line = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

fn cache_dir(xdg: Option<&OsStr>, home: Option<&Path>) -> Result<PathBuf> {
    // The XDG rule: a relative XDG_CACHE_HOME counts as unset.
    if let Some(dir) = xdg.map(Path::new).filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("unmask"));
    }
    match home.filter(|dir| dir.is_absolute()) {
        Some(home) => Ok(home.join(".cache").join("unmask")),
        None => bail!("no folder for tools and build results: set HOME or XDG_CACHE_HOME to an absolute path"),
    }
}

fn search_path(ours: &Path, inherited: &OsStr, cargo_bin: Option<PathBuf>) -> Result<OsString> {
    let folders = std::iter::once(ours.to_path_buf()).chain(std::env::split_paths(inherited)).chain(cargo_bin);
    std::env::join_paths(folders)
        .with_context(|| format!("{} cannot be part of PATH: set XDG_CACHE_HOME to another folder", ours.display()))
}

fn is_left_by_cargo_run(name: &str) -> bool {
    name == "CARGO"
        || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|p| name.starts_with(p))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_follows_the_xdg_rule() {
        let home = Path::new("/h");
        assert_eq!(cache_dir(Some(OsStr::new("/x")), Some(home)).expect("absolute"), Path::new("/x/unmask"));
        assert_eq!(cache_dir(Some(OsStr::new("x")), Some(home)).expect("home"), Path::new("/h/.cache/unmask"));
        assert_eq!(cache_dir(None, Some(home)).expect("home"), Path::new("/h/.cache/unmask"));
        let error = cache_dir(Some(OsStr::new("")), None).expect_err("nowhere to go").to_string();
        assert!(error.contains("XDG_CACHE_HOME"), "{error}");
    }

    #[test]
    fn our_tools_come_first_on_the_search_path() {
        let inherited = std::env::join_paths(["/a", "/b"]).expect("plain folders");
        let path = search_path(Path::new("/t/bin"), &inherited, Some("/c/bin".into())).expect("plain folders");
        let folders: Vec<_> = std::env::split_paths(&path).collect();
        assert_eq!(folders, ["/t/bin", "/a", "/b", "/c/bin"].map(PathBuf::from));
    }

    #[test]
    fn only_what_cargo_run_sets_is_removed() {
        for name in ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_VERSION_MAJOR", "CARGO_BIN_NAME"] {
            assert!(is_left_by_cargo_run(name), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_TARGET_DIR", "CARGO_REGISTRIES_X_INDEX", "PATH"] {
            assert!(!is_left_by_cargo_run(name), "{name}");
        }
    }

    #[test]
    fn versions_are_read_from_what_tools_print() {
        assert_eq!(version_word("cargo-deny 0.20.2"), Some("0.20.2"));
        assert_eq!(version_word("ChromeDriver 156.0.8078.79 (a21ce9-refs)"), Some("156.0.8078.79"));
        assert_eq!(version_word("Google Chrome 120.0.1 "), Some("120.0.1"));
        assert_eq!(version_word("no version"), None);
    }

    #[test]
    fn a_failing_call_is_named() {
        let error = run(Command::new("false").arg("--flag")).expect_err("false fails").to_string();
        assert!(error.starts_with("`false --flag` failed"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_watched_call_is_seen_line_by_line() {
        let mut lines = Vec::new();
        let script = r"printf 'one\ntw'; printf 'o\n'; exit 3";
        let error = run_watched(Command::new("sh").args(["-c", script]), |line| lines.push(line.to_owned()));
        assert!(error.expect_err("it fails").to_string().contains("exit status: 3"));
        assert_eq!(lines, ["one", "two"]);
    }
}
