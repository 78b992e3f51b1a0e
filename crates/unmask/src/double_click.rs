//! The program without arguments: on Windows a double click, elsewhere somebody who does not know the arguments.

use std::{
    env,
    io::{self, IsTerminal as _},
};

/// What a double click starts: the lesson of `cargo demo`.
pub const LESSON: [&str; 4] = ["unmask", "relay", "--open", "--shadow-room"];

/// What the window says first.
pub const WELCOME: &str = "
unmask opens a lesson on federated learning. The teacher's page appears in your browser.

If Windows asks, allow unmask on private and public networks: students' devices reach this laptop over them.
Leave this window open. Closing it ends the lesson; the next start continues it.
In a terminal, `unmask --help` lists everything else that the program does.
";

/// Whether this process was started by a double click. A terminal in which somebody types only the program's name looks
/// the same.
pub fn is_one() -> bool {
    has_started(cfg!(windows), env::args_os().len(), io::stdin().is_terminal() && io::stdout().is_terminal())
}

/// `words` counts the program's name, too. Scripts have no window, and expect the help that other systems print.
fn has_started(is_windows: bool, words: usize, has_window: bool) -> bool {
    is_windows && words <= 1 && has_window
}

/// Waits until somebody has read the window, which closes with the process.
pub fn wait_for_reader() {
    eprintln!("\nIs unmask open in another window? Then close one of them. Press Enter to close this window.");
    let _ = io::stdin().read_line(&mut String::new());
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn only_a_window_of_windows_without_arguments_is_a_double_click() {
        assert!(has_started(true, 1, true));
        for (is_windows, words, has_window) in [(false, 1, true), (true, 2, true), (true, 1, false)] {
            assert!(!has_started(is_windows, words, has_window), "{is_windows} {words} {has_window}");
        }
    }

    #[test]
    fn a_double_click_starts_what_the_program_knows() {
        let matches = crate::Arguments::command().try_get_matches_from(LESSON).unwrap();
        let (name, relay) = matches.subcommand().unwrap();
        assert!(name == "relay" && relay.get_flag("open") && relay.get_flag("shadow_room"));
    }
}
