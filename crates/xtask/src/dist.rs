//! Packs an archive that runs without a compiler: the program with its page, and its documents.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::env::{self, Env};
use crate::tools::{self, Purpose};
use crate::{demo, licences, page, windows};

/// Files copied from the repository. The program contains the sample photographs, so their licence is included.
const DOCUMENTS: [&str; 9] = [
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "SECURITY.md",
    "docs",
    "www/samples/LICENCE.md",
];

/// The licences of the compiled-in crates.
const THIRD_PARTY: &str = "THIRD-PARTY-LICENCES.txt";

/// What macOS opens with a double click, in its terminal: the lesson of `cargo demo`.
const FOR_FINDER: (&str, &str) =
    ("unmask.command", "#!/bin/sh\ncd \"$(dirname \"$0\")\" && exec ./unmask relay --open --shadow-room\n");

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Builds page and program, and writes `dist/unmask-VERSION-TARGET.tar.gz` in the target folder with its SHA-256; for
/// Windows, `.zip`.
///
/// # Errors
/// A build fails, or `target` is neither this machine's nor Windows'.
pub fn run(env: &Env, target: Option<&str>) -> Result<ExitCode> {
    let host = host(env)?;
    let target = target.unwrap_or(&host);
    let foreign = (target != host).then_some(target);
    if let Some(foreign) = foreign {
        if foreign != windows::TARGET {
            bail!(
                "--target {foreign} cannot be built here, only {host} and {}; run `cargo xtask dist` on a machine of \
                 that kind",
                windows::TARGET
            );
        }
        windows::ensure_tools(env)?;
    }
    tools::ensure(env, Purpose::Demo)?;
    page::build(env)?;
    page::build_gpu(env)?;
    // Only for this program: it embeds what is in `dist`, and later builds should find `dist` unchanged.
    let embedded = env.root.join("dist/gpu");
    copy(&page::gpu_folder(env), &embedded)?;
    let program = demo::build_program(env, foreign);
    fs::remove_dir_all(&embedded).with_context(|| format!("cannot remove {}", embedded.display()))?;
    let program = program?;

    let name = format!("unmask-{}-{target}", env!("CARGO_PKG_VERSION"));
    let folder = env.target_dir.join("dist");
    let staged = folder.join(&name);
    if staged.exists() {
        fs::remove_dir_all(&staged).with_context(|| format!("cannot remove {}", staged.display()))?;
    }
    stage(env, &program, target, &staged)?;
    if foreign.is_none() {
        describe(env, &program, &staged)?;
    } else {
        println!("Without completions and manual pages: the program writes them itself, and it does not run here.");
    }

    let file = format!("{name}.{}", if is_windows(target) { "zip" } else { "tar.gz" });
    let archive = folder.join(&file);
    let packed = if is_windows(target) { zip(&staged, &archive) } else { tar(&staged, &archive) };
    packed.with_context(|| format!("cannot write {}", archive.display()))?;
    fs::remove_dir_all(&staged).with_context(|| format!("cannot remove {}", staged.display()))?;
    let bytes = fs::read(&archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let beside = folder.join(format!("{file}.sha256"));
    fs::write(&beside, format!("{sum}  {file}\n")).with_context(|| format!("cannot write {}", beside.display()))?;
    println!("{}\n{} MB, SHA-256 {sum}", archive.display(), bytes.len() / 1_000_000);
    Ok(ExitCode::SUCCESS)
}

/// The target that Rust builds for on this machine.
fn host(env: &Env) -> Result<String> {
    let rustc = env::read(env.command("rustc").arg("-vV")).context("`rustc -vV` failed: is Rust installed?")?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    Ok(host.to_owned())
}

fn is_windows(target: &str) -> bool {
    target.contains("-windows-")
}

/// Copies the program and its documents to `staged`.
fn stage(env: &Env, program: &Path, target: &str, staged: &Path) -> Result<()> {
    copy(program, &staged.join(program.file_name().unwrap_or_default()))?;
    for document in DOCUMENTS {
        copy(&env.root.join(document), &staged.join(document))?;
    }
    let write = |name: &str, text: String| {
        let path = staged.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(THIRD_PARTY, licences::third_party(env, target)?)?;
    if target.contains("-apple-") {
        write(FOR_FINDER.0, FOR_FINDER.1.to_owned())?;
    }
    Ok(())
}

/// Lets the program write its completions and manual pages to `staged`.
fn describe(env: &Env, program: &Path, staged: &Path) -> Result<()> {
    let completions = staged.join("completions");
    fs::create_dir_all(&completions).with_context(|| format!("cannot create {}", completions.display()))?;
    let unmask = program.to_string_lossy();
    for shell in SHELLS {
        let script = env::read(env.command(&unmask).args(["completions", shell]))
            .with_context(|| format!("`unmask completions {shell}` failed"))?;
        let path = completions.join(format!("unmask.{shell}"));
        fs::write(&path, script + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    env::run(env.command(&unmask).arg("man").arg(staged.join("man")))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = || {
        if from.is_dir() {
            fs::create_dir_all(to)?;
            for entry in fs::read_dir(from)? {
                let entry = entry?;
                copy(&entry.path(), &to.join(entry.file_name()))?;
            }
            return Ok(());
        }
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        fs::copy(from, to)?;
        anyhow::Ok(())
    };
    copied().with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// The same files give the same bytes: sorted by name, without owners and times.
fn tar(folder: &Path, archive: &Path) -> Result<()> {
    let gzip = GzBuilder::new().mtime(0).write(File::create(archive)?, Compression::best());
    let mut tar = Builder::new(gzip);
    let top = folder.parent().unwrap_or(folder);
    for path in files(folder)? {
        let mut header = Header::new_gnu();
        header.set_size(path.metadata()?.len());
        header.set_mode(mode(&path));
        tar.append_data(&mut header, path.strip_prefix(top)?, File::open(&path)?)?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(())
}

/// Like [`tar()`], for Windows, which unpacks this kind with a double click.
fn zip(folder: &Path, archive: &Path) -> Result<()> {
    let mut zip = ZipWriter::new(File::create(archive)?);
    let top = folder.parent().unwrap_or(folder);
    for path in files(folder)? {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(DateTime::default())
            .unix_permissions(mode(&path));
        zip.start_file_from_path(path.strip_prefix(top)?, options)?;
        io::copy(&mut File::open(&path)?, &mut zip)?;
    }
    zip.finish()?.flush()?;
    Ok(())
}

fn mode(path: &Path) -> u32 {
    if is_program(path) { 0o755 } else { 0o644 }
}

fn is_program(path: &Path) -> bool {
    let ends_as_one = |end: &OsStr| end == "exe" || end == "command";
    path.file_stem().is_some_and(|name| name == "unmask") && path.extension().is_none_or(ends_as_one)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Cursor;

    use flate2::read::GzDecoder;
    use zip::ZipArchive;

    use super::*;

    /// Packs the same two files twice, and returns the archive.
    fn packed_twice(program: &str, pack: fn(&Path, &Path) -> Result<()>) -> Vec<u8> {
        let top = std::env::temp_dir().join(format!("unmask-dist-{}-{program}", std::process::id()));
        let [first, second] = ["first", "second"].map(|name| {
            let folder = top.join(name).join("unmask-1");
            fs::create_dir_all(folder.join("docs")).unwrap();
            fs::write(folder.join(program), "program").unwrap();
            fs::write(folder.join("docs/unmask.md"), "text").unwrap();
            let archive = top.join(format!("{name}.archive"));
            pack(&folder, &archive).unwrap();
            fs::read(archive).unwrap()
        });
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(first, second, "the same files give the same archive");
        first
    }

    #[test]
    fn the_same_files_give_the_same_tar() {
        let archive = packed_twice("unmask", tar);
        let mut tar = tar::Archive::new(GzDecoder::new(archive.as_slice()));
        let modes: BTreeMap<PathBuf, u32> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.path().unwrap().into_owned(), entry.header().mode().unwrap())
            })
            .collect();
        let expected = [("unmask-1/docs/unmask.md", 0o644), ("unmask-1/unmask", 0o755)];
        assert_eq!(modes, expected.map(|(path, mode)| (PathBuf::from(path), mode)).into());
    }

    #[test]
    fn the_same_files_give_the_same_zip_of_one_folder() {
        let mut zip = ZipArchive::new(Cursor::new(packed_twice("unmask.exe", zip))).unwrap();
        let mut text = |name: &str| io::read_to_string(zip.by_name(name).unwrap()).unwrap();
        assert_eq!([text("unmask-1/docs/unmask.md"), text("unmask-1/unmask.exe")], ["text", "program"]);
        assert!(zip.file_names().all(|name| name.unwrap().starts_with("unmask-1/")));
    }

    #[test]
    fn what_can_be_double_clicked_may_be_run() {
        for (name, is_one) in
            [("unmask", true), ("unmask.exe", true), (FOR_FINDER.0, true), ("unmask.md", false), ("other", false)]
        {
            assert_eq!(is_program(Path::new(name)), is_one, "{name}");
        }
    }

    #[test]
    fn a_target_that_cannot_be_built_is_named_with_those_that_can() {
        let error = run(&Env::detect().unwrap(), Some("riscv64gc-unknown-linux-gnu")).unwrap_err().to_string();
        assert!(error.contains("--target riscv64gc-unknown-linux-gnu") && error.contains(windows::TARGET), "{error}");
    }

    #[test]
    fn what_is_packed_is_in_the_repository() {
        let root = Env::detect().unwrap().root;
        for document in DOCUMENTS {
            assert!(root.join(document).exists(), "{document}");
        }
    }
}
