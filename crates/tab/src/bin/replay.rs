//! The bundle of the page that plays a recorded lesson; without a browser it does nothing.

fn main() {
    #[cfg(target_family = "wasm")]
    unmask_tab::page::mount_replay();
}
