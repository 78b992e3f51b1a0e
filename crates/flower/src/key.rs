//! The key that identifies a node to a SuperLink: ECDSA on P-384.

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

const SCALAR: usize = 48;
const MOST_FILE: u64 = 1 << 16;

#[derive(Clone)]
pub struct NodeKey {
    key: SigningKey,
    /// The public key in the SuperLink's PEM form.
    public: String,
    /// Whether the key was generated for this run only.
    is_passing: bool,
}

impl NodeKey {
    /// Generates a key, for a SuperLink where nodes register themselves.
    ///
    /// # Errors
    /// Fails if the operating system provides no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        let mut scalar = Zeroizing::new([0; SCALAR]);
        loop {
            getrandom::fill(&mut *scalar).map_err(|error| KeyError::Random(error.to_string()))?;
            // All but one in 2^190 scalars are valid keys.
            if let Some(key) = SecretKey::from_slice(&*scalar).ok().and_then(|secret| Self::new(&secret)) {
                return Ok(Self { is_passing: true, ..key });
            }
        }
    }

    /// Reads a private key without a passphrase, in OpenSSH's format or as PKCS#8 or SEC1 PEM.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not hold such a key on P-384.
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
            SecretKey::from_sec1_pem(text).map_err(|error| format!("it is not a SEC1 key on P-384: {error}"))?
        } else if text.contains("PUBLIC KEY") || text.starts_with("ecdsa-sha2-") {
            return Err("it is the public half; name the private one".to_owned());
        } else {
            SecretKey::from_pkcs8_pem(text).map_err(|error| format!("it is not a private key on P-384: {error}"))?
        };
        Self::new(&secret).ok_or_else(|| "its public half cannot be written".to_owned())
    }

    fn new(secret: &SecretKey) -> Option<Self> {
        let public = secret.public_key().to_public_key_pem(LineEnding::LF).ok()?;
        Some(Self { key: secret.into(), public, is_passing: false })
    }

    /// Returns the public key in the SuperLink's PEM form.
    pub fn public_pem(&self) -> &str {
        &self.public
    }

    /// Whether the key was generated here and will not be used again.
    pub(crate) fn is_passing(&self) -> bool {
        self.is_passing
    }

    /// Returns the names and values of the headers of a call at this time: key, signature of the time, and time.
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

/// Shows only the public key.
impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("public", &self.public).finish_non_exhaustive()
    }
}

fn openssh(text: &str) -> Result<SecretKey, String> {
    let key = ssh_key::PrivateKey::from_openssh(text).map_err(|error| format!("it is not an OpenSSH key: {error}"))?;
    match key.key_data() {
        KeypairData::Ecdsa(EcdsaKeypair::NistP384 { private, .. }) => {
            SecretKey::from_slice(private.as_slice()).map_err(|error| format!("it is not a key on P-384: {error}"))
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
            [(public, "the public half"), ("-----BEGIN", "not a private key on P-384"), ("", "not a private")]
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
