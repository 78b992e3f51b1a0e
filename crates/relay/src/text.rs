//! Text from outside.

/// Without control characters, trimmed, at most `max` characters.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let printable: String = text.chars().filter(|c| !c.is_control()).collect();
    printable.trim().chars().take(max).collect::<String>().trim_end().to_owned()
}
