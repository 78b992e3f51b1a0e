//! Removes the bundles' symbol names, which are up to a third of the download. wasm-bindgen reads the target features.
//! This is the build script of `crates/solo`, too.

fn main() {
    println!("cargo::rerun-if-changed=../tab/build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        for argument in ["--strip-all", "--keep-section=target_features"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
