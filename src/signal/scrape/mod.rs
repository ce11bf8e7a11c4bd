//! The scraper: the half of this room that talks to the network.
//!
//! A GET, and nothing that could surprise: a connection of its own, no redirects, no proxy, no compression, a deadline
//! over all of it, one request in flight for an endpoint and 32 in all. What goes wrong costs that Pod its place in
//! coverage, and carries a reason and what the endpoint sent.

mod endpoint;
mod tls;

use std::collections::HashSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT,
};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::engine::{Collector, Engine, Sample};
use super::exposition::{MAX_BODY, is_whole};
use super::refusal::Refusal;
pub use endpoint::{Endpoint, EndpointError, Scheme};
pub use tls::{Tls, TlsError};

/// Scrapes in flight at most.
const CONCURRENCY: usize = 32;

/// No scrape takes longer, however long the interval.
const LONGEST: Duration = Duration::from_secs(2);

/// Bytes of an unwanted answer that are quoted.
const QUOTED: usize = 120;

/// A scrape that gave no sample: the reason, and what was seen, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}: {detail}")]
pub struct Failure {
    /// The reason.
    pub refusal: Refusal,
    /// What was seen.
    pub detail: String,
}

impl Failure {
    fn new(refusal: Refusal, detail: impl Into<String>) -> Self {
        Self {
            refusal,
            detail: detail.into(),
        }
    }
}

/// A sample and when its last byte came.
#[derive(Clone, Debug)]
pub struct Scraped {
    /// When the answer was complete, on the monotonic clock.
    pub at: Instant,
    /// The sample.
    pub sample: Sample,
}

/// Scrapes engines.
#[derive(Debug)]
pub struct Scraper {
    tls: Tls,
    slots: Semaphore,
    in_flight: Mutex<HashSet<Endpoint>>,
    collector: Mutex<Collector>,
}

impl Scraper {
    /// A scraper that verifies https endpoints by `tls`.
    pub fn new(tls: Tls) -> Self {
        Self {
            tls,
            slots: Semaphore::new(CONCURRENCY),
            in_flight: Mutex::default(),
            collector: Mutex::default(),
        }
    }

    /// The deadline of a scrape: 2 s, and below a third of the sampling interval.
    pub fn deadline(interval: Duration) -> Duration {
        interval.mul_f64(0.3).min(LONGEST)
    }

    /// Scrapes one endpoint. `declared` is the engine that the target runs, where it says so.
    ///
    /// # Errors
    /// Why there is no sample. An endpoint whose last scrape is still in flight has timed out.
    pub async fn scrape(
        &self,
        endpoint: &Endpoint,
        declared: Option<Engine>,
        interval: Duration,
    ) -> Result<Scraped, Failure> {
        let Some(_flight) = Flight::begin(&self.in_flight, endpoint) else {
            return Err(Failure::new(
                Refusal::Timeout,
                "the scrape before this one has not ended",
            ));
        };
        // The semaphore is never closed; were it, a scrape too many would do no harm.
        let _slot = self.slots.acquire().await;
        let deadline = Self::deadline(interval);
        let Ok(body) = timeout(deadline, self.fetch(endpoint)).await else {
            let detail = format!("no whole answer within {} ms", deadline.as_millis());
            return Err(Failure::new(Refusal::Timeout, detail));
        };
        let (at, body) = body?;
        let sample = lock(&self.collector).sample(&body, declared);
        let sample = sample.map_err(|refusal| Failure::new(refusal, describe(&body)))?;
        Ok(Scraped { at, sample })
    }

    async fn fetch(&self, endpoint: &Endpoint) -> Result<(Instant, Vec<u8>), Failure> {
        let stream = TcpStream::connect((endpoint.host(), endpoint.port()))
            .await
            .map_err(|error| Failure::new(Refusal::Refused, error.to_string()))?;
        match endpoint.scheme() {
            Scheme::Http => get(stream, endpoint).await,
            Scheme::Https => {
                let stream = self
                    .tls
                    .connect(endpoint.host(), stream)
                    .await
                    .map_err(|error| {
                        let refusal = if tls::is_of_certificate(&error) {
                            Refusal::Certificate
                        } else {
                            Refusal::Refused
                        };
                        Failure::new(refusal, error.to_string())
                    })?;
                get(stream, endpoint).await
            }
        }
    }
}

/// An endpoint that is being scraped, until dropped.
struct Flight<'a> {
    all: &'a Mutex<HashSet<Endpoint>>,
    endpoint: &'a Endpoint,
}

impl<'a> Flight<'a> {
    fn begin(all: &'a Mutex<HashSet<Endpoint>>, endpoint: &'a Endpoint) -> Option<Self> {
        let free = lock(all).insert(endpoint.clone());
        // Lazily: one that is made and dropped would land the flight that is under way.
        free.then(|| Self { all, endpoint })
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        lock(self.all).remove(self.endpoint);
    }
}

/// What is behind these locks is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn get<S>(stream: S, endpoint: &Endpoint) -> Result<(Instant, Vec<u8>), Failure>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    let request = Request::get(endpoint.path())
        .header(HOST, endpoint.authority())
        .header(ACCEPT, "text/plain;version=0.0.4")
        .header(ACCEPT_ENCODING, "identity")
        .header(USER_AGENT, concat!("mds/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Failure::new(Refusal::Refused, error.to_string()))?;
    let exchange = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| broken(&error))?;
        let body = receive(response).await?;
        Ok((Instant::now(), body))
    };
    // The connection is driven here, and not by a task of its own: it ends with the scrape, whatever happens.
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        done = &mut exchange => done,
        _ = &mut connection => exchange.await,
    }
}

async fn receive(response: Response<Incoming>) -> Result<Vec<u8>, Failure> {
    let (head, mut body) = response.into_parts();
    if head.status != StatusCode::OK {
        let detail = format!(
            "{}{}",
            content_type(&head.headers),
            quote(&first(&mut body).await)
        );
        return Err(Failure::new(Refusal::Status(head.status.as_u16()), detail));
    }
    if !is_text(&head.headers) {
        let detail = format!(
            "{}{}",
            content_type(&head.headers),
            quote(&first(&mut body).await)
        );
        return Err(Failure::new(Refusal::NotText, detail));
    }
    let announced = body.size_hint().exact();
    let most = u64::try_from(MAX_BODY).unwrap_or(u64::MAX);
    if announced.is_some_and(|announced| announced > most) {
        let detail = format!("{} bytes are announced", announced.unwrap_or_default());
        return Err(Failure::new(Refusal::TooLarge, detail));
    }
    let room = announced.and_then(|announced| usize::try_from(announced).ok());
    let mut received = Vec::with_capacity(room.unwrap_or(64 << 10));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Failure::new(
                Refusal::Truncated,
                format!("{error} after {} bytes", received.len()),
            )
        })?;
        if let Some(data) = frame.data_ref() {
            if received.len() + data.len() > MAX_BODY {
                return Err(Failure::new(
                    Refusal::TooLarge,
                    format!("more than {MAX_BODY} bytes came"),
                ));
            }
            received.extend_from_slice(data);
        }
    }
    if !is_whole(received.len(), announced) {
        return Err(Failure::new(
            Refusal::Truncated,
            format!("{} bytes came", received.len()),
        ));
    }
    Ok(received)
}

/// The first bytes of an answer that is not wanted, to be quoted.
async fn first(body: &mut Incoming) -> Vec<u8> {
    let frame = body.frame().await.and_then(Result::ok);
    let mut data = frame
        .and_then(|frame| frame.into_data().ok())
        .unwrap_or_default();
    data.truncate(QUOTED);
    data.to_vec()
}

fn is_text(headers: &HeaderMap) -> bool {
    let encoded = headers
        .get(CONTENT_ENCODING)
        .is_some_and(|encoding| encoding != "identity");
    // An engine that does not say what it sends is believed: the text says what it is.
    let text = headers.get(CONTENT_TYPE).is_none_or(|kind| {
        let essence = kind
            .as_bytes()
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        [&b"text/plain"[..], b"application/openmetrics-text"]
            .iter()
            .any(|text| essence.eq_ignore_ascii_case(text))
    });
    text && !encoded
}

fn content_type(headers: &HeaderMap) -> String {
    let told = [CONTENT_TYPE, CONTENT_ENCODING]
        .into_iter()
        .filter_map(|header| {
            let value = headers.get(&header)?;
            Some(format!(
                "{header} {}, ",
                String::from_utf8_lossy(value.as_bytes())
            ))
        });
    told.collect::<Vec<_>>().concat()
}

/// What of a body tells a person why it is none.
fn describe(body: &[u8]) -> String {
    let last = body.split_at(body.len().saturating_sub(40)).1;
    let begins = quote(body);
    format!(
        "{} bytes that begin {begins} and end \"{}\"",
        body.len(),
        last.escape_ascii()
    )
}

fn quote(bytes: &[u8]) -> String {
    format!(
        "\"{}\"",
        bytes.get(..QUOTED).unwrap_or(bytes).escape_ascii()
    )
}

/// The reason of a connection that broke before an answer came, or answered in another language.
fn broken(error: &hyper::Error) -> Failure {
    let refusal = if error.is_parse() {
        Refusal::NotText
    } else {
        Refusal::Refused
    };
    let cause =
        std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    let detail = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
    Failure::new(refusal, detail)
}

#[cfg(test)]
mod tests;
