//! Checks that every promise in docs/security.md names existing tests.

use super::File;

const PAGE: &str = "docs/security.md";

/// Checks every name in backticks in the last column of a table headed *test*: files and tests, in the file or crate
/// named before them; crates; fuzz targets.
pub fn promises(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE).and_then(|file| file.text.as_deref()) else {
        return vec![format!("{PAGE}: missing")];
    };
    let mut violations = Vec::new();
    let mut is_of_tests = false;
    for (number, line) in page.lines().enumerate() {
        let Some(row) = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|')) else {
            is_of_tests = false;
            continue;
        };
        let last = row.rsplit('|').next().unwrap_or_default().trim();
        is_of_tests |= last == "test";
        if is_of_tests && last.is_empty() {
            violations
                .push(format!("{PAGE}:{}: a promise without a test; say \"none\" where there is none", number + 1));
        } else if is_of_tests {
            let missing = missing(files, last);
            violations.extend(missing.into_iter().map(|name| format!("{PAGE}:{}: there is no {name}", number + 1)));
        }
    }
    violations
}

/// The names in a cell that do not exist.
fn missing(files: &[File], cell: &str) -> Vec<String> {
    let sources: Vec<&File> = files.iter().filter(|file| file.extension() == "rs").collect();
    let mut scope: Option<&str> = None;
    let mut missing = Vec::new();
    // The text between an odd backtick and an even one.
    for name in cell.split('`').skip(1).step_by(2) {
        let is_there = if name.contains(' ') {
            // A command.
            true
        } else if name.ends_with(".rs") || !name.contains('_') {
            scope = Some(name);
            sources.iter().any(|file| is_in(file, name))
        } else {
            sources.iter().any(|file| scope.is_none_or(|scope| is_in(file, scope)) && has_test(file, name))
        };
        if !is_there {
            missing.push(match scope.filter(|scope| *scope != name) {
                Some(scope) => format!("test `{name}` in `{scope}`"),
                None => format!("`{name}`"),
            });
        }
    }
    missing
}

/// Whether a file matches `scope`: the end of its path, the name of its crate, or a fuzz target.
fn is_in(file: &File, scope: &str) -> bool {
    let ends_so = |path: &str| file.path == path || file.path.ends_with(&format!("/{path}"));
    match scope.ends_with(".rs") {
        true => ends_so(scope),
        false => file.path.starts_with(&format!("crates/{scope}/")) || ends_so(&format!("fuzz/src/{scope}.rs")),
    }
}

/// Whether a file has a test with this name, or with this prefix if the name ends with a star.
fn has_test(file: &File, name: &str) -> bool {
    let start = match name.strip_suffix('*') {
        Some(start) => format!("fn {start}"),
        None => format!("fn {name}("),
    };
    let mut is_test = false;
    for line in file.text.iter().flat_map(|text| text.lines()).map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.contains("test(");
        } else if line.contains("fn ") {
            if is_test && line.contains(&start) {
                return true;
            }
            is_test = false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::text_file;
    use super::*;

    const HEAD: &str = "| promise | rests on | test |\n|---|---|---|\n";

    fn check(cell: &str) -> Vec<String> {
        let source =
            "#[test]\n#[ignore = \"long\"]\nfn table_sgd() {}\n\n#[tokio::test]\nasync fn holds() {}\nfn help_me() {}";
        promises(&[
            text_file("docs/security.md", &format!("| a | b |\n| `no_test` |\n\n{HEAD}| it holds | x | {cell} |\n")),
            text_file("crates/relay/tests/room/a.rs", &source.replace("holds", "it_holds")),
            text_file("crates/wire/src/b.rs", "#[test]\n/// Why.\nfn other_sizes() {}"),
            text_file("crates/fuzz/src/frames.rs", ""),
        ])
    }

    #[test]
    fn what_is_there_is_found() {
        for cell in [
            "none",
            "`relay/tests/room/a.rs`: `it_holds`, `table_sgd`; the `table_*` tests there",
            "`it_holds`; `wire`: `other_sizes`, fuzz target `frames`, `cargo xtask chaos_now`",
            "`wire`: `src/b.rs`",
        ] {
            assert_eq!(check(cell), Vec::<String>::new(), "{cell}");
        }
    }

    #[test]
    fn what_is_not_is_named() {
        for (cell, said) in [
            ("`wire`: `it_holds`", "docs/security.md:6: there is no test `it_holds` in `wire`"),
            ("`room/a.rs`: `other_sizes`", "docs/security.md:6: there is no test `other_sizes` in `room/a.rs`"),
            ("`help_me`", "docs/security.md:6: there is no `help_me`"),
            ("`room/c.rs`", "docs/security.md:6: there is no `room/c.rs`"),
            ("fuzz target `session`", "docs/security.md:6: there is no `session`"),
            ("`tables_*`", "docs/security.md:6: there is no `tables_*`"),
            ("", "docs/security.md:6: a promise without a test; say \"none\" where there is none"),
        ] {
            assert_eq!(check(cell), [said]);
        }
        assert_eq!(promises(&[]), ["docs/security.md: missing"]);
    }
}
