//! What a hostile client can send, for a fuzzer that is guided by coverage.
//!
//! Each [`Target`] takes any bytes, reads them as what clients do, and panics where something holds no longer: a frame is
//! understood in two ways, a weight is not finite, or an honest client that comes afterwards gets no round done.
//! `cargo xtask fuzz` lets libFuzzer look for such bytes; the tests of this crate try a few, with the compiler's usual code.

mod frames;
mod rounds;
mod session;
mod values;

/// A way from bytes to the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Frames of one socket, put together to messages.
    Frames,
    /// Messages of several clients to the state machine of the rounds.
    Rounds,
    /// Frames of several sockets to the relay's actor, and the teacher's controls between them.
    Session,
}

impl Target {
    /// All of them, the quickest first.
    pub const ALL: [Self; 3] = [Self::Frames, Self::Rounds, Self::Session];

    /// On the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Rounds => "rounds",
            Self::Session => "session",
        }
    }

    /// The target of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Takes bytes for what clients send.
    ///
    /// # Panics
    /// Where that breaks something.
    pub fn run(self, data: &[u8]) {
        match self {
            Self::Frames => frames::run(data),
            Self::Rounds => rounds::run(data),
            Self::Session => session::run(data),
        }
    }

    /// Inputs to begin with: what takes a fuzzer long to find by itself.
    pub fn seeds(self) -> Vec<Vec<u8>> {
        match self {
            Self::Frames => frames::seeds(),
            // Any bytes are steps.
            Self::Rounds | Self::Session => [64, 256, 1024].map(values::noise).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seeds_break_nothing() {
        for target in Target::ALL {
            assert_eq!(Target::named(target.name()), Some(target));
            let seeds = target.seeds();
            assert!(seeds.len() >= 3, "{target:?}");
            for seed in seeds {
                target.run(&seed);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_break_anything(data in proptest::collection::vec(any::<u8>(), 0..400)) {
            for target in Target::ALL {
                target.run(&data);
            }
        }
    }
}
