//! The room's PIN, as people type and read it.

/// Digits of a PIN.
const DIGITS: usize = 6;

/// The PIN that was typed, without the spaces and hyphens between which people read digits.
///
/// # Errors
/// A sentence, unless it has six digits.
pub fn read(typed: &str) -> Result<String, String> {
    let pin: String = typed.chars().filter(|character| !character.is_whitespace() && *character != '-').collect();
    let is_pin = pin.len() == DIGITS && pin.bytes().all(|byte| byte.is_ascii_digit());
    if is_pin {
        Ok(pin)
    } else {
        Err("The PIN has six digits, such as 123 456. It stands beside the QR code.".to_owned())
    }
}

/// In two halves, as it is read out.
pub fn grouped(pin: &str) -> String {
    match pin.split_at_checked(DIGITS / 2) {
        Some((first, second)) if !second.is_empty() => format!("{first} {second}"),
        _ => pin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_people_type_it() {
        for typed in ["123456", " 123 456 ", "123-456", "12 34 56", "123\u{a0}456"] {
            assert_eq!(read(typed).as_deref(), Ok("123456"), "{typed}");
        }
        assert_eq!(read("000000").as_deref(), Ok("000000"));
    }

    #[test]
    fn what_is_no_pin_is_not_sent() {
        for typed in ["", "12345", "1234567", "12345a", "١٢٣٤٥٦", "+12345", "12.456"] {
            assert!(read(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_pin_is_shown_in_halves() {
        for (pin, shown) in [("123456", "123 456"), ("", ""), ("123", "123"), ("ééé", "ééé")] {
            assert_eq!(grouped(pin), shown);
        }
        assert_eq!(read(&grouped("004210")).as_deref(), Ok("004210"));
    }
}
