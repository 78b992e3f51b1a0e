//! The training bundle: training, defence and socket, in a dedicated worker.

#[cfg(target_family = "wasm")]
fn main() {
    unmask_tab::worker::start();
}

#[cfg(not(target_family = "wasm"))]
fn main() {
    eprintln!("this is the browser's worker; build it for wasm32-unknown-unknown");
}
