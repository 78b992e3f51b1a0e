//! Content codings that a client accepts.

use axum::http::{HeaderMap, header};

/// Whether `Accept-Encoding` accepts this coding by name or by `*`, with a weight above 0 (RFC 9110, section 12.5.3).
pub(super) fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_wanted = |wanted: &str| {
        accepted.split(',').find_map(|accepted| {
            let (name, weight) = accepted.split_once(';').unwrap_or((accepted, "q=1"));
            let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse::<f32>().ok());
            name.trim().eq_ignore_ascii_case(wanted).then(|| weight.is_none_or(|weight| weight > 0.0))
        })
    };
    is_wanted(coding).or_else(|| is_wanted("*")).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_coding_is_taken_by_name_or_as_any_other() {
        let accepts = |accepted| {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            ["br", "gzip"].map(|coding| accepts(&headers, coding))
        };
        assert_eq!(accepts("gzip, deflate, br"), [true, true]);
        assert_eq!(accepts("GZIP;q=0.5, br; q=0"), [false, true]);
        assert_eq!(accepts("identity"), [false, false]);
        assert_eq!(accepts("*"), [true, true]);
        assert_eq!(accepts("br;q=0, *"), [false, true]);
    }
}
