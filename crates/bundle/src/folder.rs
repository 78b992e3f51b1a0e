//! The files of a page, and how they are written.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use brotli::CompressorWriter;
use sha2::{Digest, Sha256};

/// Smallest size in bytes of a file that is worth packing.
const LARGE: usize = 10_000;
/// Largest packed size in bytes of a page's bundle: a phone on a slow network must load it before it can do anything.
const MOST_OF_PAGE: usize = 500_000;
/// Binary logarithm of brotli's window: the largest that every browser supports.
const WINDOW: u32 = 22;

/// The content of a page's folder, by names with `/`.
#[derive(Debug, Default)]
pub struct Folder(BTreeMap<String, Vec<u8>>);

impl Folder {
    pub fn add(&mut self, name: impl Into<String>, content: Vec<u8>) {
        self.0.insert(name.into(), content);
    }

    /// Adds a file that a browser runs. A large file is only stored packed with brotli, as `NAME.br`: the relay then
    /// embeds a tenth of the size, and compresses nothing while a class waits.
    pub fn add_packed(&mut self, name: impl Into<String>, content: Vec<u8>) -> Result<()> {
        let name = name.into();
        if content.len() < LARGE {
            self.add(name, content);
            return Ok(());
        }
        let packed = pack(&content)?;
        println!("{} kB -> {} kB  {name}.br", content.len() / 1000, packed.len() / 1000);
        self.add(format!("{name}.br"), packed);
        Ok(())
    }

    /// Rejects a bundle that has grown too large. The trainer may be large, because it is fetched while the user reads
    /// the page.
    pub fn is_small(&self, name: &str) -> Result<()> {
        let bytes = self.0.get(&format!("{name}.br")).map_or(0, Vec::len);
        ensure!(
            bytes <= MOST_OF_PAGE,
            "{name}.br has {bytes} bytes, and may have {MOST_OF_PAGE}: find what has grown, or move it into the worker"
        );
        Ok(())
    }

    /// Writes the folder and replaces what is at `path`.
    pub fn write(&self, path: &Path) -> Result<()> {
        if path.exists() {
            fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        for (name, content) in &self.0 {
            let file = path.join(name);
            let folder = file.parent().unwrap_or(path);
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    #[cfg(test)]
    pub fn text(&self, name: &str) -> &str {
        std::str::from_utf8(&self.0[name]).unwrap()
    }
}

fn pack(content: &[u8]) -> Result<Vec<u8>> {
    // The trainer's 30 MB would take a minute longer at quality 11, and become 15 % smaller.
    let quality = if content.len() < 8_000_000 { 11 } else { 9 };
    let mut packed = Vec::new();
    CompressorWriter::new(&mut packed, 1 << 20, quality, WINDOW).write_all(content)?;
    Ok(packed)
}

/// Sixteen hexadecimal digits that depend on the content: browsers may cache a file with them in its name for ever.
pub fn hash<'a>(content: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut digest = Sha256::new();
    for part in content {
        digest.update(part);
    }
    digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files in `folder` with their contents, by their paths relative to its parent, with `/`.
pub fn files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let around = folder.parent().unwrap_or(folder);
    let mut files = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![folder.into()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))? {
                waiting.push(entry?.path());
            }
        } else {
            let name: Vec<_> = path.strip_prefix(around)?.iter().map(|part| part.to_string_lossy()).collect();
            files.push((name.join("/"), fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(bytes: usize) -> Vec<u8> {
        (0..bytes / 32).flat_map(|block| Sha256::digest(block.to_le_bytes()).to_vec()).collect()
    }

    #[test]
    fn a_large_file_is_packed_and_a_small_one_is_not() {
        let mut folder = Folder::default();
        folder.add_packed("small.js", random(LARGE / 2)).unwrap();
        folder.add_packed("large.wasm", vec![7; LARGE]).unwrap();
        assert_eq!(folder.names(), ["large.wasm.br", "small.js"]);
        let mut plain = Vec::new();
        brotli::BrotliDecompress(&mut folder.0["large.wasm.br"].as_slice(), &mut plain).unwrap();
        assert_eq!(plain, vec![7; LARGE]);
    }

    #[test]
    fn a_page_that_has_grown_is_refused() {
        let mut folder = Folder::default();
        folder.add_packed("fits.wasm", random(MOST_OF_PAGE - 32_000)).unwrap();
        folder.add_packed("grown.wasm", random(MOST_OF_PAGE + 32_000)).unwrap();
        assert!(folder.is_small("fits.wasm").is_ok());
        let refused = folder.is_small("grown.wasm").unwrap_err().to_string();
        assert!(refused.contains("may have 500000: find what has grown"), "{refused}");
    }

    #[test]
    fn what_lay_there_before_goes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("page");
        let mut first = Folder::default();
        first.add("old.css", Vec::new());
        first.write(&path).unwrap();
        let mut second = Folder::default();
        second.add("below/new.png", vec![1]);
        second.write(&path).unwrap();
        assert_eq!(files(&path).unwrap(), [("page/below/new.png".to_owned(), vec![1])]);
    }

    #[test]
    fn a_hash_has_sixteen_digits_and_changes_with_the_content() {
        let hashes = [hash([&b"one"[..]]), hash([&b"o"[..], b"ne"]), hash([&b"two"[..]])];
        assert_eq!(hashes[0], hashes[1]);
        assert_ne!(hashes[0], hashes[2]);
        assert!(hashes.iter().all(|hash| hash.len() == 16));
    }
}
