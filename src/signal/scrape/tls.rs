//! Whom an https endpoint must prove to be.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, pem};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How https endpoints are verified: by which authorities, and for which name.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why https endpoints could not be verified at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file of `--engine-ca-file` cannot be read.
    #[error("--engine-ca-file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// The file of `--engine-ca-file` has no certificate that could be an authority's.
    #[error("--engine-ca-file {}: no certificate of an authority in it", path.display())]
    NoAuthority {
        /// The file.
        path: PathBuf,
    },
    /// The word of `--engine-server-name` is no name.
    #[error("--engine-server-name {name}: must be a DNS name or an IP address")]
    Name {
        /// The word.
        name: String,
    },
    /// No TLS version that both ends could speak.
    #[error(transparent)]
    Unsupported(#[from] rustls::Error),
}

impl Tls {
    /// Verifies by the authorities in the PEM file `authorities`, else by the system's, and for `name`, else for the
    /// host of the endpoint.
    ///
    /// # Errors
    /// What of that cannot be used, and the flag to set.
    pub fn new(authorities: Option<&Path>, name: Option<&str>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = authorities {
            let unreadable = |source| TlsError::Unreadable {
                path: path.to_owned(),
                source,
            };
            let certificates = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
            let certificates: Vec<_> =
                certificates.collect::<Result<_, _>>().map_err(unreadable)?;
            if roots.add_parsable_certificates(certificates).0 == 0 {
                return Err(TlsError::NoAuthority {
                    path: path.to_owned(),
                });
            }
        } else {
            // A machine without any is one on which no https engine verifies; plain ones work.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let name = name
            .map(|name| {
                ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name {
                    name: name.to_owned(),
                })
            })
            .transpose()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        self.connector.connect(name, stream).await
    }
}

/// Whether a handshake failed because of what the other end showed of itself.
pub(super) fn is_of_certificate(error: &io::Error) -> bool {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(
        cause,
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
    )
}
