//! Set-up, build, test and demo.
fn main() {}
