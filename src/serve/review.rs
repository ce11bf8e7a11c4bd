//! One request to a webhook, from its headers to its answer: the hot path.
//!
//! It goes from hyper's service straight to the decision. A router in between, boxed futures and a timer for each request
//! cost more than a decision does, so there is none of them here: four paths are compared, and a timer exists only once
//! something has to be waited for.
//!
//! Every way out is an answer. Once the uid of a review is read, that answer is a review.

use super::deadline::{Deadline, within};
use super::decide::{Decide, Lookup, Step};
use super::metrics::{Metrics, Outcome};
use crate::admission::{Answer, Facts, Question, Verdict, Webhook, refuse, uid_of};
use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Body;
use prometheus_client::metrics::gauge::Gauge;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// How many times a decision may ask before the server calls it a bug.
const ROUNDS: usize = 4;

/// What one server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one body. A review holds an object of at most 1.5 MiB twice, escaped.
    pub body: usize,
    /// Bytes of all bodies that are being received or decided.
    pub bodies: usize,
    /// Reviews that are decided at once: those that wait for a live read, nearly always.
    pub in_flight: usize,
}

impl Default for Limits {
    /// 8 MiB a body, 64 MiB all bodies, 256 reviews.
    fn default() -> Self {
        Self {
            body: 8 << 20,
            bodies: 64 << 20,
            in_flight: 256,
        }
    }
}

/// Answers requests to the four webhooks.
pub struct Reviews<D, L> {
    decide: D,
    lookup: L,
    limits: Limits,
    metrics: Metrics,
    /// Bytes of bodies that are held.
    held: AtomicUsize,
}

/// A place among the reviews in flight, given back on drop.
struct Place<'a> {
    in_flight: &'a Gauge,
    /// How many there were, this one included.
    number: usize,
}

impl<'a> Place<'a> {
    fn take(in_flight: &'a Gauge) -> Self {
        Self {
            in_flight,
            number: usize::try_from(in_flight.inc()).unwrap_or(0) + 1,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

/// Bytes that a body takes of the room for all of them, given back on drop.
struct Room<'a> {
    held: &'a AtomicUsize,
    mine: usize,
}

impl<'a> Room<'a> {
    fn none(held: &'a AtomicUsize) -> Self {
        Self { held, mine: 0 }
    }

    /// Takes `bytes` more; says how many all bodies have then.
    fn take(&mut self, bytes: usize) -> usize {
        self.mine += bytes;
        self.held.fetch_add(bytes, Ordering::Relaxed) + bytes
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.mine, Ordering::Relaxed);
    }
}

/// Why a body was not received.
enum Unread<E> {
    TooLarge,
    NoRoom,
    Late,
    Broken(E),
}

/// A refusal that the server itself makes: the stable word, and what a person reads.
struct Refusal {
    status: StatusCode,
    reason: &'static str,
    message: &'static str,
    retry: bool,
}

const OVERLOADED: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "Overloaded",
    message: "mds has more reviews than it can decide in time; try again",
    retry: true,
};
const LATE: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    reason: "DeadlineExceeded",
    message: "mds could not decide in time; try again",
    retry: true,
};
const PANICKED: Refusal = Refusal {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    reason: "InternalError",
    message: "mds failed on this request, which is a bug: its log has the same uid",
    retry: false,
};

impl<D: Decide, L: Lookup> Reviews<D, L> {
    /// Answers by `decide`, which asks `lookup`.
    pub fn new(decide: D, lookup: L, limits: Limits, metrics: Metrics) -> Self {
        Self {
            decide,
            lookup,
            limits,
            metrics,
            held: AtomicUsize::new(0),
        }
    }

    /// Answers one request. Never fails, never panics.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: fmt::Display,
    {
        let Some(webhook) = Webhook::ALL
            .into_iter()
            .find(|w| w.path() == request.uri().path())
        else {
            return plain(StatusCode::NOT_FOUND, "no webhook has this path\n");
        };
        if request.method() != Method::POST {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "post an AdmissionReview\n");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let started = Instant::now();
        let deadline = Deadline::of(started, request.uri().query());
        let version = request.version();

        let mut room = Room::none(&self.held);
        let body = match self.receive(request.into_body(), &mut room, deadline).await {
            Ok(body) => body,
            Err(unread) => return self.not_received(webhook, version, started, unread),
        };
        // Taken only now: a body that stalls keeps nobody out, and who is kept out gets a review.
        let place = Place::take(self.metrics.in_flight());
        if place.number > self.limits.in_flight {
            return self.refused(webhook, &body, started, &OVERLOADED);
        }
        self.decided(webhook, &body, started, deadline).await
    }

    async fn decided(
        &self,
        webhook: Webhook,
        body: &[u8],
        started: Instant,
        deadline: Deadline,
    ) -> Response<Full<Bytes>> {
        let Some(mut step) = caught(|| self.decide.decide(webhook, body)) else {
            return self.panicked(webhook, body, started);
        };
        for _ in 0..ROUNDS {
            let asked = match step {
                Step::Answer(answer) => return self.finished(webhook, answer, started),
                Step::Ask(asked) => asked,
            };
            // Boxed, so that the common case does not carry the room for it.
            let Ok(facts) = within(deadline, Box::pin(self.look_up(asked.questions()))).await
            else {
                return self.refused(webhook, body, started, &LATE);
            };
            let Some(next) = caught(|| asked.answer(&facts)) else {
                return self.panicked(webhook, body, started);
            };
            step = next;
        }
        if let Step::Answer(answer) = step {
            return self.finished(webhook, answer, started);
        }
        tracing::error!(
            webhook = webhook.label(),
            "a decision asked more than {ROUNDS} times"
        );
        self.refused(webhook, body, started, &PANICKED)
    }

    async fn look_up(&self, questions: &[Question]) -> Facts {
        Facts(
            futures::future::join_all(questions.iter().map(|question| self.lookup.find(question)))
                .await,
        )
    }

    /// Receives the whole body; one that came in one piece is not copied.
    async fn receive<B>(
        &self,
        body: B,
        room: &mut Room<'_>,
        deadline: Deadline,
    ) -> Result<Bytes, Unread<B::Error>>
    where
        B: Body<Data = Bytes>,
    {
        let announced = body.size_hint().lower();
        if announced > self.limits.body as u64 {
            return Err(Unread::TooLarge);
        }
        within(deadline, async {
            let mut body = pin!(body);
            let mut first = Bytes::new();
            let mut rest: Option<BytesMut> = None;
            while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else {
                    continue;
                };
                if room.mine + data.len() > self.limits.body {
                    return Err(Unread::TooLarge);
                }
                if room.take(data.len()) > self.limits.bodies {
                    return Err(Unread::NoRoom);
                }
                match &mut rest {
                    None if first.is_empty() => first = data,
                    None => {
                        let expected = usize::try_from(announced)
                            .unwrap_or(0)
                            .max(first.len() + data.len());
                        let mut whole = BytesMut::with_capacity(expected);
                        whole.extend_from_slice(&first);
                        whole.extend_from_slice(&data);
                        rest = Some(whole);
                    }
                    Some(whole) => whole.extend_from_slice(&data),
                }
            }
            Ok(rest.map_or(first, BytesMut::freeze))
        })
        .await
        .unwrap_or(Err(Unread::Late))
    }

    fn finished(
        &self,
        webhook: Webhook,
        answer: Answer,
        started: Instant,
    ) -> Response<Full<Bytes>> {
        let took = started.elapsed();
        self.metrics.request(
            webhook,
            Outcome::Judged(answer.verdict),
            answer.reason,
            took,
        );
        let uid = answer.uid.as_deref().unwrap_or_default();
        if answer.verdict == Verdict::Allowed {
            tracing::debug!(
                uid,
                webhook = webhook.label(),
                seconds = took.as_secs_f64(),
                "allowed"
            );
        } else {
            tracing::info!(
                uid,
                webhook = webhook.label(),
                reason = answer.reason,
                verdict = answer.verdict.label(),
                seconds = took.as_secs_f64(),
                "refused"
            );
        }
        review(answer)
    }

    fn panicked(&self, webhook: Webhook, body: &[u8], started: Instant) -> Response<Full<Bytes>> {
        self.metrics.panics().inc();
        self.refused(webhook, body, started, &PANICKED)
    }

    /// Refuses a received review; one without a uid gets plain text.
    fn refused(
        &self,
        webhook: Webhook,
        body: &[u8],
        started: Instant,
        refusal: &Refusal,
    ) -> Response<Full<Bytes>> {
        let uid = caught(|| uid_of(body)).flatten();
        self.note(
            webhook,
            uid.as_deref().unwrap_or_default(),
            started,
            refusal.reason,
        );
        let Some(uid) = uid else {
            return plain_refusal(refusal);
        };
        let retry = refusal.retry.then_some(1);
        review(refuse(
            &uid,
            refusal.status.as_u16(),
            refusal.reason,
            refusal.message,
            retry,
        ))
    }

    /// Refuses a request whose body stays unread, so the connection cannot be used again.
    fn unread(
        &self,
        webhook: Webhook,
        version: Version,
        started: Instant,
        refusal: &Refusal,
    ) -> Response<Full<Bytes>> {
        self.note(webhook, "", started, refusal.reason);
        closing(version, plain_refusal(refusal))
    }

    fn not_received<E: fmt::Display>(
        &self,
        webhook: Webhook,
        version: Version,
        started: Instant,
        unread: Unread<E>,
    ) -> Response<Full<Bytes>> {
        match unread {
            Unread::NoRoom => self.unread(webhook, version, started, &OVERLOADED),
            Unread::Late => self.unread(webhook, version, started, &LATE),
            Unread::TooLarge => {
                self.note(webhook, "", started, "BodyTooLarge");
                let message = format!("the body is larger than {} bytes\n", self.limits.body);
                closing(version, plain(StatusCode::PAYLOAD_TOO_LARGE, message))
            }
            Unread::Broken(error) => {
                self.note(webhook, "", started, "BodyUnreadable");
                closing(
                    version,
                    plain(
                        StatusCode::BAD_REQUEST,
                        format!("the body could not be read: {error}\n"),
                    ),
                )
            }
        }
    }

    fn note(&self, webhook: Webhook, uid: &str, started: Instant, reason: &'static str) {
        let took = started.elapsed();
        self.metrics
            .request(webhook, Outcome::Refused, reason, took);
        tracing::warn!(
            uid,
            webhook = webhook.label(),
            reason,
            seconds = took.as_secs_f64(),
            "not decided"
        );
    }
}

/// Nothing where `work` panicked. That leaves nothing half-changed: a decision only reads, and its own state is dropped.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

fn review(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() =
        StatusCode::from_u16(answer.http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn plain(status: StatusCode, message: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(message.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn plain_refusal(refusal: &Refusal) -> Response<Full<Bytes>> {
    let mut response = plain(refusal.status, refusal.message);
    if refusal.retry {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// HTTP/1 cannot skip the rest of a body; HTTP/2 resets the one stream by itself.
fn closing(version: Version, mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    if version < Version::HTTP_2 {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
