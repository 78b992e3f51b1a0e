//! Runs a test program of the page for cargo: wasm-bindgen's own runner, in the version of Cargo.lock.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

fn main() -> anyhow::Result<()> {
    wasm_bindgen_cli::wasm_bindgen_test_runner::run_cli_with_args(std::env::args_os())
}
