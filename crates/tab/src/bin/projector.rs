//! The bundle of the projector's page; without a browser it does nothing.

fn main() {
    #[cfg(target_family = "wasm")]
    unmask_tab::page::mount_projector();
}
