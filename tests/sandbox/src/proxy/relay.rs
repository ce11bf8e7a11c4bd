//! One request through the proxy.

use super::Shared;
use super::fault::{Fault, Refusal};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep};

/// What a request ends with when its connection is to be cut.
#[derive(Debug)]
pub(super) struct Broken(String);

impl Broken {
    fn by(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;

/// Headers that belong to one connection.
const HOP_BY_HOP: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Passes requests on.
#[derive(Clone)]
pub(super) struct Relay {
    upstream: kube::Client,
    shared: Arc<Shared>,
}

impl Relay {
    pub(super) fn new(upstream: kube::Client, shared: Arc<Shared>) -> Self {
        Self { upstream, shared }
    }

    /// Answers a request; an error cuts its connection.
    pub(super) async fn pass(&self, request: Request<Incoming>) -> Result<Answer, Broken> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned();
        let fault = self.shared.book().enter(request.method().as_str(), &path);
        // Read whole: what the API server gets does not depend on when the caller gives up.
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(Broken::by)?.to_bytes();
        let request = Request::from_parts(head, body);
        match fault {
            None => self.forward(request, &path).await,
            Some(Fault::Refuse(refusal)) => refuse(&refusal),
            Some(Fault::Delay(time)) => {
                sleep(time).await;
                self.forward(request, &path).await
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Cut) => Err(Broken::by("cut before it was passed on")),
            Some(Fault::LoseAnswer) => {
                // To its end: the answer is lost, not the work.
                let answer = self.forward(request, &path).await?;
                let _ = answer.into_body().collect().await;
                Err(Broken::by("cut before the answer"))
            }
            Some(Fault::LandLate(time)) => {
                let (relay, stop) = (self.clone(), self.shared.stop.clone());
                tokio::spawn(stop.run_until_cancelled_owned(async move {
                    sleep(time).await;
                    let _ = relay.forward(request, &path).await;
                }));
                Err(Broken::by("cut, to land later"))
            }
            Some(Fault::CutAnswerAfter(time)) => {
                let answer = self.forward(request, &path).await?;
                Ok(answer.map(|body| {
                    UnsyncBoxBody::new(CutAfter {
                        body,
                        end: Box::pin(sleep(time)),
                    })
                }))
            }
        }
    }

    async fn forward(&self, request: Request<Bytes>, path: &str) -> Result<Answer, Broken> {
        let (head, body) = request.into_parts();
        let mut onward = Request::builder().method(head.method).uri(path);
        for (name, value) in &head.headers {
            if *name != HOST && !is_hop_by_hop(name) {
                onward = onward.header(name, value);
            }
        }
        let onward = onward
            .body(kube::client::Body::from(body.to_vec()))
            .map_err(Broken::by)?;
        let (mut head, body) = self
            .upstream
            .send(onward)
            .await
            .map_err(Broken::by)?
            .into_parts();
        for name in HOP_BY_HOP {
            head.headers.remove(name);
        }
        head.version = http::Version::default();
        Ok(Response::from_parts(
            head,
            UnsyncBoxBody::new(body.map_err(Broken::by)),
        ))
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
}

fn refuse(refusal: &Refusal) -> Result<Answer, Broken> {
    let body = Full::new(Bytes::from(refusal.status())).map_err(|never| match never {});
    let mut answer = Response::new(UnsyncBoxBody::new(body.map_err(Broken::by)));
    *answer.status_mut() = StatusCode::from_u16(refusal.code).map_err(Broken::by)?;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = refusal.retry_after_seconds {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(answer)
}

/// A body that breaks off at a time.
struct CutAfter {
    body: UnsyncBoxBody<Bytes, Broken>,
    end: Pin<Box<Sleep>>,
}

impl Body for CutAfter {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Broken::by("the answer was cut off"))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Relay")
    }
}
