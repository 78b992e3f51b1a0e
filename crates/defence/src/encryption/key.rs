//! Key derivation from the room's passphrase.

use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use hkdf::Hkdf;
use sha2::Sha256;
use unicode_normalization::UnicodeNormalization;
use unmask_core::{EncryptionStart, KeyCheck};
use zeroize::Zeroizing;

/// The passphrase or the model does not allow encryption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("the passphrase is empty; type the one that everybody in the room has agreed on")]
    Empty,
    #[error("the passphrase cannot be turned into a key: {0}")]
    Derivation(String),
    #[error("the model has no {missing} of the expected shape, so it cannot be encrypted; choose a Vision Transformer")]
    NoEmbedding { missing: &'static str },
    #[error("{values} values cannot be encrypted or decrypted for a model of {expected} parameters")]
    Length { values: usize, expected: usize },
}

/// The keys derived from a room's passphrase: the seeds of E_a and E_b, and the key check.
///
/// The passphrase goes through Argon2id (19 MiB, 2 passes, 1 lane). Argon2id is memory-hard: an attacker who tries
/// passphrases against the [`KeyCheck`] pays 19 MiB and tens of milliseconds per guess, and special hardware gains
/// little. HKDF-SHA256 then expands the hash into seeds. Each has its own label, so that none reveals another. Seeds
/// are wiped from memory on drop and are never printed.
pub struct RoomKey {
    pub(super) patch_seed: Zeroizing<[u8; 32]>,
    pub(super) position_seed: Zeroizing<[u8; 32]>,
    check: KeyCheck,
}

impl RoomKey {
    const MEMORY_KIB: u32 = 19 * 1024;
    const PASSES: u32 = 2;
    const LANES: u32 = 1;

    /// Derives the key of a passphrase under the room's salt. Ignores white space around the passphrase, and composes
    /// letters (Unicode NFC), because keyboards encode accents differently.
    ///
    /// A keyed start has separate keys. A relay that gets its plain model encrypted under the salt of a keyed room
    /// therefore learns nothing about that room's key.
    ///
    /// # Errors
    /// If the passphrase is empty or there is no memory for the password hash.
    pub fn derive(passphrase: &str, salt: &[u8; 16], start: EncryptionStart) -> Result<Self, KeyError> {
        let hash = stretch(passphrase, salt)?;
        Self::expand(&hash, start)
    }

    pub(super) fn expand(hash: &[u8; 32], start: EncryptionStart) -> Result<Self, KeyError> {
        let expander = Hkdf::<Sha256>::new(None, hash);
        let start = match start {
            EncryptionStart::Plain => "",
            EncryptionStart::Keyed => "keyed ",
        };
        let fill = |label: &str, out: &mut [u8]| {
            expander
                .expand_multi_info(&[b"unmask ", start.as_bytes(), label.as_bytes()], out)
                .map_err(|error| KeyError::Derivation(error.to_string()))
        };
        let mut key =
            Self { patch_seed: Zeroizing::default(), position_seed: Zeroizing::default(), check: KeyCheck([0; 16]) };
        fill("E_a", key.patch_seed.as_mut())?;
        fill("E_b", key.position_seed.as_mut())?;
        fill("key check", &mut key.check.0)?;
        Ok(key)
    }

    /// Returns the value that tells clients whether they typed the same passphrase.
    pub fn check(&self) -> KeyCheck {
        self.check
    }
}

/// Shows only the check.
impl fmt::Debug for RoomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomKey").field("check", &self.check).finish_non_exhaustive()
    }
}

/// Argon2id of the passphrase under the salt.
fn stretch(passphrase: &str, salt: &[u8; 16]) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    // Composing at most triples the length (UAX 15), so the string never reallocates and leaves no copy behind.
    let mut composed = Zeroizing::new(String::with_capacity(3 * passphrase.len()));
    composed.extend(passphrase.trim().nfc());
    if composed.is_empty() {
        return Err(KeyError::Empty);
    }
    let failed = |error: &dyn fmt::Display| KeyError::Derivation(error.to_string());
    let params =
        Params::new(RoomKey::MEMORY_KIB, RoomKey::PASSES, RoomKey::LANES, Some(32)).map_err(|error| failed(&error))?;
    let mut blocks = Zeroizing::new(Vec::new());
    blocks.try_reserve_exact(params.block_count()).map_err(|error| failed(&error))?;
    blocks.resize(params.block_count(), Block::new());
    let mut hash = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(composed.as_bytes(), salt, hash.as_mut(), blocks.as_mut_slice())
        .map_err(|error| failed(&error))?;
    Ok(hash)
}

/// The key that a class's clients share and the relay does not have, for what they tell each other through the relay. It
/// says nothing about the [`RoomKey`] of the same passphrase, even under the same salt.
pub struct ClassKey {
    seed: Zeroizing<[u8; 32]>,
    check: KeyCheck,
}

impl ClassKey {
    /// Derives the key as [`RoomKey::derive`] does.
    ///
    /// # Errors
    /// As [`RoomKey::derive`].
    pub fn derive(passphrase: &str, salt: &[u8; 16]) -> Result<Self, KeyError> {
        let expander = Hkdf::<Sha256>::new(None, stretch(passphrase, salt)?.as_ref());
        let fill = |label: &[u8], out: &mut [u8]| {
            expander.expand(label, out).map_err(|error| KeyError::Derivation(error.to_string()))
        };
        let mut key = Self { seed: Zeroizing::default(), check: KeyCheck([0; 16]) };
        fill(b"unmask class key", key.seed.as_mut())?;
        fill(b"unmask class key check", &mut key.check.0)?;
        Ok(key)
    }

    /// The secret itself.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// Tells clients with another passphrase apart. The relay can try passphrases with it, at the price of one Argon2id each.
    pub fn check(&self) -> KeyCheck {
        self.check
    }
}

/// Shows only the check.
impl fmt::Debug for ClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassKey").field("check", &self.check).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; 16] = [7; 16];

    fn check(passphrase: &str) -> KeyCheck {
        RoomKey::derive(passphrase, &SALT, EncryptionStart::Plain).unwrap().check()
    }

    #[test]
    fn equal_passphrases_give_equal_keys_however_they_are_typed() {
        let key = RoomKey::derive("Gr\u{fc}\u{df}e", &SALT, EncryptionStart::Plain).unwrap();
        let same = RoomKey::derive(" \tGru\u{308}\u{df}e\n", &SALT, EncryptionStart::Plain).unwrap();
        assert_eq!(key.check(), same.check());
        assert_eq!(*key.patch_seed, *same.patch_seed);
        assert_eq!(*key.position_seed, *same.position_seed);
    }

    #[test]
    fn passphrase_and_salt_decide_the_check() {
        let checks = [check("swordfish"), check("Swordfish"), check("sword fish")];
        let other_salt = RoomKey::derive("swordfish", &[8; 16], EncryptionStart::Plain).unwrap().check();
        assert!(checks[0] != checks[1] && checks[0] != checks[2] && checks[0] != other_salt);
    }

    #[test]
    fn a_keyed_start_has_keys_of_its_own() {
        let plain = RoomKey::derive("swordfish", &SALT, EncryptionStart::Plain).unwrap();
        let keyed = RoomKey::derive("swordfish", &SALT, EncryptionStart::Keyed).unwrap();
        assert_ne!(plain.check(), keyed.check());
        assert_ne!(*plain.patch_seed, *keyed.patch_seed);
        assert_ne!(*plain.position_seed, *keyed.position_seed);
    }

    #[test]
    fn keys_are_independent_of_the_check() {
        let key = RoomKey::derive("swordfish", &SALT, EncryptionStart::Plain).unwrap();
        assert_ne!(*key.patch_seed, *key.position_seed);
        assert!(!key.patch_seed.starts_with(&key.check().0) && !key.position_seed.starts_with(&key.check().0));
    }

    #[test]
    fn a_class_key_says_nothing_about_the_rooms() {
        let class = ClassKey::derive(" swordfish", &SALT).unwrap();
        let room = RoomKey::derive("swordfish", &SALT, EncryptionStart::Plain).unwrap();
        assert!(class.check() != room.check() && *class.seed() != *room.patch_seed);
        assert_eq!(*class.seed(), *ClassKey::derive("swordfish", &SALT).unwrap().seed());
        assert_ne!(class.check(), ClassKey::derive("swordfish", &[8; 16]).unwrap().check());
        assert_eq!(format!("{class:?}"), format!("ClassKey {{ check: {:?}, .. }}", class.check()));
    }

    #[test]
    fn empty_passphrase_is_refused_in_words() {
        for blank in ["", "  \t\u{a0}"] {
            assert_eq!(
                RoomKey::derive(blank, &SALT, EncryptionStart::Plain).unwrap_err().to_string(),
                "the passphrase is empty; type the one that everybody in the room has agreed on"
            );
        }
        assert!(RoomKey::derive("x", &SALT, EncryptionStart::Plain).is_ok());
    }

    #[test]
    fn debug_form_tells_no_secret() {
        let key = RoomKey::derive("swordfish", &SALT, EncryptionStart::Plain).unwrap();
        let text = format!("{key:?}");
        assert_eq!(text, format!("RoomKey {{ check: {:?}, .. }}", key.check()));
        let bytes = |seed: &[u8]| format!("{seed:?}").trim_matches(['[', ']']).to_owned();
        assert!(!text.contains(&bytes(&key.patch_seed[..4])) && !text.contains("swordfish"));
    }
}
