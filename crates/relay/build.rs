//! Rebuilds the relay when a page or an asset changes. rust-embed watches only the files it has embedded, not new ones.

use std::{
    fs::{self, File},
    io,
    path::Path,
    time::SystemTime,
};

fn main() -> io::Result<()> {
    for page in ["student", "projector", "replay", "gpu"] {
        // Relative to this crate, because an absolute path would tie a shared target folder to the first checkout built.
        let folder = Path::new("../../dist").join(page);
        // Cargo reruns this script at every build if a watched folder does not exist, and once more if the folder is
        // newer than the script's start.
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            // A failure costs a build, no more; Windows opens no folder.
            let _ = File::open(&folder).and_then(|folder| folder.set_modified(SystemTime::UNIX_EPOCH));
        }
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=../../assets");
    Ok(())
}
