//! The pictures that the projector may still request.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use unmask_core::{AttackMethod, ClientId, PictureAddress};

use super::candidate::CandidatePicture;

/// Number of pictures kept for each attack. A page requests each one as soon as it is announced, and a search makes
/// four a second.
const KEPT: usize = 6;

/// The name under which the wall's pictures are kept, one for each client.
pub(super) const EVERYBODY: &str = "everybody";
/// The name under which the pictures of a sum are kept: one of each client in it, and the mixture.
pub(super) const SUM: &str = "sum";
/// Upper limit of clients on the wall.
pub(super) const MOST_EVERYBODY: usize = 30;
/// Upper limit of pictures that are not clients' own.
pub(crate) const MOST_PICTURES: usize = KEPT * (AttackMethod::ALL.len() + 1) + MOST_EVERYBODY + 1;

#[derive(Debug)]
struct Reconstructed {
    client: ClientId,
    path: PictureAddress,
    png: Bytes,
}

#[derive(Debug, Default)]
struct KeptPictures {
    /// Numbers all pictures, so that a path never refers to two of them.
    number: u64,
    attacks: BTreeMap<&'static str, VecDeque<Reconstructed>>,
    candidate: Option<(PictureAddress, Bytes)>,
    /// Pictures that clients show of their own; never written to disk.
    originals: BTreeMap<ClientId, Original>,
    /// Values `[32, 32, 3]` of those that the teacher has yet to allow. They have no path.
    waiting: BTreeMap<ClientId, Vec<f32>>,
}

#[derive(Debug)]
struct Original {
    path: PictureAddress,
    png: Bytes,
    /// `[32, 32, 3]` in [0, 1], as its owner sent it.
    values: Vec<f32>,
}

/// The newest pictures as PNG, by the path under which they are served.
#[derive(Debug, Default)]
pub struct Pictures(Mutex<KeptPictures>);

impl Pictures {
    /// Keeps a picture that an attack made from a client's update, and forgets the attack's oldest. Returns its path,
    /// whose last part begins with `prefix`.
    pub(crate) fn keep(&self, client: ClientId, attack: &'static str, prefix: &str, png: Vec<u8>) -> PictureAddress {
        let mut kept = self.lock();
        kept.number += 1;
        let path = PictureAddress::on_server(&format!("reconstruction/{attack}/{prefix}{}.png", kept.number));
        let pictures = kept.attacks.entry(attack).or_default();
        if pictures.len() == (if attack == EVERYBODY { MOST_EVERYBODY } else { KEPT }) {
            pictures.pop_front();
        }
        pictures.push_back(Reconstructed { client, path: path.clone(), png: png.into() });
        path
    }

    /// Number of pictures.
    pub(crate) fn count(&self) -> usize {
        let kept = self.lock();
        kept.attacks.values().map(VecDeque::len).sum::<usize>()
            + kept.originals.len()
            + kept.waiting.len()
            + kept.candidate.iter().len()
    }

    /// Forgets the wall's pictures.
    pub(super) fn forget_everybody(&self) {
        self.lock().attacks.remove(EVERYBODY);
    }

    /// Forgets the pictures of a sum, which are of several clients.
    pub(super) fn forget_sum(&self) {
        self.lock().attacks.remove(SUM);
    }

    /// Forgets the reconstructions for which `is_forgotten` returns true. The teacher's picture stays.
    pub(crate) fn forget(&self, is_forgotten: impl Fn(ClientId) -> bool) {
        for pictures in self.lock().attacks.values_mut() {
            pictures.retain(|picture| !is_forgotten(picture.client));
        }
    }

    /// Forgets all pictures.
    pub(crate) fn forget_all(&self) {
        self.forget(|_| true);
        self.forget_candidate();
        self.forget_originals();
    }

    /// Replaces the picture that the teacher dropped; returns its path.
    pub(crate) fn keep_candidate(&self, number: u64, png: Vec<u8>) -> PictureAddress {
        let path = PictureAddress::on_server(&format!("candidate/{number}.png"));
        self.lock().candidate = Some((path.clone(), png.into()));
        path
    }

    pub(crate) fn forget_candidate(&self) {
        self.lock().candidate = None;
    }

    /// Replaces the picture that a client shows to the class.
    pub(crate) fn keep_original(&self, client: ClientId, values: &[f32], png: Vec<u8>) {
        let mut kept = self.lock();
        kept.number += 1;
        let path = PictureAddress::on_server(&format!("original/{}.png", kept.number));
        kept.originals.insert(client, Original { path, png: png.into(), values: values.into() });
    }

    /// Keeps the picture that a client wants to show until the teacher allows it.
    pub(crate) fn let_wait(&self, client: ClientId, values: &[f32]) {
        self.lock().waiting.insert(client, values.into());
    }

    /// The picture that a client wants to show, which waits no longer.
    pub(crate) fn take_waiting(&self, client: ClientId) -> Option<Vec<f32>> {
        self.lock().waiting.remove(&client)
    }

    /// Forgets the picture that a client shows or wants to show; returns whether it was shown.
    pub(crate) fn forget_original(&self, client: ClientId) -> bool {
        let mut kept = self.lock();
        kept.waiting.remove(&client);
        kept.originals.remove(&client).is_some()
    }

    /// Forgets the pictures that clients show or want to show; returns the clients whose picture was shown.
    pub(crate) fn forget_originals(&self) -> Vec<ClientId> {
        let mut kept = self.lock();
        kept.waiting.clear();
        std::mem::take(&mut kept.originals).into_keys().collect()
    }

    pub(crate) fn original(&self, client: ClientId) -> Option<PictureAddress> {
        self.lock().originals.get(&client).map(|original| original.path.clone())
    }

    /// The picture that a client shows, exactly as it trains on it where the model has that side.
    pub(crate) fn original_values(&self, client: ClientId) -> Option<CandidatePicture> {
        let kept = self.lock();
        let Original { values, png, .. } = kept.originals.get(&client)?;
        Some(CandidatePicture { values: values.clone(), png: png.to_vec(), owner: Some(client), is_exact: true })
    }

    pub fn get(&self, path: &str) -> Option<Bytes> {
        let kept = self.lock();
        let made = kept.attacks.values().flatten().map(|picture| (&picture.path, &picture.png));
        let candidate = kept.candidate.iter().map(|(path, png)| (path, png));
        let originals = kept.originals.values().map(|original| (&original.path, &original.png));
        let mut all = made.chain(candidate).chain(originals);
        all.find(|(own, _)| own.as_str() == path).map(|(_, png)| png.clone())
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
        let ada = ClientId(1);
        let april = pictures.keep(ada, "april", "1-", vec![0]);
        let paths: Vec<PictureAddress> =
            (1..=KEPT as u8 + 1).map(|i| pictures.keep(ada, "embedding", "2-", vec![i])).collect();
        assert_eq!(pictures.get(&paths[0]), None);
        assert_eq!(pictures.get(&paths[1]).as_deref(), Some(&[2][..]));
        assert_eq!(pictures.get(&april).as_deref(), Some(&[0][..]));
        let candidate = pictures.keep_candidate(7, vec![9]);
        assert_eq!((candidate.as_str(), pictures.get(&candidate).as_deref()), ("/api/candidate/7.png", Some(&[9][..])));
        pictures.forget_candidate();
        assert_eq!(pictures.get(&candidate), None);
    }

    #[test]
    fn each_client_shows_one_original() {
        let (pictures, [ada, bob]) = (Pictures::default(), [1, 2].map(ClientId));
        for (client, byte) in [(ada, 1), (bob, 2), (ada, 3)] {
            pictures.keep_original(client, &[0.5], vec![byte]);
        }
        let [first, second] = [ada, bob].map(|client| pictures.original(client).unwrap());
        assert_eq!((first.as_str(), pictures.get(&first).as_deref()), ("/api/original/3.png", Some(&[3][..])));
        assert_eq!(pictures.get("/api/original/1.png"), None);
        assert!(pictures.forget_original(ada) && !pictures.forget_original(ada));
        assert_eq!((pictures.get(&first), pictures.original(ada)), (None, None));
        assert_eq!((pictures.forget_originals(), pictures.get(&second)), (vec![bob], None));
    }

    #[test]
    fn pictures_go_with_their_client() {
        let pictures = Pictures::default();
        let [ada, bob] = [1, 2].map(|client| pictures.keep(ClientId(client), "april", "1-", vec![client as u8]));
        let candidate = pictures.keep_candidate(1, vec![9]);
        pictures.forget(|client| client == ClientId(1));
        assert_eq!((pictures.get(&ada), pictures.get(&bob).as_deref()), (None, Some(&[2][..])));
        pictures.forget(|_| true);
        assert!(pictures.get(&bob).is_none() && pictures.get(&candidate).is_some());
    }
}
