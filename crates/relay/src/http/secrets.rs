//! The secrets of a room: one for each role, and one for the robots that the relay starts.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use ring::digest::{Digest, SHA256, digest};
use subtle::ConstantTimeEq;
use unmask_room::hex;
use unmask_wire::view::Role;

use crate::{
    journal::LessonKey,
    random::{self, NoRandomNumbers},
};

/// The secrets of all roles, each 128 bits in 32 hexadecimal digits. They do not implement `Debug`, so that they cannot leak
/// into a log.
pub(crate) struct Secrets {
    lesson: LessonKey,
    projector: Secret,
    teacher: Secret,
    /// Of the robots in this process, which it alone knows: each start draws another.
    robots: Secret,
    students: RwLock<StudentSecrets>,
}

/// A secret and its SHA-256.
struct Secret(String, Digest);

struct StudentSecrets {
    present: Secret,
    /// Hashes of the earlier ones. Who is in the room comes back with one.
    earlier: Vec<Digest>,
}

impl Secrets {
    /// Returns a lesson's secrets; `keys` is the number of the students' earlier ones. All but the robots' are the same
    /// after a restart.
    ///
    /// # Errors
    /// Fails if the operating system provides no random numbers.
    pub(crate) fn of_lesson(lesson: LessonKey, keys: u32) -> Result<Self, NoRandomNumbers> {
        let [projector, teacher] = ["projector", "teacher"].map(|purpose| Secret::of(&lesson, purpose));
        let robots = Secret::new(hex(&random::bytes::<16>()?));
        let students = RwLock::new(StudentSecrets::of(&lesson, keys));
        Ok(Self { lesson, projector, teacher, robots, students })
    }

    pub(crate) fn projector(&self) -> &str {
        &self.projector.0
    }

    pub(crate) fn teacher(&self) -> &str {
        &self.teacher.0
    }

    pub(crate) fn robots(&self) -> &str {
        &self.robots.0
    }

    /// Whether only a robot in this process can have this secret.
    pub(crate) fn is_own_robots(&self, given: &str) -> bool {
        is_same(&self.robots.1, &hash(given))
    }

    pub(crate) fn students(&self) -> String {
        self.read().present.0.clone()
    }

    pub(crate) fn of(&self, role: Role) -> String {
        match role {
            Role::Student => self.students(),
            Role::Projector => self.projector().to_owned(),
            Role::Teacher => self.teacher().to_owned(),
        }
    }

    /// Returns the role that a secret belongs to, in constant time, by comparing it with the hashes of all secrets.
    pub(crate) fn role_of(&self, given: &str) -> Option<Role> {
        let (given, students) = (hash(given), self.read());
        let mut found = students.is_earlier(&given).then_some(Role::Student);
        for (role, secret) in [
            (Role::Student, &students.present),
            (Role::Student, &self.robots),
            (Role::Projector, &self.projector),
            (Role::Teacher, &self.teacher),
        ] {
            if is_same(&secret.1, &given) {
                found = Some(role);
            }
        }
        found
    }

    /// Whether the students had this secret before the present one.
    pub(crate) fn is_earlier(&self, given: &str) -> bool {
        self.read().is_earlier(&hash(given))
    }

    /// Number of the students' secrets before this one, or before the present one.
    pub(crate) fn keys_before(&self, given: &str) -> u32 {
        let (given, students) = (hash(given), self.read());
        let place = students.earlier.iter().position(|known| is_same(known, &given));
        place.map_or_else(|| students.keys(), number)
    }

    /// Number of the students' secrets before the present one.
    pub(crate) fn keys(&self) -> u32 {
        self.read().keys()
    }

    /// Gives students another secret. Returns how many they had before.
    pub(crate) fn renew(&self) -> u32 {
        let mut students = self.students.write().unwrap_or_else(PoisonError::into_inner);
        let keys = students.keys().saturating_add(1);
        *students = StudentSecrets::of(&self.lesson, keys);
        keys
    }

    fn read(&self) -> RwLockReadGuard<'_, StudentSecrets> {
        self.students.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Secret {
    fn of(lesson: &LessonKey, purpose: &str) -> Self {
        Self::new(lesson.secret(purpose))
    }

    fn new(secret: String) -> Self {
        let hash = hash(&secret);
        Self(secret, hash)
    }
}

impl StudentSecrets {
    fn of(lesson: &LessonKey, keys: u32) -> Self {
        let secret = |number| {
            let purpose = if number == 0 { "student".to_owned() } else { format!("student {number}") };
            Secret::of(lesson, &purpose)
        };
        Self { present: secret(keys), earlier: (0..keys).map(|number| secret(number).1).collect() }
    }

    fn keys(&self) -> u32 {
        number(self.earlier.len())
    }

    fn is_earlier(&self, given: &Digest) -> bool {
        self.earlier.iter().fold(false, |found, known| found | is_same(known, given))
    }
}

fn number(keys: usize) -> u32 {
    u32::try_from(keys).unwrap_or(u32::MAX)
}

fn is_same(known: &Digest, given: &Digest) -> bool {
    known.as_ref().ct_eq(given.as_ref()).into()
}

fn hash(secret: &str) -> Digest {
    digest(&SHA256, secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [Role; 3] = [Role::Student, Role::Projector, Role::Teacher];

    #[test]
    fn each_role_has_a_secret_of_its_own() {
        let secrets = || Secrets::of_lesson(LessonKey::fleeting().unwrap(), 0).unwrap();
        let (secrets, others) = (secrets(), secrets());
        for role in ROLES {
            let secret = &secrets.of(role);
            assert!(secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "{secret}");
            assert_eq!(secrets.role_of(secret), Some(role));
            for wrong in [&secret[1..], &secret.to_uppercase() as &str, &format!("{secret} "), &others.of(role), ""] {
                // A secret without letters is unchanged in upper case.
                assert!(wrong == secret || secrets.role_of(wrong).is_none(), "{wrong}");
            }
        }
    }

    #[test]
    fn students_get_another_secret_and_keep_the_earlier_ones_to_come_back() {
        let key = LessonKey::fleeting().unwrap();
        let secrets = Secrets::of_lesson(key.clone(), 0).unwrap();
        let first = secrets.of(Role::Student);
        assert_eq!((secrets.renew(), secrets.renew()), (1, 2));
        assert!(secrets.is_earlier(&first) && secrets.role_of(&first) == Some(Role::Student));
        let last = secrets.of(Role::Student);
        assert!(last != first && !secrets.is_earlier(&last) && !secrets.is_earlier(&secrets.of(Role::Teacher)));
        let restarted = Secrets::of_lesson(key, 2).unwrap();
        assert!(restarted.of(Role::Student) == last && restarted.is_earlier(&first));
        assert_eq!([first.as_str(), &last, ""].map(|secret| restarted.keys_before(secret)), [0, 2, 2]);
    }

    #[test]
    fn each_start_draws_another_secret_for_its_robots() {
        let key = LessonKey::fleeting().unwrap();
        let secrets = Secrets::of_lesson(key.clone(), 0).unwrap();
        let robots = secrets.robots();
        assert!(secrets.role_of(robots) == Some(Role::Student) && secrets.is_own_robots(robots));
        assert!(ROLES.into_iter().all(|role| !secrets.is_own_robots(&secrets.of(role))));
        assert!(!secrets.is_own_robots(Secrets::of_lesson(key, 0).unwrap().robots()));
    }
}
