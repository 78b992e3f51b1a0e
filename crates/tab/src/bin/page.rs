//! The bundle of the pages; without a browser it does nothing.

fn main() {
    #[cfg(target_family = "wasm")]
    unmask_tab::page::mount();
}
