//! File formats, and access to their bytes.

use std::io::{Read, Seek, SeekFrom};

use safetensors::{Dtype, tensor::Metadata};

#[cfg(not(target_family = "wasm"))]
use super::archive;
use super::{
    Role, WeightsError,
    index::{Place, Stored, row_major},
};

#[derive(Debug)]
pub(super) enum Container<R> {
    Safetensors(R),
    #[cfg(not(target_family = "wasm"))]
    Archive(Box<zip::ZipArchive<R>>),
    /// NumPy arrays, each with its own source.
    #[cfg(not(target_family = "wasm"))]
    Arrays(Vec<R>),
    /// Several files that are one model.
    #[cfg(not(target_family = "wasm"))]
    Shards(Vec<Self>),
}

/// Bytes after the first eight by which a file is known that holds no tensors.
const LONGEST_MARK: u64 = 64;
/// A safetensors header starts with its length in eight bytes, followed by that many bytes of JSON.
const LENGTH_BYTES: u64 = 8;
/// The safetensors library's limit. A model with a thousand tensors needs a thousandth of it.
const HEADER_LIMIT: u64 = 100_000_000;
/// First byte of a bare pickle, as PyTorch wrote before 1.6.
const PICKLE: u8 = 0x80;
const SAVE: &str = "save its tensors with the safetensors library, numpy.savez or torch.save";
/// Files that are mistaken for tensors: their first bytes, and what they are.
const MISTAKEN: [(&[u8], &str); 4] = [
    (b"version https://git-lfs", "it is a Git LFS pointer, which stands for the file: run `git lfs pull`"),
    (b"<", "it is a page for a browser, as a login or an error page is: download the file again"),
    (
        b"\x89HDF",
        "it is an HDF5 file, as Keras writes it; save its tensors with the safetensors library or numpy.savez",
    ),
    (b"\x1f\x8b", "it is compressed by gzip; decompress it first"),
];

impl<R: Read + Seek> Container<R> {
    /// Detects the format of `source` by its first bytes and lists its tensors, with sentences about what was assumed.
    ///
    /// # Errors
    /// It cannot be read, or its format is not supported.
    pub(super) fn open(
        what: &str,
        mut source: R,
        #[cfg_attr(target_family = "wasm", expect(unused_variables, reason = "only archives hold several sets"))] role: Role,
    ) -> Result<(Self, Vec<Stored>, Vec<String>), WeightsError> {
        let io = |source| WeightsError::Io { what: what.to_owned(), source };
        let format = |reason: String| WeightsError::Format { what: what.to_owned(), reason };
        let total = source.seek(SeekFrom::End(0)).map_err(io)?;
        source.seek(SeekFrom::Start(0)).map_err(io)?;
        if total < LENGTH_BYTES {
            return Err(format(format!(
                "it has {total} bytes, less than the {LENGTH_BYTES} of a safetensors header's length; {SAVE}"
            )));
        }
        let mut start = [0; LENGTH_BYTES as usize];
        source.read_exact(&mut start).map_err(io)?;
        #[cfg(not(target_family = "wasm"))]
        if start.starts_with(archive::MAGIC) {
            let (archive, (stored, notes)) = archive::open(source, role).map_err(format)?;
            return Ok((Self::Archive(Box::new(archive)), stored, notes));
        }
        let length = u64::from_le_bytes(start);
        if length > HEADER_LIMIT || length > total - LENGTH_BYTES {
            let mut more = Vec::new();
            source.by_ref().take(LONGEST_MARK).read_to_end(&mut more).map_err(io)?;
            let beginning = [&start[..], &more].concat();
            if let Some((_, it_is)) =
                MISTAKEN.into_iter().find(|(mark, _)| beginning.trim_ascii_start().starts_with(mark))
            {
                return Err(format(it_is.to_owned()));
            }
            return Err(format(if start[0] == PICKLE && matches!(start[1], 2..=5) {
                format!("it is a bare pickle, which PyTorch wrote before 1.6; {SAVE}")
            } else {
                format!("as safetensors its header claims {length} bytes, but the file has {total}; {SAVE}")
            }));
        }
        let mut header = vec![0; length as usize];
        source.read_exact(&mut header).map_err(io)?;
        // Deserialising checks that the tensors tile the data without gaps and that their sizes match their shapes.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| format(format!("{error}; {SAVE}")))?;
        let (start, data) = (LENGTH_BYTES + length, metadata.data_len() as u64);
        let found = total - start;
        if found != data {
            return Err(format(format!("its header describes {data} bytes of tensors, but {found} follow; {SAVE}")));
        }
        let tensor = |name: String| {
            let info = metadata.info(&name)?;
            Some(Stored {
                shape: info.shape.clone(),
                strides: row_major(&info.shape),
                available: info.shape.iter().map(|&side| side as u64).product(),
                dtype: Some(info.dtype),
                is_big_endian: false,
                shard: 0,
                type_name: format!("{:?}", info.dtype),
                place: Place::Byte(start + info.data_offsets.0 as u64),
                name,
            })
        };
        let mut stored: Vec<Stored> = metadata.offset_keys().into_iter().filter_map(tensor).collect();
        // Tensors without values lie at the same place, and a hash map holds them.
        stored.sort_by(|a, b| (a.byte(), &a.name).cmp(&(b.byte(), &b.name)));
        Ok((Self::Safetensors(source), stored, Vec::new()))
    }

    /// Returns the bytes of `tensor` from its first value to its last.
    ///
    /// # Errors
    /// The file cannot be read or is too short.
    pub(super) fn read(&mut self, what: &str, tensor: &Stored, dtype: Dtype) -> Result<Vec<u8>, WeightsError> {
        let length = tensor.extent() as u64 * (dtype.bitsize() / 8) as u64;
        match (self, tensor.place) {
            (Self::Safetensors(source), Place::Byte(byte)) => {
                let io = |source| WeightsError::Io { what: what.to_owned(), source };
                let mut bytes = vec![0; length as usize];
                source.seek(SeekFrom::Start(byte)).map_err(io)?;
                source.read_exact(&mut bytes).map_err(io)?;
                Ok(bytes)
            }
            #[cfg(not(target_family = "wasm"))]
            (Self::Archive(archive), Place::Entry { entry, byte }) => archive::read(archive, entry, byte, length)
                .map_err(|reason| {
                    let reason = format!("{}: {reason}", tensor.name);
                    WeightsError::Format { what: what.to_owned(), reason }
                }),
            #[cfg(not(target_family = "wasm"))]
            (Self::Arrays(sources), Place::Entry { entry, byte }) => {
                let io = |source| WeightsError::Io { what: what.to_owned(), source };
                let Some(source) = sources.get_mut(entry) else { return Ok(Vec::new()) };
                let mut bytes = vec![0; length as usize];
                source.seek(SeekFrom::Start(byte)).map_err(io)?;
                source.read_exact(&mut bytes).map_err(io)?;
                Ok(bytes)
            }
            #[cfg(not(target_family = "wasm"))]
            (Self::Shards(shards), _) => match shards.get_mut(tensor.shard) {
                Some(shard) => shard.read(what, tensor, dtype),
                None => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        }
    }
}
