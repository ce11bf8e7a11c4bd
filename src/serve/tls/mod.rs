//! TLS of the webhook port: 1.2 and 1.3, and a certificate that changes while connections stay.
//!
//! The files are looked at every few seconds, never watched: a Secret is swapped by renaming a link, which watches of the
//! file itself miss, and a look costs microseconds. A pair that cannot be used never replaces one that can.

pub mod authority;
mod expiry;
mod pair;
pub mod revision;

pub use expiry::not_after;
pub use pair::{CertificatePem, Directory, KeyPem, Pair, PairError};

use super::metrics::Metrics;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The certificate in use, shared by the port and the task that renews it.
#[derive(Debug)]
pub struct Certificate {
    directory: Directory,
    metrics: Metrics,
    current: ArcSwapOption<CertifiedKey>,
    /// What the last look found: the same bytes are judged, and reported, once.
    last: Mutex<Option<Look>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Look {
    Found(Pair),
    Failed(String),
}

/// What a look at the directory came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The same as last time.
    Unchanged,
    /// A new pair, in use from now on.
    Swapped,
    /// Nothing usable; what was in use stays.
    Kept,
}

impl Certificate {
    /// Looks at `directory` for the first time. Without a usable pair the server has none, and is not ready.
    pub fn load(directory: Directory, metrics: Metrics) -> Arc<Self> {
        let certificate = Self {
            directory,
            metrics,
            current: ArcSwapOption::empty(),
            last: Mutex::new(None),
        };
        certificate.reload();
        Arc::new(certificate)
    }

    /// Whether there is one.
    pub fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// Looks at the directory again. Reads files: not for a task that must not wait.
    pub fn reload(&self) -> Reload {
        // Held during the look: of two looks at once, the older pair could be put in place last.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let look = match self.directory.read() {
            Ok(pair) => Look::Found(pair),
            Err(error) => Look::Failed(error.to_string()),
        };
        if last.as_ref() == Some(&look) {
            return Reload::Unchanged;
        }
        let reload = match &look {
            Look::Found(pair) => self.judge(pair),
            Look::Failed(error) => self.keep(error),
        };
        *last = Some(look);
        reload
    }

    fn judge(&self, pair: &Pair) -> Reload {
        match pair
            .certified()
            .and_then(|certified| current(certified, now()))
        {
            Ok((certified, expiry)) => {
                self.metrics.certificate_expiry().set(expiry);
                self.current.store(Some(Arc::new(certified)));
                tracing::info!(expires = expiry, "a new certificate is in use");
                Reload::Swapped
            }
            Err(error) => self.keep(&error.to_string()),
        }
    }

    fn keep(&self, error: &str) -> Reload {
        self.metrics.certificate_failures().inc();
        let kept = if self.is_loaded() {
            "the one before stays in use"
        } else {
            "there is none to serve with"
        };
        tracing::error!(error, directory = %self.directory, "no usable certificate: {kept}");
        Reload::Kept
    }

    /// Looks at the directory every `period`, for ever.
    pub async fn keep_fresh(self: Arc<Self>, period: Duration) {
        loop {
            tokio::time::sleep(period).await;
            let certificate = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || certificate.reload()).await {
                tracing::error!(%error, "the look at the certificate failed");
            }
        }
    }

    /// The configuration of a port that serves this certificate to every name.
    ///
    /// # Errors
    /// When the provider lacks a protocol version, which ring does not.
    pub fn server_config(self: Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(self);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// A pair that has not expired, with the moment when it does, in seconds since 1970. Every client would refuse an expired
/// one, so the one before is never worse.
fn current(certified: CertifiedKey, now: i64) -> Result<(CertifiedKey, i64), PairError> {
    let leaf = certified.end_entity_cert().map_err(PairError::Mismatch)?;
    match not_after(leaf).ok_or(PairError::NoDate)? {
        expiry if expiry <= now => Err(PairError::Expired),
        expiry => Ok((certified, expiry)),
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}
