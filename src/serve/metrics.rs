//! What the server counts, in `OpenMetrics` text on `/metrics`.
//!
//! The registry is a value: other rooms register theirs beside these before the server starts. Counters of the common
//! case, an allowed review, are looked up once and kept.

use crate::admission::{Verdict, Webhook};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the latency buckets, in seconds: decisions take microseconds, those with a live read milliseconds.
const BUCKETS: [f64; 15] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05,
    0.25, 1.0, 3.0, 10.0,
];

/// How a request to a webhook ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// By a decision.
    Judged(Verdict),
    /// By the server itself: shed, late, panicked, too large.
    Refused,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self {
            Self::Judged(verdict) => verdict.label().encode(encoder),
            Self::Refused => "refused".encode(encoder),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    webhook: &'static str,
    verdict: Outcome,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabel {
    webhook: &'static str,
}

/// The server's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Family<RequestLabels, Counter>,
    /// By webhook, in the order of [`Webhook::ALL`].
    webhooks: [PerWebhook; 4],
    in_flight: Gauge,
    connections: Gauge,
    handshake_failures: Counter,
    certificate_expiry: Gauge,
    certificate_failures: Counter,
    panics: Counter,
}

#[derive(Debug)]
struct PerWebhook {
    allowed: Counter,
    seconds: Histogram,
}

impl Metrics {
    /// Registers the server's metrics in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let requests = Family::<RequestLabels, Counter>::default();
        let seconds =
            Family::<WebhookLabel, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        let webhooks = Webhook::ALL.map(|webhook| PerWebhook {
            allowed: requests.get_or_create_owned(&RequestLabels {
                webhook: webhook.label(),
                verdict: Outcome::Judged(Verdict::Allowed),
                reason: "",
            }),
            seconds: seconds.get_or_create_owned(&WebhookLabel {
                webhook: webhook.label(),
            }),
        });
        let inner = Inner {
            requests,
            webhooks,
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            handshake_failures: Counter::default(),
            certificate_expiry: Gauge::default(),
            certificate_failures: Counter::default(),
            panics: Counter::default(),
        };
        registry.register(
            "mds_admission_requests",
            "Reviews answered, by webhook, verdict and the stable word of the reason",
            inner.requests.clone(),
        );
        registry.register(
            "mds_admission_seconds",
            "Time from the request's headers to the answer, live reads included, in seconds",
            seconds,
        );
        registry.register(
            "mds_admission_in_flight",
            "Reviews that are being decided",
            inner.in_flight.clone(),
        );
        registry.register(
            "mds_connections",
            "Open TLS connections of the webhook port, handshakes included",
            inner.connections.clone(),
        );
        registry.register(
            "mds_tls_handshake_failures",
            "TLS handshakes that failed or took too long",
            inner.handshake_failures.clone(),
        );
        registry.register(
            "mds_certificate_expiry_timestamp_seconds",
            "When the certificate in use expires, in seconds since 1970; 0 without one",
            inner.certificate_expiry.clone(),
        );
        registry.register(
            "mds_certificate_reload_failures",
            "Certificate pairs that were found and could not be used; the one before stays in use",
            inner.certificate_failures.clone(),
        );
        registry.register(
            "mds_panics",
            "Panics that were caught; each is a bug",
            inner.panics.clone(),
        );
        registry.register(
            "mds_build",
            "The running program",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        Self(Arc::new(inner))
    }

    /// Counts a finished request to a webhook.
    pub fn request(
        &self,
        webhook: Webhook,
        outcome: Outcome,
        reason: &'static str,
        took: Duration,
    ) {
        let per = &self.0.webhooks[webhook as usize];
        per.seconds.observe(took.as_secs_f64());
        if outcome == Outcome::Judged(Verdict::Allowed) && reason.is_empty() {
            per.allowed.inc();
        } else {
            let labels = RequestLabels {
                webhook: webhook.label(),
                verdict: outcome,
                reason,
            };
            self.0.requests.get_or_create(&labels).inc();
        }
    }

    /// Reviews that are being decided.
    pub fn in_flight(&self) -> &Gauge {
        &self.0.in_flight
    }

    /// Open connections of the webhook port.
    pub fn connections(&self) -> &Gauge {
        &self.0.connections
    }

    /// TLS handshakes that came to nothing.
    pub fn handshake_failures(&self) -> &Counter {
        &self.0.handshake_failures
    }

    /// When the certificate in use expires, in seconds since 1970.
    pub fn certificate_expiry(&self) -> &Gauge {
        &self.0.certificate_expiry
    }

    /// Certificate pairs that could not be used.
    pub fn certificate_failures(&self) -> &Counter {
        &self.0.certificate_failures
    }

    /// Panics that were caught.
    pub fn panics(&self) -> &Counter {
        &self.0.panics
    }
}

/// The whole registry, as text on demand.
#[derive(Clone, Debug)]
pub struct Exposition(Arc<Mutex<Registry>>);

impl Exposition {
    /// The content type of [`Self::text`].
    pub const CONTENT_TYPE: &'static str =
        "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Closes the registry: nothing is registered from here on.
    pub fn new(registry: Registry) -> Self {
        Self(Arc::new(Mutex::new(registry)))
    }

    /// All metrics as they are now.
    ///
    /// # Errors
    /// When a metric cannot be written as text, which is a bug of its own.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::with_capacity(8 * 1024);
        encode(&mut text, &registry)?;
        Ok(text)
    }
}
