//! Builds the relay anew when the page was, or a file that comes with the program: rust-embed watches the files that it
//! embedded, and not those that are new.

fn main() -> std::io::Result<()> {
    // Relative to this crate: an absolute path would bind the shared target folder to the checkout that was built first.
    let dist = "../../dist";
    // Cargo would run this script again at every build for a watched folder that does not exist.
    std::fs::create_dir_all(dist)?;
    println!("cargo::rerun-if-changed={dist}");
    println!("cargo::rerun-if-changed=../../assets");
    Ok(())
}
