//! The reconstructions that the projector may still ask for.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;

/// A page asks for a picture as soon as it hears of it; a few rounds of slack are plenty.
const KEPT: usize = 16;

/// The newest pictures as PNG, by the path under which they are served.
#[derive(Debug, Default)]
pub(crate) struct Pictures(Mutex<VecDeque<(String, Bytes)>>);

impl Pictures {
    /// Keeps a picture, and forgets the oldest one.
    pub(crate) fn keep(&self, path: String, png: Vec<u8>) {
        let mut pictures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pictures.len() == KEPT {
            pictures.pop_front();
        }
        pictures.push_back((path, png.into()));
    }

    /// The picture served under `path`.
    pub(crate) fn get(&self, path: &str) -> Option<Bytes> {
        let pictures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pictures.iter().find(|(kept, _)| kept == path).map(|(_, png)| png.clone())
    }
}
