//! Embeds the built page: each file of `dist` gzipped into `OUT_DIR`, and a table of them.
//!
//! `UNMASK_PAGE_DIR` names another folder. Without a built page the table is empty, and the relay says how to build it.

use std::{
    env,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=UNMASK_PAGE_DIR");
    let page = match env::var_os("UNMASK_PAGE_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => {
            // Relative to this crate, where cargo runs the script: an absolute path would bind the shared target folder
            // to the checkout that was built first.
            let dist = PathBuf::from("../../dist");
            // Cargo would run this script again at every build for a watched folder that does not exist.
            fs::create_dir_all(&dist).with_context(|| format!("cannot create {}", dist.display()))?;
            dist
        }
    };
    println!("cargo::rerun-if-changed={}", page.display());

    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    let mut files = Vec::new();
    collect(&page, &page, &mut files)?;
    files.sort();
    let mut table = String::from("pub(super) static FILES: &[File] = &[\n");
    for (index, (name, path)) in files.iter().enumerate() {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let gzipped = out.join(format!("page-{index}.gz"));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content)?;
        fs::write(&gzipped, encoder.finish()?).with_context(|| format!("cannot write {}", gzipped.display()))?;
        let hash = hasher.finish();
        writeln!(
            table,
            "    File {{ name: {name:?}, etag: \"\\\"{hash:016x}\\\"\", gzipped: include_bytes!({gzipped:?}) }},"
        )?;
    }
    table.push_str("];\n");
    fs::write(out.join("page_files.rs"), table).context("cannot write the table of files")
}

/// The files below `folder` as (name relative to `root` with forward slashes, path).
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| {
        format!("cannot read the page's folder {}; does UNMASK_PAGE_DIR name it?", folder.display())
    })?;
    for entry in entries {
        let path = entry?.path();
        let name = path.strip_prefix(root)?.components().map(|part| part.as_os_str().to_string_lossy());
        let name = name.collect::<Vec<_>>().join("/");
        // Trunk stages a build in a hidden folder beside its result.
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.push((name, path));
        }
    }
    Ok(())
}
