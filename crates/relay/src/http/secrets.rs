//! The three secrets of a room, one for each role.

use ring::digest::{Digest, SHA256, digest};
use subtle::ConstantTimeEq;
use unmask_wire::view::Role;

use crate::journal::LessonKey;

const ROLES: [Role; 3] = [Role::Student, Role::Projector, Role::Teacher];

/// The secrets of all roles. They do not implement `Debug`, so that they cannot leak into a log.
pub(crate) struct Secrets {
    /// In the order of [`ROLES`], each 128 bits in 32 hexadecimal digits, with its SHA-256.
    secrets: [(String, Digest); 3],
}

impl Secrets {
    /// Returns a lesson's secrets, which are the same after a restart.
    pub(crate) fn of_lesson(lesson: &LessonKey) -> Self {
        let secret = |role| {
            let secret = lesson.secret(purpose(role));
            let hash = hash(&secret);
            (secret, hash)
        };
        Self { secrets: ROLES.map(secret) }
    }

    pub(crate) fn of(&self, role: Role) -> &str {
        let place = ROLES.iter().position(|other| *other == role).unwrap_or_default();
        &self.secrets[place].0
    }

    /// Returns the role that a secret belongs to, in constant time, by comparing it with the hashes of all secrets.
    pub(crate) fn role_of(&self, given: &str) -> Option<Role> {
        let given = hash(given);
        let mut found = None;
        for (role, (_, known)) in ROLES.into_iter().zip(&self.secrets) {
            if bool::from(known.as_ref().ct_eq(given.as_ref())) {
                found = Some(role);
            }
        }
        found
    }
}

fn purpose(role: Role) -> &'static str {
    match role {
        Role::Student => "student",
        Role::Projector => "projector",
        Role::Teacher => "teacher",
    }
}

fn hash(secret: &str) -> Digest {
    digest(&SHA256, secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_a_secret_of_its_own() {
        let secrets = || Secrets::of_lesson(&LessonKey::fleeting().unwrap());
        let (secrets, others) = (secrets(), secrets());
        for role in ROLES {
            let secret = secrets.of(role);
            assert!(secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{secret}");
            assert_eq!(secrets.role_of(secret), Some(role));
            for wrong in [&secret[1..], &secret.to_uppercase(), &format!("{secret} "), others.of(role), ""] {
                // A secret without letters is unchanged in upper case.
                assert!(wrong == secret || secrets.role_of(wrong).is_none(), "{wrong}");
            }
        }
    }
}
