//! The bundle of the page on which a student joins; without a browser it does nothing.

fn main() {
    #[cfg(target_family = "wasm")]
    unmask_tab::page::mount_student();
}
