//! A closed loop over kept connections: each sends a request made beforehand, reads the answer to its end, and sends again.
//!
//! Client and server share the machine, so a client that spends time hides what the server spends. This one writes whole
//! requests and looks only for the end of an answer.

use mds::serve::tls::authority::Authority;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
        }
    }
}

/// What a round came to.
pub struct Round {
    /// How long each request took, sorted.
    pub latencies: Vec<Duration>,
    /// How long all took together.
    pub took: Duration,
}

pub struct Client(Arc<ClientConfig>);

impl Client {
    pub fn new(authority: &Authority) -> Result<Self, super::Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority.certificate().0)?)?;
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// One request; the body of its answer.
    pub async fn once(
        &self,
        to: SocketAddr,
        protocol: Protocol,
        path: &str,
        body: &[u8],
    ) -> io::Result<Vec<u8>> {
        let mut connection = Connection::open(&self.0, to, protocol, path, body).await?;
        connection.exchange().await?;
        Ok(connection.answer)
    }

    /// `connections` at once, for `length`.
    pub async fn round(
        &self,
        to: SocketAddr,
        protocol: Protocol,
        path: &str,
        body: &[u8],
        connections: usize,
        length: Duration,
    ) -> io::Result<Round> {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(Connection::open(&self.0, to, protocol, path, body).await?);
        }
        let started = Instant::now();
        let running: Vec<_> = open
            .into_iter()
            .map(|mut connection| {
                tokio::spawn(async move {
                    let mut latencies = Vec::with_capacity(1 << 14);
                    while started.elapsed() < length {
                        let sent = Instant::now();
                        connection.exchange().await?;
                        latencies.push(sent.elapsed());
                    }
                    io::Result::Ok(latencies)
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for one in running {
            latencies.extend(one.await??);
        }
        let took = started.elapsed();
        latencies.sort_unstable();
        Ok(Round { latencies, took })
    }
}

/// A connection that sends one request again and again.
struct Connection {
    stream: TlsStream<TcpStream>,
    protocol: Protocol,
    request: Vec<u8>,
    /// The body of the last answer.
    answer: Vec<u8>,
    /// What was read and not used.
    read: Vec<u8>,
    http2: Http2,
}

/// What HTTP/2 remembers between requests (RFC 9113).
struct Http2 {
    stream: u32,
    /// Bytes that may be sent on the connection.
    window: usize,
    headers: Vec<u8>,
    body: Vec<u8>,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const FRAME: usize = 16_384;

impl Connection {
    async fn open(
        config: &ClientConfig,
        to: SocketAddr,
        protocol: Protocol,
        path: &str,
        body: &[u8],
    ) -> io::Result<Self> {
        let mut config = config.clone();
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        let mut request = format!(
            "POST {path}?timeout=10s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        let http2 = Http2 {
            stream: 1,
            window: 65_535,
            headers: header_block(path, body.len()),
            body: body.to_vec(),
        };
        let mut connection = Self {
            stream,
            protocol,
            request,
            answer: Vec::new(),
            read: Vec::new(),
            http2,
        };
        if protocol == Protocol::Http2 {
            connection.greet().await?;
        }
        Ok(connection)
    }

    async fn exchange(&mut self) -> io::Result<()> {
        self.answer.clear();
        match self.protocol {
            Protocol::Http1 => self.exchange_http1().await,
            Protocol::Http2 => self.exchange_http2().await,
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.read.reserve(FRAME);
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn exchange_http1(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                let head = &self.read[..end];
                if !head.starts_with(b"HTTP/1.1 200") {
                    return Err(io::Error::other(String::from_utf8_lossy(head).into_owned()));
                }
                let at = find(head, b"content-length: ")
                    .ok_or_else(|| io::Error::other("no length"))?
                    + 16;
                let length = head[at..]
                    .iter()
                    .take_while(|digit| digit.is_ascii_digit())
                    .fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
                let (from, to) = (end + 4, end + 4 + length);
                while self.read.len() < to {
                    self.fill().await?;
                }
                self.answer.extend_from_slice(&self.read[from..to]);
                self.read.drain(..to);
                return Ok(());
            }
            self.fill().await?;
        }
    }

    async fn greet(&mut self) -> io::Result<()> {
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        frame(&mut hello, SETTINGS, 0, 0, &[]);
        // Room for every answer of a run.
        frame(
            &mut hello,
            WINDOW_UPDATE,
            0,
            0,
            &(i32::MAX - 65_535).to_be_bytes(),
        );
        self.stream.write_all(&hello).await?;
        self.stream.flush().await
    }

    async fn exchange_http2(&mut self) -> io::Result<()> {
        let id = self.http2.stream;
        self.http2.stream += 2;
        let mut out = Vec::with_capacity(self.http2.body.len() + 1024);
        frame(&mut out, HEADERS, END_HEADERS, id, &self.http2.headers);
        // The servers give each stream a window of 1 MiB, above every body here; the connection's is watched.
        let mut sent = 0;
        while sent < self.http2.body.len() {
            let length = (self.http2.body.len() - sent).min(FRAME);
            while self.http2.window < length {
                self.stream.write_all(&out).await?;
                out.clear();
                self.stream.flush().await?;
                if self.frames(id, &mut out).await? {
                    return Err(io::Error::other("answered before the body was sent"));
                }
            }
            let flags = if sent + length == self.http2.body.len() {
                END_STREAM
            } else {
                0
            };
            frame(
                &mut out,
                DATA,
                flags,
                id,
                &self.http2.body[sent..sent + length],
            );
            self.http2.window -= length;
            sent += length;
        }
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        out.clear();
        while !self.frames(id, &mut out).await? {}
        if !out.is_empty() {
            self.stream.write_all(&out).await?;
        }
        Ok(())
    }

    /// Reads what is there; replies go to `out`. Says whether the answer on `id` is complete.
    async fn frames(&mut self, id: u32, out: &mut Vec<u8>) -> io::Result<bool> {
        self.fill().await?;
        let (mut at, mut complete) = (0, false);
        while let Some(head) = self.read.get(at..at + 9) {
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let Some(payload) = self.read.get(at + 9..at + 9 + length) else {
                break;
            };
            match kind {
                DATA => self.answer.extend_from_slice(payload),
                SETTINGS if flags & ACK == 0 => frame(out, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(out, PING, ACK, 0, payload),
                WINDOW_UPDATE if stream == 0 => {
                    self.http2.window += window(u32::from_be_bytes([
                        payload[0], payload[1], payload[2], payload[3],
                    ]));
                }
                RST_STREAM | GOAWAY => return Err(io::Error::other("the server ended it")),
                _ => {}
            }
            complete |= stream == id && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
            at += 9 + length;
        }
        self.read.drain(..at);
        Ok(complete)
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, pattern)
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Headers without the dynamic table, so that the block is the same for every request (RFC 7541): `:method POST` is 3
/// of the static table, `:scheme https` 7; the others are literals with a name from it.
fn header_block(path: &str, length: usize) -> Vec<u8> {
    let mut block = vec![0x83, 0x87];
    let mut literal = |name: &[u8], value: &str| {
        block.extend_from_slice(name);
        block.push(u8::try_from(value.len()).unwrap_or(0x7f));
        block.extend_from_slice(value.as_bytes());
    };
    literal(&[0x04], &format!("{path}?timeout=10s"));
    literal(&[0x01], "localhost");
    literal(&[0x0f, 0x10], "application/json");
    literal(&[0x0f, 0x0d], &length.to_string());
    block
}

/// Windows are below 2^31.
fn window(bytes: u32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}
