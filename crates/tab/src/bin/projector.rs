//! The bundle of the page that the room watches; without a browser it does nothing.

fn main() {
    #[cfg(target_family = "wasm")]
    unmask_tab::page::mount_projector();
}
