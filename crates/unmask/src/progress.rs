//! Progress on the terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Template of a bar over rounds, rows or cases.
pub const STYLE: &str = "{bar:30} {percent}%, {eta} left, {msg}";

/// Gives a bar its style. A template that cannot be parsed changes nothing.
pub fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Prints a permanent line, even while the bar is hidden.
pub fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { eprintln!("{line}") } else { bar.println(line) }
}
