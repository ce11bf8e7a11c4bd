//! Who this program is to the API server: the username that its own requests carry.
//!
//! The fence treats that account unlike any other, so a guess will not do: the API server is asked, for ever if need be.

use super::sentence::sentence;
use crate::admission::Operator;
use http::Request;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Client;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long one question may take.
const DEADLINE: Duration = Duration::from_secs(3);

/// The longest pause between two questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// This program's username, once it is known.
#[derive(Clone, Debug, Default)]
pub struct Identity(Arc<OnceLock<Operator>>);

impl Identity {
    /// Known from the start.
    pub fn known(operator: Operator) -> Self {
        Self(Arc::new(OnceLock::from(operator)))
    }

    /// The operator, if known.
    pub fn get(&self) -> Option<&Operator> {
        self.0.get()
    }

    /// Asks the API server until it says.
    pub async fn learn(self, client: Client) {
        let mut pause = Duration::from_millis(50);
        while self.0.get().is_none() {
            let error = match timeout(DEADLINE, ask(&client)).await {
                Ok(Ok(username)) => {
                    tracing::info!(username, "this program's identity");
                    // Nobody else sets it; if somebody did, it is known all the same.
                    let _ = self.0.set(Operator(username));
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => format!("no answer within {} s", DEADLINE.as_secs()),
            };
            tracing::warn!(error, "SelfSubjectReview failed, it is tried again");
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

async fn ask(client: &Client) -> Result<String, String> {
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(body.as_bytes().to_vec())
        .map_err(|error| error.to_string())?;
    let review: SelfSubjectReview = client
        .request(request)
        .await
        .map_err(|error| sentence(&error))?;
    review
        .status
        .and_then(|status| status.user_info?.username)
        .filter(|username| !username.is_empty())
        .ok_or_else(|| "the answer names no user".to_owned())
}
