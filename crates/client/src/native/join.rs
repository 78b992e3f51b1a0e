//! Joins a room and stays in it.

use std::{io, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::{
    Connector, connect_async_tls_with_config,
    tungstenite::{
        Error,
        client::IntoClientRequest,
        handshake::client::Request,
        http::{HeaderValue, StatusCode, header::AUTHORIZATION},
    },
};
use tracing::{info, warn};
use unmask_core::Backoff;
use unmask_model::device::OpenDevice;

use super::{
    Passphrase, Sample,
    address::RoomAddress,
    random::{fresh, fresh_share},
    session::{Session, SessionEnd},
    session_secret::{classes, exchange},
};
use crate::{Caution, Client, Robot};

/// Longest wait for an answer from an address that may no longer exist.
const CONNECT: Duration = Duration::from_secs(10);

/// The room to join, and what to bring.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// Address of the room, as the relay prints it; the secret of a link with `#room=SECRET` is used.
    pub address: String,
    /// The PIN that the projector shows, for an address without a secret.
    pub pin: Option<String>,
    pub name: String,
    /// Pictures to train on: a batch each round under FedSGD, all of them under FedAvg; never sent.
    pub samples: Vec<Sample>,
    /// Whether the class may see what leaks of them and attack their masked updates; the room attacks no client that does
    /// not agree.
    pub may_show: bool,
    /// Whether the class sees the last training picture at 32 x 32 pixels; refused without `may_show`.
    pub shows: bool,
    /// Seed of the answers to the class's questions; without it, the client gives none.
    pub answer_seed: Option<u64>,
    /// Passphrase of an encrypted room; never sent.
    pub passphrase: Option<Passphrase>,
    pub device: OpenDevice,
    /// What to do about plans that look doctored. The log says what was found.
    pub caution: Caution,
    /// Accept any certificate over HTTPS, as a browser does after its warning.
    pub accept_any_certificate: bool,
}

/// Joins the room, trains round after round and reconnects after every dropped socket, until the relay says goodbye.
///
/// # Errors
/// There are no pictures, the address is no room's, nobody answers the first attempt, the secret or PIN is wrong, or
/// the relay dismisses this client.
pub async fn join(options: JoinOptions) -> anyhow::Result<()> {
    let RoomAddress { socket, session, secret } = RoomAddress::parse(&options.address)?;
    let connector = options.accept_any_certificate.then(any_certificate).transpose()?;
    if options.samples.is_empty() {
        bail!("a client needs at least one picture to train on");
    }
    let secret = match (secret, options.pin) {
        (None, Some(pin)) => {
            let any = options.accept_any_certificate;
            let session = session.clone();
            Some(tokio::task::spawn_blocking(move || exchange(&session, &pin, any)).await??)
        }
        (secret, _) => secret,
    };
    let (asked, any) = (secret.clone(), options.accept_any_certificate);
    let classes = tokio::task::spawn_blocking(move || classes(&session, asked.as_deref(), any)).await?;
    let pictures = options.samples.into_iter().map(|sample| sample.labelled(&classes)).collect();
    let request = request(&socket, secret.as_deref())?;
    let mut client = Client::new(&options.name, &options.device.description())
        .with_pictures(pictures)
        .with_consent(options.may_show, options.may_show)
        .as_robot(options.answer_seed.is_some());
    client.set_caution(options.caution);
    client.set_passphrase(options.passphrase.map(Passphrase::into_inner));
    let robot = Robot::new(client, options.shows, options.answer_seed, fresh);
    let mut session = Session::new(robot, options.device.device().clone());
    let mut first = true;
    let mut backoff = Backoff::default();
    loop {
        let connecting = connect_async_tls_with_config(request.clone(), None, true, connector.clone());
        let connected = timeout(CONNECT, connecting).await;
        match connected.unwrap_or_else(|_| Err(Error::Io(io::ErrorKind::TimedOut.into()))) {
            Ok((stream, _)) => {
                first = false;
                backoff = Backoff::default();
                match session.run(stream).await? {
                    SessionEnd::Dismissed(reason) => bail!("the relay closed the connection: {reason}"),
                    SessionEnd::Dropped => info!("the connection dropped"),
                }
            }
            Err(Error::Http(answer)) if first || is_final(answer.status()) => {
                let sentence = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                let remedy = match answer.status().as_u16() {
                    401 | 403 => {
                        "give the whole link that the relay prints, with #room=, or the projector's PIN with --pin"
                    }
                    421 => "start the relay with --host and the name in this address",
                    429 => "wait, and try again",
                    _ => "is an unmask relay running there?",
                };
                bail!("{socket} answers with status {}: {sentence} Remedy: {remedy}", answer.status().as_u16());
            }
            Err(error) if first => {
                let remedy = if socket.starts_with("wss") && connector.is_none() {
                    "; a relay's own certificate is accepted with --insecure"
                } else {
                    "; is the relay running there?"
                };
                return Err(error).with_context(|| format!("no room answers at {socket}{remedy}"));
            }
            Err(error) => warn!("{socket} does not answer ({error})"),
        }
        let wait = backoff.wait(fresh_share()?);
        info!("trying again in {:.1} s", wait.as_secs_f64());
        sleep(wait).await;
    }
}

fn request(socket: &str, secret: Option<&str>) -> anyhow::Result<Request> {
    let mut request = socket.into_client_request().with_context(|| format!("{socket} is no address of a socket"))?;
    if let Some(secret) = secret {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {secret}"))
            .context("the secret in the address has characters that no relay puts there; copy the link again")?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    Ok(request)
}

/// Whether a retry is useless, unlike with a relay that has too many connections.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS
}

fn any_certificate() -> anyhow::Result<Connector> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("TLS has no usable protocol version")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(Connector::Rustls(Arc::new(config)))
}

/// Accepts any server, but still checks that it holds its certificate's key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
