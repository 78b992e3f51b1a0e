//! Rebuilds the relay when a page or an asset changes. rust-embed watches only the files it has embedded, not new ones.

fn main() -> std::io::Result<()> {
    for page in ["student", "projector", "replay", "gpu"] {
        // Relative to this crate, because an absolute path would tie a shared target folder to the first checkout built.
        let folder = format!("../../dist/{page}");
        // Cargo reruns this script at every build if a watched folder does not exist.
        std::fs::create_dir_all(&folder)?;
        println!("cargo::rerun-if-changed={folder}");
    }
    println!("cargo::rerun-if-changed=../../assets");
    Ok(())
}
