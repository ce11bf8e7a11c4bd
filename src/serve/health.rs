//! The plain port for the kubelet and Prometheus: `/livez`, `/readyz`, `/metrics`. Never shed.

use super::connection::Answers;
use super::metrics::Exposition;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tower::ServiceExt;

/// What the server needs before it may answer reviews.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Whether traffic should come here.
pub struct Readiness {
    checks: Vec<(&'static str, Check)>,
    draining: AtomicBool,
}

impl Readiness {
    /// Ready once nothing stands against it.
    pub fn new() -> Self {
        Self {
            checks: Vec::new(),
            draining: AtomicBool::new(false),
        }
    }

    /// Adds a condition: `check` says what is missing, in one sentence. It runs at every probe, so it must be quick.
    #[must_use]
    pub fn when(
        mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.push((name, Box::new(check)));
        self
    }

    /// From now on no traffic should come.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether everything is there, and a line for each condition.
    pub fn report(&self) -> (bool, String) {
        let mut ready = true;
        let mut report = String::new();
        let draining = self
            .draining
            .load(Ordering::Relaxed)
            .then(|| "shutting down".to_owned());
        let states = self
            .checks
            .iter()
            .map(|(name, check)| (*name, check().err()));
        for (name, missing) in states.chain([("running", draining)]) {
            ready &= missing.is_none();
            // Writing to a String cannot fail.
            let _ = writeln!(report, "{name}: {}", missing.as_deref().unwrap_or("ok"));
        }
        (ready, report)
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone)]
struct Shared {
    readiness: Arc<Readiness>,
    exposition: Exposition,
}

/// Answers the plain port.
pub struct Health(Router);

impl Health {
    /// Reports `readiness` and `exposition`.
    pub fn new(readiness: Arc<Readiness>, exposition: Exposition) -> Self {
        let router = Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(Shared {
                readiness,
                exposition,
            });
        Self(router)
    }
}

impl Answers for Health {
    async fn answer(&self, request: Request<Incoming>) -> http::Response<Full<Bytes>> {
        let Ok(response) = self.0.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        match body.collect().await {
            Ok(body) => http::Response::from_parts(parts, Full::new(body.to_bytes())),
            Err(error) => {
                let mut response =
                    http::Response::new(Full::new(Bytes::from(format!("{error}\n"))));
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    }
}

async fn ready(State(shared): State<Shared>) -> Response {
    let (ready, report) = shared.readiness.report();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, report).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.exposition.text() {
        Ok(text) => ([(CONTENT_TYPE, Exposition::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
