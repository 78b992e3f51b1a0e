//! Tests a classroom's network before the lesson, as far as this machine can tell. A phone tells the rest: the ports are
//! open meanwhile, and answer with a small page.

mod findings;
mod look;

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Extension, Json, Router,
    extract::{ConnectInfo, State},
    http::{StatusCode, header},
    middleware::map_response,
    response::{Html, IntoResponse, Response},
};
use axum_server::{Handle, tls_rustls::RustlsConfig};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{JoinHandle, spawn_blocking},
};
use unmask_wire::view::NetworkFinding;

pub(super) use self::look::Place;
use self::{
    findings::findings,
    look::{Look, Ports},
};
use super::{
    addresses::{Addresses, is_own_address, url},
    app::App,
    headers::secured,
    listen,
    names::OverTls,
    qr,
    tls::Identity,
};
use crate::config::RelayConfig;

/// Most devices that are told of. There are more only in a flood.
const MAX_DEVICES: usize = 1000;

const PAGE: &str = "<!DOCTYPE html>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>unmask</title>
<h1>This device reaches the relay</h1>
<p>Students in this network can open the lesson. The teacher's terminal says the same.</p>
";

/// Another device that opened the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub device: IpAddr,
    /// Whether it came to the HTTPS port, past the certificate's warning.
    pub is_https: bool,
}

/// A test of the network. Dropping it closes the ports.
#[derive(Debug)]
pub struct NetworkCheck {
    findings: Vec<NetworkFinding>,
    addresses: Vec<String>,
    arrivals: UnboundedReceiver<Arrival>,
    handles: Vec<Handle<SocketAddr>>,
    servers: Vec<JoinHandle<()>>,
}

#[derive(Clone)]
struct Door {
    known: Arc<Mutex<BTreeSet<Arrival>>>,
    told: UnboundedSender<Arrival>,
}

impl NetworkCheck {
    /// Looks at this machine, and opens the ports of this configuration if they are free. It opens no room.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// The certificate can be neither used nor made. A port that is taken is a finding.
    pub async fn start(config: &RelayConfig) -> anyhow::Result<Self> {
        let ports = [(config.http_port, "--http-port"), (config.https_port, "--https-port")];
        let listeners = ports.map(|(port, flag)| listen(config, port, flag));
        let served = listeners.each_ref().map(|listener| listener.as_ref().ok().and_then(|it| it.local_addr().ok()));
        let problems: Vec<String> =
            listeners.iter().filter_map(|listener| Some(listener.as_ref().err()?.to_string())).collect();
        let [http, https] = [0, 1].map(|at: usize| served[at].map_or(ports[at].0, |address| address.port()));
        let addresses = Addresses::find(config.bind, config.host.as_deref());
        let identity = match &config.certificate {
            Some(files) => Identity::given(files)?,
            None => Identity::keep(&config.data_dir, &addresses.names)?,
        };
        let best = addresses.hosts.first().map_or("localhost", String::as_str).to_owned();
        let place = Place::new(config, &addresses, &identity, [http, https]);
        let ports = if problems.is_empty() { Ports::Free } else { Ports::Taken(problems) };
        let findings = spawn_blocking(move || findings(&Look::around(place, ports))).await?;

        let (told, arrivals) = unbounded_channel();
        let door = Door { known: Arc::default(), told };
        let router = Router::new().fallback(answer).layer(map_response(secured)).with_state(door);
        let (mut handles, mut servers) = (Vec::new(), Vec::new());
        let [plain, secure] = listeners;
        if let Ok(listener) = plain {
            let handle = Handle::new();
            handles.push(handle.clone());
            let service = router.clone().into_make_service_with_connect_info::<SocketAddr>();
            let server = axum_server::from_tcp(listener)?.handle(handle).serve(service);
            servers.push(tokio::spawn(super::report("HTTP", server)));
        }
        if let Ok(listener) = secure {
            let handle = Handle::new();
            handles.push(handle.clone());
            let service = router.layer(Extension(OverTls)).into_make_service_with_connect_info::<SocketAddr>();
            let tls = RustlsConfig::from_config(identity.config);
            let server = axum_server::from_tcp_rustls(listener, tls)?.handle(handle).serve(service);
            servers.push(tokio::spawn(super::report("HTTPS", server)));
        }
        let addresses = served
            .iter()
            .zip(["http", "https"])
            .filter_map(|(served, scheme)| Some(url(scheme, &best, served.as_ref()?.port())))
            .collect();
        Ok(Self { findings, addresses, arrivals, handles, servers })
    }

    /// What this machine can tell, in the order of a phone's way to the room.
    pub fn findings(&self) -> &[NetworkFinding] {
        &self.findings
    }

    /// Addresses to open with a phone: over HTTP and HTTPS, without the ports that are taken.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// A QR code of an address for a terminal.
    pub fn qr_text(address: &str) -> String {
        qr::text(address)
    }

    /// Waits for the next device that is new on a port. Never returns if no port is open.
    pub async fn next_arrival(&mut self) -> Arrival {
        match self.arrivals.recv().await {
            Some(arrival) => arrival,
            None => std::future::pending().await,
        }
    }
}

/// `GET /api/network`: the same for the running relay.
pub(super) async fn show(State(app): State<App>) -> Response {
    let place = app.place.as_ref().clone();
    match spawn_blocking(move || findings(&Look::around(place, Ports::Served))).await {
        Ok(findings) => Json(findings).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("The look at the network broke off: {error}.")).into_response()
        }
    }
}

impl Drop for NetworkCheck {
    fn drop(&mut self) {
        for handle in &self.handles {
            handle.shutdown();
        }
        for server in &self.servers {
            server.abort();
        }
    }
}

/// Answers every address, because a phone may complete the one that is typed.
async fn answer(
    State(door): State<Door>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    over_tls: Option<Extension<OverTls>>,
) -> Response {
    let device = from.ip().to_canonical();
    if !is_own_address(device) {
        door.tell(Arrival { device, is_https: over_tls.is_some() });
    }
    ([(header::CACHE_CONTROL, "no-store")], Html(PAGE)).into_response()
}

impl Door {
    /// Tells of a device once for each port.
    fn tell(&self, arrival: Arrival) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_DEVICES && known.insert(arrival) {
            // A check that has ended hears nothing.
            let _ = self.told.send(arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_wire::view::Verdict;

    use super::*;

    #[test]
    fn a_device_is_told_of_once_for_each_port() {
        let (told, mut arrivals) = unbounded_channel();
        let door = Door { known: Arc::default(), told };
        let arrival = |number, is_https| Arrival { device: IpAddr::from([192, 0, 2, number]), is_https };
        for told in [arrival(1, false), arrival(1, false), arrival(1, true), arrival(2, false), arrival(1, true)] {
            door.tell(told);
        }
        let heard: Vec<Arrival> = std::iter::from_fn(|| arrivals.try_recv().ok()).collect();
        assert_eq!(heard, [arrival(1, false), arrival(1, true), arrival(2, false)]);
    }

    #[tokio::test]
    async fn the_ports_answer_and_a_taken_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let config = RelayConfig { http_port: 0, https_port: 0, ..RelayConfig::new(folder.path().into()) };
        let check = NetworkCheck::start(&config).await.unwrap();
        let [http, https] = check.addresses() else { panic!("{:?}", check.addresses()) };
        assert!(http.starts_with("http://") && https.starts_with("https://"));
        let port: u16 = http.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let answer = spawn_blocking(move || {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"GET /anything HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let answer = answer.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("This device reaches the relay"), "{answer}");
        assert!(answer.to_lowercase().contains("content-security-policy: default-src 'self'"), "{answer}");

        let taken = RelayConfig { http_port: port, ..config.clone() };
        let second = NetworkCheck::start(&taken).await.unwrap();
        let problem = second.findings().iter().find(|finding| finding.verdict == Verdict::Problem);
        assert!(problem.is_some_and(|it| it.text.contains("--http-port")), "{:?}", second.findings());
        assert_eq!(second.addresses().len(), 1);
    }
}
