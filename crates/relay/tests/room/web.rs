//! HTTP and HTTPS.

use std::{io::Read, sync::Arc, time::Duration};

use crate::support::{Relay, Socket, config, host, http, http_bytes, upgrade_to};
use flate2::read::GzDecoder;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::{Connector, connect_async_tls_with_config, tungstenite::Error};
use unmask_relay::{CertificateFiles, Running, serve};
use unmask_wire::{RelayMessage, view::RoomView};

#[tokio::test]
async fn room_describes_itself() {
    let relay = Relay::start().await;
    let (status, _, body) = http(&relay.running, "GET", "/healthz", &[], "").await;
    assert_eq!((status, body.as_str()), (200, "ok"));
    let room = relay.room().await;
    assert_eq!(room.http_address, format!("http://localhost:{}/", relay.running.http().port()));
    assert_eq!(room.https_address, format!("https://localhost:{}/", relay.running.https().port()));
    assert!(room.qr_svg.contains("<svg"));
    assert_eq!((room.rule.to_string().as_str(), room.optimiser.to_string().as_str()), ("fedsgd", "sgd:0.5"));
    assert_eq!(room.parameters, crate::support::layout().len());
    assert!(relay.running.teacher_link().ends_with(&format!("/projector#token={}", relay.running.token())));
    let ready: serde_json::Value = serde_json::from_str(&relay.running.ready_json().unwrap()).unwrap();
    let said = |name: &str| ready[name].as_str().unwrap().to_owned();
    assert_eq!(said("http"), room.http_address);
    assert_eq!(said("token"), relay.running.token());
    assert_eq!((said("pin"), said("pin")), (relay.running.pin(), room.pin));
    assert_eq!(said("student"), format!("{}#room={}", room.https_address, said("room_key")));
    assert!(ready["resumed"].is_null());
    assert!(said("projector").ends_with(&format!("/projector#view={}", relay.running.projector_secret())));
}

/// Trusts only this certificate.
fn trusting(trusted: &CertificateDer<'static>) -> Connector {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Connector::Rustls(Arc::new(tls))
}

/// Joins over HTTPS under each name, trusting only this certificate.
async fn greet_over_https(running: &Running, trusted: &CertificateDer<'static>) {
    let connector = trusting(trusted);
    for host in ["localhost", "127.0.0.1"] {
        let address = format!("wss://{host}:{}/ws", running.https().port());
        let request = upgrade_to(&address, &running.room_key());
        let (stream, _) = connect_async_tls_with_config(request, None, true, Some(connector.clone())).await.unwrap();
        let mut socket = Socket::on(stream);
        socket.hello("Ada", None).await;
        assert!(matches!(socket.message().await, Some((RelayMessage::Welcome { .. }, _))), "{host}");
    }
}

/// HTTPS works with the stored certificate, and the next relay presents the same one.
#[tokio::test]
async fn certificate_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let first = serve(config(folder.path().into())).await.unwrap();
    let kept = CertificateDer::from_pem_file(folder.path().join("certificate.pem")).unwrap();
    let fingerprint = first.fingerprint().to_owned();
    assert!(first.certificate_made_because().is_some());
    first.shutdown().await;
    let second = serve(config(folder.path().into())).await.unwrap();
    assert_eq!((second.fingerprint(), second.certificate_made_because()), (fingerprint.as_str(), None));
    greet_over_https(&second, &kept).await;
}

/// A certificate that the user supplies is presented, and no other is created.
#[tokio::test]
async fn certificate_that_is_given_is_shown() {
    let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    serve(config(theirs.path().into())).await.unwrap().shutdown().await;
    let files =
        CertificateFiles { certificate: theirs.path().join("certificate.pem"), key: theirs.path().join("key.pem") };
    let given = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let mut config = config(own.path().into());
    config.certificate = Some(files);
    let relay = serve(config).await.unwrap();
    assert_eq!(relay.certificate_made_because(), None);
    assert!(!own.path().join("certificate.pem").exists());
    greet_over_https(&relay, &given).await;
}

/// Anybody in the network can make a page of http: under the relay's name. It does not reach what came over TLS.
#[tokio::test]
async fn a_page_over_http_cannot_open_a_socket_over_https() {
    let folder = tempfile::tempdir().unwrap();
    let relay = serve(config(folder.path().into())).await.unwrap();
    let connector = trusting(&CertificateDer::from_pem_file(folder.path().join("certificate.pem")).unwrap());
    let own = format!("localhost:{}", relay.https().port());
    for (scheme, is_opened) in [("https", true), ("http", false)] {
        let mut request = upgrade_to(&format!("wss://{own}/ws"), &relay.room_key());
        request.headers_mut().insert("origin", format!("{scheme}://{own}").parse().unwrap());
        match connect_async_tls_with_config(request, None, true, Some(connector.clone())).await {
            Ok(_) => assert!(is_opened, "{scheme}"),
            Err(Error::Http(answer)) => assert!(!is_opened && answer.status() == 403, "{scheme}: {}", answer.status()),
            Err(error) => panic!("{scheme}: {error}"),
        }
    }
}

#[tokio::test]
async fn port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--http-port", "--https-port"] {
        let mut config = config(folder.path().into());
        if flag == "--http-port" {
            config.http_port = port;
        } else {
            config.https_port = port;
        }
        let error = serve(config).await.unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains(flag), "{error}");
    }
}

#[tokio::test]
async fn page_is_served_or_said_to_be_missing() {
    let relay = Relay::start().await;
    let get = |path: &'static str, headers: Vec<(&'static str, String)>| {
        let running = &relay.running;
        async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            http_bytes(running, "GET", path, &headers, "").await
        }
    };
    for path in ["/", "/projector", "/index.html"] {
        let (status, head, body) = get(path, Vec::new()).await;
        assert!(head.contains("content-type: text/html"), "{head}");
        for part in [
            "'wasm-unsafe-eval'",
            "worker-src 'self';",
            "connect-src 'self';",
            "x-content-type-options: nosniff",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(part), "{part} is not in {head}");
        }
        let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        let sources = policy.split("; ").flat_map(|directive| directive.split(' ').skip(1));
        for source in sources.filter(|source| !source.starts_with("'sha256-")) {
            let own = ["'self'", "'none'", "'unsafe-inline'", "'wasm-unsafe-eval'", "data:", "blob:"];
            assert!(own.contains(&source), "{source} in {policy}");
        }
        let scripts = head.split("script-src").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
        assert!(!scripts.contains("unsafe-inline"), "{scripts}");
        assert_eq!(scripts.contains("'sha256-"), relay.running.has_page(), "{scripts}");
        let page = String::from_utf8(body).unwrap();
        if !relay.running.has_page() {
            assert_eq!(status, 503);
            assert!(page.contains("cargo demo"), "{page}");
            continue;
        }
        assert_eq!(status, 200);
        assert!(head.contains("cache-control: no-cache"), "{head}");
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
        let (status, _, body) = get(path, vec![("if-none-match", etag)]).await;
        assert_eq!((status, body.len()), (304, 0));
        let (_, head, gzipped) = get(path, vec![("accept-encoding", "gzip".into())]).await;
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut unpacked = String::new();
        GzDecoder::new(&gzipped[..]).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, page);
    }
    let (status, ..) = get("/no/such/file.js", Vec::new()).await;
    assert_eq!(status, 404);
    let (status, ..) = http(&relay.running, "POST", "/", &[], "").await;
    assert_eq!(status, 405);
}

#[tokio::test]
async fn gzip_only_where_it_is_accepted() {
    let relay = Relay::start().await;
    for (header, accepted) in [
        ("gzip, deflate, br", true),
        ("br;q=1.0, gzip;q=0.8", true),
        ("*", true),
        ("gzip;q=0", false),
        ("identity", false),
    ] {
        let (status, head, _) = http_bytes(&relay.running, "GET", "/", &[("accept-encoding", header)], "").await;
        assert_eq!(status, if relay.running.has_page() { 200 } else { 503 });
        assert_eq!(head.contains("content-encoding: gzip"), accepted, "{header}: {head}");
        assert!(head.contains("vary: accept-encoding"), "{header}: {head}");
    }
}

/// A class on one access point opens the page in the same minute, so it must be small and compressed in advance.
#[tokio::test]
async fn page_weighs_little() {
    let relay = Relay::start().await;
    if !relay.running.has_page() {
        return;
    }
    let page = http(&relay.running, "GET", "/", &[], "").await.2;
    let (before, _) = page.split_once("_bg.wasm").expect("the page loads WebAssembly");
    let name = before.rsplit(['/', '"', '\'']).next().unwrap();
    let path = format!("/{name}_bg.wasm");
    let (_, head, body) = http_bytes(&relay.running, "GET", &path, &[("accept-encoding", "gzip, br")], "").await;
    assert!(head.contains("content-encoding: br") && head.contains("application/wasm"), "{head}");
    assert!(body.len() < 600_000, "{} bytes", body.len());
    let mut wasm = Vec::new();
    brotli_decompressor::Decompressor::new(&*body, 4096).read_to_end(&mut wasm).unwrap();
    assert!(wasm.starts_with(b"\0asm"));
}

/// The stream sends the room immediately, and again on every change.
#[tokio::test]
async fn events_follow_the_room() {
    let relay = Relay::start().await;
    let mut stream = TcpStream::connect(relay.running.http()).await.unwrap();
    let (host, secret) = (host(&relay.running), relay.running.projector_secret());
    let request = format!("GET /api/events HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = String::new();
    let mut next = async |wanted: usize| {
        let mut buffer = vec![0; 1 << 16];
        loop {
            // Each event is one line. The transfer's chunk sizes are on separate lines.
            let rooms: Vec<RoomView> = received
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .filter_map(|json| serde_json::from_str(json).ok())
                .collect();
            if let Some(room) = rooms.into_iter().find(|room| room.clients.len() == wanted) {
                assert!(received.to_lowercase().contains("content-type: text/event-stream"));
                return room;
            }
            let read = timeout(Duration::from_secs(10), stream.read(&mut buffer)).await.expect("an event").unwrap();
            assert!(read > 0, "the stream ended: {received}");
            received.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
    };
    assert!(next(0).await.clients.is_empty());
    let _ada = relay.client("Ada").await;
    assert_eq!(next(1).await.clients[0].nickname, "Ada");
}

/// The HTTP port redirects to HTTPS and otherwise answers only the health check.
#[tokio::test]
async fn https_alone_leaves_a_redirect() {
    let relay = Relay::with(|config| config.https_only = true).await;
    let (http_port, https_port) = (relay.running.http().port(), relay.running.https().port());
    let (status, _, body) = http(&relay.running, "GET", "/healthz", &[], "").await;
    assert_eq!((status, body.as_str()), (200, "ok"));
    let secret = format!("Bearer {}", relay.running.token());
    for (method, path) in [("GET", "/?image=cat"), ("GET", "/api/room"), ("POST", "/api/control"), ("GET", "/ws")] {
        let (status, head, body) = http(&relay.running, method, path, &[("authorization", &secret)], "").await;
        assert_eq!((status, body.as_str()), (308, ""), "{path}");
        assert!(head.contains(&format!("location: https://localhost:{https_port}{path}")), "{head}");
    }
    let foreign = format!("evil.test:{http_port}");
    let (status, head, _) = http(&relay.running, "GET", "/", &[("host", &foreign)], "").await;
    assert!(status == 421 && !head.contains("\nlocation:"), "{head}");
    assert!(relay.running.own_address().starts_with("https://") && relay.running.is_https_only());
}
