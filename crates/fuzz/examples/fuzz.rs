//! The program of `cargo xtask fuzz`: libFuzzer around the target in `UNMASK_FUZZ_TARGET`.

#![no_main]

use std::{env, path::Path, sync::OnceLock};

use unmask_fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

/// The target. Writes its seed inputs to the folder in `UNMASK_FUZZ_SEEDS`.
fn begin() -> Target {
    let name = env::var("UNMASK_FUZZ_TARGET").unwrap_or_default();
    let names = || Target::ALL.map(Target::name).join(", ");
    let target =
        Target::named(&name).unwrap_or_else(|| panic!("UNMASK_FUZZ_TARGET={name:?}: it is one of {}", names()));
    if let Some(folder) = env::var_os("UNMASK_FUZZ_SEEDS") {
        for (number, seed) in target.seeds().iter().enumerate() {
            let path = Path::new(&folder).join(format!("seed-{number}"));
            std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    target
}

libfuzzer_sys::fuzz_target!(
    init: {
        TARGET.get_or_init(begin);
    },
    |data: &[u8]| -> () { TARGET.get_or_init(begin).run(data) }
);
