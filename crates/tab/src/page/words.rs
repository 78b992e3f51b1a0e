//! Numbers and states in words for people.

use unmask_wire::view::{ClientState, Phase};

/// SSIM from which people recognise the picture; the line drawn on every gauge.
pub const RECOGNISABLE: f32 = 0.5;

/// What an SSIM means in one word, as the data attributes and the pages say it.
pub fn verdict(ssim: f32) -> &'static str {
    if ssim >= RECOGNISABLE { "recognisable" } else { "protected" }
}

/// The name of an attack for people; one that this page does not know keeps its own.
pub fn attack(name: &str) -> &str {
    match name {
        "embedding" => "Embedding inversion",
        "april" => "APRIL",
        other => other,
    }
}

/// Bytes with a decimal unit: `812 B`, `1.8 kB`, `22.1 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1000.0;
    let mut unit = 0;
    // 999.95 would be printed as 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A count with thin spaces between thousands: `1 234 567`.
pub fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * '\u{2009}'.len_utf8());
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A share from 0 to 1 as a percentage: `50.0 %`; only nothing at all is `0 %`, only everything `100 %`.
pub fn percent(share: f32) -> String {
    match share {
        share if share <= 0.0 => "0 %".to_owned(),
        share if share >= 1.0 => "100 %".to_owned(),
        share => format!("{:.1} %", (share * 100.0).clamp(0.1, 99.9)),
    }
}

/// A duration: `3 ms`, `1.2 s`, `2 min 5 s`.
pub fn duration(milliseconds: f64) -> String {
    if milliseconds < 999.5 {
        format!("{milliseconds:.0} ms")
    } else if milliseconds < 59_950.0 {
        format!("{:.1} s", milliseconds / 1000.0)
    } else {
        let seconds = (milliseconds / 1000.0).round() as u64;
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

/// A defence's string form in words; a form this page does not know is shown as it is.
pub fn defence(form: &str) -> String {
    match form.split_once(':') {
        None if form == "none" => "no defence".to_owned(),
        None if form == "fixed-position" => "fixed position".to_owned(),
        Some(("random-binary", rate)) => format!("random binary weights, R = {rate}"),
        Some(("frozen-binary", rate)) => format!("frozen binary weights, R = {rate}"),
        _ => form.to_owned(),
    }
}

/// What the room says of its next round, with the defence in words.
pub fn next(parts: &str) -> String {
    parts.split("; ").map(defence).collect::<Vec<_>>().join("; ")
}

/// A defence in as few characters as the loss curve has room for.
pub fn defence_short(form: &str) -> String {
    match form.split_once(':') {
        Some(("random-binary", rate)) => format!("R {rate}"),
        Some(("frozen-binary", rate)) => format!("frozen R {rate}"),
        _ => form.replace('-', " "),
    }
}

/// The phase as a headline.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Paused => "Paused",
        Phase::Waiting => "Waiting for somebody to join",
        Phase::Training => "Training",
        Phase::Between => "Between rounds",
    }
}

/// The phase as a data attribute has it.
pub fn phase_key(phase: Phase) -> &'static str {
    match phase {
        Phase::Paused => "paused",
        Phase::Waiting => "waiting",
        Phase::Training => "training",
        Phase::Between => "between",
    }
}

/// A client's state: its data attribute, the word shown, and a sign that differs in shape, not only in colour.
pub fn client_state(state: ClientState) -> (&'static str, &'static str, &'static str) {
    match state {
        ClientState::Joined => ("joined", "joined", "○"),
        ClientState::Training => ("training", "training", "◐"),
        ClientState::Sent => ("sent", "sent", "●"),
        ClientState::Late => ("late", "late", "▲"),
        ClientState::Gone => ("gone", "gone", "✕"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_change_unit_without_a_four_digit_value() {
        let cases = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_960, "1.0 MB")];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(bytes(22_123_456), "22.1 MB");
    }

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!(count(7), "7");
        assert_eq!(count(100), "100");
        assert_eq!(count(1_234_567), "1\u{2009}234\u{2009}567");
        assert_eq!(count(459_562), "459\u{2009}562");
    }

    #[test]
    fn shares_near_the_ends_do_not_claim_the_ends() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_01), "0.1 %");
        assert_eq!(percent(0.999_99), "99.9 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn durations_carry() {
        assert_eq!(duration(12.0), "12 ms");
        assert_eq!(duration(999.7), "1.0 s");
        assert_eq!(duration(59_960.0), "1 min 0 s");
        assert_eq!(duration(125_000.0), "2 min 5 s");
    }

    #[test]
    fn defences_are_put_in_words_and_unknown_ones_kept() {
        assert_eq!(defence("random-binary:0.5"), "random binary weights, R = 0.5");
        assert_eq!(defence_short("random-binary:0.5"), "R 0.5");
        assert_eq!(defence("none"), "no defence");
        assert_eq!(next("April block, new weights; none"), "April block, new weights; no defence");
        assert_eq!(defence("noise:1:2"), "noise:1:2");
    }

    #[test]
    fn the_line_itself_counts_as_recognisable() {
        assert_eq!(verdict(0.5), "recognisable");
        assert_eq!(verdict(0.499), "protected");
        assert_eq!(verdict(-0.02), "protected");
    }
}
