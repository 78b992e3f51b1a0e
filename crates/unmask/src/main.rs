//! The command line: arguments in, one of the crates called, exit code out.
fn main() {}
