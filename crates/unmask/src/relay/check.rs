//! `unmask relay --check`: tells the teacher what students' devices would meet.

use std::fmt::Write as _;

use unmask_relay::{Arrival, NetworkCheck, RelayConfig};
use unmask_wire::view::Verdict;

use crate::{Failure, interrupt::asked_to_stop, say};

/// Prints what this machine can tell, then each device that opens the page, until the process is stopped.
///
/// # Errors
/// [`Failure::Input`] if the certificate can be neither used nor made.
pub(super) async fn run(config: &RelayConfig) -> Result<(), Failure> {
    let mut check = NetworkCheck::start(config).await.map_err(Failure::Input)?;
    let mut stop = std::pin::pin!(asked_to_stop());
    // It listens for Ctrl-C before it says that this ends it.
    tokio::select! {
        biased;
        () = &mut stop => return Ok(()),
        () = std::future::ready(()) => say(&report(&check)),
    }
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            arrival = check.next_arrival() => say(&told(arrival)),
        }
    }
}

fn report(check: &NetworkCheck) -> String {
    let mut text = String::new();
    for finding in check.findings() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<12} {:<12} {}", finding.subject, verdict(finding.verdict), finding.text);
    }
    if let Some(first) = check.addresses().first() {
        let _ = writeln!(text, "\n{}", NetworkCheck::qr_text(first));
    }
    text += "Open with a phone in the class's network; each that gets through is named here:\n\n";
    for address in check.addresses() {
        let _ = writeln!(text, "    {address}");
    }
    text += "\nCtrl-C ends the test.\n";
    text
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Problem => "problem",
        Verdict::Unknown => "cannot tell",
    }
}

/// What the arrival of a device shows.
fn told(Arrival { device, is_https }: Arrival) -> String {
    let port = if is_https {
        "over HTTPS, past the certificate"
    } else {
        "over HTTP. Open the https: address too: it has a port of its own"
    };
    format!("{device} reached this machine {port}. Firewall and network let it through.\n")
}
