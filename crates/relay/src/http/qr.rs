//! QR codes of addresses.

use qrcode::{
    QrCode,
    render::{svg, unicode},
};
use tracing::warn;

pub(crate) fn svg(address: &str) -> String {
    code(address).map_or_else(String::new, |code| {
        code.render::<svg::Color<'_>>()
            .min_dimensions(240, 240)
            .dark_color(svg::Color("#000000"))
            .light_color(svg::Color("#ffffff"))
            .build()
    })
}

/// Returns text for a terminal with a dark background, two modules per character. Most scanners also read it inverted.
pub(crate) fn text(address: &str) -> String {
    code(address).map_or_else(String::new, |code| {
        code.render::<unicode::Dense1x2>()
            .dark_color(unicode::Dense1x2::Light)
            .light_color(unicode::Dense1x2::Dark)
            .build()
    })
}

/// Addresses easily fit. If one does not, the room works without its code.
fn code(address: &str) -> Option<QrCode> {
    QrCode::new(address).inspect_err(|error| warn!("no QR code of {address}: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_the_code() {
        let address = "https://192.168.178.23:8443/";
        assert!(svg(address).contains("<svg"));
        // Version 3 has 29 modules, and a quiet zone of 4 on each side.
        let lines: Vec<usize> = text(address).lines().map(|line| line.chars().count()).collect();
        assert_eq!(lines, vec![37; 19]);
    }
}
