//! Serves one room on an HTTP port and an HTTPS port.

mod addresses;
mod app;
mod caller;
mod candidate;
mod check;
mod coding;
mod control;
mod download;
mod erasing;
mod events;
mod headers;
mod limits;
mod names;
mod page;
mod pin;
mod qr;
mod recording;
mod rendered;
mod replay;
mod results;
mod room;
mod routes;
mod scopes;
mod secrets;
mod session;
mod tls;

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use axum::Extension;
use axum_server::{Handle, tls_rustls::RustlsConfig};
use serde::Serialize;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::error;
use unmask_room::{Input, JoinAddresses, Pictures, Reply, Resumed, Snapshot, longest_message};
use unmask_wire::view::{Control, RoomView};

pub(crate) use self::scopes::Scopes;
use self::{
    addresses::{Addresses, url},
    app::App,
    check::Place,
    limits::Gatekeeper,
    names::{Names, OverTls},
    pin::Pin,
    rendered::Rendered,
    secrets::Secrets,
    tls::Identity,
};
pub use self::{
    check::{Arrival, NetworkCheck},
    replay::{Replaying, export_replay, replay},
    routes::{Route, routes},
};
use crate::{
    clock::Clock,
    config::RelayConfig,
    connection::{self, InFlight, Refusals, ReusableBuffer},
    joining::{JoiningRoom, Membership},
    journal::LessonKey,
    opening,
    room::{MAX_INPUTS, Shared, reply},
    supervisor::Supervisor,
};

/// A running relay. Dropping it closes both ports and every connection.
pub struct Running {
    http: SocketAddr,
    https: SocketAddr,
    hosts: Vec<String>,
    scopes: Arc<Scopes>,
    is_https_only: bool,
    has_given_certificate: bool,
    fingerprint: String,
    made_because: Option<String>,
    resumed: Option<Resumed>,
    inputs: mpsc::WeakSender<Input>,
    snapshots: watch::Receiver<Snapshot>,
    handles: [Handle<SocketAddr>; 2],
    servers: Vec<JoinHandle<()>>,
    room: JoinHandle<()>,
    publisher: JoinHandle<()>,
    membership: Option<Membership>,
}

#[derive(Debug, Serialize)]
struct Ready<'a> {
    http: String,
    https: String,
    student: String,
    projector: String,
    teacher: String,
    room_key: &'a str,
    pin: String,
    token: &'a str,
    fingerprint: &'a str,
    resumed: Option<&'a Resumed>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("http", &self.http).field("https", &self.https).finish_non_exhaustive()
    }
}

impl Running {
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// Returns the addresses that students can type, best first, as pairs of HTTPS and HTTP. They also need the PIN.
    pub fn student_addresses(&self) -> Vec<(String, String)> {
        self.hosts
            .iter()
            .map(|host| (url("https", host, self.https.port()), url("http", host, self.http.port())))
            .collect()
    }

    /// Returns the link in the QR code, which holds the room key.
    pub fn student_link(&self) -> String {
        student_link(&self.best_address(), &self.room_key())
    }

    /// Returns the address for programs on this machine: plain HTTP, unless the relay serves HTTPS only.
    pub fn own_address(&self) -> String {
        let (scheme, served) = if self.is_https_only { ("https", self.https) } else { ("http", self.http) };
        let host = if served.ip().is_unspecified() { "127.0.0.1".to_owned() } else { served.ip().to_string() };
        url(scheme, &host, served.port())
    }

    /// Returns the link for a client on this machine, with the room key.
    pub fn own_student_link(&self) -> String {
        student_link(&self.own_address(), &self.room_key())
    }

    /// Returns the link for a robot in this process, which never has to wait. No other program may learn it.
    pub fn own_robot_link(&self) -> String {
        student_link(&self.own_address(), self.scopes.secrets.robots())
    }

    /// Returns the secret that admits students.
    pub fn room_key(&self) -> String {
        self.scopes.secrets.students()
    }

    /// Returns the secret that shows the room without its controls.
    pub fn projector_secret(&self) -> &str {
        self.scopes.secrets.projector()
    }

    pub fn token(&self) -> &str {
        self.scopes.secrets.teacher()
    }

    /// Returns the six-digit PIN for students who type the address. It changes after many wrong attempts.
    pub fn pin(&self) -> String {
        self.scopes.pin.get()
    }

    /// Returns the link to the projector page without controls, for other machines on the network.
    pub fn projector_link(&self) -> String {
        format!("{}projector#view={}", self.best_address(), self.projector_secret())
    }

    /// Returns the link to the projector page with the teacher's controls, for other machines on the network.
    pub fn teacher_link(&self) -> String {
        format!("{}projector#token={}", self.best_address(), self.token())
    }

    /// Returns the teacher's link for this machine, where plain HTTP is as secure as HTTPS.
    pub fn local_teacher_link(&self) -> String {
        format!("{}projector#token={}", self.local_address(), self.token())
    }

    fn best_address(&self) -> String {
        self.student_addresses().into_iter().next().map_or_else(String::new, |(https, _)| https)
    }

    fn local_address(&self) -> String {
        match self.is_https_only {
            true => url("https", "localhost", self.https.port()),
            false => url("http", "localhost", self.http.port()),
        }
    }

    pub fn is_https_only(&self) -> bool {
        self.is_https_only
    }

    /// Whether the user supplied the certificate. Browsers trust it if they trust its issuer.
    pub fn has_given_certificate(&self) -> bool {
        self.has_given_certificate
    }

    /// Returns the certificate's SHA-256 fingerprint as browsers show it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns why the certificate was just created; `None` if it is the previous one.
    pub fn certificate_made_because(&self) -> Option<&str> {
        self.made_because.as_deref()
    }

    /// Returns the lesson that the relay resumed; `None` if it began a new one.
    pub fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// Whether the page was compiled into this program.
    pub fn has_page(&self) -> bool {
        page::is_built()
    }

    /// Returns the QR code of the students' link as text for a terminal.
    pub fn qr_text(&self) -> String {
        qr::text(&self.student_link())
    }

    /// Returns one line of JSON: local addresses, links for the network, room key, PIN, token, and certificate
    /// fingerprint.
    pub fn ready_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Ready {
            http: url("http", "localhost", self.http.port()),
            https: url("https", "localhost", self.https.port()),
            student: self.student_link(),
            projector: self.projector_link(),
            teacher: self.teacher_link(),
            room_key: &self.room_key(),
            pin: self.pin(),
            token: self.token(),
            fingerprint: &self.fingerprint,
            resumed: self.resumed.as_ref(),
        })
    }

    /// Returns the last published view of the room.
    pub fn room(&self) -> Arc<RoomView> {
        Arc::clone(&self.snapshots.borrow().view)
    }

    /// Applies a control, as the teacher could over HTTP.
    ///
    /// # Errors
    /// Fails with the room's message if the room refuses, or if the room has ended.
    pub async fn control(&self, control: Control) -> anyhow::Result<()> {
        const ENDED: &str = "the room has ended";
        let (reply, receiver) = reply();
        let room = self.inputs.upgrade().context(ENDED)?;
        room.send(Input::Control { control, reply }).await.map_err(|_| anyhow::anyhow!(ENDED))?;
        receiver.await.context(ENDED)?.map_err(anyhow::Error::msg)
    }

    /// Returns the lesson's recording up to now, as a packed `lesson.unmask` file.
    ///
    /// # Errors
    /// Fails if the lesson is not recorded, the recording cannot be packed, or the room has ended.
    pub async fn recording(&self) -> anyhow::Result<Vec<u8>> {
        let room = self.inputs.upgrade().context("the room has ended")?;
        let file = recording::take(&room).await.context("this lesson is not recorded")?;
        file.map_err(anyhow::Error::msg)
    }

    /// Has the room panic, as an error in it would.
    #[doc(hidden)]
    pub async fn break_room(&self) {
        #[expect(clippy::panic, reason = "tests ask for it")]
        let reply = Reply::new(|_| panic!("a test broke the room"));
        if let Some(room) = self.inputs.upgrade() {
            let _ = room.send(Input::Download { reply }).await;
        }
    }

    /// Returns when a server or the room has stopped unexpectedly.
    pub async fn broken(&mut self) {
        loop {
            if self.room.is_finished() || self.servers.iter().any(JoinHandle::is_finished) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Refuses new connections, ends the room and closes all sockets gracefully.
    pub async fn shutdown(mut self) {
        if let Some(membership) = self.membership.take() {
            membership.leave().await;
        }
        self.stop();
        // The room ends only after its journal is written.
        let _ = (&mut self.room).await;
        for server in std::mem::take(&mut self.servers) {
            // A panic has already been reported.
            let _ = server.await;
        }
    }

    fn stop(&self) {
        // Aborting the room ends every outbox, which closes its socket.
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
/// Fails, with a message that names the flag that helps, if:
/// - a port is in use or not permitted,
/// - the data folder cannot be written, belongs to a running relay, or holds a lesson with other settings,
/// - the data set cannot be read or partitioned,
/// - there are no such pretrained weights,
/// - the SuperLink's address or certificates cannot be used,
/// - the operating system provides no random numbers or threads.
pub async fn serve(config: RelayConfig) -> anyhow::Result<Running> {
    let http_listener = listen(&config, config.http_port, "--http-port")?;
    let https_listener = listen(&config, config.https_port, "--https-port")?;
    let as_started = config.clone();
    let (config, opened) = opening::find(config).await?;
    let resumed = opened.opening.resumed();
    let (http, https) = (http_listener.local_addr()?, https_listener.local_addr()?);
    let addresses = Addresses::find(config.bind, config.host.as_deref());
    let identity = match &config.certificate {
        Some(files) => Identity::given(files)?,
        None => Identity::keep(&config.data_dir, &addresses.names)?,
    };
    let (is_https_only, has_given_certificate) = (config.https_only, config.certificate.is_some());
    let key = match &config.room.journal {
        Some(_) => LessonKey::kept(&config.data_dir, opened.opening.head.id)?,
        None => LessonKey::fleeting()?,
    };
    let scopes = Arc::new(Scopes {
        secrets: Secrets::of_lesson(key.clone(), opened.opening.keys())?,
        pin: Pin::of_lesson(key, opened.opening.pins()),
        names: Names::new(&addresses),
        cookie: format!("unmask-{}", http.port()),
        is_cookie_secure: is_https_only,
    });

    let place = Place::new(&config, &addresses, &identity, [http.port(), https.port()]);
    let best = addresses.hosts.first().map_or("localhost", String::as_str);
    let https_address = url("https", best, https.port());
    let join_addresses = JoinAddresses {
        http_address: url("http", best, http.port()),
        qr_svg: scopes.qr_svg(&https_address),
        keys: scopes.secrets.keys(),
        pin: scopes.pin.get(),
        https_address: https_address.clone(),
    };
    let (inputs, inbox) = mpsc::channel(MAX_INPUTS);
    let (erasures, to_erase) = mpsc::channel(1);
    let (snapshot_sender, snapshots) = watch::channel(Snapshot::default());
    let events = watch::Sender::new(Arc::from(""));
    let pictures = Arc::new(Pictures::default());
    let limits = config.limits.for_rounds_of(config.room.deadline);
    let in_flight = InFlight::new(limits.bytes_in_flight, longest_message(config.room.architecture), limits.update);
    let model_file = config.model_file;
    let is_recorded = config.recording;
    let outer = config.outer.clone();
    let (reusable_buffer, clock, clients) = (ReusableBuffer::default(), Clock::start(), config.room.limits.clients);
    let rendered = Arc::new(Rendered::new(clock));
    let shared = Shared {
        snapshots: snapshot_sender,
        pictures: Arc::clone(&pictures),
        in_flight: in_flight.clone(),
        reusable_buffer: reusable_buffer.clone(),
        clock,
    };
    let supervisor = Supervisor::new(as_started, join_addresses, Arc::clone(&scopes), shared);
    let room = supervisor.open(config, opened)?;
    let room = tokio::spawn(supervisor.run(room, inbox, to_erase));
    let membership = match outer {
        Some(outer) => {
            Some(outer.join(JoiningRoom { inputs: inputs.downgrade(), snapshots: snapshots.clone() }).await?)
        }
        None => None,
    };
    let publisher = tokio::spawn(events::publish(snapshots.clone(), events.clone(), Arc::clone(&rendered)));
    let refusals = Refusals::told_to(inputs.downgrade());
    let gatekeeper = Gatekeeper::new(limits, refusals.clone());
    let (weak, published) = (inputs.downgrade(), snapshots.clone());
    let app = App {
        room: inputs,
        erasures,
        scopes: Arc::clone(&scopes),
        https_address: https_address.into(),
        https_port: https.port(),
        place: Arc::new(place),
        snapshots,
        events,
        pictures,
        rendered,
        limits,
        sockets: connection::Common::new(limits, clients, in_flight, reusable_buffer, refusals),
        model_file,
        is_recorded,
    };

    let whole = routes::router(app.clone());
    let plain = if is_https_only { routes::redirects(app) } else { whole.clone() };
    let handles = [Handle::new(), Handle::new()];
    let plain = gatekeeper
        .guard(axum_server::from_tcp(http_listener)?)
        .handle(handles[0].clone())
        .serve(plain.into_make_service_with_connect_info::<SocketAddr>());
    let tls = RustlsConfig::from_config(identity.config);
    let secure = axum_server::from_tcp_rustls(https_listener, tls)?.map(|tls| tls.handshake_timeout(limits.header));
    let secure = gatekeeper
        .guard(secure)
        .handle(handles[1].clone())
        .serve(whole.layer(Extension(OverTls)).into_make_service_with_connect_info::<SocketAddr>());
    let servers = vec![tokio::spawn(report("HTTP", plain)), tokio::spawn(report("HTTPS", secure))];
    Ok(Running {
        http,
        https,
        hosts: addresses.hosts,
        scopes,
        is_https_only,
        has_given_certificate,
        fingerprint: identity.fingerprint,
        made_because: identity.made_because,
        resumed,
        inputs: weak,
        snapshots: published,
        handles,
        servers,
        room,
        publisher,
        membership,
    })
}

fn student_link(address: &str, key: &str) -> String {
    format!("{address}#room={key}")
}

async fn report(name: &str, server: impl Future<Output = io::Result<()>>) {
    if let Err(error) = server.await {
        error!("the {name} port is no longer served: {error}");
    }
}

fn listen(config: &RelayConfig, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    limits::listen((config.bind, port).into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow::anyhow!("port {port} is in use; choose another with {flag}"),
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("port {port} may not be used by this user; choose one above 1023 with {flag}")
        }
        _ => anyhow::anyhow!("cannot listen on {} port {port} ({error}); see --bind and {flag}", config.bind),
    })
}
