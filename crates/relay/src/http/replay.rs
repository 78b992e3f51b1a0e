//! Replays a recorded lesson without a room. Serves the page and the recording to this machine, or writes them to a
//! folder.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, ensure};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{Next, from_fn_with_state, map_response},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use axum_server::Handle;
use tokio::task::JoinHandle;
use unmask_recording::{NAME, Recording};

use super::{
    headers::{secured, with_policy},
    limits, page,
    recording::FORM,
    scopes::host,
};

/// A server of a recorded lesson. Dropping it closes the port.
#[derive(Debug)]
pub struct Replaying {
    served: SocketAddr,
    handle: Handle<SocketAddr>,
    server: JoinHandle<()>,
}

#[derive(Clone)]
struct Served {
    recording: Bytes,
    /// Allowed values of `Host`, so that another site cannot read the lesson by DNS rebinding.
    hosts: Arc<[String]>,
}

impl Replaying {
    pub fn address(&self) -> String {
        format!("http://localhost:{}/{}", self.served.port(), page::REPLAY_DOCUMENT)
    }

    pub fn served(&self) -> SocketAddr {
        self.served
    }

    /// Returns when the server has stopped unexpectedly.
    pub async fn broken(&mut self) {
        // A panic has already been reported.
        let _ = (&mut self.server).await;
    }
}

impl Drop for Replaying {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

/// Serves the page and this recording to this machine; port 0 picks a free one.
///
/// Must be called within a Tokio runtime.
///
/// # Errors
/// Fails if the port is in use, or if this program was compiled without the page.
pub fn replay(recording: &Recording, port: u16) -> anyhow::Result<Replaying> {
    ensure_page()?;
    let listener = limits::listen((Ipv4Addr::LOCALHOST, port).into())
        .with_context(|| format!("port {port} cannot be used; choose another with --port"))?;
    let served = listener.local_addr()?;
    let hosts = ["localhost", "127.0.0.1"].map(|host| format!("{host}:{}", served.port()));
    let state = Served { recording: recording.packed()?.into(), hosts: hosts.into() };
    let router = Router::new()
        .route("/", get(|| async { Redirect::to(page::REPLAY_DOCUMENT) }))
        .route(&format!("/{NAME}"), get(file))
        .fallback(get(served_page))
        .layer(from_fn_with_state(state.clone(), own_host))
        .layer(map_response(secured))
        .with_state(state);
    let handle = Handle::new();
    let server = axum_server::from_tcp(listener)?.handle(handle.clone()).serve(router.into_make_service());
    let server = tokio::spawn(super::report("replay", server));
    Ok(Replaying { served, handle, server })
}

/// Writes the page and this recording into `folder`, which any web server can serve.
///
/// # Errors
/// Fails if the folder cannot be written, or if this program was compiled without the page.
pub fn export_replay(recording: &Recording, folder: &Path) -> anyhow::Result<()> {
    ensure_page()?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        let written = fs::create_dir_all(path.parent().unwrap_or(folder)).and_then(|()| fs::write(&path, bytes));
        written.with_context(|| format!("cannot write {}", path.display()))
    };
    for file in page::files_of_replay() {
        let (name, bytes) = file.context("the page in this program cannot be unpacked")?;
        if name == page::INDEX {
            let document = with_policy(str::from_utf8(&bytes).context("the page in this program is not text")?)?;
            write(page::REPLAY_DOCUMENT, document.as_bytes())?;
        } else {
            write(&name, &bytes)?;
        }
    }
    write(NAME, &recording.packed()?)
}

fn ensure_page() -> anyhow::Result<()> {
    ensure!(page::is_built(), "this program was compiled without the page; build both with `cargo demo`");
    Ok(())
}

async fn own_host(State(served): State<Served>, request: Request, next: Next) -> Response {
    match host(&request) {
        Some(host) if served.hosts.iter().any(|own| own == host) => next.run(request).await,
        _ => (StatusCode::MISDIRECTED_REQUEST, "Only this machine can open this lesson: use the address localhost.")
            .into_response(),
    }
}

async fn file(State(served): State<Served>) -> Response {
    ([(header::CONTENT_TYPE, FORM), (header::CACHE_CONTROL, "no-store")], served.recording).into_response()
}

async fn served_page(request: Request) -> Response {
    let headers: HeaderMap = request.headers().clone();
    page::serve(request.uri().clone(), headers).await
}
