//! Joining a room and staying in it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio_tungstenite::{Connector, connect_async_tls_with_config};
use tracing::{info, warn};
use unmask_model::device::OpenDevice;

use super::{
    Passphrase, Sample,
    address::socket_address,
    session::{Session, SessionEnd},
};
use crate::{Client, PrivatePicture};

const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Who joins which room with what.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// Address of the room, as the relay prints it.
    pub address: String,
    /// Nickname to ask for.
    pub name: String,
    /// Pictures to train on: a batch of them each round under FedSGD, all of them under FedAvg; never sent.
    pub samples: Vec<Sample>,
    /// Passphrase of an encrypted room; never sent.
    pub passphrase: Option<Passphrase>,
    pub device: OpenDevice,
    /// Accept any certificate over HTTPS, as a browser does after its warning.
    pub accept_any_certificate: bool,
}

/// Joins the room and trains round after round, coming back after every dropped socket, until the relay says goodbye.
///
/// # Errors
/// If there are no pictures, the address is no room's or nobody answers there at the first try, or the relay dismisses this client.
pub async fn join(options: JoinOptions) -> anyhow::Result<()> {
    let socket = socket_address(&options.address)?;
    let connector = options.accept_any_certificate.then(any_certificate).transpose()?;
    if options.samples.is_empty() {
        bail!("a client needs at least one picture to train on");
    }
    let pictures =
        options.samples.into_iter().map(|sample| PrivatePicture::new(sample.picture, sample.label)).collect();
    let mut client = Client::new(&options.name, &options.device.description()).with_pictures(pictures);
    client.set_passphrase(options.passphrase.map(Passphrase::into_inner));
    let mut session = Session::new(client, options.device.device().clone());
    let mut first = true;
    let mut wait = Duration::from_secs(1);
    loop {
        match connect_async_tls_with_config(&socket, None, true, connector.clone()).await {
            Ok((stream, _)) => {
                first = false;
                wait = Duration::from_secs(1);
                match session.run(stream).await? {
                    SessionEnd::Dismissed(reason) => bail!("the relay closed the connection: {reason}"),
                    SessionEnd::Dropped => info!("the connection dropped"),
                }
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
        info!("trying again in {} s", wait.as_secs());
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
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

/// Trusts whoever answers, but still checks that they hold the certificate's key.
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
