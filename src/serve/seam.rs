//! The words that `admission` and this room share. Stand-in until `admission` lands; then this file goes.

use bytes::Bytes;
use serde::Deserialize;
use std::borrow::Cow;

/// One of the four webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// `/mutate-scaler`
    MutateScaler,
    /// `/validate-scaler`
    ValidateScaler,
    /// `/validate-scaler-status`
    ValidateScalerStatus,
    /// `/validate-deployment`
    ValidateDeployment,
}

impl Webhook {
    /// All four.
    pub const ALL: [Self; 4] = [
        Self::MutateScaler,
        Self::ValidateScaler,
        Self::ValidateScalerStatus,
        Self::ValidateDeployment,
    ];

    /// The path that the API server posts to.
    pub fn path(self) -> &'static str {
        match self {
            Self::MutateScaler => "/mutate-scaler",
            Self::ValidateScaler => "/validate-scaler",
            Self::ValidateScalerStatus => "/validate-scaler-status",
            Self::ValidateDeployment => "/validate-deployment",
        }
    }

    /// The metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::MutateScaler => "mutate-scaler",
            Self::ValidateScaler => "validate-scaler",
            Self::ValidateScalerStatus => "validate-scaler-status",
            Self::ValidateDeployment => "validate-deployment",
        }
    }
}

/// The username that this program's own requests carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator(pub String);

/// A fact wanted from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A `ModelDeployment`, live.
    Target {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A scaler, live.
    Scaler {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The names of scalers that name this target, from the cache.
    HintScalersOf {
        /// The target's namespace.
        namespace: String,
        /// The target's name.
        target: String,
    },
    /// The target's binding annotation, from the cache.
    HintBinding {
        /// The target's namespace.
        namespace: String,
        /// The target's name.
        target: String,
    },
}

/// What a look-up found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A live read.
    Object(Result<Option<Bytes>, String>),
    /// Names from the cache.
    Names(Vec<String>),
    /// An annotation from the cache.
    Annotation(Option<String>),
}

/// The facts, in the order of the questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts(pub Vec<Fact>);

/// A verdict, for metrics and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed.
    Allowed,
    /// Denied by a rule.
    Denied,
    /// No review at all.
    Malformed,
    /// A fact could not be read.
    Unreadable,
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status: 200 with a review, 400 without.
    pub http: u16,
    /// The response's body.
    pub body: Vec<u8>,
    /// The verdict.
    pub verdict: Verdict,
    /// A stable word, empty when allowed.
    pub reason: &'static str,
    /// The request's uid, where it could be read.
    pub uid: Option<String>,
}

/// A refusal as a review.
pub fn refuse(
    uid: &str,
    code: u16,
    reason: &'static str,
    message: &str,
    retry_after_seconds: Option<u32>,
) -> Answer {
    let mut status = serde_json::json!({
        "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    if let Some(seconds) = retry_after_seconds {
        status["details"] = serde_json::json!({ "retryAfterSeconds": seconds });
    }
    let body = serde_json::json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": { "uid": uid, "allowed": false, "status": status },
    });
    Answer {
        http: 200,
        body: body.to_string().into_bytes(),
        verdict: Verdict::Denied,
        reason,
        uid: Some(uid.to_owned()),
    }
}

/// The uid of a review, and nothing else of it.
pub fn uid_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Review<'a> {
        #[serde(borrow)]
        request: Request<'a>,
    }
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        uid: Cow<'a, str>,
    }
    serde_json::from_slice::<Review<'_>>(body)
        .ok()
        .map(|review| review.request.uid.into_owned())
}
