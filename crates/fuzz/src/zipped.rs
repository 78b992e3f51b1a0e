//! Zip archives from bytes, so that a fuzzer need not find lengths and checksums.

use std::io::{Cursor, Write};

use arbitrary::{Result, Unstructured};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::names;

/// A file in an archive.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
    pub(crate) is_deflated: bool,
}

impl Entry {
    pub(crate) fn new(name: &str, content: &[u8]) -> Self {
        Self { name: name.to_owned(), content: content.to_vec(), is_deflated: false }
    }
}

/// The flags of an entry to deflate: both, because that takes long.
const DEFLATED: u8 = 3;

/// Reads one byte of flags, a name, the length of the content in two bytes, and the content. Returns the flags above
/// [`DEFLATED`].
pub(crate) fn entry(bytes: &mut Unstructured<'_>) -> Result<(Entry, u8)> {
    let flags: u8 = bytes.arbitrary()?;
    let name = names::read(bytes)?;
    let length: u16 = bytes.arbitrary()?;
    let content = bytes.bytes(usize::from(length).min(bytes.len()))?.to_vec();
    Ok((Entry { name, content, is_deflated: flags & DEFLATED == DEFLATED }, flags >> 2))
}

/// The bytes that [`entry`] reads.
pub(crate) fn spelt(entry: &Entry, flags: u8) -> Vec<u8> {
    let length = u16::try_from(entry.content.len()).expect("a short entry").to_le_bytes();
    let deflated = if entry.is_deflated { DEFLATED } else { 0 };
    [&[deflated | flags << 2], &names::spelt(&entry.name)[..], &length, &entry.content].concat()
}

/// The archive of these files. One with a name that cannot be written is left out.
pub(crate) fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for Entry { name, content, is_deflated } in entries {
        let method = if *is_deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        if zip.start_file(name.as_str(), SimpleFileOptions::default().compression_method(method)).is_ok() {
            zip.write_all(content).expect("memory takes it");
        }
    }
    zip.finish().expect("memory takes it").into_inner()
}
