//! A plain web server for a folder, as any web host has one: it only sends files.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// A folder that is served to this machine on threads, until this is dropped.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    /// Where the folder lies, such as `/lessons/unmask/`.
    prefix: String,
    is_over: Arc<AtomicBool>,
}

impl Site {
    /// Serves a folder under a path that begins and ends with a slash; port 0 picks a free one. `kind` says the MIME type
    /// of a file.
    ///
    /// # Errors
    /// If the port is in use.
    pub fn serve(folder: &Path, prefix: &str, port: u16, kind: fn(&Path) -> &'static str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let (folder, below) = (folder.to_owned(), prefix.to_owned());
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let (folder, below) = (folder.clone(), below.clone());
                // A browser that hangs up gets no answer.
                thread::spawn(move || answer(&stream, &folder, &below, kind));
            }
        });
        Ok(Self { address, prefix: prefix.to_owned(), is_over })
    }

    pub fn link(&self) -> String {
        format!("http://localhost:{}{}", self.address.port(), self.prefix)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for the next visitor.
        drop(TcpStream::connect(self.address));
    }
}

fn answer(stream: &TcpStream, folder: &Path, prefix: &str, kind: fn(&Path) -> &'static str) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|header| !header.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let found = file(folder, prefix, path).and_then(|file| Some((fs::read(&file).ok()?, kind(&file))));
    let (status, kind, body) = match found {
        Some((body, kind)) => ("200 OK", kind, body),
        None => ("404 Not Found", "text/plain", b"There is no such file.".to_vec()),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

/// The file behind a path; `None` for one outside the folder.
fn file(folder: &Path, prefix: &str, path: &str) -> Option<PathBuf> {
    let name = Path::new(path.strip_prefix(prefix)?);
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
    let file = folder.join(if name.as_os_str().is_empty() { Path::new("index.html") } else { name });
    is_below.then_some(file)
}

/// The MIME type of a file.
pub fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_are_served() {
        let folder = Path::new("dist/solo");
        assert_eq!(file(folder, "/a/", "/a/"), Some(folder.join("index.html")));
        assert_eq!(file(folder, "/a/", "/a/samples/cat.png"), Some(folder.join("samples/cat.png")));
        for path in ["/", "/b/index.html", "/a/../secret", "/a//etc/passwd"] {
            assert_eq!(file(folder, "/a/", path), None, "{path}");
        }
    }
}
