//! The key by which a SuperLink knows a node: ECDSA on P-384.

use std::{fmt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{Timestamp, tz::TimeZone};
use p384::{
    SecretKey,
    ecdsa::{DerSignature, Signature, SigningKey, signature::hazmat::PrehashSigner},
    pkcs8::{DecodePrivateKey, EncodePublicKey, LineEnding},
};
use sha2::{Digest, Sha256};
use ssh_key::private::{EcdsaKeypair, KeypairData};
use zeroize::Zeroizing;

use crate::KeyError;

/// Bytes of a scalar of P-384.
const SCALAR: usize = 48;
/// Most bytes of a key's file.
const MOST_FILE: u64 = 1 << 16;

/// A node's private key.
#[derive(Clone)]
pub struct NodeKey {
    key: SigningKey,
    /// PEM, as the SuperLink stores it.
    public: String,
    /// Whether it is of this start alone.
    is_passing: bool,
}

impl NodeKey {
    /// A fresh key, for a SuperLink with which nodes register themselves.
    ///
    /// # Errors
    /// If the operating system gives no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let mut scalar = Zeroizing::new([0; SCALAR]);
        loop {
            getrandom::fill(&mut *scalar).map_err(|error| KeyError::Random(error.to_string()))?;
            // All but one in 2^190 are a key.
            if let Some(key) = SecretKey::from_slice(&*scalar).ok().and_then(|secret| Self::new(&secret)) {
                return Ok(Self { is_passing: true, ..key });
            }
        }
    }

    /// Reads a private key without a passphrase: OpenSSH's format, PKCS#8 or SEC1, the last two as PEM.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no such key on P-384.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let name = || path.display().to_string();
        let io = |source| KeyError::Io { path: name(), source };
        let file = std::fs::File::open(path).map_err(io)?;
        let mut text = Zeroizing::new(String::new());
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MOST_FILE), &mut text).map_err(io)?;
        Self::parse(&text).map_err(|reason| KeyError::Format { path: name(), reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let secret = if text.contains("BEGIN OPENSSH PRIVATE KEY") {
            openssh(text)?
        } else if text.contains("BEGIN EC PRIVATE KEY") {
            SecretKey::from_sec1_pem(text).map_err(|error| format!("it is no SEC1 key on P-384: {error}"))?
        } else if text.contains("PUBLIC KEY") || text.starts_with("ecdsa-sha2-") {
            return Err("it is the public half; name the private one".to_owned());
        } else {
            SecretKey::from_pkcs8_pem(text).map_err(|error| format!("it is no private key on P-384: {error}"))?
        };
        Self::new(&secret).ok_or_else(|| "its public half cannot be written".to_owned())
    }

    fn new(secret: &SecretKey) -> Option<Self> {
        let public = secret.public_key().to_public_key_pem(LineEnding::LF).ok()?;
        Some(Self { key: secret.into(), public, is_passing: false })
    }

    /// The public half as PEM, as the SuperLink stores it.
    pub fn public_pem(&self) -> &str {
        &self.public
    }

    /// Whether nobody comes with it again: it was made here, and stands in no file.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// The headers of a call at this time, by name: key, time and the signature of the time.
    pub(crate) fn headers(&self, now: Timestamp) -> Option<[(&'static str, String); 3]> {
        let time = now.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string();
        let signature: Signature = self.key.sign_prehash(&Sha256::digest(time.as_bytes())).ok()?;
        let signature = DerSignature::from(signature);
        Some([
            ("flwr-public-key", STANDARD.encode(&self.public)),
            ("flwr-signature", STANDARD.encode(signature.as_bytes())),
            ("flwr-timestamp", time),
        ])
    }
}

/// Shows the public half alone.
impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("public", &self.public).finish_non_exhaustive()
    }
}

fn openssh(text: &str) -> Result<SecretKey, String> {
    let key = ssh_key::PrivateKey::from_openssh(text).map_err(|error| format!("it is no OpenSSH key: {error}"))?;
    match key.key_data() {
        KeypairData::Ecdsa(EcdsaKeypair::NistP384 { private, .. }) => {
            SecretKey::from_slice(private.as_slice()).map_err(|error| format!("it is no key on P-384: {error}"))
        }
        KeypairData::Encrypted(_) => Err("it has a passphrase".to_owned()),
        _ => Err(format!("it is of the kind {}, and Flower's are ecdsa-sha2-nistp384", key.algorithm())),
    }
}

#[cfg(test)]
mod tests {
    use p384::ecdsa::{VerifyingKey, signature::hazmat::PrehashVerifier};
    use p384::pkcs8::{DecodePublicKey, EncodePrivateKey};

    use super::*;

    const OPENSSH: &str = include_str!("../testdata/openssh");

    #[test]
    fn openssh_pkcs8_and_sec1_are_one_key() {
        let key = NodeKey::parse(OPENSSH).unwrap();
        assert_eq!(key.public_pem(), include_str!("../testdata/public.pem"));
        assert!(!key.is_passing() && NodeKey::generate().unwrap().is_passing());
        let secret = openssh(OPENSSH).unwrap();
        for text in [secret.to_pkcs8_pem(LineEnding::LF).unwrap(), secret.to_sec1_pem(LineEnding::LF).unwrap()] {
            assert_eq!(NodeKey::parse(&text).unwrap().public_pem(), key.public_pem());
        }
    }

    #[test]
    fn what_is_no_private_key_is_refused() {
        let public = include_str!("../testdata/public.pem");
        for (text, reason) in
            [(public, "the public half"), ("-----BEGIN", "no private key on P-384"), ("", "no private")]
        {
            let refused = NodeKey::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let error = NodeKey::read(Path::new("/nowhere/key")).unwrap_err().to_string();
        assert!(error.starts_with("the node's key /nowhere/key: "), "{error}");
    }

    #[test]
    fn the_time_is_signed_with_sha256() {
        let key = NodeKey::generate().unwrap();
        let [public, signature, time] = key.headers(Timestamp::new(1_700_000_000, 5_000).unwrap()).unwrap();
        assert_eq!(time, ("flwr-timestamp", "2023-11-14T22:13:20.000005+00:00".to_owned()));
        let pem = String::from_utf8(STANDARD.decode(public.1).unwrap()).unwrap();
        let verifying = VerifyingKey::from_public_key_pem(&pem).unwrap();
        let signature = Signature::from_der(&STANDARD.decode(signature.1).unwrap()).unwrap();
        verifying.verify_prehash(&Sha256::digest(&time.1), &signature).unwrap();
        assert!(!format!("{key:?}").contains("PRIVATE"));
    }
}
