//! Facts from the cluster: live reads of one object, and hints from the caches.
//!
//! A live read is one GET with a deadline. "Not found" and "kind not served" are facts; everything else is a sentence
//! that says why the fact is not known, and the decision fails closed on it.

use super::decide::Lookup;
use super::discovery::{Discovery, GROUP, Served};
use super::hints::Hints;
use super::sentence::sentence;
use crate::admission::{Fact, Question};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a live read may take, discovery included.
const DEADLINE: Duration = Duration::from_secs(3);

/// The largest object that is read. etcd stores 1.5 MiB by default.
const LARGEST: usize = 16 << 20;

/// The cluster, as the decisions see it.
#[derive(Clone, Debug)]
pub struct Cluster {
    live: Live,
    hints: Arc<Hints>,
}

#[derive(Clone)]
struct Live {
    client: Client,
    targets: Arc<Discovery>,
    scalers: Arc<Discovery>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("targets", &self.targets)
            .field("scalers", &self.scalers)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Reads through `client`, which must not retry by itself: a retried read outlives its deadline.
    pub fn new(
        client: Client,
        targets: Arc<Discovery>,
        scalers: Arc<Discovery>,
        hints: Arc<Hints>,
    ) -> Self {
        Self {
            live: Live {
                client,
                targets,
                scalers,
            },
            hints,
        }
    }
}

impl Lookup for Cluster {
    async fn find(&self, question: &Question) -> Fact {
        match question {
            Question::Target { namespace, name } => {
                Fact::Object(self.live.get(&self.live.targets, namespace, name).await)
            }
            Question::Scaler { namespace, name } => {
                Fact::Object(self.live.get(&self.live.scalers, namespace, name).await)
            }
            Question::HintScalersOf { namespace, target } => {
                Fact::Names(self.hints.scalers_of(namespace, target))
            }
            Question::HintBinding { namespace, target } => {
                Fact::Annotation(self.hints.binding(namespace, target))
            }
        }
    }
}

impl Live {
    async fn get(
        &self,
        discovery: &Discovery,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Bytes>, String> {
        let read = timeout(DEADLINE, self.read(discovery, namespace, name))
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", DEADLINE.as_secs())));
        if let Err(error) = &read {
            tracing::warn!(
                kind = discovery.kind().name,
                namespace,
                name,
                error,
                "live read failed"
            );
        }
        read
    }

    async fn read(
        &self,
        discovery: &Discovery,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Bytes>, String> {
        if !possible(namespace) || !possible(name) {
            return Ok(None);
        }
        let version = match discovery.served().await {
            Served::In(version) => version,
            Served::No => return Ok(None),
            Served::Unknown(error) => return Err(format!("discovery failed: {error}")),
        };
        match self
            .object(discovery.kind().plural, version, namespace, name)
            .await?
        {
            Got::Object(bytes) => Ok(Some(bytes)),
            Got::NoObject => Ok(None),
            // The path itself is unknown: the version went away since the last look.
            Got::NoPath => match discovery.look(Duration::ZERO).await {
                Served::In(other) if other != version => {
                    match self
                        .object(discovery.kind().plural, other, namespace, name)
                        .await?
                    {
                        Got::Object(bytes) => Ok(Some(bytes)),
                        Got::NoObject | Got::NoPath => Ok(None),
                    }
                }
                Served::In(_) | Served::No => Ok(None),
                Served::Unknown(error) => Err(format!("discovery failed: {error}")),
            },
        }
    }

    async fn object(
        &self,
        plural: &str,
        version: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Got, String> {
        let path = path(plural, version, namespace, name);
        let request = Request::get(path)
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| sentence(&error))?;
        let status = response.status();
        let body = whole(response).await?;
        match status {
            StatusCode::OK => Ok(Got::Object(body)),
            StatusCode::NOT_FOUND if ApiStatus::read(&body).details.name == name => {
                Ok(Got::NoObject)
            }
            StatusCode::NOT_FOUND => Ok(Got::NoPath),
            _ => Err(ApiStatus::read(&body).sentence(status)),
        }
    }
}

enum Got {
    Object(Bytes),
    NoObject,
    NoPath,
}

async fn whole(response: Response<Body>) -> Result<Bytes, String> {
    match Limited::new(response.into_body(), LARGEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(format!("the answer broke off: {error}")),
    }
}

/// The parts of a `metav1.Status` that say what happened.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ApiStatus {
    message: String,
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    name: String,
}

impl ApiStatus {
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    fn sentence(&self, status: StatusCode) -> String {
        match self.message.as_str() {
            "" => format!("the API server answered {status}"),
            message => format!("the API server answered {}: {message}", status.as_u16()),
        }
    }
}

fn path(plural: &str, version: &str, namespace: &str, name: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{plural}/{name}")
}

/// Whether an object or a namespace can have this name: a DNS-1123 subdomain, as far as a path cares. Names come from
/// reviews, and the API server unescapes a path before it splits it: a name with a slash would read something else.
fn possible(name: &str) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 253
        && alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_name_is_never_put_into_a_path() {
        let long = "a".repeat(253);
        for name in ["a", "qwen3.8b", "team-a", "0", long.as_str()] {
            assert!(possible(name), "{name}");
        }
        let longer = "a".repeat(254);
        for name in [
            "", ".", "..", "-a", "a-", "A", "a/b", "a%2fb", "a?x", "a#x", "a b", "a\n", "ä",
            &longer,
        ] {
            assert!(!possible(name), "{name}");
        }
        assert_eq!(
            path("modeldeployments", "v1", "team-a", "qwen3.8b"),
            "/apis/worker.gpustack.ai/v1/namespaces/team-a/modeldeployments/qwen3.8b"
        );
    }

    #[test]
    fn a_failed_read_says_what_the_api_server_said() {
        let forbidden =
            br#"{"kind":"Status","message":"no access","reason":"Forbidden","code":403}"#;
        assert_eq!(
            ApiStatus::read(forbidden).sentence(StatusCode::FORBIDDEN),
            "the API server answered 403: no access"
        );
        assert_eq!(
            ApiStatus::read(b"oops").sentence(StatusCode::BAD_GATEWAY),
            "the API server answered 502 Bad Gateway"
        );
    }
}
