//! One string form for each value: on the command line, in files, in JSON and on the socket.

/// Lets serde write and read types in the string form of their `Display` and `FromStr`.
macro_rules! serde_as_text {
    ($($name:ty),+) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

/// The same for an enum whose forms are the plain words that `name()` gives to `ALL`. The message of the error may
/// contain `{name}`, the word that is none of them, and `{words}`, all that are.
macro_rules! words {
    ($enum:ident, $error:ident, $message:literal, $separator:literal) => {
        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        #[doc = concat!("A word that names none of [`", stringify!($enum), "::ALL`].")]
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[error($message, words = $enum::ALL.map($enum::name).join($separator))]
        pub struct $error {
            pub name: String,
        }

        impl std::str::FromStr for $enum {
            type Err = $error;

            fn from_str(name: &str) -> Result<Self, $error> {
                Self::ALL.into_iter().find(|word| word.name() == name).ok_or_else(|| $error { name: name.to_owned() })
            }
        }

        crate::text::serde_as_text!($enum);
    };
}

pub(crate) use {serde_as_text, words};
