//! Values that are written as people write them on the command line.

use std::{fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

pub(super) mod optional {
    //! The same where a value may be absent.

    use super::*;

    pub(in super::super) fn serialize<T, S>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Display,
        S: Serializer,
    {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        super::deserialize(deserializer).map(Some)
    }
}

pub(super) mod compute {
    //! `cpu` or `gpu`.

    use unmask_model::device::Compute;

    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(compute: &Compute, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match compute {
            Compute::Cpu => "cpu",
            Compute::Gpu => "gpu",
        })
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Compute, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "cpu" => Ok(Compute::Cpu),
            "gpu" => Ok(Compute::Gpu),
            other => Err(D::Error::custom(format!("there is no device \"{other}\"; write cpu or gpu"))),
        }
    }
}
