//! The wire: HTTP by hand, because half of the faults are answers that no library would send.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Fault, State, lock};

/// A hanging engine lets go after this long, so that a run ends.
const HANG: Duration = Duration::from_mins(1);

/// The largest request that is read.
const REQUEST: usize = 16 << 10;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A certificate that an engine shows.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// An authority of the sandbox. Engines with certificates of another one have a bad certificate.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// No key could be made.
    pub fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(
            params,
            KeyPair::generate()?,
        )?))
    }

    /// Its certificate, to be trusted.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `name`: a DNS name or an IP address.
    ///
    /// # Errors
    /// `name` is neither, or no key could be made.
    pub fn certify(&self, name: &str) -> anyhow::Result<Tls> {
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &self.0)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

pub(super) async fn accept(listener: TcpListener, state: Arc<Mutex<State>>, tls: Option<Tls>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while connections.try_join_next().is_some() {}
        let state = Arc::clone(&state);
        if lock(&state).fault == Fault::Down {
            continue;
        }
        match tls.clone() {
            None => drop(connections.spawn(answer(stream, state))),
            Some(Tls(acceptor)) => drop(connections.spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, state).await;
                }
            })),
        }
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) {
    let Some(path) = request(&mut stream).await else {
        return;
    };
    let (fault, body) = {
        let mut state = lock(&state);
        let body = if path == "/metrics" {
            Some(state.body())
        } else {
            None
        };
        (state.fault.clone(), body)
    };
    // The other end may leave at any time; that is its business.
    let _ = match body {
        Some(body) => spoilt(&mut stream, &fault, body).await,
        None => {
            send(
                &mut stream,
                "404 Not Found",
                "application/json",
                b"{\"detail\":\"Not Found\"}",
            )
            .await
        }
    };
    let _ = stream.shutdown().await;
}

/// The path that is asked for.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream
            .read(&mut chunk)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        head.extend_from_slice(chunk.get(..read)?);
        if head.len() > REQUEST {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    Some(target.split('?').next()?.to_owned())
}

async fn spoilt(
    stream: &mut (impl AsyncWrite + Unpin),
    fault: &Fault,
    body: Vec<u8>,
) -> std::io::Result<()> {
    let half = body.split_at(body.len() / 2).0;
    match fault {
        Fault::None => send(stream, "200 OK", TEXT, &body).await,
        Fault::Slow(delay) => {
            tokio::time::sleep(*delay).await;
            send(stream, "200 OK", TEXT, &body).await
        }
        Fault::Hang => {
            tokio::time::sleep(HANG).await;
            Ok(())
        }
        Fault::HangInBody => {
            head(stream, "200 OK", TEXT, Some(body.len())).await?;
            stream.write_all(half).await?;
            stream.flush().await?;
            tokio::time::sleep(HANG).await;
            Ok(())
        }
        Fault::Truncated => {
            head(stream, "200 OK", TEXT, Some(body.len())).await?;
            stream.write_all(half).await
        }
        Fault::CutNumber => {
            let cut = body.iter().rposition(|byte| *byte == b'.').unwrap_or_default();
            head(stream, "200 OK", TEXT, None).await?;
            stream.write_all(body.split_at(cut).0).await
        }
        Fault::Down => Ok(()),
        Fault::Status(status) => {
            let status = format!("{status} No");
            send(stream, &status, "application/json", b"{\"detail\":\"no\"}").await
        }
        Fault::Html => send(stream, "200 OK", "text/html", b"<!DOCTYPE html><title>Sign in</title>\n").await,
        Fault::Redirect => {
            stream.write_all(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /metrics\r\ncontent-length: 0\r\n\r\n").await
        }
        Fault::Missing(families) => send(stream, "200 OK", TEXT, without(&body, families).as_bytes()).await,
        Fault::Huge => {
            let mut body = body;
            while body.len() < 5 << 20 {
                body.extend_from_slice(b"# A comment that nobody needs, to fill the page with something.\n");
            }
            send(stream, "200 OK", TEXT, &body).await
        }
    }
}

/// `body` without the lines of families whose names end in one of the words, parts of histograms included.
fn without(body: &[u8], families: &[String]) -> String {
    let gone = |line: &&str| {
        let name = line
            .strip_prefix("# HELP ")
            .or(line.strip_prefix("# TYPE "))
            .unwrap_or(line);
        let name = name.split(['{', ' ']).next().unwrap_or_default();
        families.iter().any(|family| {
            ["", "_bucket", "_sum", "_count"].iter().any(|part| {
                name.strip_suffix(part)
                    .is_some_and(|name| name.ends_with(family.as_str()))
            })
        })
    };
    let body = String::from_utf8_lossy(body);
    body.lines()
        .filter(|line| !gone(line))
        .flat_map(|line| [line, "\n"])
        .collect()
}

async fn head(
    stream: &mut (impl AsyncWrite + Unpin),
    status: &str,
    kind: &str,
    length: Option<usize>,
) -> std::io::Result<()> {
    let length = length
        .map(|length| format!("content-length: {length}\r\n"))
        .unwrap_or_default();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{length}connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await
}

async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    status: &str,
    kind: &str,
    body: &[u8],
) -> std::io::Result<()> {
    head(stream, status, kind, Some(body.len())).await?;
    stream.write_all(body).await?;
    stream.flush().await
}
