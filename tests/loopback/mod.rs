//! A server on a loopback address with a decision of the test's choice, and clients that speak real TLS to it.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mds::admission::{Answer, Fact, Facts, Question, Verdict, Webhook, uid_of};
use mds::serve::connection::Patience;
use mds::serve::decide::{Asked, Decide, Lookup, Step};
use mds::serve::listener::{Open, Port, Transport};
use mds::serve::metrics::{Exposition, Metrics};
use mds::serve::review::{Limits, Reviews};
use mds::serve::tls::authority::{Authority, Subject};
use mds::serve::tls::revision::{self, File, Readers};
use mds::serve::tls::{Certificate, CertificatePem, Directory, KeyPem, Pair};
use prometheus_client::registry::Registry;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A decision by the uid: `panic` panics, `ask` asks once, `ask-panic` panics at the fact, others are allowed.
pub struct ByUid;

impl Decide for ByUid {
    fn decide<'a>(&'a self, _webhook: Webhook, body: &'a [u8]) -> Step<'a> {
        let uid = uid_of(body).unwrap_or_default();
        assert!(
            uid != "panic" && !body.starts_with(b"panic"),
            "a panic, on purpose"
        );
        if uid.starts_with("ask") {
            Step::Ask(Box::new(Waiting {
                uid,
                questions: [question()],
            }))
        } else {
            Step::Answer(allow(&uid))
        }
    }
}

struct Waiting {
    uid: String,
    questions: [Question; 1],
}

impl<'a> Asked<'a> for Waiting {
    fn questions(&self) -> &[Question] {
        &self.questions
    }

    fn answer(self: Box<Self>, facts: &Facts) -> Step<'a> {
        assert_eq!(facts.0.len(), 1);
        assert!(self.uid != "ask-panic", "a panic, on purpose");
        if self.uid == "ask-for-ever" {
            Step::Ask(self)
        } else {
            Step::Answer(allow(&self.uid))
        }
    }
}

fn question() -> Question {
    Question::Target {
        namespace: "team".into(),
        name: "qwen".into(),
    }
}

/// The answer of an allowed review.
pub fn allow(uid: &str) -> Answer {
    let body = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
    );
    Answer {
        http: 200,
        body: body.into_bytes(),
        verdict: Verdict::Allowed,
        reason: "",
        uid: Some(uid.to_owned()),
    }
}

/// Finds nothing, after a while.
pub struct After(pub Duration);

impl Lookup for After {
    async fn find(&self, _question: &Question) -> Fact {
        tokio::time::sleep(self.0).await;
        Fact::Object(Ok(None))
    }
}

/// What a test may choose.
pub struct Choice {
    pub patience: Patience,
    pub limits: Limits,
    pub lookup: Duration,
    pub connections: usize,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            patience: Patience::default(),
            limits: Limits::default(),
            lookup: Duration::from_millis(300),
            connections: 64,
        }
    }
}

/// A running server.
pub struct Server {
    pub open: Open,
    pub address: SocketAddr,
    pub certificate: Arc<Certificate>,
    pub authority: Authority,
    pub exposition: Exposition,
    pub home: TempDir,
}

impl Server {
    pub async fn start(choice: Choice) -> Self {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::generate(now()).unwrap();
        write_pair(home.path(), &issue(&authority));
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let certificate = Certificate::load(Directory::new(home.path()), metrics.clone());
        let reviews = Arc::new(Reviews::new(
            ByUid,
            After(choice.lookup),
            choice.limits,
            metrics.clone(),
        ));
        let port = Port::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = port.address();
        let transport = Transport::Tls(Arc::clone(&certificate).server_config().unwrap(), metrics);
        let open = port.open(transport, reviews, choice.patience, choice.connections);
        Self {
            open,
            address,
            certificate,
            authority,
            exposition: Exposition::new(registry),
            home,
        }
    }

    pub fn metric(&self, line: &str) -> bool {
        self.exposition
            .text()
            .unwrap()
            .lines()
            .any(|found| found == line)
    }

    pub async fn tls(&self, alpn: &[&str]) -> TlsStream<TcpStream> {
        connect(
            self.address,
            &roots(&self.authority),
            alpn,
            rustls::ALL_VERSIONS,
        )
        .await
        .unwrap()
    }

    pub async fn http1(&self) -> http1::SendRequest<Full<Bytes>> {
        http1(self.tls(&["http/1.1"]).await).await
    }

    pub async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        http2(self.tls(&["h2"]).await).await
    }
}

pub fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
}

pub fn issue(authority: &Authority) -> Pair {
    let subject = Subject {
        dns_names: vec!["localhost".into()],
        addresses: vec![[127, 0, 0, 1].into()],
    };
    authority
        .issue(&subject, now(), Duration::from_hours(1))
        .unwrap()
}

/// Writes a pair the way the kubelet does.
pub fn write_pair(directory: &Path, pair: &Pair) {
    write_files(directory, pair.certificate(), pair.key());
}

pub fn write_files(directory: &Path, certificate: &CertificatePem, key: &KeyPem) {
    static REVISION: AtomicU64 = AtomicU64::new(1);
    let files = [
        File {
            name: "tls.crt",
            content: &certificate.0,
            readers: Readers::All,
        },
        File {
            name: "tls.key",
            content: &key.0,
            readers: Readers::Owner,
        },
    ];
    revision::write(
        directory,
        u128::from(REVISION.fetch_add(1, Ordering::Relaxed)),
        &files,
    )
    .unwrap();
}

pub fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&authority.certificate().0).unwrap())
        .unwrap();
    roots
}

pub async fn connect(
    address: SocketAddr,
    roots: &RootCertStore,
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
}

pub async fn http1(stream: TlsStream<TcpStream>) -> http1::SendRequest<Full<Bytes>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub async fn http2(stream: TlsStream<TcpStream>) -> http2::SendRequest<Full<Bytes>> {
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// A review with nothing but a uid.
pub fn review(uid: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"{uid}"}}}}"#
    )
}

pub fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header("host", "localhost")
        .body(Full::new(body.into()))
        .unwrap()
}

/// Status, headers and body of an answer.
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    pub async fn from(response: hyper::Result<http::Response<hyper::body::Incoming>>) -> Self {
        let (parts, body) = response.unwrap().into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}
