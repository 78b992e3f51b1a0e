//! The largest bundle: Burn on WebGPU, in a worker started by the training worker.

#[cfg(target_family = "wasm")]
fn main() {
    unmask_tab::gpu::start();
}

#[cfg(not(target_family = "wasm"))]
fn main() {
    eprintln!("this is the browser's worker for WebGPU; build it for wasm32-unknown-unknown");
}
