//! The room's bundle: a room without a relay, in a dedicated worker.

#[cfg(target_family = "wasm")]
fn main() {
    unmask_solo::worker::start();
}

#[cfg(not(target_family = "wasm"))]
fn main() {
    eprintln!("this is the browser's worker for a room; build it for wasm32-unknown-unknown");
}
