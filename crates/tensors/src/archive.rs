//! Zip archives of tensors: NumPy's `.npz`, and state dicts from `torch.save`.

use std::io::{Read, Seek, SeekFrom};

use zip::{
    CompressionMethod, ZipArchive,
    read::{ArchiveOffset, Config},
    result::ZipError,
};

use super::{
    Role,
    index::{MOST_TENSORS, Place, Stored},
    npy::{self, Header, size},
    pickle::{self, Saved, SavedTensor},
};

pub(super) const MAGIC: &[u8; 4] = b"PK\x03\x04";
/// Largest pickle program of a state dict, in bytes. A model with a thousand tensors needs a twentieth of this. A
/// hostile program can make the interpreter hold up to a hundred times its own size.
const MOST_PROGRAM: u64 = 4 << 20;

/// The tensors of a file, and sentences about what was assumed about it.
pub(super) type Listed = (Vec<Stored>, Vec<String>);

/// Opens the archive in `source` and lists its tensors, those for this role if it holds several sets.
///
/// # Errors
/// It is damaged, holds no tensors, or does more than hold tensors.
pub(super) fn open<R: Read + Seek>(source: R, role: Role) -> Result<(ZipArchive<R>, Listed), String> {
    // Nothing stands before it. Looking for its beginning can mistake a record of large files for one.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut archive = ZipArchive::with_config(config, source).map_err(said)?;
    let names: Vec<String> =
        archive.file_names().map(|name| Ok(name?.into_owned())).collect::<Result<_, _>>().map_err(said)?;
    // `torch.save` puts everything into one folder named after the file.
    let program = names.iter().position(|name| name.split_once('/').is_some_and(|(_, within)| within == "data.pkl"));
    let stored = match program {
        Some(program) => torch(&mut archive, &names, program, role)?,
        None if names.iter().any(|name| name.ends_with(NPY)) => {
            let stored = numpy(&mut archive, &names)?;
            let is_void = |tensor: &Stored| tensor.type_name == npy::VOID;
            let note = stored.iter().any(is_void).then(|| {
                format!(
                    "NumPy calls its values {}, two bytes without a meaning; they were taken for bfloat16.",
                    npy::VOID
                )
            });
            (stored, note.into_iter().collect())
        }
        None => return Err("it is a zip archive with neither PyTorch's tensors nor NumPy's arrays".to_owned()),
    };
    Ok((archive, stored))
}

/// Reads `length` bytes from the content of entry `index`, from `start` on.
///
/// # Errors
/// The archive is damaged or too short.
pub(super) fn read<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    index: usize,
    start: u64,
    length: u64,
) -> Result<Vec<u8>, String> {
    let cut = |error: std::io::Error| error.to_string();
    let mut bytes = Vec::new();
    let entry = archive.by_index(index).map_err(said)?;
    // Reserve only memory for data that exists, regardless of the entry's claimed size.
    if entry.compression() == CompressionMethod::Stored {
        drop(entry);
        let mut entry = archive.by_index_seek(index).map_err(said)?;
        entry.seek(SeekFrom::Start(start)).map_err(cut)?;
        entry.take(length).read_to_end(&mut bytes).map_err(cut)?;
    } else {
        let mut entry = entry;
        std::io::copy(&mut entry.by_ref().take(start), &mut std::io::sink()).map_err(cut)?;
        entry.take(length).read_to_end(&mut bytes).map_err(cut)?;
    }
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(format!("an entry ends {} bytes too early", length - bytes.len() as u64)),
    }
}

const NPY: &str = ".npy";

fn numpy<R: Read + Seek>(archive: &mut ZipArchive<R>, names: &[String]) -> Result<Vec<Stored>, String> {
    if names.len() > MOST_TENSORS {
        return Err(format!("it holds {} arrays; no model has more than {MOST_TENSORS}", names.len()));
    }
    let mut stored = Vec::new();
    for (entry, (index, name)) in names.iter().enumerate().filter_map(|(i, n)| Some((i, (i, n.strip_suffix(NPY)?)))) {
        let about = |reason: String| format!("{name}: {reason}");
        let mut content = archive.by_index(index).map_err(|error| about(said(error)))?;
        let header = Header::read(&mut content).map_err(about)?;
        let length = content.size();
        stored.push(header.stored(name.to_owned(), entry, length));
    }
    Ok(stored)
}

fn torch<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    names: &[String],
    program: usize,
    role: Role,
) -> Result<Listed, String> {
    let folder = names[program].trim_end_matches("data.pkl").to_owned();
    let entry = |name: &str| names.iter().position(|known| known.strip_prefix(&folder) == Some(name));
    if entry("constants.pkl").is_some() {
        return Err("it is a TorchScript program; save its tensors: torch.save(model.state_dict(), ...)".to_owned());
    }
    if let Some(order) = entry("byteorder") {
        let mut word = String::new();
        let content = archive.by_index(order).map_err(said)?;
        content.take(16).read_to_string(&mut word).map_err(|error| error.to_string())?;
        if word != "little" {
            return Err(format!(
                "its values are stored in {word:?} byte order; save them again on a little-endian machine"
            ));
        }
    }
    let mut code = Vec::new();
    let content = archive.by_index(program).map_err(said)?;
    content.take(MOST_PROGRAM + 1).read_to_end(&mut code).map_err(|error| error.to_string())?;
    if code.len() as u64 > MOST_PROGRAM {
        return Err(format!("its data.pkl is larger than {MOST_PROGRAM} bytes"));
    }
    let places: std::collections::HashMap<&str, usize> =
        names.iter().enumerate().filter_map(|(i, name)| Some((name.strip_prefix(&folder)?, i))).collect();
    let mut stored = Vec::new();
    let Saved { tensors, note } = pickle::saved(&code, role)?;
    for (name, tensor) in tensors {
        let SavedTensor { storage, dtype, offset, shape, strides } = tensor;
        let missing = || format!("{name}: its values, data/{storage}, are missing");
        let entry = *places.get(format!("data/{storage}").as_str()).ok_or_else(missing)?;
        let bytes = archive.by_index(entry).map_err(said)?.size();
        let byte = (offset as u64).checked_mul(size(dtype)).filter(|byte| *byte <= bytes);
        let byte = byte.ok_or_else(|| format!("{name} begins after the end of its values, data/{storage}"))?;
        stored.push(Stored {
            name,
            shape,
            strides,
            available: (bytes - byte) / size(dtype),
            dtype: Some(dtype),
            is_big_endian: false,
            shard: 0,
            type_name: format!("{dtype:?}"),
            place: Place::Entry { entry, byte },
        });
    }
    Ok((stored, note.into_iter().collect()))
}

fn said(error: ZipError) -> String {
    format!("the archive is damaged: {error}")
}
