//! Downloads from a real server on localhost.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

use super::*;

#[derive(Clone)]
struct Server {
    body: Vec<u8>,
    /// Whether it supports range requests.
    ranges: bool,
    /// Number of body bytes after which it closes the connection.
    cut: usize,
    /// The status to send instead of the file.
    status: Option<&'static str>,
}

impl Server {
    fn new(length: usize) -> Self {
        let body = (0..length).map(|at| (at % 251) as u8).collect();
        Self { body, ranges: true, cut: usize::MAX, status: None }
    }

    /// Answers `requests` requests. The thread returns the range of each.
    fn start(self, requests: usize) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/cifar.tar.gz", listener.local_addr().unwrap());
        let answers = move || (0..requests).map(|_| self.answer(listener.accept().unwrap().0)).collect();
        (address, thread::spawn(answers))
    }

    fn answer(&self, stream: TcpStream) -> String {
        let lines = BufReader::new(&stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty());
        let range = lines.filter_map(|line| line.to_lowercase().strip_prefix("range: ").map(str::to_owned)).last();
        let from = range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let (all, from) = (self.body.len(), from.filter(|_| self.ranges));
        let (head, body) = match (self.status, from) {
            (Some(status), _) => (format!("{status}\r\nContent-Length: 0"), &[][..]),
            (None, Some(from)) if from >= all => {
                (format!("416 Range Not Satisfiable\r\nContent-Length: 0\r\nContent-Range: bytes */{all}"), &[][..])
            }
            (None, Some(from)) => {
                let range = format!("Content-Range: bytes {from}-{}/{all}", all - 1);
                (format!("206 Partial Content\r\nContent-Length: {}\r\n{range}", all - from), &self.body[from..])
            }
            (None, None) => (format!("200 OK\r\nContent-Length: {all}"), &self.body[..]),
        };
        let mut stream = stream;
        stream.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        // The client may have closed the connection.
        let _ = stream.write_all(&body[..body.len().min(self.cut)]);
        range.unwrap_or_default()
    }
}

const LENGTH: usize = 300_000;

/// Downloads to `part` and returns the last progress report.
fn fetch(address: &str, part: &Path) -> (Result<(), FetchError>, Option<Progress>) {
    let mut last = None;
    (download(address, part, &mut |progress| last = Some(progress)), last)
}

#[test]
fn a_whole_file_comes_and_says_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    let server = Server::new(LENGTH);
    let body = server.body.clone();
    let (address, asked) = server.start(1);
    let (done, last) = fetch(&address, &part);
    done.unwrap();
    assert_eq!(last, Some(Progress::Downloading { done: LENGTH as u64, total: Some(LENGTH as u64) }));
    assert!(fs::read(&part).unwrap() == body);
    assert_eq!(asked.join().unwrap(), [""]);
}

#[test]
fn after_a_cut_only_the_rest_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    let server = Server::new(LENGTH);
    let body = server.body.clone();
    let (address, asked) = Server { cut: 100_000, ..server.clone() }.start(1);
    let error = fetch(&address, &part).0.unwrap_err().to_string();
    assert!(error.starts_with("the download ended after 100000 bytes of 300000 ("), "{error}");
    assert!(error.ends_with("repeat the command to continue from there"), "{error}");
    asked.join().unwrap();
    assert!(fs::read(&part).unwrap() == body[..100_000]);
    let (address, asked) = server.clone().start(1);
    fetch(&address, &part).0.unwrap();
    assert_eq!(asked.join().unwrap(), ["bytes=100000-"]);
    assert!(fs::read(&part).unwrap() == body);
    // A complete file that was not unpacked is not downloaded again.
    let (address, asked) = server.start(1);
    fetch(&address, &part).0.unwrap();
    assert_eq!(asked.join().unwrap(), ["bytes=300000-"]);
    assert!(fs::read(&part).unwrap() == body);
}

#[test]
fn a_server_without_ranges_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    fs::write(&part, [9; 500]).unwrap();
    let server = Server { ranges: false, ..Server::new(LENGTH) };
    let body = server.body.clone();
    let (address, asked) = server.start(1);
    fetch(&address, &part).0.unwrap();
    asked.join().unwrap();
    assert!(fs::read(&part).unwrap() == body);
}

#[test]
fn the_beginning_of_another_file_is_thrown_away() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    fs::write(&part, vec![9; LENGTH + 1]).unwrap();
    let server = Server::new(LENGTH);
    let body = server.body.clone();
    let (address, asked) = server.start(2);
    fetch(&address, &part).0.unwrap();
    assert_eq!(asked.join().unwrap(), ["bytes=300001-", ""]);
    assert!(fs::read(&part).unwrap() == body);
}

#[test]
fn what_the_server_says_is_passed_on_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    fs::write(&part, [9; 500]).unwrap();
    let (address, asked) = Server { status: Some("404 Not Found"), ..Server::new(0) }.start(1);
    let error = fetch(&address, &part).0.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{address} answers with status 404; look for the archive in a browser, and give its address with --url or its \
             path with --from"
        )
    );
    asked.join().unwrap();
    let error = fetch(&address, &part).0.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{address} cannot be reached (")), "{error}");
    assert_eq!(fs::read(&part).unwrap(), [9; 500]);
}

/// `/dev/full` refuses every byte, like a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("a.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let (address, asked) = Server::new(LENGTH).start(1);
    let error = fetch(&address, &part).0.unwrap_err().to_string();
    assert!(error.contains("a.part cannot be written (No space left on device"), "{error}");
    assert!(error.ends_with("make room for 400 MB there, or name another folder with --dir"), "{error}");
    asked.join().unwrap();
}
