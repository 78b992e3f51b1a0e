//! The data that lets a student rejoin after a reload.

use leptos::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    page::widgets::picture::Picture,
    protocol::{PICTURE_SIDE, Rgba},
};

const KEY: &str = "unmask-saved-join";

/// A student who was in the room, saved for a reload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedJoin {
    /// As the room showed it.
    pub nickname: String,
    pub label: u8,
    pub name: String,
    /// Name of the sample photograph, if the picture is one.
    pub sample: Option<String>,
    /// Whether the class may see what leaks from the student's own picture.
    pub may_show: bool,
    /// Whether other phones may get the masked numbers and attack them.
    #[serde(default)]
    pub may_lend: bool,
    /// Whether the student is careful, and trains on what looks doctored all the same.
    #[serde(default)]
    pub careful: (bool, bool),
    /// The private picture, [`encoded`].
    pub picture: String,
    /// The query of the page's address.
    pub search: String,
    /// The room's ticket, once there is one.
    pub ticket: Option<[u8; 16]>,
}

impl SavedJoin {
    /// Whether this browser keeps anything for this page. It does not where it blocks cookies, for one.
    pub fn is_possible() -> bool {
        const PROBE: &str = "unmask-probe";
        let Ok(Some(storage)) = window().session_storage() else { return false };
        storage.set_item(PROBE, "").and_then(|()| storage.remove_item(PROBE)).is_ok()
    }

    /// The private picture; `None` if an earlier version of the page has saved it.
    pub fn picture(&self) -> Option<Picture> {
        let decoded = window().atob(&self.picture).ok()?;
        let bytes = decoded.chars().map(|character| character as u32 as u8).collect();
        let pixels = Rgba::new(PICTURE_SIDE, PICTURE_SIDE, bytes)?;
        Some(Picture { name: self.name.clone(), pixels })
    }

    /// Reads the saved student, if there is one.
    pub fn read() -> Option<Self> {
        let text = window().session_storage().ok().flatten()?.get_item(KEY).ok().flatten()?;
        serde_json::from_str(&text).ok()
    }

    pub fn set_consent(may_show: bool, may_lend: bool) {
        if let Some(saved) = Self::read() {
            Self { may_show, may_lend, ..saved }.write();
        }
    }

    pub fn set_careful(careful: (bool, bool)) {
        if let Some(saved) = Self::read() {
            Self { careful, ..saved }.write();
        }
    }

    /// Saves the newest ticket, which works only once, and the nickname that the room shows.
    pub fn add_ticket(nickname: &str, ticket: Option<[u8; 16]>) {
        if let Some(saved) = Self::read() {
            Self { nickname: nickname.to_owned(), ticket, ..saved }.write();
        }
    }

    pub fn forget() {
        if let Ok(Some(storage)) = window().session_storage() {
            // This fails only if the browser stores nothing.
            let _ = storage.remove_item(KEY);
        }
    }

    /// Saves this student. If the browser refuses, the form must be filled in again by hand.
    pub fn write(&self) {
        let (Ok(text), Ok(Some(storage))) = (serde_json::to_string(self), window().session_storage()) else { return };
        let _ = storage.set_item(KEY, &text);
    }
}

/// A picture's bytes in base64. A picture file would have to be read from a canvas, and that fails in browsers that give
/// pages false pixels.
pub fn encoded(picture: &Picture) -> String {
    // One character for each byte, as `btoa` wants it. It fails only for others.
    let bytes: String = picture.pixels.bytes.iter().copied().map(char::from).collect();
    window().btoa(&bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn a_saved_picture_comes_back_as_it_was() {
        let bytes: Vec<u8> = (0..4 * PICTURE_SIDE * PICTURE_SIDE).map(|i| (i * 7 + (i >> 8)) as u8).collect();
        let pixels = Rgba::new(PICTURE_SIDE, PICTURE_SIDE, bytes).expect("four bytes a pixel");
        let saved = SavedJoin {
            nickname: "Ada".to_owned(),
            label: 3,
            name: "a pattern".to_owned(),
            sample: None,
            may_show: true,
            may_lend: false,
            careful: (true, false),
            picture: encoded(&Picture { name: String::new(), pixels: pixels.clone() }),
            search: String::new(),
            ticket: Some([7; 16]),
        };
        saved.write();
        let read = SavedJoin::read().expect("it is kept");
        assert!(read == saved && read.picture().is_some_and(|picture| picture.pixels == pixels));
        SavedJoin::forget();
        assert_eq!(SavedJoin::read(), None);
        assert!(SavedJoin::is_possible());
    }
}
