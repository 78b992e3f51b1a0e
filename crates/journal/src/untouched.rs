//! A file that redb may repair and check as it does, while nothing of it reaches the disk.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redb::{BackendError, StorageBackend};

/// Bytes that are copied when one of them is written.
const BLOCK: u64 = 4096;

/// A file whose changes stay in memory. It is locked for as long as it is read, and others may read it too.
#[derive(Debug)]
pub(crate) struct Untouched<B> {
    file: B,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// How much of the file was never cut off.
    kept: u64,
    /// What was written, by the number of the block.
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl<B: StorageBackend> Untouched<B> {
    /// # Errors
    /// The file system's.
    pub(crate) fn new(file: B) -> io::Result<Self> {
        let length = file.len()?;
        Ok(Self { file, changes: Mutex::new(Changes { length, kept: length, blocks: BTreeMap::new() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `out` with what the file itself holds from `offset` on, and zeros after that.
    fn read_file(&self, kept: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let held = usize::try_from(kept.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (held, rest) = out.split_at_mut(held);
        rest.fill(0);
        if held.is_empty() { Ok(()) } else { self.file.read(offset, held) }
    }
}

/// The parts of a range that lie in one block each: the block, where in it, and where in the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let (block, inside) = (at / BLOCK, (at % BLOCK) as usize);
        let part = done..length.min(done + BLOCK as usize - inside);
        done = part.end;
        (!part.is_empty()).then_some((block, inside, part))
    })
}

impl<B: StorageBackend> StorageBackend for Untouched<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.lock();
        if offset + out.len() as u64 > changes.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(changes.kept, offset, out)?;
        for (block, inside, part) in parts(offset, out.len()) {
            if let Some(written) = changes.blocks.get(&block) {
                let length = part.len();
                out[part].copy_from_slice(&written[inside..inside + length]);
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.lock();
        changes.blocks.retain(|block, _| block * BLOCK < length);
        if let Some(last) = changes.blocks.get_mut(&(length / BLOCK)) {
            last[(length % BLOCK) as usize..].fill(0);
        }
        (changes.length, changes.kept) = (length, changes.kept.min(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.lock();
        let kept = changes.kept;
        changes.length = changes.length.max(offset + data.len() as u64);
        for (block, inside, part) in parts(offset, data.len()) {
            let written = match changes.blocks.entry(block) {
                Entry::Occupied(written) => written.into_mut(),
                Entry::Vacant(place) => {
                    let mut whole = vec![0; BLOCK as usize].into_boxed_slice();
                    self.read_file(kept, block * BLOCK, &mut whole)?;
                    place.insert(whole)
                }
            };
            written[inside..inside + part.len()].copy_from_slice(&data[part]);
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // A file that is open for reading alone can only be locked against writers.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::{folder::Folder, simulated::Files};

    /// It reads as a file that really changes, and the file does not.
    #[test]
    fn what_is_written_is_read_and_the_file_stays() {
        let files = Files::new(1);
        let before: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8 + 1).collect();
        files.edit("file", |bytes| bytes.clone_from(&before));
        let open = Untouched::new(files.open_to_read("file").unwrap()).unwrap();
        let (mut expected, mut rng) = (before.clone(), ChaCha8Rng::seed_from_u64(1));
        for _ in 0..2000 {
            if rng.random_ratio(1, 10) {
                let length = rng.random_range(0..30_000);
                expected.resize(length, 0);
                open.set_len(length as u64).unwrap();
            }
            if expected.len() > 1 {
                let from = rng.random_range(0..expected.len());
                let to = expected.len().min(from + rng.random_range(0..9000));
                let data: Vec<u8> = (from..to).map(|_| rng.random()).collect();
                expected[from..to].copy_from_slice(&data);
                open.write(from as u64, &data).unwrap();
            }
            assert_eq!(open.len().unwrap(), expected.len() as u64);
            let mut read = vec![7; expected.len()];
            open.read(0, &mut read).unwrap();
            assert!(read == expected);
            assert!(open.read(1, &mut read).is_err() || read.is_empty());
        }
        assert_eq!(files.read("file").unwrap(), before);
    }
}
