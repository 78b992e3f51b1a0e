//! Hostile clients and files for a coverage-guided fuzzer.
//!
//! Each [`Target`] reads arbitrary bytes as actions of clients or as a file of tensors, and panics if a guarantee breaks:
//! a frame or a file can be read in two ways, a weight is not finite, or an honest client that joins afterwards cannot
//! complete a round. `cargo xtask fuzz` lets libFuzzer search for such bytes; the tests of this crate try a few, without
//! instrumentation.

mod frames;
mod names;
mod numpy;
mod pickle;
mod rounds;
mod safetensors;
mod session;
mod sums;
mod values;
mod walk;
mod zipped;

/// A way from bytes to the room, or to the tensors of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Frames of one socket, assembled into messages.
    Frames,
    /// Messages of several clients to the state machine of the rounds.
    Rounds,
    /// Frames of several sockets to a room, with the teacher's controls between them.
    Session,
    /// Files of safetensors.
    Safetensors,
    /// NumPy's arrays.
    Numpy,
    /// What `torch.save` writes.
    Pickle,
}

impl Target {
    /// All targets: clients', the fastest first, then files.
    pub const ALL: [Self; 6] =
        [Self::Frames, Self::Rounds, Self::Session, Self::Safetensors, Self::Numpy, Self::Pickle];

    pub fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Rounds => "rounds",
            Self::Session => "session",
            Self::Safetensors => "safetensors",
            Self::Numpy => "numpy",
            Self::Pickle => "pickle",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Runs the bytes as actions of clients, or reads them as a file.
    ///
    /// # Panics A guarantee breaks.
    pub fn run(self, data: &[u8]) {
        match self {
            Self::Frames => frames::run(data),
            Self::Rounds => rounds::run(data),
            Self::Session => session::run(data),
            Self::Safetensors => safetensors::run(data),
            Self::Numpy => numpy::run(data),
            Self::Pickle => pickle::run(data),
        }
    }

    /// Seed inputs that a fuzzer would take long to find.
    pub fn seeds(self) -> Vec<Vec<u8>> {
        match self {
            Self::Frames => frames::seeds(),
            // Any bytes are valid steps.
            Self::Rounds | Self::Session => [64, 256, 1024].map(values::noise).to_vec(),
            Self::Safetensors => safetensors::seeds(),
            Self::Numpy => numpy::seeds(),
            Self::Pickle => pickle::seeds(),
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
