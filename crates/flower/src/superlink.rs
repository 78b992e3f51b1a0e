//! Signed calls to a SuperLink: protobuf over HTTP, with limits on time and size.

use std::{fmt, path::Path, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use jiff::Timestamp;
use prost::Message;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};
use unmask_core::Backoff;

use crate::{
    FlowerError, NodeKey,
    error::{ACTIVATION_FAILED, KEY_IN_USE, REGISTRATION_DISABLED, RUN_ENDED},
    objects::CHUNK,
};

const PROTOBUF: &str = "application/protobuf";
/// Maximum bytes of an answer, which is a piece of an array with a head, or messages with trees of ids.
const MOST_ANSWER: usize = 2 * CHUNK;
/// Maximum bytes of an error that are read.
const MOST_ERROR: usize = 4096;
const CONNECT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept. The SuperLink closes it after five seconds.
const IDLE: Duration = Duration::from_secs(3);
/// Time limit of a call without an array.
const CALL: Duration = Duration::from_secs(30);
/// Time limit to send or receive a piece of an array: 5 MiB at 50 kB/s.
const OBJECT: Duration = Duration::from_secs(105);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    path: &'static str,
    time: Duration,
}

impl Call {
    pub(crate) const REGISTER: Self = Self::short("register-node");
    pub(crate) const ACTIVATE: Self = Self::short("activate-node");
    pub(crate) const HEARTBEAT: Self = Self { path: "send-node-heartbeat", time: Duration::from_secs(10) };
    pub(crate) const PULL_MESSAGES: Self = Self::short("pull-messages");
    pub(crate) const PULL_OBJECT: Self = Self { path: "pull-object", time: OBJECT };
    pub(crate) const CONFIRM: Self = Self::short("confirm-message-received");
    pub(crate) const PUSH_MESSAGES: Self = Self::short("push-messages");
    pub(crate) const PUSH_OBJECT: Self = Self { path: "push-object", time: OBJECT };
    pub(crate) const DEACTIVATE: Self = Self { path: "deactivate-node", time: Duration::from_secs(5) };
    pub(crate) const UNREGISTER: Self = Self { path: "unregister-node", time: Duration::from_secs(5) };

    const fn short(path: &'static str) -> Self {
        Self { path, time: CALL }
    }
}

/// A SuperLink's address: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuperLinkAddress(String);

impl SuperLinkAddress {
    fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }
}

impl fmt::Display for SuperLinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SuperLinkAddress {
    type Err = FlowerError;

    fn from_str(text: &str) -> Result<Self, FlowerError> {
        let no = |reason: &str| FlowerError::Address { address: text.to_owned(), reason: reason.to_owned() };
        let uri: Uri = text.parse().map_err(|error: hyper::http::uri::InvalidUri| no(&error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(no("it begins with neither http:// nor https://"));
        }
        let authority = uri.authority().ok_or_else(|| no("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(no("it has a user name; a node is identified by its key"));
        }
        if uri.path_and_query().is_some_and(|rest| !matches!(rest.as_str(), "/" | "")) {
            return Err(no("it has a path after the port"));
        }
        Ok(Self(format!("{}://{authority}", uri.scheme_str().unwrap_or_default())))
    }
}

/// A client of a SuperLink, with the key that identifies this node.
pub(crate) struct SuperLink {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    address: SuperLinkAddress,
    key: NodeKey,
}

impl fmt::Debug for SuperLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuperLink").field("address", &self.address).finish_non_exhaustive()
    }
}

impl SuperLink {
    /// Prepares the client without connecting. Over https, the SuperLink's certificate must be signed by one of
    /// `certificates` (PEM), or by one that browsers trust if that file is absent.
    ///
    /// # Errors
    /// Fails if the certificates cannot be read.
    pub(crate) fn new(
        address: SuperLinkAddress,
        key: NodeKey,
        certificates: Option<&Path>,
    ) -> Result<Self, FlowerError> {
        let no = |error: &dyn fmt::Display| FlowerError::Certificates(error.to_string());
        let mut roots = RootCertStore::empty();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| no(&error))?;
        let config = match certificates {
            Some(file) if !address.is_https() => {
                let file = file.display();
                return Err(no(&format!("{file} is for an address that begins with https://, and {address} does not")));
            }
            Some(file) => {
                let about = |error: &dyn fmt::Display| no(&format!("{}: {error}", file.display()));
                for certificate in CertificateDer::pem_file_iter(file).map_err(|error| about(&error))? {
                    roots.add(certificate.map_err(|error| about(&error))?).map_err(|error| about(&error))?;
                }
                if roots.is_empty() {
                    return Err(about(&"it holds no certificate; name the PEM file of the SuperLink's issuer"));
                }
                config.with_root_certificates(roots).with_no_client_auth()
            }
            None => {
                use hyper_rustls::ConfigBuilderExt;
                config.with_webpki_roots().with_no_client_auth()
            }
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector);
        Ok(Self { client, address, key })
    }

    pub(crate) fn address(&self) -> &SuperLinkAddress {
        &self.address
    }

    pub(crate) async fn call<A: Message + Default>(
        &self,
        call: Call,
        request: &impl Message,
    ) -> Result<A, FlowerError> {
        let unreachable =
            |reason: String| FlowerError::Unreachable { call: call.path, address: self.address.to_string(), reason };
        let answer = |reason: String| FlowerError::Answer { call: call.path, reason };
        let mut builder = Request::post(format!("{}/v1/fleet/{}", self.address, call.path))
            .header(CONTENT_TYPE, PROTOBUF)
            .header(ACCEPT, PROTOBUF);
        let headers =
            self.key.headers(Timestamp::now()).ok_or_else(|| answer("no signature could be made".to_owned()))?;
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        let body = Full::new(request.encode_to_vec().into());
        let request = builder.body(body).map_err(|error| answer(error.to_string()))?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| unreachable(causes(&error)))?;
            let (status, most) = match response.status() {
                StatusCode::OK => (StatusCode::OK, MOST_ANSWER),
                status => (status, MOST_ERROR),
            };
            let body = match Limited::new(response.into_body(), most).collect().await {
                Ok(body) => body.to_bytes(),
                Err(_) if status != StatusCode::OK => Bytes::new(),
                Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                    return Err(answer(format!("it has more than {most} bytes")));
                }
                Err(error) => return Err(unreachable(error.to_string())),
            };
            Ok((status, body))
        };
        let exchange = timeout(call.time, exchange).await;
        let (status, body) = exchange.map_err(|_| unreachable(format!("none within {} s", call.time.as_secs())))??;
        if status != StatusCode::OK {
            return Err(self.refused(call, status, &body));
        }
        A::decode(body).map_err(|error| answer(error.to_string()))
    }

    /// Retries transient failures with growing waits, until `end`.
    pub(crate) async fn call_until<A: Message + Default>(
        &self,
        call: Call,
        request: &impl Message,
        end: Instant,
    ) -> Result<A, FlowerError> {
        let mut backoff = Backoff::default();
        loop {
            match self.call(call, request).await {
                Err(error) if error.is_transient() => {
                    let wait = backoff.wait(draw());
                    if Instant::now() + wait >= end {
                        return Err(error);
                    }
                    tracing::debug!("{error}; again in {:.1} s", wait.as_secs_f64());
                    sleep(wait).await;
                }
                done => return done,
            }
        }
    }

    fn refused(&self, call: Call, status: StatusCode, body: &[u8]) -> FlowerError {
        /// An error body of Flower or of the framework it is built on.
        #[derive(Default, Deserialize)]
        struct Said {
            code: Option<i64>,
            detail: Option<String>,
        }
        let said: Said = serde_json::from_slice(body).unwrap_or_default();
        let words: String = said.detail.unwrap_or_default().chars().filter(|c| !c.is_control()).take(200).collect();
        let detail = if words.is_empty() { String::new() } else { format!(": {}", words.trim_end_matches('.')) };
        FlowerError::Refused {
            call: call.path,
            address: self.address.to_string(),
            status: status.as_u16(),
            code: said.code,
            detail,
            remedy: remedy(status, said.code),
        }
    }
}

fn remedy(status: StatusCode, code: Option<i64>) -> &'static str {
    match (status.as_u16(), code) {
        (_, Some(ACTIVATION_FAILED | REGISTRATION_DISABLED)) => {
            "it takes only nodes with a registered key: register the public half with `flwr supernode register` and \
             name the private half; it takes a node that was killed again after a minute"
        }
        (_, Some(KEY_IN_USE)) => "another node has this key; give this node its own",
        (_, Some(RUN_ENDED)) => "the run is over; the next one starts automatically",
        (401, _) => "it does not know this node's key, or the clocks of both machines are more than five minutes apart",
        (404 | 405, _) => "it is not a SuperLink, or not of flwr 1.41",
        (413, _) => "a proxy in front of it limits the size of a request; allow 6 MB",
        (408 | 425 | 429 | 502..=504, _) => "try again later",
        (500..=599, _) => "its log says why",
        _ => "it may not be of flwr 1.41",
    }
}

/// Returns an error and its causes in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line = format!("{line}: {cause}");
        next = cause.source();
    }
    line
}

/// Returns a random number in [0, 1) that spreads the calls of many nodes over time, or 0.5 if the operating system
/// provides none.
pub fn draw() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_scheme_host_and_port() {
        let told = |text: &str| text.parse::<SuperLinkAddress>().map(|address| address.to_string());
        assert_eq!(told("http://127.0.0.1:18000/").unwrap(), "http://127.0.0.1:18000");
        assert_eq!(told("https://flower.school").unwrap(), "https://flower.school");
        for (text, reason) in [
            ("127.0.0.1:18000", "neither http:// nor https://"),
            ("http://a:1/v1", "a path"),
            ("http://me@a:1", "a user name"),
            ("grpc://a:1", "neither"),
            ("", "write one such as http://"),
        ] {
            let error = told(text).unwrap_err();
            assert!(error.is_final() && error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn a_refusal_names_call_status_words_and_remedy() {
        let link = SuperLink::new("http://h:1".parse().unwrap(), NodeKey::generate().unwrap(), None).unwrap();
        let body = br#"{"code": 2004, "detail": "Failed to activate SuperNode."}"#;
        let error = link.refused(Call::ACTIVATE, StatusCode::PRECONDITION_FAILED, body);
        assert!(error.is_final() && !error.is_transient());
        let text = error.to_string();
        assert!(
            text.starts_with(
                "activate-node: the SuperLink at http://h:1 answered 412: Failed to activate SuperNode; it takes"
            ),
            "{text}"
        );
        let error = link.refused(Call::PULL_MESSAGES, StatusCode::BAD_GATEWAY, b"<html>");
        assert!(
            error.is_transient() && !error.is_final() && error.to_string().ends_with("502; try again later"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn who_does_not_answer_is_named() {
        // The port was just freed, so nothing listens on it.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("http://127.0.0.1:{port}").parse().unwrap();
        let link = SuperLink::new(address, NodeKey::generate().unwrap(), None).unwrap();
        let request = crate::protocol::NodeIdRequest { node_id: 1 };
        let error = link.call::<crate::protocol::Empty>(Call::DEACTIVATE, &request).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("deactivate-node: no answer from the SuperLink at http://127.0.0.1:{port}"))
        );
    }
}
