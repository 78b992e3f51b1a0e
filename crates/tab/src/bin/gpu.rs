//! The heaviest bundle: Burn on WebGPU, in a worker of the worker that trains.

#[cfg(target_family = "wasm")]
fn main() {
    unmask_tab::gpu::start();
}

#[cfg(not(target_family = "wasm"))]
fn main() {
    eprintln!("this is the browser's worker for WebGPU; build it for wasm32-unknown-unknown");
}
