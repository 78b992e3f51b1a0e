//! Packs an archive that runs without a compiler: the program with its page, and its documents.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use crate::env::{self, Env};
use crate::tools::{self, Purpose};
use crate::{demo, licences, page};

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

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// Builds page and program, and writes `dist/unmask-VERSION-TARGET.tar.gz` in the target folder with its SHA-256.
pub fn run(env: &Env) -> Result<ExitCode> {
    tools::ensure(env, Purpose::Demo)?;
    page::build(env)?;
    page::build_gpu(env)?;
    // Only for this program: it embeds what is in `dist`, and later builds should find `dist` unchanged.
    let embedded = env.root.join("dist/gpu");
    copy(&page::gpu_folder(env), &embedded)?;
    let program = demo::build_program(env);
    fs::remove_dir_all(&embedded).with_context(|| format!("cannot remove {}", embedded.display()))?;
    let program = program?;

    let rustc = env::read(env.command("rustc").arg("-vV")).context("`rustc -vV` failed: is Rust installed?")?;
    let target = rustc.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    let name = format!("unmask-{}-{target}", env!("CARGO_PKG_VERSION"));
    let folder = env.target_dir.join("dist");
    let staged = folder.join(&name);
    if staged.exists() {
        fs::remove_dir_all(&staged).with_context(|| format!("cannot remove {}", staged.display()))?;
    }
    stage(env, &program, &staged)?;

    let archive = folder.join(format!("{name}.tar.gz"));
    pack(&staged, &archive).with_context(|| format!("cannot write {}", archive.display()))?;
    fs::remove_dir_all(&staged).with_context(|| format!("cannot remove {}", staged.display()))?;
    let bytes = fs::read(&archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let beside = folder.join(format!("{name}.tar.gz.sha256"));
    fs::write(&beside, format!("{sum}  {name}.tar.gz\n"))
        .with_context(|| format!("cannot write {}", beside.display()))?;
    println!("{}\n{} MB, SHA-256 {sum}", archive.display(), bytes.len() / 1_000_000);
    Ok(ExitCode::SUCCESS)
}

fn stage(env: &Env, program: &Path, staged: &Path) -> Result<()> {
    let completions = staged.join("completions");
    fs::create_dir_all(&completions).with_context(|| format!("cannot create {}", completions.display()))?;
    copy(program, &staged.join(program.file_name().unwrap_or_default()))?;
    for document in DOCUMENTS {
        copy(&env.root.join(document), &staged.join(document))?;
    }
    let path = staged.join(THIRD_PARTY);
    fs::write(&path, licences::third_party(env)?).with_context(|| format!("cannot write {}", path.display()))?;
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
fn pack(folder: &Path, archive: &Path) -> Result<()> {
    let gzip = GzBuilder::new().mtime(0).write(File::create(archive)?, Compression::best());
    let mut tar = Builder::new(gzip);
    let top = folder.parent().unwrap_or(folder);
    for path in files(folder)? {
        let mut header = Header::new_gnu();
        header.set_size(path.metadata()?.len());
        header.set_mode(if is_program(&path) { 0o755 } else { 0o644 });
        tar.append_data(&mut header, path.strip_prefix(top)?, File::open(&path)?)?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(())
}

fn is_program(path: &Path) -> bool {
    path.file_stem().is_some_and(|name| name == "unmask") && path.extension().is_none_or(|end| end == "exe")
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

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive() {
        let top = std::env::temp_dir().join(format!("unmask-dist-{}", std::process::id()));
        let archives = ["first", "second"].map(|name| {
            let folder = top.join(name).join("unmask-1");
            fs::create_dir_all(folder.join("docs")).unwrap();
            fs::write(folder.join("unmask"), "program").unwrap();
            fs::write(folder.join("docs/unmask.md"), "text").unwrap();
            let archive = top.join(format!("{name}.tar.gz"));
            pack(&folder, &archive).unwrap();
            fs::read(archive).unwrap()
        });
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(archives[0], archives[1]);
        let mut tar = tar::Archive::new(GzDecoder::new(archives[0].as_slice()));
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
    fn what_is_packed_is_in_the_repository() {
        let root = Env::detect().unwrap().root;
        for document in DOCUMENTS {
            assert!(root.join(document).exists(), "{document}");
        }
    }
}
