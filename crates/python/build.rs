//! Does nothing. It is there for the build dependencies, whose features make macros the same as those of the workspace.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
