//! One connection's life: who stays, who is asked to leave, who is cut off.
//!
//! A peer may vanish without a word, finish the handshake and send nothing, or half a preface, or half a request. One timer
//! for a connection finds all of these, by what the peer completed lately. hyper has limits of its own (a time to read
//! headers, HTTP/2 pings): the first is a timer for each request, the second a lock and a clock for each frame, neither sees
//! a peer that never sends its preface, and both are off. Old connections are closed so that no request is lost: HTTP/2
//! has GOAWAY for it; HTTP/1.1 has nothing to say to a peer that may be about to send, so that an old connection is told
//! `Connection: close` with its next answer. (A client does not repeat a POST that met a closing connection.)

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The length of the HTTP/2 client preface (RFC 9113, section 3.4): with less, no HTTP/2 client is there.
const PREFACE: u64 = 24;

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 128;

/// How long a connection may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From accept to the end of the TLS handshake.
    pub handshake: Duration,
    /// From there to the first request, or the HTTP/2 preface.
    pub first_request: Duration,
    /// Without a request. Clients written in Go leave after 90 s: longer than that, so that they leave first.
    pub idle: Duration,
    /// From the handshake to a polite close, over HTTP/1.1 with the next answer: clients come back, and spread over the replicas again. Each connection gets
    /// up to a tenth less, so that those of one moment do not all come back in one moment.
    pub age: Duration,
    /// From a polite close to a cut, for the requests that still run.
    pub farewell: Duration,
}

impl Default for Patience {
    /// Handshake and first request 10 s, idle 100 s, age 15 minutes, farewell 15 s.
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(10),
            idle: Duration::from_secs(100),
            age: Duration::from_mins(15),
            farewell: Duration::from_secs(15),
        }
    }
}

/// The HTTP version of a connection, fixed before its first byte: with detection, a silent peer would never time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, also for clients that offer no protocol.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Answers the requests of one port.
pub trait Answers: Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// What a connection has done lately. One writer a field, and nobody needs them to agree.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    /// Bytes that came, counted up to [`PREFACE`].
    bytes: AtomicU64,
    /// Requests that run.
    running: AtomicU32,
    /// Milliseconds from `opened` to the end of the last request; 0 before the first.
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            bytes: AtomicU64::new(0),
            running: AtomicU32::new(0),
            last: AtomicU64::new(0),
        }
    }

    fn since_opened(&self) -> Duration {
        self.opened.elapsed()
    }
}

/// A request that runs.
struct Running<'a>(&'a Activity);

impl<'a> Running<'a> {
    fn new(activity: &'a Activity) -> Self {
        activity.running.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let millis = u64::try_from(self.0.since_opened().as_millis()).unwrap_or(u64::MAX);
        self.0.last.store(millis.max(1), Ordering::Relaxed);
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What becomes of a connection at a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It stays; look again after this long.
    Stay(Duration),
    /// It is asked to leave once its requests are answered.
    Leave,
    /// Nobody is there.
    Cut,
}

fn next(activity: &Activity, protocol: Protocol, patience: &Patience, now: Duration) -> Next {
    let left = |until: Duration| until.saturating_sub(now);
    // Over HTTP/1.1 the next answer ends an old connection.
    let young = match protocol {
        Protocol::Http1 => patience.idle,
        Protocol::Http2 => left(patience.age),
    };
    if young.is_zero() {
        return Next::Leave;
    }
    if activity.running.load(Ordering::Relaxed) > 0 {
        return Next::Stay(young.min(patience.idle));
    }
    let last = activity.last.load(Ordering::Relaxed);
    let began = match protocol {
        Protocol::Http1 => last > 0,
        Protocol::Http2 => activity.bytes.load(Ordering::Relaxed) >= PREFACE,
    };
    if !began {
        return match left(patience.first_request) {
            Duration::ZERO => Next::Cut,
            wait => Next::Stay(wait),
        };
    }
    match left(Duration::from_millis(last) + patience.idle) {
        Duration::ZERO => Next::Leave,
        wait => Next::Stay(wait.min(young)),
    }
}

/// A hyper connection that can be closed politely.
trait Closes: Future<Output = hyper::Result<()>> {
    fn close(self: Pin<&mut Self>);
}

impl<I, S> Closes for http1::Connection<I, S>
where
    S: hyper::service::HttpService<Incoming, ResBody = Full<Bytes>, Error = Infallible>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    fn close(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, E> Closes for http2::Connection<I, S, E>
where
    S: hyper::service::HttpService<Incoming, ResBody = Full<Bytes>, Error = Infallible>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, Full<Bytes>>,
{
    fn close(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Serves one connection until its peer leaves, or its patience or the server's life is over.
pub async fn serve<IO, A>(
    io: IO,
    protocol: Protocol,
    answers: Arc<A>,
    patience: Patience,
    leave: CancellationToken,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Answers,
{
    let age = patience.age.saturating_sub(spread(patience.age / 10));
    let patience = Patience { age, ..patience };
    let activity = Arc::new(Activity::new());
    let io = TokioIo::new(Counted {
        io,
        activity: Arc::clone(&activity),
    });
    let service = hyper::service::service_fn({
        let activity = Arc::clone(&activity);
        move |request| {
            let (answers, activity) = (Arc::clone(&answers), Arc::clone(&activity));
            async move {
                let _running = Running::new(&activity);
                let mut response = answers.answer(request).await;
                if protocol == Protocol::Http1 && activity.since_opened() >= age {
                    response
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        }
    });
    match protocol {
        Protocol::Http1 => {
            let connection = http1::Builder::new().serve_connection(io, service);
            live(connection, protocol, &activity, patience, leave).await;
        }
        Protocol::Http2 => {
            let connection = http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(STREAMS)
                .serve_connection(io, service);
            live(connection, protocol, &activity, patience, leave).await;
        }
    }
}

async fn live<C: Closes>(
    connection: C,
    protocol: Protocol,
    activity: &Activity,
    patience: Patience,
    leave: CancellationToken,
) {
    let mut connection = pin!(connection);
    // The set polls its one member when that was woken, not at every byte that comes.
    let mut watch: FuturesUnordered<_> = [watch(protocol, activity, patience, leave)]
        .into_iter()
        .collect();
    let end = tokio::select! {
        biased;
        result = connection.as_mut() => return ended(result),
        end = watch.next() => end,
    };
    if end == Some(End::Cut) {
        return;
    }
    connection.as_mut().close();
    if let Ok(result) = timeout(patience.farewell, connection).await {
        ended(result);
    }
}

/// How a connection ends that does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Politely,
    Cut,
}

/// Waits until the connection should end.
async fn watch(
    protocol: Protocol,
    activity: &Activity,
    patience: Patience,
    leave: CancellationToken,
) -> End {
    let mut wait = patience.first_request.min(patience.age);
    loop {
        if leave.run_until_cancelled(sleep(wait)).await.is_none() {
            return End::Politely;
        }
        match next(activity, protocol, &patience, activity.since_opened()) {
            Next::Stay(more) => wait = more,
            Next::Leave => return End::Politely,
            Next::Cut => return End::Cut,
        }
    }
}

/// A random part of `most`.
fn spread(most: Duration) -> Duration {
    // The keys of a hasher are the standard library's source of randomness, and luck is all that is needed here.
    let luck = RandomState::new().build_hasher().finish();
    most / 1024 * u32::try_from(luck % 1024).unwrap_or(0)
}

/// Peers that vanish are everyday; what they did is worth a line only when somebody looks.
fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// Counts the first bytes that come.
struct Counted<IO> {
    io: IO,
    activity: Arc<Activity>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for Counted<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        let bytes = &self.activity.bytes;
        if bytes.load(Ordering::Relaxed) < PREFACE {
            bytes.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Counted<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(
        protocol: Protocol,
        bytes: u64,
        running: u32,
        last_seconds: u64,
        now_seconds: u64,
    ) -> Next {
        let activity = Activity::new();
        activity.bytes.store(bytes, Ordering::Relaxed);
        activity.running.store(running, Ordering::Relaxed);
        activity.last.store(last_seconds * 1000, Ordering::Relaxed);
        next(
            &activity,
            protocol,
            &Patience::default(),
            SECOND * u32::try_from(now_seconds).unwrap(),
        )
    }

    #[test]
    fn a_peer_that_sends_nothing_is_cut() {
        assert_eq!(at(Protocol::Http1, 0, 0, 0, 9), Next::Stay(SECOND));
        assert_eq!(at(Protocol::Http1, 0, 0, 0, 10), Next::Cut);
        assert_eq!(at(Protocol::Http1, 500, 0, 0, 10), Next::Cut);
        assert_eq!(at(Protocol::Http2, 23, 0, 0, 10), Next::Cut);
    }

    #[test]
    fn an_idle_peer_is_asked_to_leave() {
        assert_eq!(at(Protocol::Http2, 24, 0, 0, 10), Next::Stay(SECOND * 90));
        assert_eq!(at(Protocol::Http2, 24, 0, 0, 100), Next::Leave);
        assert_eq!(at(Protocol::Http1, 24, 0, 50, 149), Next::Stay(SECOND));
        assert_eq!(at(Protocol::Http1, 24, 0, 50, 150), Next::Leave);
    }

    #[test]
    fn a_running_request_is_no_idleness() {
        assert_eq!(at(Protocol::Http1, 24, 1, 0, 500), Next::Stay(SECOND * 100));
        assert_eq!(at(Protocol::Http2, 24, 1, 0, 850), Next::Stay(SECOND * 50));
    }

    #[test]
    fn age_asks_http_2_to_leave_and_leaves_http_1_to_its_next_answer() {
        assert_eq!(at(Protocol::Http2, 24, 1, 0, 900), Next::Leave);
        assert_eq!(at(Protocol::Http2, 24, 0, 899, 900), Next::Leave);
        assert_eq!(at(Protocol::Http1, 24, 1, 0, 900), Next::Stay(SECOND * 100));
        assert_eq!(
            at(Protocol::Http1, 24, 0, 899, 900),
            Next::Stay(SECOND * 99)
        );
        assert_eq!(at(Protocol::Http1, 24, 0, 899, 999), Next::Leave);
    }
}
