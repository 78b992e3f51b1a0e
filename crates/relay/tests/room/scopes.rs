//! Access control.

use std::{collections::BTreeSet, net::SocketAddr};

use crate::support::{Client, Relay, Socket, host, http, upgrade_to};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_tungstenite::{connect_async, tungstenite::Error};
use unmask_relay::{JournalConfig, RelayConfig, Running, routes};
use unmask_wire::view::{Control, Role, SessionView};

/// The callers, in the order of the table's columns.
const CALLERS: [&str; 5] = ["nobody", "somebody with a wrong secret", "a student", "the projector", "the teacher"];

/// A route, a request to it, and the status for each caller.
struct Line {
    method: &'static str,
    route: &'static str,
    path: &'static str,
    body: String,
    statuses: [u16; 5],
}

fn table(relay: &Running) -> Vec<Line> {
    let page = if relay.has_page() { 200 } else { 503 };
    let pin = json!({ "pin": relay.pin() }).to_string();
    let lines = [
        ("GET", "/healthz", "/healthz", "", [200; 5]),
        ("GET", "/api/session", "/api/session", "", [200; 5]),
        ("POST", "/api/session", "/api/session", pin.as_str(), [200; 5]),
        ("GET", "/api/room", "/api/room", "", [200; 5]),
        ("GET", "/ws", "/ws", "", [401, 401, 101, 101, 101]),
        ("GET", "/api/events", "/api/events", "", [401, 401, 403, 200, 200]),
        (
            "GET",
            "/api/reconstruction/{attack}/{picture}",
            "/api/reconstruction/embedding/1-1.png",
            "",
            [401, 401, 403, 404, 404],
        ),
        ("GET", "/api/candidate/{picture}", "/api/candidate/1.png", "", [401, 401, 403, 404, 404]),
        ("GET", "/api/original/{picture}", "/api/original/1.png", "", [401, 401, 403, 404, 404]),
        ("POST", "/api/control", "/api/control", r#"{"do":"pause"}"#, [401, 401, 403, 403, 204]),
        ("POST", "/api/candidate", "/api/candidate", "no picture", [401, 401, 403, 403, 400]),
        ("POST", "/api/erase", "/api/erase", "", [401, 401, 403, 403, 400]),
        ("GET", "/api/network", "/api/network", "", [401, 401, 403, 403, 200]),
        ("GET", "/api/session.zip", "/api/session.zip", "", [401, 401, 403, 403, 200]),
        ("GET", "/api/lesson.unmask", "/api/lesson.unmask", "", [401, 401, 403, 403, 200]),
        ("GET", "/", "/", "", [page; 5]),
        ("GET", "/{*file}", "/no/such/file.js", "", [404; 5]),
    ];
    lines
        .map(|(method, route, path, body, statuses)| Line { method, route, path, body: body.to_owned(), statuses })
        .into()
}

/// Tests every combination of route, role, Host and Origin. A new route needs a line above.
#[tokio::test]
async fn every_route_for_every_caller() {
    let relay = Relay::start().await;
    let running = &relay.running;
    let table = table(running);
    let lines: BTreeSet<_> = table.iter().map(|line| (line.method, line.route)).collect();
    let known: BTreeSet<_> = routes().iter().map(|route| (route.method, route.path)).collect();
    assert_eq!(lines, known, "the table and the router have not the same routes");
    assert_eq!(table.len(), known.len());

    let wrong = "0".repeat(32);
    let secrets = [
        None,
        Some(wrong.as_str()),
        Some(&running.room_key()),
        Some(running.projector_secret()),
        Some(running.token()),
    ];
    let own = host(running);
    let foreign = format!("evil.test:{}", running.http().port());
    let origins = [None, Some(format!("http://{own}")), Some(format!("http://{foreign}"))];
    for line in &table {
        for (caller, secret) in secrets.into_iter().enumerate() {
            for is_cookie in [false, true].into_iter().take(if secret.is_some() { 2 } else { 1 }) {
                for (host, origin) in
                    [&own, &foreign].into_iter().flat_map(|host| origins.iter().map(move |o| (host, o)))
                {
                    let mut headers = vec![("host", host.clone())];
                    headers.extend(origin.iter().map(|origin| ("origin", origin.clone())));
                    headers.extend(secret.map(|secret| match is_cookie {
                        true => ("cookie", format!("unmask-{}={secret}", running.http().port())),
                        false => ("authorization", format!("Bearer {secret}")),
                    }));
                    let is_foreign = origin.as_ref().is_some_and(|origin| origin.contains("evil"));
                    let wanted = if *host == foreign {
                        421
                    } else if is_foreign || (is_cookie && line.method == "POST" && origin.is_none()) {
                        403
                    } else {
                        line.statuses[caller]
                    };
                    let head = ask(running, running.http(), line.method, line.path, &headers, &line.body).await;
                    let who = CALLERS[caller];
                    assert!(
                        head.starts_with(&format!("http/1.1 {wanted}")),
                        "{} {} by {who} with {headers:?}: {wanted} expected, not {head}",
                        line.method,
                        line.path
                    );
                }
            }
        }
    }
}

/// Sends one request from an address of this machine. Returns the response's head in lower case without waiting for the
/// body.
async fn ask(
    running: &Running,
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: &str,
) -> String {
    ask_on(TcpStream::connect(to).await.unwrap(), running, method, path, headers, body).await
}

async fn ask_on(
    mut stream: TcpStream,
    running: &Running,
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: &str,
) -> String {
    let mut request = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        request += &format!("host: {}\r\n", host(running));
    }
    if path.starts_with("/ws") {
        request += "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
        request += "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(std::time::Duration::from_secs(20), stream.read_u8()).await;
        head.push(byte.expect("an answer in time").expect("a whole head"));
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

/// Students and callers without a role learn only that the room exists.
#[tokio::test]
async fn room_is_for_projector_and_teacher() {
    let relay = Relay::start().await;
    let _ada = relay.client("Ada").await;
    let running = &relay.running;
    for (secret, is_whole) in
        [("", false), (&running.room_key(), false), (running.projector_secret(), true), (running.token(), true)]
    {
        let bearer = format!("Bearer {secret}");
        let (status, _, body) = http(running, "GET", "/api/room", &[("authorization", &bearer)], "").await;
        assert_eq!((status, body.contains("Ada")), (200, is_whole));
        assert_eq!(body == r#"{"room":true}"#, !is_whole);
    }
}

/// Secrets are not accepted in a URL, which logs and histories keep.
#[tokio::test]
async fn secrets_in_a_query_open_nothing() {
    let relay = Relay::start().await;
    let running = &relay.running;
    let token = running.token();
    for name in ["room", "view", "token", "secret", "access_token"] {
        for secret in [&running.room_key(), token] {
            let (_, _, body) = http(running, "GET", &format!("/api/room?{name}={secret}"), &[], "").await;
            assert_eq!(body, r#"{"room":true}"#);
            for path in ["/api/events", "/ws", &format!("/api/reconstruction/{secret}/1.png")] {
                let head = ask(running, running.http(), "GET", &format!("{path}?{name}={secret}"), &[], "").await;
                assert!(head.starts_with("http/1.1 401"), "{path}: {head}");
            }
        }
        let path = format!("/api/control?{name}={token}");
        let (status, ..) = http(running, "POST", &path, &[], r#"{"do":"start"}"#).await;
        assert_eq!(status, 401);
    }
}

/// Unauthorised callers are refused before the body arrives.
#[tokio::test]
async fn strangers_are_refused_before_their_body_is_read() {
    let relay = Relay::start().await;
    for path in ["/api/control", "/api/candidate"] {
        let mut stream = TcpStream::connect(relay.running.http()).await.unwrap();
        let request = format!("POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 1000\r\n\r\n", host(&relay.running));
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        let read = tokio::time::timeout(std::time::Duration::from_secs(20), stream.read_exact(&mut start)).await;
        read.expect("an answer in time").unwrap();
        assert_eq!(&start, b"HTTP/1.1 401");
    }
}

/// A socket opens for every role from the relay's own origin, and for no page of another site.
#[tokio::test]
async fn sockets_need_a_role_and_no_foreign_page() {
    let relay = Relay::start().await;
    let running = &relay.running;
    let address = format!("ws://{}/ws", host(running));
    let open = async |secret: &str, origin: Option<String>| {
        let mut request = upgrade_to(&address, secret);
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        match connect_async(request).await {
            Ok(_) => 101,
            Err(Error::Http(answer)) => answer.status().as_u16(),
            Err(error) => panic!("{error}"),
        }
    };
    let own = host(running);
    let https = running.https().port();
    for secret in [&running.room_key(), running.projector_secret(), running.token()] {
        assert_eq!(open(secret, None).await, 101);
        for own in [format!("http://{own}"), format!("https://{own}")] {
            assert_eq!(open(secret, Some(own)).await, 101);
        }
        // A different port may be a different program.
        for foreign in ["null".to_owned(), "https://evil.test".to_owned(), format!("https://localhost:{https}")] {
            assert_eq!(open(secret, Some(foreign)).await, 403);
        }
    }
    assert_eq!(open("", None).await, 401);
}

/// The relay answers to this machine's names. For others, the refusal names the remedy.
#[tokio::test]
async fn own_names_are_answered_and_foreign_ones_told_of_host() {
    let relay = Relay::with(|config| config.host = Some("classroom.test".to_owned())).await;
    let port = relay.running.http().port();
    let get = async |host: String| http(&relay.running, "GET", "/healthz", &[("host", &host)], "").await;
    for own in ["localhost", "127.0.0.1", "[::1]", "classroom.test", "Classroom.TEST"] {
        // Any port is accepted, since a container may map it.
        for port in [port, 9] {
            assert_eq!(get(format!("{own}:{port}")).await.0, 200, "{own}:{port}");
        }
    }
    let (status, _, sentence) = get(format!("evil.test:{port}")).await;
    assert!(status == 421 && sentence.contains("--host") && sentence.contains("evil.test"), "{sentence}");
    assert_eq!(get(String::new()).await.0, 421);
}

async fn session(relay: &Relay, body: &Value) -> (u16, String, String) {
    http(&relay.running, "POST", "/api/session", &[], &body.to_string()).await
}

fn cookie<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.strip_prefix(name)?.strip_prefix('='))
}

/// A secret or the PIN is exchanged for a cookie that scripts cannot read and other sites cannot use.
#[tokio::test]
async fn sessions_begin_with_a_secret_or_the_pin() {
    let relay = Relay::start().await;
    let running = &relay.running;
    let name = format!("unmask-{}", running.http().port());
    let address = format!("https://localhost:{}/", running.https().port());
    let (_, _, body) = http(running, "GET", "/api/session", &[], "").await;
    assert_eq!(serde_json::from_str::<SessionView>(&body).unwrap(), SessionView::default());
    assert!(relay.room().await.data.is_some_and(|data| data.photograph_classes().is_empty()), "drawn shapes");
    for (request, role, secret) in [
        (json!({ "secret": running.room_key() }), Role::Student, running.room_key().as_str()),
        (json!({ "secret": running.projector_secret() }), Role::Projector, running.projector_secret()),
        (json!({ "secret": running.token() }), Role::Teacher, running.token()),
        (json!({ "pin": running.pin() }), Role::Student, running.room_key().as_str()),
    ] {
        let wanted = SessionView { role: Some(role), https_address: Some(address.clone()), ..SessionView::default() };
        let (status, head, body) = session(&relay, &request).await;
        assert_eq!((status, serde_json::from_str(&body).ok()), (200, Some(wanted.clone())));
        assert_eq!(
            cookie(&head, &name),
            Some(format!("{secret}; httponly; samesite=strict; path=/").as_str()),
            "{head}"
        );
        assert!(cookie(&head, &format!("{name}-device")).is_some(), "{head}");
        let cookies = format!("{name}={secret}; {name}-device=00ff");
        let (_, _, body) = http(running, "GET", "/api/session", &[("cookie", &cookies)], "").await;
        assert_eq!(serde_json::from_str::<SessionView>(&body).unwrap(), wanted);
        let headers = [("cookie", cookies.as_str()), ("origin", &format!("http://{}", host(running)))];
        let (_, head, _) = http(running, "POST", "/api/session", &headers, &request.to_string()).await;
        assert!(cookie(&head, &format!("{name}-device")).is_none(), "a browser keeps its number: {head}");
    }
    for (request, status, part) in [
        (json!({ "secret": "0".repeat(32) }), 401, "QR code"),
        (json!({ "secret": running.pin() }), 401, "QR code"),
        (json!({}), 400, "neither"),
        (json!({ "pin": 123_456 }), 400, "cannot be read"),
    ] {
        let (answer, head, sentence) = session(&relay, &request).await;
        assert!(answer == status && sentence.contains(part), "{request}: {sentence}");
        assert!(!head.contains("set-cookie"), "{head}");
    }
    let (status, ..) = session(&relay, &json!({ "secret": "0".repeat(5000) })).await;
    assert_eq!(status, 413);
}

/// The session tells a student the labels for pictures. Without a session, they are not shown.
#[tokio::test]
async fn session_names_the_classes_of_photographs() {
    let relay = Relay::with(crate::support::colours::share).await;
    let (_, _, body) = http(&relay.running, "GET", "/api/session", &[], "").await;
    assert!(serde_json::from_str::<SessionView>(&body).unwrap().classes.is_empty());
    let (_, _, body) = session(&relay, &json!({ "secret": relay.running.room_key() })).await;
    let classes = serde_json::from_str::<SessionView>(&body).unwrap().classes;
    assert_eq!(classes, crate::support::colours::COLOURS);
}

/// Who is in the room can come back. Others, and those whom the teacher removed, need the new QR code or PIN.
#[tokio::test]
async fn a_new_key_keeps_out_who_has_the_old_one() {
    let with_journal = |config: &mut RelayConfig| config.room.journal = Some(JournalConfig::default());
    let relay = Relay::with(with_journal).await;
    let (ada, eve) = (relay.client("Ada").await, relay.client("Eve").await);
    let (old, pin, before) = (relay.running.room_key(), relay.running.pin(), relay.room().await);
    relay.control(Control::NewKey).await;
    let room = relay.room_when("another code", |room| room.qr_svg != before.qr_svg && room.pin != pin).await;
    assert_eq!((room.pin.clone(), old == relay.running.room_key()), (relay.running.pin(), false));
    relay.control(Control::Remove { client: eve.id }).await;

    let (ticket, eve_s_ticket) = (ada.ticket, eve.ticket);
    drop((ada, eve));
    let relay = Relay::within(relay.stop().await, with_journal).await;
    for (request, status) in [
        (json!({ "secret": old }), 401),
        (json!({ "pin": pin }), 401),
        (json!({ "secret": relay.running.room_key() }), 200),
        (json!({ "pin": room.pin }), 200),
    ] {
        assert_eq!(session(&relay, &request).await.0, status, "{request}");
    }
    let connect = async || {
        let request = upgrade_to(&format!("ws://{}/ws", relay.running.http()), &old);
        Socket::on(connect_async(request).await.unwrap().0)
    };
    let mut socket = connect().await;
    socket.hello("Eve", Some(eve_s_ticket)).await;
    assert!(socket.goodbye().await.contains("scan the QR code on the projector again"));
    let mut socket = connect().await;
    socket.hello("Ada", Some(ticket)).await;
    assert_eq!(Client::welcomed(socket).await.nickname, "Ada");
}

fn wrong(pin: &str) -> Value {
    json!({ "pin": format!("{:06}", (pin.parse::<u32>().unwrap() + 1) % 1_000_000) })
}

#[tokio::test]
async fn wrong_pins_run_out_and_a_right_one_is_taken_until_then() {
    let relay = Relay::start().await;
    let pin = relay.running.pin();
    // Five of this address, then five that all addresses share. The right one costs nothing.
    for number in 0..10 {
        let (status, _, sentence) = session(&relay, &wrong(&pin)).await;
        assert!(status == 401 && sentence.contains("six digits"), "{sentence}");
        assert!(number == 9 || session(&relay, &json!({ "pin": pin })).await.0 == 200, "after {number}");
    }
    for request in [wrong(&pin), json!({ "pin": pin })] {
        let (status, head, sentence) = session(&relay, &request).await;
        assert!(status == 429 && sentence.contains("Try again in"), "{sentence}");
        let wait = head.lines().find_map(|line| line.strip_prefix("retry-after: ")?.parse::<u32>().ok());
        assert!(wait.is_some_and(|wait| (1..=61).contains(&wait)), "{head}");
    }
    // The QR code still works without waiting.
    assert_eq!(session(&relay, &json!({ "secret": relay.running.room_key() })).await.0, 200);
    assert_eq!(relay.room().await.pin, pin);
}

/// After 50 wrong attempts from any number of addresses, the PIN changes and all attempts are blocked for a while. Only
/// Linux accepts every address of the loopback network.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn many_addresses_do_not_find_the_pin() {
    let with_journal = |config: &mut RelayConfig| config.room.journal = Some(JournalConfig::default());
    let relay = Relay::with(with_journal).await;
    let running = &relay.running;
    let pin = running.pin();
    let from = async |number: u8, request: &Value| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 7, number], 0))).unwrap();
        let stream = socket.connect(running.http()).await.unwrap();
        ask_on(stream, running, "POST", "/api/session", &[], &request.to_string()).await
    };
    for number in 1..=50 {
        assert!(from(number, &wrong(&pin)).await.starts_with("http/1.1 401"));
    }
    let room = relay.room_when("another PIN", |room| room.pin != pin).await;
    assert_eq!(room.pin, running.pin());
    relay.log_line("Too many wrong PINs").await;
    for request in [json!({ "pin": pin }), json!({ "pin": room.pin })] {
        assert!(from(60, &request).await.starts_with("http/1.1 429"));
    }
    // The QR code admits even then.
    assert!(from(60, &json!({ "secret": running.room_key() })).await.starts_with("http/1.1 200"));
    // A restart does not restore the first PIN.
    let again = Relay::within(relay.stop().await, with_journal).await;
    assert_eq!(again.running.pin(), room.pin);
}
