//! Faults between a program and the API server.
//!
//! A TLS server on loopback, HTTP/1.1 and HTTP/2, that passes requests on with the caller's own bearer token, and on
//! demand refuses, delays, loses or cuts them. Client certificates are not passed on: use token accounts.
//!
//! ```no_run
//! # async fn example(account: sandbox::account::Account) -> anyhow::Result<()> {
//! use sandbox::proxy::{Fault, Proxy, Refusal, Rule};
//! let proxy = Proxy::start(&account).await?;
//! let program_account = proxy.account(&account);
//! // The next two status patches meet a conflict.
//! let rule = Rule::new("PATCH", |path| path.ends_with("/status"), Fault::Refuse(Refusal::conflict())).times(2);
//! let conflicts = proxy.inject(rule);
//! assert_eq!(conflicts.hits(), 0);
//! # Ok(()) }
//! ```

mod fault;
mod relay;

pub use fault::{Fault, Injected, Refusal, Rule};

use crate::account::Account;
use crate::authority::{Authority, Pair};
use anyhow::Context;
use fault::Book;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use relay::Relay;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Which versions of HTTP the proxy offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Both, as an API server does.
    Both,
    /// HTTP/1.1 alone.
    Http1,
}

/// A request that went through, or did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub path: String,
    /// Whether a fault was put in its way.
    pub faulted: bool,
}

/// A running proxy. Dropping it closes every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    authority: Authority,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    book: Mutex<Book>,
    /// Ends the connections of now; replaced when they are cut.
    connections: Mutex<CancellationToken>,
    stop: CancellationToken,
}

impl Proxy {
    /// Starts one in front of the API server of an account.
    pub async fn start(upstream: &Account) -> anyhow::Result<Self> {
        Self::start_with(upstream, Versions::Both).await
    }

    /// The same, with these versions of HTTP.
    pub async fn start_with(upstream: &Account, versions: Versions) -> anyhow::Result<Self> {
        crate::install_crypto();
        let authority = Authority::generate()?;
        let acceptor = TlsAcceptor::from(Arc::new(tls(&authority.server()?, versions)?));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            book: Mutex::default(),
            connections: Mutex::new(stop.child_token()),
            stop: stop.clone(),
        });
        let relay = Relay::new(upstream.anonymous().client().await?, Arc::clone(&shared));
        tokio::spawn(accept(listener, acceptor, relay, Arc::clone(&shared)));
        Ok(Self {
            address,
            authority,
            shared,
            _stop: stop.drop_guard(),
        })
    }

    /// An account as it goes through the proxy.
    pub fn account(&self, account: &Account) -> Account {
        account.through(
            &format!("https://{}", self.address),
            self.authority.certificate(),
        )
    }

    /// Puts a fault in the way. Of several rules that fit a request, the oldest that has times left is taken.
    pub fn inject(&self, rule: Rule) -> Injected {
        self.shared.book().add(rule)
    }

    /// Takes every fault away.
    pub fn heal(&self) {
        self.shared.book().clear();
    }

    /// Cuts every open connection, watches too; new ones are accepted.
    pub fn cut(&self) {
        let fresh = self.shared.stop.child_token();
        let old = std::mem::replace(
            &mut *self
                .shared
                .connections
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
            fresh,
        );
        old.cancel();
    }

    /// Every request so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.book().seen().to_vec()
    }
}

impl Shared {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> CancellationToken {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .child_token()
    }
}

fn tls(pair: &Pair, versions: Versions) -> anyhow::Result<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())
        .context("the proxy's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).context("the proxy's key")?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = match versions {
        Versions::Both => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Versions::Http1 => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, relay: Relay, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            () = shared.stop.cancelled() => return,
            stream = listener.accept() => stream,
        };
        // A peer that is gone already is no reason to stop.
        let Ok((stream, _)) = stream else { continue };
        let (acceptor, relay, cut) = (acceptor.clone(), relay.clone(), shared.connection());
        tokio::spawn(async move {
            tokio::select! {
                () = cut.cancelled() => {}
                () = serve(stream, acceptor, relay) => {}
            }
        });
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, relay: Relay) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    // Ends with an error when a fault cuts it: that is what was asked for.
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(
            TokioIo::new(stream),
            hyper::service::service_fn(move |request| {
                let relay = relay.clone();
                async move { relay.pass(request).await }
            }),
        )
        .await;
}
