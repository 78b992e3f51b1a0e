//! Rules about files, words and documents. Each returns one line for each violation.

use super::{File, MAX_FILE_BYTES};

const MAX_TEST_DATA_BYTES: u64 = 3_000_000;

/// No file is larger than 2 MB, so that a clone stays quick.
pub fn large_files(files: &[File]) -> Vec<String> {
    let is_large = |file: &&File| file.bytes > MAX_FILE_BYTES;
    let line = |file: &File| {
        format!("{}: {} bytes, at most {MAX_FILE_BYTES} are kept in git; fetch or generate it", file.path, file.bytes)
    };
    files.iter().filter(is_large).map(line).collect()
}

/// All test data together is smaller than 3 MB.
pub fn test_data(files: &[File]) -> Vec<String> {
    const FOLDERS: [&str; 6] = ["tests", "testdata", "test-data", "test_data", "fixtures", "vectors"];
    let is_data =
        |file: &&File| file.extension() != "rs" && file.folder().split('/').any(|part| FOLDERS.contains(&part));
    let total: u64 = files.iter().filter(is_data).map(|file| file.bytes).sum();
    if total < MAX_TEST_DATA_BYTES {
        return Vec::new();
    }
    let largest = files.iter().filter(is_data).max_by_key(|file| file.bytes).map_or("", |file| &file.path);
    vec![format!("test data: {total} bytes, {MAX_TEST_DATA_BYTES} are too many; the largest is {largest}")]
}

/// No path of a home folder, and no leftover of unfinished work.
pub fn forbidden_words(files: &[File]) -> Vec<String> {
    // Split, so that this file does not break its own rule.
    const WORDS: [(&str, &str); 5] = [
        (concat!("/ho", "me/"), "a path of one machine"),
        (concat!("/ro", "ot/"), "a path of one machine"),
        (concat!("to", "do!("), "unfinished code"),
        (concat!("unimple", "mented!("), "unfinished code"),
        (concat!("db", "g!("), "a debugging aid"),
    ];
    let mut violations = Vec::new();
    for file in files {
        for (number, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            for (word, kind) in WORDS {
                if line.contains(word) {
                    violations.push(format!("{}:{}: {word} is {kind}", file.path, number + 1));
                }
            }
        }
    }
    violations
}

/// Beside photographs is a file with their source and licence.
pub fn photographs(files: &[File]) -> Vec<String> {
    // Screenshots and icons are our own.
    let is_ours = |folder: &str| folder.split('/').any(|part| part == "docs" || part == "icons");
    let mut folders: Vec<&str> = files
        .iter()
        .filter(|file| ["png", "jpg", "jpeg", "webp"].contains(&file.extension().to_ascii_lowercase().as_str()))
        .map(File::folder)
        .filter(|folder| !is_ours(folder))
        .collect();
    folders.sort_unstable();
    folders.dedup();
    let has_licence = |folder: &str| files.iter().any(|file| file.folder() == folder && file.name() == "LICENCE.md");
    folders
        .into_iter()
        .filter(|folder| !has_licence(folder))
        .map(|folder| format!("{folder}: photographs without a LICENCE.md that says where they come from"))
        .collect()
}

/// The README names every subcommand of `unmask`, and nested ones as in `unmask data ...` (`data.rs`).
pub fn readme_subcommands(files: &[File]) -> Vec<String> {
    let calls: Vec<String> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix("crates/unmask/src/")?, file.text.as_deref()?)))
        .flat_map(|(path, source)| {
            let above = match path.split(['/', '.']).next() {
                None | Some("main") => "unmask".to_owned(),
                Some(command) => format!("unmask {command}"),
            };
            subcommands(source).into_iter().map(move |name| format!("{above} {name}"))
        })
        .collect();
    if calls.is_empty() {
        return vec!["crates/unmask/src: no enum that derives Subcommand".to_owned()];
    }
    let Some(readme) = files.iter().find(|file| file.path == "README.md").and_then(|file| file.text.as_deref()) else {
        return vec!["README.md: missing".to_owned()];
    };
    calls
        .into_iter()
        .filter(|call| !readme.contains(call.as_str()))
        .map(|call| format!("README.md: says nothing of `{call}`"))
        .collect()
}

/// The variants of every enum in `source` that derives `Subcommand`, as typed on the command line. Expects formatted
/// source, with variants indented by four spaces.
fn subcommands(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if !(line.starts_with("#[derive(") && line.contains("Subcommand")) {
            continue;
        }
        for line in lines.by_ref().take_while(|line| *line != "}") {
            let Some(variant) = line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase)) else {
                continue;
            };
            let end = variant.find(|c: char| !c.is_alphanumeric()).unwrap_or(variant.len());
            names.push(kebab_case(&variant[..end]));
        }
    }
    names
}

fn kebab_case(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}

/// docs/architecture.md lists every crate.
pub fn architecture(files: &[File]) -> Vec<String> {
    const PAGE: &str = "docs/architecture.md";
    let Some(page) = files.iter().find(|file| file.path == PAGE).and_then(|file| file.text.as_deref()) else {
        return vec![format!("{PAGE}: missing")];
    };
    files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .filter(|name| !page.contains(&format!("`{name}`")) && !page.contains(&format!("`unmask-{name}`")))
        .map(|name| format!("{PAGE}: says nothing of the crate `{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::text_file;
    use super::*;

    fn blob(path: &str, bytes: u64) -> File {
        File { path: path.to_owned(), bytes, text: None }
    }

    #[test]
    fn large_files_are_named_with_their_size() {
        let files = [blob("a.bin", 2_000_000), blob("b/c.bin", 2_000_001)];
        let found = large_files(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("b/c.bin: 2000001 bytes"), "{found:?}");
    }

    #[test]
    fn test_data_counts_together_and_without_sources() {
        let small = [blob("crates/x/tests/a.safetensors", 1_600_000), blob("crates/x/tests/big.rs", 1_900_000)];
        assert!(test_data(&small).is_empty());
        let large = [blob("crates/x/tests/a.safetensors", 1_600_000), blob("tests/data/b.json", 1_700_000)];
        let found = test_data(&large);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("3300000") && found[0].ends_with("tests/data/b.json"), "{found:?}");
    }

    #[test]
    fn forbidden_words_are_found_where_they_stand() {
        let text = format!("fine\nlet x = {}x);\nsee {}me/somebody\n", concat!("db", "g!("), "/ho");
        let found = forbidden_words(&[text_file("src/a.rs", &text), text_file("b.md", "at home, to do")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("src/a.rs:2: "), "{found:?}");
        assert!(found[1].starts_with("src/a.rs:3: "), "{found:?}");
    }

    #[test]
    fn photographs_need_a_licence_beside_them() {
        let files = [
            blob("www/samples/cat.JPG", 1),
            blob("www/good/cup.png", 1),
            text_file("www/good/LICENCE.md", "CC0"),
            blob("www/icons/logo.png", 1),
            blob("docs/screenshot.png", 1),
        ];
        let found = photographs(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("www/samples:"), "{found:?}");
    }

    const COMMANDS: &str = "\
#[derive(Subcommand)]
enum Command {
    /// Starts
    Relay(RelayArguments),
    #[command(about = \"Data\")]
    FetchData {
        Upper: u8,
    },
    Join,
}

enum Other {
    NotACommand,
}
";

    #[test]
    fn subcommands_are_the_variants_as_typed() {
        assert_eq!(subcommands(COMMANDS), ["relay", "fetch-data", "join"]);
    }

    #[test]
    fn a_subcommand_missing_in_the_readme_is_named() {
        let source = text_file("crates/unmask/src/main.rs", COMMANDS);
        let readme = text_file("README.md", "`unmask relay`, `unmask fetch-data --help`");
        assert_eq!(readme_subcommands(&[source, readme]), ["README.md: says nothing of `unmask join`"]);
        let nested = text_file("crates/unmask/src/data.rs", COMMANDS);
        let readme = text_file("README.md", "`unmask relay`, `unmask data relay`, `unmask data join`");
        assert_eq!(readme_subcommands(&[nested, readme]), ["README.md: says nothing of `unmask data fetch-data`"]);
        assert_eq!(readme_subcommands(&[]).len(), 1);
    }

    #[test]
    fn every_crate_stands_in_the_architecture() {
        let files = [
            text_file("crates/wire/Cargo.toml", ""),
            text_file("crates/relay/Cargo.toml", ""),
            text_file("crates/model/Cargo.toml", ""),
            text_file("docs/architecture.md", "| `wire` | bytes |\n`unmask-relay`\nmodel"),
        ];
        assert_eq!(architecture(&files), ["docs/architecture.md: says nothing of the crate `model`"]);
        assert_eq!(architecture(&files[..3]), ["docs/architecture.md: missing"]);
    }
}
