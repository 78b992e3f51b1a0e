//! Numbers with their units, as short as people read them.

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

/// A positive number in few digits: `0.1`, `0.169`, `1e-5`, `12.5`.
pub fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        let digits = 2 - value.abs().max(1e-3).log10().floor() as i32;
        let text = format!("{value:.places$}", places = digits.max(0) as usize);
        let is_decimal = text.contains('.');
        if is_decimal { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        let text = format!("{value:.2e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// `1 picture`, `2 pictures`.
pub fn counted(number: u32, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
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
    fn numbers_are_short() {
        let cases = [(0.1, "0.1"), (0.169_38, "0.169"), (1e-5, "1e-5"), (1.5e-9, "1.5e-9"), (12.5, "12.5"), (4.0, "4")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(0.001_f32.into()), "0.001");
        assert_eq!(number(100.0), "100");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(2e7), "2e7");
    }
}
