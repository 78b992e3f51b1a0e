//! Crates that read what strangers send must not panic on it.

use super::File;

/// Crates whose input comes over the network.
const FACING_STRANGERS: [&str; 4] = ["client", "federation", "relay", "wire"];

/// A comment that begins like this lets the statement below it stand, and says why.
const EXCUSE: &str = "// Cannot fail:";

/// No `unwrap` or `expect` outside tests in the crates that face strangers.
pub fn unwraps(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.extension() == "rs" && file.name() != "tests.rs" && !file.path.contains("/tests/"))
        .filter(|file| FACING_STRANGERS.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/"))))
        .flat_map(|file| {
            let lines = file.text.as_deref().map(unexcused_lines).unwrap_or_default();
            lines.into_iter().map(|number| {
                format!("{}:{number}: unwrap or expect; return an error, or say above it `{EXCUSE} ...`", file.path)
            })
        })
        .collect()
}

/// The numbers of the offending lines. Relies on the source being formatted: an item ends
/// with a bracket as far in as it began.
fn unexcused_lines(source: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_excused = false;
    let mut lines = source.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let code = line.trim_start();
        if code.starts_with("#[cfg(test)]") {
            skip_item(&line[..line.len() - code.len()], lines.by_ref().map(|(_, line)| line));
        } else if code.starts_with("//") {
            is_excused |= code.starts_with(EXCUSE);
            continue;
        } else if !is_excused && (code.contains(".unwrap()") || code.contains(".expect(")) {
            found.push(index + 1);
        }
        // The excuse holds to the end of the statement, however many lines it takes.
        is_excused &= !code.ends_with([';', ',', '{', '}']);
    }
    found
}

fn skip_item<'a>(indent: &str, mut lines: impl Iterator<Item = &'a str>) {
    let is_end = |line: &str| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(['}', ']', ')']));
    let is_whole = |line: &str| {
        let is_at_start = line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '));
        is_at_start && (line.ends_with(';') || line.ends_with("{}"))
    };
    let _ = lines.find(|line| is_end(line) || is_whole(line));
}

#[cfg(test)]
mod tests {
    use super::super::text_file;
    use super::*;

    const SOURCE: &str = "\
fn read(bytes: &[u8]) -> u8 {
    // .unwrap() in a comment is no call
    let first = bytes.first().unwrap();
    // Cannot fail: one byte was read above,
    // and a byte is a byte.
    let again = bytes
        .first()
        .expect(\"one\");
    first.checked_add(*again).expect(\"no overflow\")
}

#[cfg(test)]
use std::fs;

fn second(text: &str) -> u8 {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    fn inner() {
        read(&[]).unwrap();
    }
}

fn last(text: &str) -> u8 {
    text.parse()
        .unwrap()
}
";

    #[test]
    fn calls_outside_tests_and_without_an_excuse_are_found() {
        assert_eq!(unexcused_lines(SOURCE), [3, 9, 28]);
    }

    #[test]
    fn only_crates_that_face_strangers_are_searched() {
        let found = unwraps(&[
            text_file("crates/wire/src/frame.rs", "fn f() {\n    g().unwrap();\n}\n"),
            text_file("crates/wire/src/frame/tests.rs", "fn f() {\n    g().unwrap();\n}\n"),
            text_file("crates/wire/src/frame/tests/long.rs", "fn f() {\n    g().unwrap();\n}\n"),
            text_file("crates/wire/tests/all.rs", "fn f() {\n    g().unwrap();\n}\n"),
            text_file("crates/model/src/lib.rs", "fn f() {\n    g().unwrap();\n}\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/wire/src/frame.rs:2:"), "{found:?}");
    }
}
