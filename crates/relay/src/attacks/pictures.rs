//! The pictures that the projector may still ask for.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::body::Bytes;

/// Pictures kept of each attack: a page asks as soon as it hears of one, and a search makes four a second.
const KEPT: usize = 6;

#[derive(Debug, Default)]
struct KeptPictures {
    /// Numbers all pictures, so that no path ever means two of them.
    number: u64,
    attacks: BTreeMap<&'static str, VecDeque<(String, Bytes)>>,
    candidate: Option<(String, Bytes)>,
}

/// The newest pictures as PNG, by the path under which they are served.
#[derive(Debug, Default)]
pub(crate) struct Pictures(Mutex<KeptPictures>);

impl Pictures {
    /// Keeps a picture of an attack, and forgets the attack's oldest; its path, whose last part begins with `prefix`.
    pub(crate) fn keep(&self, attack: &'static str, prefix: &str, png: Vec<u8>) -> String {
        let mut kept = self.lock();
        kept.number += 1;
        let path = format!("/api/reconstruction/{attack}/{prefix}{}.png", kept.number);
        let pictures = kept.attacks.entry(attack).or_default();
        if pictures.len() == KEPT {
            pictures.pop_front();
        }
        pictures.push_back((path.clone(), png.into()));
        path
    }

    /// Keeps the picture that the teacher dropped in place of the one before; its path.
    pub(crate) fn keep_candidate(&self, number: u64, png: Vec<u8>) -> String {
        let path = format!("/api/candidate/{number}.png");
        self.lock().candidate = Some((path.clone(), png.into()));
        path
    }

    pub(crate) fn forget_candidate(&self) {
        self.lock().candidate = None;
    }

    pub(crate) fn get(&self, path: &str) -> Option<Bytes> {
        let kept = self.lock();
        let mut all = kept.attacks.values().flatten().chain(&kept.candidate);
        all.find(|(own, _)| own == path).map(|(_, png)| png.clone())
    }

    fn lock(&self) -> MutexGuard<'_, KeptPictures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attack_keeps_its_newest() {
        let pictures = Pictures::default();
        let april = pictures.keep("april", "1-", vec![0]);
        let paths: Vec<String> = (1..=KEPT as u8 + 1).map(|i| pictures.keep("embedding", "2-", vec![i])).collect();
        assert_eq!(pictures.get(&paths[0]), None);
        assert_eq!(pictures.get(&paths[1]).as_deref(), Some(&[2][..]));
        assert_eq!(pictures.get(&april).as_deref(), Some(&[0][..]));
        let candidate = pictures.keep_candidate(7, vec![9]);
        assert_eq!((candidate.as_str(), pictures.get(&candidate).as_deref()), ("/api/candidate/7.png", Some(&[9][..])));
        pictures.forget_candidate();
        assert_eq!(pictures.get(&candidate), None);
    }
}
