//! The relay's certificate, stored so that its fingerprint stays the same.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::{
    ServerConfig,
    client::verify_server_name,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};
use serde::{Deserialize, Serialize};

use crate::{clock::unix_now, config::CertificateFiles, private_file::write};

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
const RECORD: &str = "certificate.json";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Validity of a new certificate, the longest that Apple devices accept.
const VALID: Duration = Duration::from_secs(397 * 24 * 60 * 60);
/// A certificate that expires within this time is replaced.
const RENEW: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of names in a certificate. A laptop that visits many networks keeps earlier addresses.
const MAX_NAMES: usize = 60;

pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
    /// SHA-256 of the certificate in browsers' notation.
    pub(crate) fingerprint: String,
    /// Why the certificate was just created, if it was.
    pub(crate) made_because: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CertificateRecord {
    names: Vec<String>,
    /// Seconds since 1970.
    expires: u64,
}

impl Identity {
    /// Loads the certificate stored in `folder`. Creates one for `names` if it is missing, unusable, lacks a name, or
    /// expires soon.
    pub(crate) fn keep(folder: &Path, names: &[String]) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| {
            format!("cannot create the data folder {}; choose another with --data-dir", folder.display())
        })?;
        let record = read_record(folder);
        let reason = match &record {
            None => Some("there was none".to_owned()),
            Some(record) => record.flaw(names, unix_now()),
        };
        let reason = match reason {
            Some(reason) => reason,
            None => match Self::load(&folder.join(CERTIFICATE), &folder.join(KEY), None) {
                Ok(identity) => return Ok(identity),
                Err(error) => format!("the kept one cannot be used ({error:#})"),
            },
        };
        let mut all = names.to_vec();
        let earlier = record.map(|record| record.names).unwrap_or_default();
        all.extend(earlier.into_iter().filter(|name| !names.contains(name)));
        all.truncate(MAX_NAMES.max(names.len()));
        make(folder, all).with_context(|| {
            format!("cannot keep a certificate in {}; choose another folder with --data-dir", folder.display())
        })?;
        Self::load(&folder.join(CERTIFICATE), &folder.join(KEY), Some(reason))
    }

    /// Loads a certificate supplied by the user, with its chain.
    ///
    /// # Errors
    /// Fails if a file cannot be read, is not a PEM file of its kind, or if certificate and key do not match. The
    /// message names the file and the flag.
    pub(crate) fn given(CertificateFiles { certificate, key }: &CertificateFiles) -> anyhow::Result<Self> {
        Self::load(certificate, key, None).with_context(|| {
            format!(
                "cannot use the certificate {} with the key {}; give PEM files that belong together with --cert and --key",
                certificate.display(),
                key.display()
            )
        })
    }

    fn load(certificate: &Path, key: &Path, made_because: Option<String>) -> anyhow::Result<Self> {
        let name = |path: &Path| path.display().to_string();
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .with_context(|| name(certificate))?;
        let first = chain.first().with_context(|| format!("{} holds no certificate", name(certificate)))?;
        let (certificate, fingerprint) = (first.clone(), fingerprint(first));
        let key = PrivateKeyDer::from_pem_file(key).with_context(|| name(key))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .context("certificate and key do not fit together")?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), certificate, fingerprint, made_because })
    }

    /// Whether the certificate is for this host name or address.
    pub(crate) fn covers(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&self.certificate).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }
}

impl CertificateRecord {
    fn flaw(&self, names: &[String], now: u64) -> Option<String> {
        if let Some(missing) = names.iter().find(|name| !self.names.contains(name)) {
            return Some(format!("this machine is now reached as {missing} too"));
        }
        (self.expires < now + RENEW.as_secs()).then(|| "the kept one is about to expire".to_owned())
    }
}

/// Returns the stored record. An unreadable record counts as missing, so that the certificate is replaced.
fn read_record(folder: &Path) -> Option<CertificateRecord> {
    serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
}

fn make(folder: &Path, names: Vec<String>) -> anyhow::Result<()> {
    let now = SystemTime::now();
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.clone())?;
    params.distinguished_name.push(DnType::CommonName, "unmask relay");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Phones' clocks may be slow.
    params.not_before = (now - DAY).into();
    params.not_after = (now + VALID).into();
    let certificate = params.self_signed(&key)?;
    let record = CertificateRecord { names, expires: unix_now() + VALID.as_secs() };
    // Write the record last, because the other two files are ignored without it.
    write(folder, KEY, key.serialize_pem().as_bytes())?;
    write(folder, CERTIFICATE, certificate.pem().as_bytes())?;
    write(folder, RECORD, &serde_json::to_vec_pretty(&record)?)?;
    Ok(())
}

/// Returns the SHA-256 of the whole certificate as `AB:CD:...`.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let bytes = digest(&SHA256, certificate);
    bytes.as_ref().iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn keep(folder: &Path, wanted: &[&str]) -> Identity {
        Identity::keep(folder, &names(wanted)).unwrap()
    }

    #[test]
    fn fingerprint_stays_until_a_name_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let first = keep(&folder, &["localhost", "127.0.0.1", "::1"]);
        assert!(first.made_because.is_some());
        let again = keep(&folder, &["localhost"]);
        assert!(again.made_because.is_none());
        assert_eq!(again.fingerprint, first.fingerprint);
        let moved = keep(&folder, &["localhost", "10.0.0.2"]);
        assert!(moved.made_because.unwrap().contains("10.0.0.2"));
        assert_ne!(moved.fingerprint, first.fingerprint);
        // Back on the first network, the certificate is still valid.
        assert_eq!(keep(&folder, &["localhost", "127.0.0.1"]).fingerprint, moved.fingerprint);
    }

    #[test]
    fn certificate_about_to_expire_is_flawed() {
        let record = CertificateRecord { names: names(&["localhost"]), expires: 1_000 + RENEW.as_secs() };
        assert_eq!(record.flaw(&names(&["localhost"]), 1_000), None);
        assert!(record.flaw(&names(&["localhost"]), 1_001).unwrap().contains("expire"));
    }

    #[test]
    fn damaged_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = keep(folder.path(), &["localhost"]);
        for file in [CERTIFICATE, KEY, RECORD] {
            fs::write(folder.path().join(file), "rubbish").unwrap();
            let next = keep(folder.path(), &["localhost"]);
            assert!(next.made_because.is_some(), "{file}");
            assert_ne!(next.fingerprint, first.fingerprint);
        }
    }

    /// A supplied pair is used as it is, and an error names the file at fault.
    #[test]
    fn given_files_are_used_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let kept = keep(folder.path(), &["localhost"]);
        let files = |certificate: &str, key: &str| CertificateFiles {
            certificate: folder.path().join(certificate),
            key: folder.path().join(key),
        };
        let given = Identity::given(&files(CERTIFICATE, KEY)).unwrap();
        assert_eq!((given.fingerprint, given.made_because), (kept.fingerprint, None));
        let other = folder.path().join("other");
        keep(&other, &["localhost"]);
        fs::write(folder.path().join("empty.pem"), "").unwrap();
        for (certificate, key, part) in [
            ("missing.pem", KEY, "missing.pem"),
            (CERTIFICATE, "missing.pem", "missing.pem"),
            ("empty.pem", KEY, "empty.pem holds no certificate"),
            (CERTIFICATE, CERTIFICATE, CERTIFICATE),
            (CERTIFICATE, "other/key.pem", "do not fit together"),
        ] {
            let error = Identity::given(&files(certificate, key)).err().map(|error| format!("{error:#}")).unwrap();
            assert!(error.contains(part) && error.contains("--cert"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn key_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), &["localhost"]);
        assert_eq!(fs::metadata(folder.path().join(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
