//! Builds the pages: `crates/bundle` compiles them and the worker into `dist`, one folder for each page.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::env::{self, Env};

/// The other sources of the page, besides the crates it depends on, below the top folder.
const OTHERS: [&str; 7] =
    [".cargo", "Cargo.lock", "Cargo.toml", "assets/columns.json", "crates/bundle", "index.html", "www"];

/// Each page is a document, a program of the tab's crate, and a folder in `dist`.
const PAGES: [&str; 3] = ["student", "projector", "replay"];

/// The folder in `dist` with the lesson that needs no relay, for any web server.
pub const SOLO: &str = "solo";

/// The documents of that folder; the first one becomes its `index.html`.
const SOLO_PAGES: [&str; 3] = ["solo", "phone", GPU];

/// The program that builds the pages, together with a small test. As with [`crate::demo::RELAY`], only then does cargo
/// compile its dependencies with the relay's features, and only once.
const BUNDLE: [&str; 7] = ["build", "--release", "--workspace", "--bin", "bundle", "--test", "trunk"];

/// The document of the WebGPU trainer, in `www`.
const GPU: &str = "gpu";

/// The script that starts it.
pub const GPU_LOADER: &str = "gpu_loader.js";

/// The folder of this checkout's WebGPU trainer, in the target folder.
pub fn gpu_folder(env: &Env) -> PathBuf {
    env.target_dir.join("page").join(format!("{}-{GPU}", name_of_checkout(env)))
}

/// Tells a relay that was built before the WebGPU trainer where the trainer is.
pub const GPU_FOLDER: &str = "UNMASK_WEBGPU_TRAINER";

/// Whether the WebGPU trainer is built from the current sources.
pub fn has_gpu(env: &Env) -> Result<bool> {
    let folder = gpu_folder(env);
    let record = folder.with_extension("record");
    Ok(folder.join(GPU_LOADER).exists() && fs::read_to_string(record).ok() == Some(hex(&digest(&sources(env)?)?)))
}

/// Builds the WebGPU trainer into its folder if needed. It is separate from the pages because Burn for WebGPU takes
/// longer to compile than everything else. It is not in `dist` because the relay embeds that folder and would be
/// recompiled.
pub fn build_gpu(env: &Env) -> Result<()> {
    if has_gpu(env)? {
        return Ok(());
    }
    let now = hex(&digest(&sources(env)?)?);
    bundle(env, &env.target_dir.join("page").join(name_of_checkout(env)), None, &[GPU])?;
    let built = env.target_dir.join("page").join(name_of_checkout(env)).join(GPU);
    let folder = gpu_folder(env);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::rename(&built, &folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let record = folder.with_extension("record");
    fs::write(&record, now).with_context(|| format!("cannot write {}", record.display()))
}

/// Builds the bundler, then these pages into `dist`: each into a folder of its own, or all into the folder `site`.
fn bundle(env: &Env, dist: &Path, site: Option<&str>, pages: &[&str]) -> Result<()> {
    env::run(env.command("cargo").args(BUNDLE))?;
    let mut bundle = env.command(&env.release_binary("bundle").to_string_lossy());
    bundle.arg("--dist").arg(dist).args(site.into_iter().flat_map(|site| ["--site", site]));
    env::run(bundle.args(pages.iter().map(|page| document(page))))
}

/// The document of a page. The lesson's is at the top, where trunk and newcomers look for it.
fn document(page: &str) -> String {
    if page == SOLO { "index.html".to_owned() } else { format!("www/{page}.html") }
}

/// A name that differs for each checkout that shares the target folder.
fn name_of_checkout(env: &Env) -> String {
    hex(&Sha256::digest(env.root.as_os_str().as_encoded_bytes()))
}

/// Builds the pages into `dist`, where the relay's build script finds them. Skips unchanged pages: a build rewrites
/// their files, and everything that embeds them would be recompiled.
pub fn build(env: &Env) -> Result<()> {
    let dist = env.root.join("dist");
    let record = env.target_dir.join("page").join(format!("{}.record", name_of_checkout(env)));
    let mut places = sources(env)?;
    places.extend(PAGES.map(|page| dist.join(page)));
    let is_built = PAGES.iter().all(|page| dist.join(page).join("index.html").exists());
    if is_built && fs::read_to_string(&record).ok() == Some(hex(&digest(&places)?)) {
        println!("The pages have not changed.");
        return Ok(());
    }
    clear(&dist)?;
    bundle(env, &dist, None, &PAGES)?;
    fs::create_dir_all(record.parent().unwrap_or(&env.target_dir))?;
    fs::write(&record, hex(&digest(&places)?)).with_context(|| format!("cannot write {}", record.display()))
}

/// Builds the lesson that needs no relay into a folder for any web server, and returns the folder. Without the WebGPU
/// trainer it is built sooner, and everybody in it trains on the CPU.
pub fn build_solo(env: &Env, with_gpu: bool) -> Result<PathBuf> {
    let dist = env.root.join("dist");
    let folder = dist.join(SOLO);
    let record = env.target_dir.join("page").join(format!("{}-{SOLO}.record", name_of_checkout(env)));
    let mut places = sources(env)?;
    places.push(folder.clone());
    let is_whole = folder.join("index.html").exists() && (!with_gpu || folder.join(GPU_LOADER).exists());
    if is_whole && fs::read_to_string(&record).ok() == Some(hex(&digest(&places)?)) {
        println!("The lesson without a relay has not changed.");
        return Ok(folder);
    }
    let pages: Vec<_> = SOLO_PAGES.into_iter().filter(|page| with_gpu || *page != GPU).collect();
    bundle(env, &dist, Some(SOLO), &pages)?;
    fs::create_dir_all(record.parent().unwrap_or(&env.target_dir))?;
    fs::write(&record, hex(&digest(&places)?)).with_context(|| format!("cannot write {}", record.display()))?;
    Ok(folder)
}

/// Removes everything that belongs to no page, because the relay embeds the whole folder except for [`SOLO`].
fn clear(dist: &Path) -> Result<()> {
    fs::create_dir_all(dist).with_context(|| format!("cannot make {}", dist.display()))?;
    for entry in fs::read_dir(dist).with_context(|| format!("cannot list {}", dist.display()))? {
        let path = entry?.path();
        if PAGES.iter().chain([&SOLO]).any(|page| path.ends_with(page)) {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// The folders of the crates that pages and workers depend on, and [`OTHERS`].
fn sources(env: &Env) -> Result<Vec<PathBuf>> {
    let mut tree = env.command("cargo");
    tree.args(["tree", "--package", "unmask-tab", "--package", "unmask-solo", "--all-features"]);
    tree.args(["--target", "wasm32-unknown-unknown"]);
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let tree = env::read(&mut tree).context("cargo cannot tell what the page depends on: run `cargo tree`")?;
    let mut folders: Vec<PathBuf> = tree.lines().filter_map(folder).collect();
    folders.extend(OTHERS.map(|name| env.root.join(name)));
    folders.sort();
    folders.dedup();
    Ok(folders)
}

/// The folder of a workspace crate, from a line of `cargo tree` such as `unmask-core v0.1.0
/// (/code/unmask/crates/core)`.
fn folder(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(" (")?;
    let (path, _) = rest.split_once(')')?;
    Path::new(path).is_absolute().then(|| path.into())
}

/// A digest of the names and contents of all files in `places`, which are files or folders.
fn digest(places: &[PathBuf]) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    let mut waiting = places.to_vec();
    while let Some(place) = waiting.pop() {
        if place.is_dir() {
            let entries = fs::read_dir(&place).with_context(|| format!("cannot list {}", place.display()))?;
            for entry in entries {
                waiting.push(entry?.path());
            }
        } else if place.is_file() {
            files.push(place);
        }
    }
    files.sort();
    let mut all = Sha256::new();
    for file in files {
        let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        all.update(Sha256::digest(file.as_os_str().as_encoded_bytes()));
        all.update(Sha256::digest(content));
    }
    Ok(all.finalize().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_the_workspace_are_told_from_others() {
        assert_eq!(folder("unmask-core v0.1.0 (/code/unmask/crates/core)"), Some("/code/unmask/crates/core".into()));
        assert_eq!(
            folder("unmask-core v0.1.0 (/code/unmask/crates/core) (*)"),
            Some("/code/unmask/crates/core".into())
        );
        assert_eq!(folder("serde_derive v1.0.228 (proc-macro)"), None);
        assert_eq!(folder("leptos v0.8.0"), None);
    }

    #[test]
    fn page_depends_on_its_crate_and_the_vocabulary() {
        let sources = sources(&Env::detect().unwrap()).unwrap();
        for name in ["crates/tab", "crates/solo", "crates/room", "crates/core", "crates/bundle", "www"] {
            assert!(sources.iter().any(|source| source.ends_with(name)), "{name}: {sources:?}");
        }
        assert!(!sources.iter().any(|source| source.ends_with("crates/relay")), "{sources:?}");
    }

    /// Cargo refuses to build a missing test.
    #[test]
    fn the_test_that_is_built_along_is_there() {
        let name = BUNDLE.last().unwrap();
        let file = format!("{}/../bundle/tests/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&file).exists(), "{file}");
    }

    #[test]
    fn what_belongs_to_no_page_goes() {
        let dist = std::env::temp_dir().join(format!("unmask-clear-{}", std::process::id()));
        for page in ["student", "teacher", SOLO] {
            fs::create_dir_all(dist.join(page)).unwrap();
            fs::write(dist.join(page).join("index.html"), "").unwrap();
        }
        fs::write(dist.join("index.html"), "").unwrap();
        clear(&dist).unwrap();
        let left: Vec<_> = fs::read_dir(&dist).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(dist.join("student/index.html").exists());
        fs::remove_dir_all(&dist).unwrap();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left.iter().all(|page| *page == "student" || *page == SOLO), "{left:?}");
    }

    #[test]
    fn digest_changes_with_content_and_name() {
        let folder = std::env::temp_dir().join(format!("unmask-page-{}", std::process::id()));
        let (below, places) = (folder.join("below"), [folder.clone()]);
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("a"), "one").unwrap();
        let first = digest(&places).unwrap();
        assert_eq!(digest(&places).unwrap(), first);
        fs::write(below.join("a"), "two").unwrap();
        let second = digest(&places).unwrap();
        fs::rename(below.join("a"), below.join("b")).unwrap();
        let third = digest(&places).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(first != second && second != third);
    }
}
