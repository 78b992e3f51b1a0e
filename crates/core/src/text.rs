//! One string form for each value, shared by the command line, files, JSON and the socket.

/// Makes serde use the string forms of `Display` and `FromStr`.
#[macro_export]
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

/// Names for the variants of an enum: `ALL`, in the order given, and `name()`.
#[macro_export]
macro_rules! named {
    ($enum:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $enum {
            /// All variants, in display order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name on the command line, in files and in messages.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

/// Like `named!`, and parses and displays the names. The error message may contain `{name}`, the unknown word, and
/// `{words}`, all known ones.
#[macro_export]
macro_rules! words {
    ($enum:ident $words:tt, $error:ident, $message:literal, $separator:literal) => {
        $crate::named!($enum $words);

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        #[doc = concat!("A word that is not in [`", stringify!($enum), "::ALL`].")]
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

        $crate::serde_as_text!($enum);
    };
}

pub(crate) use {named, serde_as_text, words};
