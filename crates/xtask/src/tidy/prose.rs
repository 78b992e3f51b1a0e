//! Turns of phrase that no native speaker writes in technical prose. They came back often enough to be worth a check.

use super::File;

/// Each with what to write instead.
const BANNED: [(&str, &str); 14] = [
    ("whoever", "name the role: the client, the student, a caller"),
    ("wherever", "where"),
    ("whatsoever", "leave it out"),
    ("anew", "again, or a verb with re-"),
    ("nor is", "start a new sentence"),
    ("nor are", "start a new sentence"),
    ("in the midst", "during"),
    ("draws lots", "chooses at random"),
    ("thereby", "so"),
    ("henceforth", "from now on"),
    ("likewise", "also"),
    ("beforehand", "first, or before"),
    ("be it", "whether"),
    ("that is none", "is not one"),
];

/// No comment, text or document uses one of the banned turns. Reports keep the words of their date.
pub fn prose(files: &[File]) -> Vec<String> {
    let is_prose = |file: &&File| {
        ["rs", "md", "py", "toml", "html"].contains(&file.extension()) || file.path.ends_with("words/en.ftl")
    };
    let is_kept = |file: &&File| {
        file.path.starts_with("docs/reports/") || file.path.ends_with("tidy/prose.rs") || file.name() == "LICENCE.md"
    };
    let mut violations = Vec::new();
    for file in files.iter().filter(is_prose).filter(|file| !is_kept(file)) {
        for (number, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            for (turn, instead) in BANNED {
                if says(line, turn, file.extension() == "rs") {
                    violations.push(format!("{}:{}: \"{turn}\"; write {instead}", file.path, number + 1));
                }
            }
        }
    }
    violations
}

/// Whether a line has these words in a row. Names of code, test ids and, in Rust, anything outside comments and strings
/// are not prose.
fn says(line: &str, turn: &str, is_rust: bool) -> bool {
    let lower = line.to_ascii_lowercase();
    let is_part_of_name =
        |edge: Option<char>| edge.is_some_and(|edge| edge.is_alphanumeric() || "-_{}/.".contains(edge));
    lower.match_indices(turn).any(|(at, _)| {
        let (before, after) = (&lower[..at], &lower[at + turn.len()..]);
        let ends = after.chars().next().filter(|end| *end != '.' && *end != '/');
        let is_text = !is_rust || before.contains("//") || before.contains('"') || before.trim().is_empty();
        is_text && !is_part_of_name(before.chars().next_back()) && !is_part_of_name(ends)
    })
}

#[cfg(test)]
mod tests {
    use super::super::text_file;
    use super::*;

    #[test]
    fn a_banned_turn_is_named_with_its_place() {
        let files = [text_file("docs/a.md", "Fine.\nThe seed is drawn anew.\n")];
        assert_eq!(prose(&files), ["docs/a.md:2: \"anew\"; write again, or a verb with re-"]);
    }

    #[test]
    fn names_and_code_are_not_prose() {
        for line in
            ["let anew = 1;", "click(\"start-anew\")", "\"{anew}\"", "renew(); // anewly", "let x = anew(\"a\");"]
        {
            assert!(prose(&[text_file("a.rs", line)]).is_empty(), "{line}");
        }
        for line in ["/// Whoever asks.", "bail!(\"drawn anew\")", "x(); // Anew."] {
            assert_eq!(prose(&[text_file("a.rs", line)]).len(), 1, "{line}");
        }
        assert!(prose(&[text_file("docs/reports/a.md", "anew"), text_file("a.json", "anew")]).is_empty());
    }
}
