//! The webhook server: TLS, health, metrics, drain.
//!
//! ```text
//! listener    accepts, caps, shakes hands, drains      shutdown   signals
//! connection  one connection's life                    tls        the certificate, and its next one
//! review      one request: bounded, timed, answered    deadline   how long it may take
//! decide      the seams to `admission` and the cluster  judge      `admission` behind it
//! lookup      live reads and hints from the cluster    identity   who this program is there
//! health      the plain port                           metrics    what is counted
//! ```
//!
//! The order of a start: [`Port::bind`](listener::Port::bind), [`Certificate::load`](tls::Certificate::load), then
//! [`Port::open`](listener::Port::open) with [`Reviews`]. `command::serve` does it.

pub mod connection;
pub mod deadline;
pub mod decide;
pub mod discovery;
pub mod health;
pub mod hints;
pub mod identity;
pub mod judge;
pub mod listener;
pub mod lookup;
pub mod metrics;
pub mod review;
pub mod sentence;
pub mod shutdown;
pub mod tls;

use bytes::Bytes;
use connection::Answers;
use decide::{Decide, Lookup};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use review::Reviews;

impl<D: Decide, L: Lookup> Answers for Reviews<D, L> {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        Reviews::answer(self, request).await
    }
}
