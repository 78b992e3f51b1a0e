//! Two ports, one room.

mod addresses;
mod app;
mod candidate;
mod control;
mod events;
mod page;
mod qr;
mod tls;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use axum::{
    Router,
    extract::{DefaultBodyLimit, State, WebSocketUpgrade},
    http::{HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use axum_server::{Handle, tls_rustls::RustlsConfig};
use serde::Serialize;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tower_http::compression::CompressionLayer;
use tracing::error;
use unmask_core::TrainOn;
use unmask_data::datasets::Source;
use unmask_wire::{Assembler, MAX_FRAME};

use self::{
    addresses::{Addresses, url},
    app::App,
    tls::Identity,
};
use crate::{
    attacks::Pictures,
    config::RelayConfig,
    connection::{self, ReusableBuffer},
    random,
    room::{Actor, JoinAddresses, SharedDataSet, Snapshot},
};

/// Inputs that may wait for the room; whoever has more waits at its socket.
const MAX_INPUTS: usize = 16;

/// A relay that runs; dropping it closes both ports and every connection.
#[derive(Debug)]
pub struct Running {
    http: SocketAddr,
    https: SocketAddr,
    hosts: Vec<String>,
    token: Arc<str>,
    fingerprint: String,
    made_because: Option<String>,
    handles: [Handle<SocketAddr>; 2],
    servers: Vec<JoinHandle<()>>,
    room: JoinHandle<()>,
    publisher: JoinHandle<()>,
}

/// What a program that started the relay wants to know.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    http: String,
    https: String,
    student: String,
    teacher: String,
    token: &'a str,
    fingerprint: &'a str,
}

impl Running {
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// Addresses for students, the best one first: each host over HTTPS, then over HTTP.
    pub fn student_addresses(&self) -> Vec<(String, String)> {
        self.hosts
            .iter()
            .map(|host| (url("https", host, self.https.port()), url("http", host, self.http.port())))
            .collect()
    }

    /// The address for programs on this machine, over plain HTTP.
    pub fn own_address(&self) -> String {
        let host = if self.http.ip().is_unspecified() { "127.0.0.1".to_owned() } else { self.http.ip().to_string() };
        url("http", &host, self.http.port())
    }

    /// The token that the teacher's controls need.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The projector page with the teacher's controls, from another machine of the network.
    pub fn teacher_link(&self) -> String {
        let host = self.hosts.first().map_or("localhost", String::as_str);
        format!("{}projector#token={}", url("https", host, self.https.port()), self.token)
    }

    /// The same on this machine, where plain HTTP is as good as HTTPS.
    pub fn local_teacher_link(&self) -> String {
        format!("{}projector#token={}", url("http", "localhost", self.http.port()), self.token)
    }

    /// SHA-256 of the certificate as browsers show it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Why the certificate was made just now; `None` if it is the one of last time.
    pub fn certificate_made_because(&self) -> Option<&str> {
        self.made_because.as_deref()
    }

    /// Whether the page is in this program.
    pub fn has_page(&self) -> bool {
        page::is_built()
    }

    /// The QR code of the students' HTTPS address for a terminal.
    pub fn qr_text(&self) -> String {
        self.student_addresses().first().map_or_else(String::new, |(https, _)| qr::text(https))
    }

    /// Addresses (of this machine, `student` and `teacher` for the network), token and fingerprint as one line of JSON.
    pub fn ready_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Ready {
            http: url("http", "localhost", self.http.port()),
            https: url("https", "localhost", self.https.port()),
            student: self.student_addresses().into_iter().next().map_or_else(String::new, |(https, _)| https),
            teacher: self.teacher_link(),
            token: &self.token,
            fingerprint: &self.fingerprint,
        })
    }

    /// Returns when a port is no longer served or the room has broken down, which should not happen.
    pub async fn broken(&mut self) {
        loop {
            if self.room.is_finished() || self.servers.iter().any(JoinHandle::is_finished) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Stops: no new connections, the room ends, sockets are closed properly.
    pub async fn shutdown(mut self) {
        self.stop();
        for server in std::mem::take(&mut self.servers) {
            // A server that panicked has said so; there is nothing left to stop.
            let _ = server.await;
        }
    }

    fn stop(&self) {
        // Without the room every socket's outbox ends, and the socket with it.
        self.room.abort();
        self.publisher.abort();
        for handle in &self.handles {
            handle.graceful_shutdown(Some(Duration::from_secs(1)));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Binds both ports, then starts the room and serves it until the result is dropped.
///
/// Must be called within a Tokio runtime.
///
/// # Errors
/// A port is taken or may not be used, the data folder cannot be written, the data set cannot be read or shared out, there
/// are no such pretrained weights, or the operating system has no random numbers or threads to give. The message names the
/// flag that helps.
pub async fn serve(mut config: RelayConfig) -> anyhow::Result<Running> {
    let data_set = load_data_set(&mut config).await?;
    let http_listener = listen(&config, config.http_port, "--http-port")?;
    let https_listener = listen(&config, config.https_port, "--https-port")?;
    let (http, https) = (http_listener.local_addr()?, https_listener.local_addr()?);
    let addresses = Addresses::find(config.bind, config.host.as_deref());
    let identity = Identity::keep(&config.data_dir, &addresses.names)?;
    let token: Arc<str> = random::bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();

    let best = addresses.hosts.first().map_or("localhost", String::as_str);
    let https_address = url("https", best, https.port());
    let join_addresses =
        JoinAddresses { http_address: url("http", best, http.port()), qr_svg: qr::svg(&https_address), https_address };
    let (inputs, inbox) = mpsc::channel(MAX_INPUTS);
    let (snapshot_sender, snapshots) = watch::channel(Snapshot::default());
    let events = watch::Sender::new(Arc::from(""));
    let pictures = Arc::new(Pictures::default());
    let limits = config.limits;
    let longest = [false, true]
        .map(|block| config.architecture.with_april_block(block))
        .map(|architecture| architecture.layout().len() + architecture.statistics().len())
        .into_iter()
        .max()
        .map_or(0, Assembler::limit_for);
    let side = config.architecture.side();
    let reusable_buffer = ReusableBuffer::default();
    let actor = Actor::new(
        config,
        data_set,
        join_addresses,
        Arc::clone(&pictures),
        reusable_buffer.clone(),
        snapshot_sender,
        inputs.downgrade(),
    )?;
    let room = tokio::spawn(actor.run(inbox));
    let publisher = tokio::spawn(events::publish(snapshots.clone(), events.clone()));
    let app = App {
        room: inputs,
        token: Arc::clone(&token),
        snapshots,
        events,
        pictures,
        limits,
        longest,
        side,
        reusable_buffer,
    };

    let service = router(app).into_make_service();
    let handles = [Handle::new(), Handle::new()];
    let plain = axum_server::from_tcp(http_listener)?.handle(handles[0].clone()).serve(service.clone());
    let tls = RustlsConfig::from_config(identity.config);
    let secure = axum_server::from_tcp_rustls(https_listener, tls)?.handle(handles[1].clone()).serve(service);
    let servers = vec![tokio::spawn(report("HTTP", plain)), tokio::spawn(report("HTTPS", secure))];
    Ok(Running {
        http,
        https,
        hosts: addresses.hosts,
        token,
        fingerprint: identity.fingerprint,
        made_because: identity.made_because,
        handles,
        servers,
        room,
        publisher,
    })
}

/// The data set, unless it is one that can be made when it is asked for. A model of fewer classes gets as many as it has.
async fn load_data_set(config: &mut RelayConfig) -> anyhow::Result<Option<SharedDataSet>> {
    if config.data.source == Source::Generated && config.data.train_on == TrainOn::Private {
        return Ok(None);
    }
    let (data, seed) = (config.data.clone(), config.data_seed());
    let data_set = tokio::task::spawn_blocking(move || SharedDataSet::load(&data, seed)).await??;
    let classes = config.architecture.classes().max(data_set.classes.len());
    config.architecture = config.architecture.with_classes(classes);
    Ok(Some(data_set))
}

async fn report(name: &str, server: impl Future<Output = io::Result<()>>) {
    if let Err(error) = server.await {
        error!("the {name} port is no longer served: {error}");
    }
}

fn listen(config: &RelayConfig, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((config.bind, port)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!("port {port} is in use; choose another with {flag}"),
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("port {port} may not be used by this user; choose one above 1023 with {flag}")
        }
        _ => anyhow::anyhow!("cannot listen on {} port {port} ({error}); see --bind and {flag}", config.bind),
    })?;
    listener.set_nonblocking(true).context("cannot use the port without blocking")?;
    Ok(listener)
}

fn router(app: App) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/ws", any(connect))
        .route("/api/room", get(room))
        .route("/api/events", get(stream))
        .route("/api/control", post(control::control).layer(DefaultBodyLimit::max(control::MAX_BODY)))
        .route("/api/candidate", post(candidate::candidate).layer(DefaultBodyLimit::max(candidate::MAX_FILE)))
        .route("/api/candidate/{picture}", get(picture))
        .route("/api/reconstruction/{attack}/{picture}", get(picture))
        .fallback(get(page::serve))
        .layer(CompressionLayer::new())
        .layer(map_response(secured))
        .with_state(app)
}

async fn connect(State(app): State<App>, upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .on_upgrade(move |socket| connection::run(socket, app.room, app.limits, app.longest, app.reusable_buffer))
}

async fn room(State(app): State<App>) -> Response {
    let snapshot = app.snapshots.borrow().clone();
    match snapshot.json() {
        Ok(json) => {
            ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], json).into_response()
        }
        Err(error) => {
            error!("the room cannot be written as JSON: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn stream(State(app): State<App>) -> Response {
    let events = app.events.subscribe();
    let snapshot = app.snapshots.borrow().clone();
    events::stream(&snapshot, events)
}

async fn picture(State(app): State<App>, uri: Uri) -> Response {
    match app.pictures.get(uri.path()) {
        // A relay started anew counts rounds from 1 again.
        Some(png) => ([(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "no-store")], png).into_response(),
        None => (StatusCode::NOT_FOUND, "This picture is no longer kept.").into_response(),
    }
}

/// What browsers may do with whatever comes from here. Trunk starts the page by an inline script, and its worker from a
/// blob.
async fn secured(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; script-src 'self' 'wasm-unsafe-eval' 'unsafe-inline'; worker-src 'self' blob:; \
             style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; \
             connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; form-action 'self'; \
             frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("permissions-policy"), "camera=(self), microphone=(), geolocation=()"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
