//! Rebuilds the relay when the page or an asset changes. rust-embed watches only the files it has embedded, not new
//! ones.

fn main() -> std::io::Result<()> {
    // Relative to this crate, because an absolute path would tie a shared target folder to the first checkout built.
    let dist = "../../dist";
    // Cargo reruns this script at every build if a watched folder does not exist.
    std::fs::create_dir_all(dist)?;
    println!("cargo::rerun-if-changed={dist}");
    println!("cargo::rerun-if-changed=../../assets");
    Ok(())
}
