//! The accept loop of a port: a cap on connections, the TLS handshake, and the drain.

use super::connection::{Answers, Patience, Protocol, serve};
use super::metrics::Metrics;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How connections of a port speak.
#[derive(Clone)]
pub enum Transport {
    /// TLS, counted in the metrics.
    Tls(Arc<ServerConfig>, Metrics),
    /// Plain HTTP/1.1.
    Plain,
}

/// A port that is bound and accepts nothing yet.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

/// A port that accepts.
pub struct Open {
    address: SocketAddr,
    closed: CancellationToken,
    leave: CancellationToken,
    connections: TaskTracker,
}

/// Whether all requests were answered before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every connection was closed politely.
    All,
    /// Some were still open when the time was over.
    CutOff,
}

impl Port {
    /// Binds `address`.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address in use, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts from here on, at most `connections` at once: the next ones wait in the system's queue, and silent ones
    /// make room soon.
    pub fn open<A: Answers>(
        self,
        transport: Transport,
        answers: Arc<A>,
        patience: Patience,
        connections: usize,
    ) -> Open {
        let open = Open {
            address: self.address,
            closed: CancellationToken::new(),
            leave: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        let (closed, leave, tracker) = (
            open.closed.clone(),
            open.leave.clone(),
            open.connections.clone(),
        );
        let places = Arc::new(Semaphore::new(connections));
        tokio::spawn(async move {
            let accepting = async {
                loop {
                    let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                        return;
                    };
                    let stream = accept(&self.listener).await;
                    let (transport, answers, leave) =
                        (transport.clone(), Arc::clone(&answers), leave.clone());
                    tracker.spawn(async move {
                        welcome(stream, transport, answers, patience, leave).await;
                        drop(place);
                    });
                }
            };
            // The listener is dropped with this task: later connections are refused by the system.
            closed.run_until_cancelled(accepting).await;
        });
        open
    }
}

impl Open {
    /// The address in use.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port, asks every connection to leave, and waits for them, at most `patience`.
    pub async fn drain(self, patience: Duration) -> Drained {
        self.closed.cancel();
        self.leave.cancel();
        self.connections.close();
        match timeout(patience, self.connections.wait()).await {
            Ok(()) => Drained::All,
            Err(_) => Drained::CutOff,
        }
    }
}

/// A connection in the metrics, from here to its end, whichever that is.
struct OpenConnection(Gauge);

impl OpenConnection {
    fn count(metrics: &Metrics) -> Self {
        metrics.connections().inc();
        Self(metrics.connections().clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and complete: waiting for more to send only delays them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
                }
                return stream;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                // Out of file descriptors, mostly: others will close some.
                tracing::error!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn welcome<A: Answers>(
    stream: TcpStream,
    transport: Transport,
    answers: Arc<A>,
    patience: Patience,
    leave: CancellationToken,
) {
    let (config, metrics) = match transport {
        Transport::Plain => return serve(stream, Protocol::Http1, answers, patience, leave).await,
        Transport::Tls(config, metrics) => (config, metrics),
    };
    let _counted = OpenConnection::count(&metrics);
    match timeout(patience.handshake, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => {
            let protocol = match stream.get_ref().1.alpn_protocol() {
                Some(b"h2") => Protocol::Http2,
                _ => Protocol::Http1,
            };
            serve(stream, protocol, answers, patience, leave).await;
        }
        Ok(Err(error)) => {
            metrics.handshake_failures().inc();
            tracing::debug!(%error, "TLS handshake failed");
        }
        Err(_) => {
            metrics.handshake_failures().inc();
            tracing::debug!("TLS handshake took too long");
        }
    }
}
