//! The published list of a round: a Merkle tree over the updates that the relay took.
//!
//! The relay publishes the root and tells each client the way from its own update to it. Everybody reads four words of the
//! root and of the weights that they got for the round. A client that finds its update under the root, and whose neighbours
//! read the same words, knows that the relay showed all of them one list with its update in it, and gave all of them the same
//! weights. It does not know that the sum was made from that list.
//!
//! Leaves, nodes and root are hashed with words of their own, so that none of them passes for another, and the root covers
//! the number of leaves, which together with a leaf's place fixes the shape of its path. A leaf hides its update behind a
//! nonce: a neighbour on the path could otherwise guess a picture and see whether it gives the same hash.

mod words;

use sha2::{Digest, Sha256};
use unmask_core::UpdateForm;

use self::words::WORDS;

/// A SHA-256.
pub type Hash = [u8; 32];

/// Hashes behind the four words. Forty bits alone would let a relay find two lists with the same words within a second.
const STRETCH: u32 = 4096;

/// The content of an update, as its client sent it and as the relay received it.
#[derive(Debug, Clone, Copy)]
pub struct SentContent<'a> {
    pub round: u32,
    pub policy: u32,
    pub loss: f32,
    pub samples: u32,
    pub form: UpdateForm,
    /// The values that were sent, followed by batch norm's running statistics; in as many pieces as is convenient.
    pub values: [&'a [f32]; 2],
}

impl SentContent<'_> {
    /// The hash of all of it. Values count bit for bit.
    pub fn hash(&self) -> Hash {
        let Self { round, policy, loss, samples, form, values } = self;
        let mut hash = Sha256::new_with_prefix(b"unmask: content of an update");
        for number in [*round, *policy, loss.to_bits(), *samples] {
            hash.update(number.to_le_bytes());
        }
        match form {
            UpdateForm::Dense => hash.update([0]),
            UpdateForm::Masked { seed, rates } => {
                hash.update([1]);
                hash.update(seed.0);
                for bits in rates.bits() {
                    hash.update(bits.to_le_bytes());
                }
            }
            UpdateForm::Encrypted { check } => {
                hash.update([2]);
                hash.update(check.0);
            }
        }
        for values in values {
            update(&mut hash, values);
        }
        hash.finalize().into()
    }
}

/// The hash of what a plan carries: weights and running statistics, encrypted if they travel so; in as many pieces as is
/// convenient.
pub fn weights(pieces: &[&[f32]]) -> Hash {
    let mut hash = Sha256::new_with_prefix(b"unmask: weights of a round");
    for values in pieces {
        update(&mut hash, values);
    }
    hash.finalize().into()
}

fn update(hash: &mut Sha256, values: &[f32]) {
    let mut buffer = [0; 4096];
    for values in values.chunks(buffer.len() / 4) {
        for (bytes, value) in buffer.as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *bytes = value.to_le_bytes();
        }
        hash.update(&buffer[..4 * values.len()]);
    }
}

/// The leaf of an update's [hash](SentContent::hash). The relay draws a nonce for each leaf and tells it to nobody but the
/// update's client.
pub fn leaf(nonce: &Hash, content: &Hash) -> Hash {
    hash(b"unmask: leaf of a list", &[nonce, content])
}

fn node(left: &Hash, right: &Hash) -> Hash {
    hash(b"unmask: node of a list", &[left, right])
}

fn root_over(leaves: u32, top: &Hash) -> Hash {
    hash(b"unmask: root of a list", &[&leaves.to_le_bytes(), top])
}

fn hash(purpose: &[u8], parts: &[&[u8]]) -> Hash {
    parts.iter().fold(Sha256::new_with_prefix(purpose), Digest::chain_update).finalize().into()
}

/// All leaves of a round, in an order that says nothing about whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedList(Vec<Hash>);

impl PublishedList {
    pub fn new(mut leaves: Vec<Hash>) -> Self {
        leaves.sort_unstable();
        Self(leaves)
    }

    pub fn leaves(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// The root; `None` for an empty list.
    pub fn root(&self) -> Option<Hash> {
        (!self.0.is_empty()).then(|| root_over(self.leaves(), &top(&self.0)))
    }

    /// Where a leaf is, and the hashes beside its way to the root, the lowest first; `None` if it is not in the list.
    pub fn path(&self, leaf: &Hash) -> Option<(u32, Vec<Hash>)> {
        let mut place = self.0.binary_search(leaf).ok()?;
        let found = u32::try_from(place).ok()?;
        let (mut leaves, mut beside) = (self.0.as_slice(), Vec::new());
        while leaves.len() > 1 {
            let (left, right) = leaves.split_at(left_of(leaves.len()));
            let is_left = place < left.len();
            beside.push(top(if is_left { right } else { left }));
            place -= if is_left { 0 } else { left.len() };
            leaves = if is_left { left } else { right };
        }
        beside.reverse();
        Some((found, beside))
    }
}

/// The number of leaves left of the root: the largest power of two below their number, which is above 1.
fn left_of(leaves: usize) -> usize {
    1 << (usize::BITS - 1 - (leaves - 1).leading_zeros())
}

fn top(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => [0; 32],
        [leaf] => *leaf,
        leaves => {
            let (left, right) = leaves.split_at(left_of(leaves.len()));
            node(&top(left), &top(right))
        }
    }
}

/// The root that follows from a leaf, its place among `leaves` and the hashes beside its path. `None` if that many hashes do
/// not lie beside a path to this place.
pub fn root_from(leaf: &Hash, (place, leaves): (u32, u32), beside: &[Hash]) -> Option<Hash> {
    if place >= leaves {
        return None;
    }
    // From the root down: whether the path goes left.
    let (mut turns, mut place, mut below) = (Vec::new(), place as usize, leaves as usize);
    while below > 1 {
        let left = left_of(below);
        turns.push(place < left);
        (place, below) = if place < left { (place, left) } else { (place - left, below - left) };
    }
    if turns.len() != beside.len() {
        return None;
    }
    let step =
        |at: Hash, (beside, is_left): (&Hash, &bool)| if *is_left { node(&at, beside) } else { node(beside, &at) };
    let top = beside.iter().zip(turns.iter().rev()).fold(*leaf, step);
    Some(root_over(leaves, &top))
}

/// A list's root and the [weights] of its round as four words of 1024, for people to compare by eye.
pub fn four_words(root: &Hash, weights: &Hash) -> String {
    let both = hash(b"unmask: list and weights of a round", &[root, weights]);
    let stretched = (0..STRETCH).fold(both, |at, _| hash(b"unmask: words of a list", &[&at, &both]));
    let mut bits = stretched.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let word = |_| {
        bits = bits.rotate_left(10);
        WORDS[(bits & 1023) as usize]
    };
    [0; 4].map(word).join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unmask_core::{GroupRates, KeyCheck, MaskSeed};

    use super::*;

    fn list(size: u32) -> (Vec<Hash>, PublishedList) {
        let leaves: Vec<Hash> = (0..size).map(|k| leaf(&[k as u8; 32], &[7; 32])).collect();
        (leaves.clone(), PublishedList::new(leaves))
    }

    #[test]
    fn every_leaf_of_every_size_is_found_and_nothing_else() {
        for size in 1..=40 {
            let (leaves, list) = list(size);
            let root = list.root().unwrap();
            let mut places = BTreeSet::new();
            for leaf in &leaves {
                let (place, beside) = list.path(leaf).unwrap();
                places.insert(place);
                assert_eq!(root_from(leaf, (place, size), &beside), Some(root), "{place} of {size}");
                // Another leaf, also that of a neighbour, and the same with another place or number of leaves.
                let mut other = *leaf;
                other[31] ^= 1;
                assert_ne!(root_from(&other, (place, size), &beside), Some(root));
                for wrong in (0..size).filter(|wrong| *wrong != place) {
                    assert_ne!(root_from(leaf, (wrong, size), &beside), Some(root), "{wrong} for {place} of {size}");
                }
                for wrong in [0, size - 1, size + 1, u32::MAX] {
                    assert_ne!(root_from(leaf, (place, wrong), &beside), Some(root), "{wrong} for {size} leaves");
                }
                // A path that is changed, cut or too long.
                for at in 0..beside.len() {
                    let mut changed = beside.clone();
                    changed[at][0] ^= 128;
                    assert_ne!(root_from(leaf, (place, size), &changed), Some(root));
                    assert_eq!(root_from(leaf, (place, size), &beside[..at]), None);
                }
                let long = [beside.as_slice(), &[[0; 32]]].concat();
                assert_eq!(root_from(leaf, (place, size), &long), None);
            }
            assert!(places.into_iter().eq(0..size), "every place of {size}");
            assert_eq!(list.path(&[9; 32]), None);
        }
        let empty = PublishedList::new(Vec::new());
        assert_eq!((empty.root(), empty.path(&[0; 32])), (None, None));
    }

    /// A node must not pass for a leaf: somebody could show it as an update.
    #[test]
    fn a_node_is_no_leaf() {
        let (_, list) = list(4);
        let pairs: Vec<Hash> = list.0.chunks(2).map(top).collect();
        assert_ne!(PublishedList::new(pairs).root(), list.root());
        assert_ne!(node(&[1; 32], &[2; 32]), leaf(&[1; 32], &[2; 32]));
    }

    /// Each leaf that is missing, changed or added gives another root and other words.
    #[test]
    fn other_rosters_have_other_words() {
        let (leaves, whole) = list(12);
        let mut rosters = vec![whole];
        rosters.extend((0..12).map(|gone| {
            PublishedList::new(leaves.iter().enumerate().filter(|(k, _)| *k != gone).map(|(_, leaf)| *leaf).collect())
        }));
        rosters.extend((0..12).map(|at| {
            let mut leaves = leaves.clone();
            leaves[at] = leaf(&[at as u8; 32], &[8; 32]);
            PublishedList::new(leaves)
        }));
        rosters.push(PublishedList::new([leaves.as_slice(), &leaves[..1]].concat()));
        let words: BTreeSet<String> = rosters.iter().map(|list| four_words(&list.root().unwrap(), &[1; 32])).collect();
        assert_eq!(words.len(), rosters.len());
        assert!(words.iter().all(|words| words.split(' ').count() == 4), "{words:?}");
        let root = rosters[0].root().unwrap();
        assert!(!words.contains(&four_words(&root, &[2; 32])), "of other weights");
        // The order in which updates came says nothing.
        let backwards = PublishedList::new(leaves.into_iter().rev().collect());
        assert_eq!(backwards, rosters.remove(0));
    }

    #[test]
    fn every_part_of_an_update_counts() {
        let (values, statistics) = ([1.0, -0.0, 3.0], [4.0]);
        let form = UpdateForm::Dense;
        let sent = SentContent { round: 1, policy: 2, loss: 0.5, samples: 3, form, values: [&values, &statistics] };
        let masked = |seed| UpdateForm::Masked { seed: MaskSeed([seed; 32]), rates: GroupRates::from_bits([1; 7]) };
        let others = [
            SentContent { round: 2, ..sent },
            SentContent { policy: 1, ..sent },
            SentContent { loss: 0.25, ..sent },
            SentContent { samples: 1, ..sent },
            SentContent { form: masked(1), ..sent },
            SentContent { form: masked(2), ..sent },
            SentContent { form: UpdateForm::Encrypted { check: KeyCheck([1; 16]) }, ..sent },
            SentContent { values: [&[1.0, 0.0, 3.0], &statistics], ..sent },
            SentContent { values: [&values, &[]], ..sent },
        ];
        let hashes: BTreeSet<Hash> = others.iter().chain([&sent]).map(SentContent::hash).collect();
        assert_eq!(hashes.len(), others.len() + 1);
        // Where the values are cut makes no difference.
        let whole = [1.0, -0.0, 3.0, 4.0];
        assert_eq!(SentContent { values: [&whole, &[]], ..sent }.hash(), sent.hash());
        assert_eq!(weights(&[&whole]), weights(&[&values, &statistics]));
        assert_ne!(weights(&[&whole]), weights(&[&values]));
        // More values than one piece.
        let long: Vec<f32> = (0..3000).map(|k| k as f32).collect();
        let cut = SentContent { values: long.split_at(1111).into(), ..sent };
        assert_eq!(SentContent { values: [&long, &[]], ..sent }.hash(), cut.hash());
    }

    #[test]
    fn words_are_all_different_and_plain() {
        let different: BTreeSet<&str> = WORDS.into_iter().collect();
        assert_eq!(different.len(), 1024);
        let is_plain = |word: &str| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
        assert_eq!(WORDS.into_iter().filter(|word| !is_plain(word)).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
