//! The messages of Flower's Fleet API, generated from `proto/fleet.proto`.

mod fleet {
    #![allow(clippy::all, clippy::pedantic, unreachable_pub, reason = "generated code")]

    include!(concat!(env!("OUT_DIR"), "/fleet.rs"));
}

pub(crate) use fleet::{config_value::Value as Config, metric_value::Value as Metric, *};
