//! The room's passphrase, and the key and cipher derived from it.

use std::{fmt, sync::Arc};

use unmask_core::{Architecture, EncryptionStart, KeyCheck, ParamLayout};
use unmask_defence::{Cipher, ClassKey, KeyError, RoomKey};
use zeroize::Zeroizing;

/// Why the room's cipher is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Locked {
    Missing,
    Wrong,
    /// The passphrase may be right, but the cipher cannot be made.
    Broken(KeyError),
}

/// With this, which everybody may know, robots add up among themselves. Their sums hide nobody.
const ROBOTS: &str = "robots hide nobody";

/// A passphrase with the key and the cipher last derived from it. They are cached because a key is deliberately slow to
/// derive and needed every round. All of it stays in memory and is wiped when dropped.
#[derive(Default)]
pub(crate) struct Keys {
    passphrase: Option<Zeroizing<String>>,
    key: Option<([u8; 16], EncryptionStart, RoomKey)>,
    class: Option<([u8; 16], Arc<ClassKey>)>,
    cipher: Option<([u8; 16], EncryptionStart, Architecture, Arc<Cipher>)>,
}

impl Keys {
    /// Sets the passphrase and forgets the keys of another one. White space is not a passphrase.
    pub(crate) fn set(&mut self, passphrase: Option<String>) {
        let passphrase = passphrase.map(Zeroizing::new).filter(|passphrase| !passphrase.trim().is_empty());
        if self.passphrase != passphrase {
            *self = Self { passphrase, ..Self::default() };
        }
    }

    /// The class's key in the room with `salt`. If the others have a key already, the passphrase must match it. A robot
    /// without a passphrase has the key that all such robots have.
    pub(crate) fn class(
        &mut self,
        salt: [u8; 16],
        check: Option<KeyCheck>,
        is_robot: bool,
    ) -> Result<Arc<ClassKey>, Locked> {
        let (passphrase, refused) = match &self.passphrase {
            Some(passphrase) => (passphrase.as_str(), Locked::Wrong),
            None if is_robot => (ROBOTS, Locked::Missing),
            None => return Err(Locked::Missing),
        };
        let key = match &self.class {
            Some((salted, key)) if *salted == salt => Arc::clone(key),
            _ => Arc::new(ClassKey::derive(passphrase, &salt).map_err(Locked::Broken)?),
        };
        self.class = Some((salt, Arc::clone(&key)));
        if check.is_some_and(|check| check != key.check()) { Err(refused) } else { Ok(key) }
    }

    /// The cipher of the room with `salt` for a model of `architecture`. If the room has a key check already, the
    /// passphrase must match it.
    pub(crate) fn cipher(
        &mut self,
        (salt, start): ([u8; 16], EncryptionStart),
        check: Option<KeyCheck>,
        architecture: Architecture,
        layout: &ParamLayout,
    ) -> Result<Arc<Cipher>, Locked> {
        let passphrase = self.passphrase.as_ref().ok_or(Locked::Missing)?;
        if self.key.as_ref().is_none_or(|(salted, begun, _)| (*salted, *begun) != (salt, start)) {
            self.key = None;
            self.key = Some((salt, start, RoomKey::derive(passphrase, &salt, start).map_err(Locked::Broken)?));
        }
        let Some((_, _, key)) = &self.key else { return Err(Locked::Missing) };
        if check.is_some_and(|check| check != key.check()) {
            return Err(Locked::Wrong);
        }
        match &self.cipher {
            Some((salted, begun, made_for, cipher)) if (*salted, *begun, *made_for) == (salt, start, architecture) => {
                Ok(Arc::clone(cipher))
            }
            _ => {
                let cipher = Arc::new(Cipher::new(key, layout).map_err(Locked::Broken)?);
                self.cipher = Some((salt, start, architecture, Arc::clone(&cipher)));
                Ok(cipher)
            }
        }
    }
}

/// Shows only whether there is a passphrase.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("has_passphrase", &self.passphrase.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    const SALT: [u8; 16] = [3; 16];

    fn open(
        keys: &mut Keys,
        salt: [u8; 16],
        check: Option<KeyCheck>,
        preset: VitPreset,
    ) -> Result<Arc<Cipher>, Locked> {
        let architecture = Architecture::from(preset);
        keys.cipher((salt, EncryptionStart::Plain), check, architecture, &architecture.layout())
    }

    #[test]
    fn a_cipher_is_made_once_for_each_room_and_model() {
        let mut keys = Keys::default();
        keys.set(Some("violet otter".into()));
        let pico = open(&mut keys, SALT, None, VitPreset::Pico).unwrap();
        let again = open(&mut keys, SALT, Some(pico.check()), VitPreset::Pico).unwrap();
        assert!(Arc::ptr_eq(&pico, &again));
        // The same words with other white space are the same passphrase.
        keys.set(Some("violet otter".into()));
        assert!(Arc::ptr_eq(&pico, &open(&mut keys, SALT, None, VitPreset::Pico).unwrap()));
        let nano = open(&mut keys, SALT, None, VitPreset::Nano).unwrap();
        assert_eq!(nano.check(), pico.check());
        assert!(nano.decrypt(&mut [0.0; 5]).is_err());
        assert_ne!(open(&mut keys, [4; 16], None, VitPreset::Nano).unwrap().check(), nano.check());
    }

    #[test]
    fn missing_and_wrong_are_told_apart() {
        let mut keys = Keys::default();
        let preset = VitPreset::Pico;
        assert_eq!(open(&mut keys, SALT, None, preset).unwrap_err(), Locked::Missing);
        keys.set(Some("violet otter".into()));
        let right = open(&mut keys, SALT, None, preset).unwrap().check();
        keys.set(Some("violent otter".into()));
        assert_eq!(open(&mut keys, SALT, Some(right), preset).unwrap_err(), Locked::Wrong);
        for blank in [None, Some(" \n".to_owned())] {
            keys.set(blank);
            assert_eq!(open(&mut keys, SALT, Some(right), preset).unwrap_err(), Locked::Missing);
        }
    }

    /// The key of robots is public. No person ever has it, and it never fits the class's.
    #[test]
    fn robots_without_a_passphrase_share_a_key() {
        let (mut robot, mut person) = (Keys::default(), Keys::default());
        let of_robots = robot.class(SALT, None, true).unwrap().check();
        assert_eq!(Keys::default().class(SALT, Some(of_robots), true).unwrap().check(), of_robots);
        assert_eq!(person.class(SALT, Some(of_robots), false).unwrap_err(), Locked::Missing);
        person.set(Some("violet otter".into()));
        let of_class = person.class(SALT, None, false).unwrap().check();
        assert_ne!(of_class, of_robots);
        assert_eq!(robot.class(SALT, Some(of_class), true).unwrap_err(), Locked::Missing);
        // A robot that learns the passphrase has the class's key.
        robot.set(Some("violet otter".into()));
        assert_eq!(robot.class(SALT, Some(of_class), true).unwrap().check(), of_class);
    }

    #[test]
    fn nothing_of_it_is_printed() {
        let mut keys = Keys::default();
        keys.set(Some("violet otter".into()));
        assert_eq!(format!("{keys:?}"), "Keys { has_passphrase: true, .. }");
    }
}
