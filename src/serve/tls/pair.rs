//! A certificate and its key: read together, checked together, never mixed.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The file of the certificate chain, leaf first, PEM.
const CERTIFICATE: &str = "tls.crt";
/// The file of the leaf's private key, PEM.
const KEY: &str = "tls.key";
/// The link that the kubelet swaps when a Secret changes.
const DATA: &str = "..data";

/// A certificate chain, leaf first, as PEM. Not a key: the types keep them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePem(pub Vec<u8>);

/// A private key as PEM. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPem(pub Vec<u8>);

impl fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPem(..)")
    }
}

/// A certificate chain with what should be its key. Whether they fit, [`Pair::certified`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    certificate: CertificatePem,
    key: KeyPem,
}

/// Why a pair cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PairError {
    /// A file is not there or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate file holds no certificate.
    #[error("tls.crt holds no PEM certificate")]
    NoCertificate,
    /// The certificate file is broken.
    #[error("tls.crt is no PEM certificate chain: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    /// The key file is broken.
    #[error("tls.key is no PEM private key: {0}")]
    Key(rustls::pki_types::pem::Error),
    /// The certificate says not when it expires.
    #[error("tls.crt has no date of expiry that can be read")]
    NoDate,
    /// It expired.
    #[error("tls.crt has expired")]
    Expired,
    /// The key is of a kind that is not supported, or is not the certificate's.
    #[error("tls.key and tls.crt do not fit: {0}")]
    Mismatch(rustls::Error),
}

impl Pair {
    /// Puts a chain and a key side by side.
    pub fn new(certificate: CertificatePem, key: KeyPem) -> Self {
        Self { certificate, key }
    }

    /// The chain.
    pub fn certificate(&self) -> &CertificatePem {
        &self.certificate
    }

    /// The key.
    pub fn key(&self) -> &KeyPem {
        &self.key
    }

    /// Parses both and checks that the key is the leaf's.
    pub fn certified(&self) -> Result<CertifiedKey, PairError> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate.0)
            .collect::<Result<Vec<_>, _>>()
            .map_err(PairError::Certificate)?;
        if chain.is_empty() {
            return Err(PairError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key.0).map_err(PairError::Key)?;
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(PairError::Mismatch)
    }
}

/// A directory with `tls.crt` and `tls.key`: a mounted Secret, or what `mds certs` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory at `path`, which may appear later.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Reads the pair, both files of one revision.
    ///
    /// The kubelet swaps the link `..data` to a new folder and then removes the old one. So the link is followed once;
    /// if its folder goes away meanwhile, the newer one is read.
    pub fn read(&self) -> Result<Pair, PairError> {
        let mut read = self.read_revision();
        for _ in 0..2 {
            match &read {
                Err(PairError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    read = self.read_revision();
                }
                _ => break,
            }
        }
        read
    }

    fn read_revision(&self) -> Result<Pair, PairError> {
        let revision = fs::canonicalize(self.0.join(DATA)).unwrap_or_else(|_| self.0.clone());
        Ok(Pair::new(
            CertificatePem(read(&revision.join(CERTIFICATE))?),
            KeyPem(read(&revision.join(KEY))?),
        ))
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PairError> {
    fs::read(path).map_err(|source| PairError::Read {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::super::authority::{Authority, Subject};
    use super::super::revision::{self, File, Readers};
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn issue() -> Pair {
        let now = Duration::from_hours(500_000);
        let subject = Subject {
            dns_names: vec!["a".to_owned()],
            addresses: Vec::new(),
        };
        Authority::generate(now)
            .unwrap()
            .issue(&subject, now, Duration::from_hours(1))
            .unwrap()
    }

    fn write(directory: &Path, number: u128, pair: &Pair) {
        let files = [
            File {
                name: CERTIFICATE,
                content: &pair.certificate.0,
                readers: Readers::All,
            },
            File {
                name: KEY,
                content: &pair.key.0,
                readers: Readers::Owner,
            },
        ];
        revision::write(directory, number, &files).unwrap();
    }

    #[test]
    fn a_read_during_swaps_never_mixes_two_revisions() {
        let home = tempfile::tempdir().unwrap();
        let pairs = [issue(), issue()];
        write(home.path(), 0, &pairs[0]);
        let directory = Directory::new(home.path());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..200 {
                    write(home.path(), number, &pairs[usize::from(number % 2 == 1)]);
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                // Three swaps during one read are possible here, and nowhere else: then there is no pair at all.
                if let Ok(pair) = directory.read() {
                    assert!(pairs.contains(&pair), "mixed");
                }
            }
        });
        assert_eq!(directory.read().unwrap(), pairs[1]);
    }

    #[test]
    fn a_plain_directory_is_read_too_and_what_is_missing_is_named() {
        let home = tempfile::tempdir().unwrap();
        let pair = issue();
        fs::write(home.path().join(CERTIFICATE), &pair.certificate.0).unwrap();
        let error = Directory::new(home.path()).read().unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read ") && error.contains("tls.key: "),
            "{error}"
        );
        fs::write(home.path().join(KEY), &pair.key.0).unwrap();
        assert_eq!(Directory::new(home.path()).read().unwrap(), pair);
    }

    #[test]
    fn a_key_is_never_printed() {
        assert_eq!(format!("{:?}", issue().key), "KeyPem(..)");
    }
}
