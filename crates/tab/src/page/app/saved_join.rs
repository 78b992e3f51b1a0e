//! What lets a student rejoin after the page was reloaded: kept in this tab's session storage, which no other tab or server
//! sees and the browser empties when the tab is closed. The passphrase is not part of it.

use gloo_file::Blob;
use leptos::prelude::*;
use serde::{Deserialize, Serialize};

const KEY: &str = "unmask-saved-join";

/// A student who was in the room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedJoin {
    /// As the room showed it.
    pub nickname: String,
    /// The class of the private picture.
    pub label: u8,
    /// The picture's name.
    pub name: String,
    /// Name of the sample photograph, if the picture is one.
    pub sample: Option<String>,
    /// Whether the class may see what leaks of a picture of the student's own.
    pub may_show: bool,
    /// The private picture, as a `data:` address of a PNG file.
    pub picture: String,
    /// The query of the address that the page was opened with.
    pub search: String,
    /// The room's ticket, once it has given one.
    pub ticket: Option<[u8; 16]>,
}

impl SavedJoin {
    /// The private picture as a file. Decoded here, since the page may fetch nothing but what the relay serves.
    pub fn file(&self) -> Option<Blob> {
        let (_, encoded) = self.picture.split_once(";base64,")?;
        let decoded = window().atob(encoded).ok()?;
        // One character a byte, as `atob` gives them.
        let bytes: Vec<u8> = decoded.chars().map(|character| character as u32 as u8).collect();
        Some(Blob::new(bytes.as_slice()))
    }
}

/// Who was here before, if anyone.
pub fn read() -> Option<SavedJoin> {
    let text = window().session_storage().ok().flatten()?.get_item(KEY).ok().flatten()?;
    serde_json::from_str(&text).ok()
}

/// Keeps another answer to the question whether the class may see what leaks.
pub fn set_consent(may_show: bool) {
    if let Some(saved) = read() {
        write(&SavedJoin { may_show, ..saved });
    }
}

/// Keeps the room's newest ticket, since one works once, and the nickname under which it shows this student.
pub fn add_ticket(nickname: &str, ticket: Option<[u8; 16]>) {
    if let Some(saved) = read() {
        write(&SavedJoin { nickname: nickname.to_owned(), ticket, ..saved });
    }
}

/// Forgets who was here.
pub fn forget() {
    if let Ok(Some(storage)) = window().session_storage() {
        // It can only fail where nothing could be kept either.
        let _ = storage.remove_item(KEY);
    }
}

/// Keeps who joins. Where the browser refuses, the form is filled in again by hand.
pub fn write(saved: &SavedJoin) {
    let (Ok(text), Ok(Some(storage))) = (serde_json::to_string(saved), window().session_storage()) else { return };
    let _ = storage.set_item(KEY, &text);
}
