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

/// The name of a page's document in its folder.
pub const INDEX: &str = "index.html";
/// The script that keeps a folder in the browser; pages register it by this name.
const OFFLINE_NAME: &str = "offline.js";
const OFFLINE: &str = include_str!("offline.js");

/// The content of a page's folder, by names with `/`.
#[derive(Debug)]
pub struct Folder {
    files: BTreeMap<String, Vec<u8>>,
    storage: Storage,
}

/// How files that a browser runs are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Large files only packed with brotli, as `NAME.br`: the relay then embeds a tenth of the size, and compresses
    /// nothing while a class waits.
    Packed,
    /// As they are, for any web server.
    Plain,
}

impl Folder {
    pub fn new(storage: Storage) -> Self {
        Self { files: BTreeMap::new(), storage }
    }

    pub fn add(&mut self, name: impl Into<String>, content: Vec<u8>) {
        self.files.insert(name.into(), content);
    }

    /// Adds a file that a browser runs.
    pub fn add_program(&mut self, name: impl Into<String>, content: Vec<u8>) -> Result<()> {
        let name = name.into();
        if content.len() < LARGE || self.storage == Storage::Plain {
            self.add(name, content);
            return Ok(());
        }
        let packed = pack(&content)?;
        println!("{} kB -> {} kB  {name}.br", content.len() / 1000, packed.len() / 1000);
        self.add(format!("{name}.br"), packed);
        Ok(())
    }

    /// Adds the files of another page, which stores a file of the same name only if it is the same.
    pub fn add_all(&mut self, other: Self) {
        self.files.extend(other.files);
    }

    /// Removes a file and returns its content.
    pub fn remove(&mut self, name: &str) -> Option<Vec<u8>> {
        self.files.remove(name)
    }

    /// Gives a file another name.
    pub fn rename(&mut self, name: &str, new: String) {
        if let Some(content) = self.remove(name) {
            self.files.insert(new, content);
        }
    }

    /// Adds a script that keeps all files in the browser for use without a network.
    pub fn add_offline(&mut self) {
        let names = self.files.keys().map(|name| if name == INDEX { "./" } else { name.as_str() });
        let list: Vec<String> = names.map(|name| format!("{name:?}")).collect();
        let digest = hash(self.files.values().map(Vec::as_slice));
        let script = OFFLINE.replace("/* FILES */", &list.join(", ")).replace("/* DIGEST */", &digest);
        self.add(OFFLINE_NAME, script.into_bytes());
    }

    /// Rejects a packed bundle that has grown too large. The trainer may be large, because it is fetched while the user
    /// reads the page.
    pub fn is_small(&self, name: &str) -> Result<()> {
        if self.storage == Storage::Plain {
            return Ok(());
        }
        let bytes = self.files.get(&format!("{name}.br")).map_or(0, Vec::len);
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
        for (name, content) in &self.files {
            let file = path.join(name);
            let folder = file.parent().unwrap_or(path);
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn names(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }

    #[cfg(test)]
    pub fn text(&self, name: &str) -> &str {
        std::str::from_utf8(&self.files[name]).unwrap()
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
        let mut folder = Folder::new(Storage::Packed);
        folder.add_program("small.js", random(LARGE / 2)).unwrap();
        folder.add_program("large.wasm", vec![7; LARGE]).unwrap();
        assert_eq!(folder.names(), ["large.wasm.br", "small.js"]);
        let mut plain = Vec::new();
        brotli::BrotliDecompress(&mut folder.files["large.wasm.br"].as_slice(), &mut plain).unwrap();
        assert_eq!(plain, vec![7; LARGE]);
    }

    #[test]
    fn a_page_that_has_grown_is_refused() {
        let mut folder = Folder::new(Storage::Packed);
        folder.add_program("fits.wasm", random(MOST_OF_PAGE - 32_000)).unwrap();
        folder.add_program("grown.wasm", random(MOST_OF_PAGE + 32_000)).unwrap();
        assert!(folder.is_small("fits.wasm").is_ok());
        let refused = folder.is_small("grown.wasm").unwrap_err().to_string();
        assert!(refused.contains("may have 500000: find what has grown"), "{refused}");
    }

    #[test]
    fn a_folder_for_any_server_holds_everything_as_it_is() {
        let [mut first, mut second] = [0, 1].map(|_| Folder::new(Storage::Plain));
        first.add_program("large.wasm", vec![7; LARGE]).unwrap();
        first.add("index.html", vec![1]);
        second.add("index.html", vec![2]);
        second.rename("index.html", "phone.html".to_owned());
        second.rename("missing", "found".to_owned());
        first.add_all(second);
        assert_eq!(first.names(), ["index.html", "large.wasm", "phone.html"]);
        assert_eq!((first.files["index.html"][0], first.files["phone.html"][0]), (1, 2));
    }

    #[test]
    fn the_script_for_use_without_a_network_knows_every_file() {
        let script = |content: u8| {
            let mut folder = Folder::new(Storage::Plain);
            folder.add(INDEX, vec![1]);
            folder.add("samples/cat.png", vec![content]);
            folder.add_offline();
            folder.text(OFFLINE_NAME).to_owned()
        };
        let (first, second) = (script(2), script(3));
        assert!(first.contains(r#"const files = ["./", "samples/cat.png"];"#), "{first}");
        assert!(!first.contains("/*") && first != second, "a changed file is another version");
    }

    #[test]
    fn what_lay_there_before_goes() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("page");
        let mut first = Folder::new(Storage::Packed);
        first.add("old.css", Vec::new());
        first.write(&path).unwrap();
        let mut second = Folder::new(Storage::Packed);
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
