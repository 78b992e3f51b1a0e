use std::{env, process::Command};

/// A call of the program: the one that the variable names, such as one from an archive, or else the one just built.
pub fn unmask() -> Command {
    let named = env::var_os("UNMASK_PROGRAM").filter(|program| !program.is_empty());
    Command::new(named.unwrap_or_else(|| env!("CARGO_BIN_EXE_unmask").into()))
}
