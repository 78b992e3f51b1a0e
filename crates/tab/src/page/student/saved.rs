//! The data that lets a student rejoin after a reload.

use gloo_file::Blob;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};

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
    /// The private picture, as a `data:` address of a PNG file.
    pub picture: String,
    /// The query of the page's address.
    pub search: String,
    /// The room's ticket, once there is one.
    pub ticket: Option<[u8; 16]>,
}

impl SavedJoin {
    /// The private picture as a file. Decoded here because the page may only fetch what the relay serves.
    pub fn file(&self) -> Option<Blob> {
        let (_, encoded) = self.picture.split_once(";base64,")?;
        let decoded = window().atob(encoded).ok()?;
        // `atob` returns one character for each byte.
        let bytes: Vec<u8> = decoded.chars().map(|character| character as u32 as u8).collect();
        Some(Blob::new(bytes.as_slice()))
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
