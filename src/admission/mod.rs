//! Admission: defaults, validation and the verdict on every write.
//!
//! Four webhooks judge writes to scalers, their status, and the deployments that they scale. Nothing here does I/O:
//! [`decide`] answers a review, or says what it must know first, and [`Pending::answer`] goes on with the facts. What a
//! verdict rests on is read live; hints come from a cache, may be stale, and only ever add a warning.
//!
//! ```
//! use mds::admission::{Decision, Operator, Verdict, Webhook, decide};
//!
//! let operator = Operator("system:serviceaccount:mds-system:mds".to_owned());
//! let review = br#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
//!     "uid": "705ab4f5", "operation": "CREATE", "namespace": "default", "name": "llm", "userInfo": {"username": "ann"},
//!     "kind": {"group": "worker.gpustack.ai", "version": "v1alpha1", "kind": "ModelDeployment"},
//!     "object": {"metadata": {"name": "llm"}, "spec": {"roles": [{"name": "server", "replicas": 2}]}}}}"#;
//! let Decision::Answer(answer) = decide(Webhook::ValidateDeployment, &operator, review) else {
//!     unreachable!("nothing is asked about a deployment without a binding")
//! };
//! assert_eq!((answer.http, answer.verdict), (200, Verdict::Allowed));
//! ```

mod advice;
mod answer;
mod defaults;
mod deployment;
mod object;
mod review;
mod scaler;
mod scan;
mod status;
mod target;

use bytes::Bytes;

pub use answer::refuse;
pub use review::uid_of;

// What the offline commands say, in the webhook's words.
pub(crate) use advice::{Target, warnings};
pub(crate) use answer::{cause_word, sentence};
#[cfg(test)]
pub(crate) use defaults::filled;
pub(crate) use target::target_of;

use answer::malformed;
use review::{Posted, Review, ReviewError};

/// One of the four webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Webhook {
    /// Fills the defaults of a scaler.
    MutateScaler,
    /// Judges a scaler.
    ValidateScaler,
    /// Judges a write to a scaler's status.
    ValidateScalerStatus,
    /// Judges a deployment: the fence.
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
    pub const fn path(self) -> &'static str {
        match self {
            Self::MutateScaler => "/mutate-scaler",
            Self::ValidateScaler => "/validate-scaler",
            Self::ValidateScalerStatus => "/validate-scaler-status",
            Self::ValidateDeployment => "/validate-deployment",
        }
    }

    /// The label in metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::MutateScaler => "mutate-scaler",
            Self::ValidateScaler => "validate-scaler",
            Self::ValidateScalerStatus => "validate-scaler-status",
            Self::ValidateDeployment => "validate-deployment",
        }
    }
}

/// The username that this program's own requests carry; every other one is a user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator(pub String);

/// How far a decision got.
#[derive(Debug)]
pub enum Decision<'a> {
    /// It is made.
    Answer(Answer),
    /// It waits for facts.
    Ask(Box<Pending<'a>>),
}

/// A fact wanted from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A ModelDeployment, read live, as JSON.
    Target {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A ModelDeploymentScaler, read live, as JSON.
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
    /// The binding annotation of the target, from the cache.
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
    /// A live read: the object as JSON; nothing, where it does not exist or its kind is not served; or why it failed.
    Object(Result<Option<Bytes>, String>),
    /// Names from the cache.
    Names(Vec<String>),
    /// An annotation from the cache.
    Annotation(Option<String>),
}

/// The facts, one for each question, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(pub Vec<Fact>);

/// A finished HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status: 200 with an `AdmissionReview`, denials too; 400 for a body that is no review.
    pub http: u16,
    /// The response's body, JSON.
    pub body: Vec<u8>,
    /// The verdict, for metrics and logs.
    pub verdict: Verdict,
    /// Why, as a stable word; empty when allowed.
    pub reason: &'static str,
    /// The request's uid; absent for a body that is no review.
    pub uid: Option<String>,
}

/// A verdict, for metrics and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The write may go on.
    Allowed,
    /// A rule forbids it.
    Denied,
    /// The body is no review that this webhook can judge.
    Malformed,
    /// A fact that the verdict rests on could not be had.
    Unreadable,
}

impl Verdict {
    /// The label in metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Malformed => "malformed",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A decision that waits for facts.
#[derive(Debug)]
pub struct Pending<'a> {
    review: Review<'a>,
    questions: Vec<Question>,
    then: Then,
}

/// What goes on once the facts are there.
#[derive(Debug)]
enum Then {
    Scaler(Box<scaler::Waiting>),
    Deployment(deployment::Waiting),
}

impl<'a> Pending<'a> {
    fn ask(review: Review<'a>, questions: Vec<Question>, then: Then) -> Decision<'a> {
        Decision::Ask(Box::new(Self {
            review,
            questions,
            then,
        }))
    }

    /// The uid of the request.
    pub fn uid(&self) -> &str {
        &self.review.uid
    }

    /// What must be known, a few at most.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Goes on with one fact for each question, in order. A missing fact is one that could not be read.
    pub fn answer(self, facts: &Facts) -> Decision<'a> {
        match self.then {
            Then::Scaler(waiting) => Decision::Answer(waiting.answer(&self.review, facts)),
            Then::Deployment(waiting) => Decision::Answer(waiting.answer(&self.review, facts)),
        }
    }
}

/// Decides the review in `body`, or says what it must know first. Never panics, whatever the bytes.
pub fn decide<'a>(webhook: Webhook, operator: &Operator, body: &'a [u8]) -> Decision<'a> {
    judge(webhook, operator, body).unwrap_or_else(|error| Decision::Answer(malformed(&error)))
}

fn judge<'a>(
    webhook: Webhook,
    operator: &Operator,
    body: &'a [u8],
) -> Result<Decision<'a>, ReviewError> {
    Ok(match webhook {
        Webhook::MutateScaler => Decision::Answer(scaler::mutate(&Posted::read(webhook, body)?)),
        Webhook::ValidateScaler => scaler::validate(Posted::read(webhook, body)?, operator),
        Webhook::ValidateScalerStatus => {
            Decision::Answer(status::validate(&Posted::read(webhook, body)?, operator))
        }
        Webhook::ValidateDeployment => deployment::validate(Posted::read(webhook, body)?, operator),
    })
}
