//! What a starting room tells its teacher, or the program that started it.

use std::{fs, io::Write as _, path::Path};

use anyhow::Context;
use unmask_relay::{Resumed, Running};

use crate::counted;

/// The text for the teacher's terminal.
pub(super) fn greeting(running: &Running) -> String {
    let mut text = String::new();
    let addresses = running.student_addresses();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    line(&format!("\n{}\n", running.qr_text()));
    let warning = if running.has_given_certificate() { "" } else { "   (the browser warns once: Advanced, Continue)" };
    line(&format!("Students   {}{warning}", running.student_link()));
    line(&format!("           or type one of these addresses, and the PIN {}", running.pin()));
    for (https, http) in addresses {
        line(&format!(
            "           {https}{}",
            if running.is_https_only() { String::new() } else { format!("   {http}") }
        ));
    }
    if !running.is_https_only() {
        line(
            "           http: no warning, but no WebGPU either; anybody who listens on the network sees what the relay",
        );
        line("           sees, and can take part under any name. --https-only turns this off.");
    }
    line(&format!(
        "Projector  {}   (from another machine; shows the room, controls nothing)",
        running.projector_link()
    ));
    line(&format!("Teacher    {}", running.local_teacher_link()));
    line(&format!("           {}   (from another machine; do not show it)", running.teacher_link()));
    line(&format!("Certificate SHA-256 {}", running.fingerprint()));
    if let Some(reason) = running.certificate_made_because() {
        line(&format!("           made just now: {reason}"));
    }
    if !running.has_page() {
        line("The page is not in this program: build it and start the relay with `cargo demo`.");
    }
    if let Some(Resumed { round, model, .. }) = running.resumed() {
        line(&format!("Goes on with the lesson of {model} after {}; --new begins another.", counted(*round, "round")));
    }
    line("Ctrl-C ends the lesson.\n");
    text
}

/// Writes and then renames, so that a program that waits for the file never reads half of it.
pub(super) fn write_ready(running: &Running, file: &Path) -> anyhow::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let _ = fs::remove_file(&unfinished);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    // The file holds the teacher's token.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let ready = running.ready_json()?;
    options
        .open(&unfinished)
        .and_then(|mut unfinished| unfinished.write_all(ready.as_bytes()))
        .and_then(|()| fs::rename(&unfinished, file))
        .with_context(|| format!("cannot write {}; choose another place with --ready-file", file.display()))
}
