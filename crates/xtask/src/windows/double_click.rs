//! The program as a double click starts it: without arguments, in a terminal.

use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::in_wine;
use crate::env::{self, Env};
use crate::leftovers;

/// A double click sets no ports, so the relay takes these.
const PORTS: [u16; 2] = [8080, 8443];

/// Longest wait for each step.
const PATIENCE: Duration = Duration::from_secs(90);

/// What Wine runs instead of a browser; it writes down the address that it was given.
const BROWSER: &str =
    "#!/bin/sh\necho \"$1\" > \"$UNMASK_OPENED.unfinished\"\nmv \"$UNMASK_OPENED.unfinished\" \"$UNMASK_OPENED\"\n";

/// Checks that a double click explains itself, opens a room and the teacher's page, that a second one says what is
/// wrong and stays open, and that Ctrl-C ends the lesson. Says why, if this machine cannot try it.
///
/// # Errors
/// The program does something else; the message has the step and what its window shows.
pub fn check(env: &Env, prefix: &Path, program: &Path) -> Result<()> {
    let skipped = "skipped: the double click";
    if env.find("script").is_none() {
        println!("{skipped}: `script`, which gives Wine a terminal, is not installed (Debian: bsdutils)");
        return Ok(());
    }
    if let Some(port) = PORTS.into_iter().find(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_err()) {
        println!("{skipped}: another program has port {port} of this machine");
        return Ok(());
    }
    let begun = Instant::now();
    // Without this, an HTML file has no program: Wine's own, mshtml, is turned off.
    let class = ["reg", "add", r"HKLM\Software\Classes\.html", "/ve", "/d", "htmlfile", "/f"];
    env::read(in_wine(&mut env.command("wine"), prefix).args(class)).context("Wine's registry cannot be changed")?;

    let mut first = Window::open(env, prefix, program, "first")?;
    first.until("it says what it does", |window| window.shows("unmask opens a lesson on federated learning"))?;
    first.until("the room answers", |_| is_healthy())?;
    first.until("the teacher's page is opened", Window::has_opened_the_teachers_page)?;
    first.until("it says how to end", |window| window.shows("Ctrl-C ends the lesson."))?;

    let mut second = Window::open(env, prefix, program, "second")?;
    second.until("it says that the port is taken", |window| window.shows("8080"))?;
    second.until("it stays open", |window| window.shows("Press Enter to close this window"))?;
    second.presses(b"\r")?;
    second.until("it closes", Window::is_closed)?;

    ensure!(is_healthy(), "the second double click ended the room of the first");
    first.presses(b"\x03")?;
    first.until("Ctrl-C ends the lesson", Window::is_closed)?;
    ensure!(!is_healthy(), "the room answers after its end");
    println!("double click: ok ({:.1} s)", begun.elapsed().as_secs_f32());
    Ok(())
}

/// A terminal with the program in it; ended when dropped.
struct Window {
    script: Child,
    keys: ChildStdin,
    /// Everything that the terminal got, with its control sequences.
    output: Arc<Mutex<Vec<u8>>>,
    /// Where [`BROWSER`] leaves the address.
    opened: PathBuf,
}

impl Window {
    fn open(env: &Env, prefix: &Path, program: &Path, name: &str) -> Result<Self> {
        let bin = prefix.join("browser");
        let browser = bin.join("xdg-open");
        fs::create_dir_all(&bin).with_context(|| format!("cannot make {}", bin.display()))?;
        fs::write(&browser, BROWSER).with_context(|| format!("cannot write {}", browser.display()))?;
        #[cfg(unix)]
        fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .with_context(|| format!("cannot change {}", browser.display()))?;
        let opened = prefix.join(format!("opened-{name}"));
        let _ = fs::remove_file(&opened);

        let mut script = env.command("script");
        in_wine(&mut script, prefix)
            .env("PATH", env.path_behind(&bin)?)
            .env("UNMASK_OPENED", &opened)
            .env("UNMASK_PROGRAM", program)
            // So wide and high that no line is broken and nothing scrolls away.
            .args([
                "--quiet",
                "--return",
                "--command",
                "stty cols 250 rows 100; exec wine \"$UNMASK_PROGRAM\"",
                "/dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut script = script.spawn().context("`script` does not start")?;
        let keys = script.stdin.take().context("`script` has no input")?;
        let mut terminal = script.stdout.take().context("`script` has no output")?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&output);
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = terminal.read(&mut buffer) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Ok(Self { script, keys, output, opened })
    }

    fn until(&mut self, step: &str, mut is_done: impl FnMut(&mut Self) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_done(self) {
            leftovers::wait_if_interrupted();
            if begun.elapsed() > PATIENCE {
                bail!(
                    "the double click: not within {} s: {step}. The window shows:\n{}",
                    PATIENCE.as_secs(),
                    self.text()
                );
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn text(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        without_control(&String::from_utf8_lossy(&output))
    }

    fn shows(&self, words: &str) -> bool {
        self.text().contains(words)
    }

    /// Whether the browser was given a page that leads to the teacher's link of this room.
    fn has_opened_the_teachers_page(&mut self) -> bool {
        let Ok(address) = fs::read_to_string(&self.opened) else { return false };
        let Some(path) = address.trim().strip_prefix("file://") else { return false };
        fs::read_to_string(path).is_ok_and(|page| page.contains("/projector#token="))
    }

    fn presses(&mut self, keys: &[u8]) -> Result<()> {
        self.keys.write_all(keys).and_then(|()| self.keys.flush()).context("`script` takes no keys")
    }

    fn is_closed(&mut self) -> bool {
        self.script.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // What runs in it ends with Wine.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The text of a terminal without the sequences that move its cursor and switch colours.
fn without_control(output: &str) -> String {
    let mut text = String::with_capacity(output.len());
    let mut rest = output.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\x1b' => {
                // `ESC [ parameters letter`, or `ESC ] text BEL`.
                let is_end: fn(char) -> bool = match rest.next() {
                    Some('[') => |letter| letter.is_ascii_alphabetic(),
                    Some(']') => |letter| letter == '\x07',
                    _ => continue,
                };
                rest.by_ref().find(|letter| is_end(*letter));
            }
            '\r' => {}
            _ => text.push(letter),
        }
    }
    text
}

/// Whether a room answers at the port of a double click.
fn is_healthy() -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORTS[0]))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_terminal_has_no_control_sequences() {
        assert_eq!(
            without_control("\x1b[?25lun\x1b[K\x1b[1Cmask\x1b]0;title\x07 opens\r\n\x1b[?25h"),
            "unmask opens\n"
        );
    }
}
