//! The `AdmissionReview` that the API server posts, borrowed from its bytes.
//!
//! `kube` has one too, but it buffers the whole document before it is typed, and writes a patch as an array of numbers.

use std::borrow::Cow;

use super::Webhook;
use super::scan::{Scan, ScanError, once};
use crate::api::{
    DEPLOYMENT_KIND,
    scaler::{GROUP, KIND},
};

const REVIEW_VERSION: &str = "admission.k8s.io/v1";
const REVIEW_KIND: &str = "AdmissionReview";

/// Why a body is no review that a webhook can judge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReviewError {
    /// The body cannot be read.
    #[error("the body is no AdmissionReview: {0}")]
    Scan(#[from] ScanError),
    /// The body is something else.
    #[error("the body is no {REVIEW_VERSION} {REVIEW_KIND}, but {0} {1}")]
    NotAReview(String, String),
    /// There is no request in it.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// The request lacks what every request has.
    #[error("the AdmissionReview's request has no {0}")]
    Lacks(&'static str),
    /// The object is none that this webhook judges.
    #[error("this webhook judges {wanted}, not {found}")]
    WrongKind {
        /// What it judges.
        wanted: String,
        /// What was sent.
        found: String,
    },
}

/// What a request is about to do, as far as there are rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An object is made.
    Create,
    /// An object is changed.
    Update,
    /// Anything else: no rule looks at it.
    Other,
}

/// A request for a verdict.
#[derive(Clone, Debug)]
pub(crate) struct Review<'a> {
    /// Identity of the request; the answer repeats it.
    pub(crate) uid: Cow<'a, str>,
    /// What is about to be done.
    pub(crate) operation: Operation,
    /// Namespace of the object.
    pub(crate) namespace: Cow<'a, str>,
    /// Name of the object; empty for a CREATE that lets the API server choose.
    pub(crate) name: Cow<'a, str>,
    /// Who asks.
    pub(crate) username: Cow<'a, str>,
}

/// What a verdict reads of an object: one walk over the review reads the objects in it too.
pub(crate) trait View<'a>: Sized {
    /// Reads the object at which the walk is.
    fn read(scan: &mut Scan<'a>) -> Result<Self, ScanError>;
}

/// A review with its objects.
#[derive(Clone, Debug)]
pub(crate) struct Posted<'a, T> {
    /// The request.
    pub(crate) review: Review<'a>,
    /// The object as it would be; there for CREATE and UPDATE.
    pub(crate) new: Option<T>,
    /// The object as it is; there for UPDATE.
    pub(crate) old: Option<T>,
}

/// The fields of a request while it is read.
#[expect(
    clippy::option_option,
    reason = "an absent object differs from a null one: a key must not come twice"
)]
struct Request<'a, T> {
    uid: Option<Cow<'a, str>>,
    operation: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    username: Option<Cow<'a, str>>,
    sub_resource: Option<Cow<'a, str>>,
    group: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    object: Option<Option<T>>,
    old_object: Option<Option<T>>,
}

impl<'a, T: View<'a>> Posted<'a, T> {
    /// Reads a review of the kind that `webhook` judges.
    pub(crate) fn read(webhook: Webhook, body: &'a [u8]) -> Result<Self, ReviewError> {
        let (mut version, mut kind, mut request) = (None, None, None);
        let mut scan = Scan::of_bytes(body)?;
        scan.object(|key, scan| match key {
            "apiVersion" => once(&mut version, "apiVersion", scan.text("apiVersion")?),
            "kind" => once(&mut kind, "kind", scan.text("kind")?),
            "request" => once(&mut request, "request", Request::read(scan)?),
            _ => scan.skip(),
        })?;
        scan.end()?;
        let version = version.flatten().unwrap_or_default();
        let kind = kind.flatten().unwrap_or_default();
        if version != REVIEW_VERSION || kind != REVIEW_KIND {
            return Err(ReviewError::NotAReview(shown(&version), shown(&kind)));
        }
        request.flatten().ok_or(ReviewError::NoRequest)?.of(webhook)
    }
}

impl Review<'_> {
    /// Whether the program itself asks.
    pub(crate) fn is_by(&self, operator: &super::Operator) -> bool {
        // An identity that is not known yet is nobody's.
        !operator.0.is_empty() && self.username == operator.0
    }
}

impl<'a, T: View<'a>> Request<'a, T> {
    fn read(scan: &mut Scan<'a>) -> Result<Option<Self>, ScanError> {
        if scan.peek()? == b'n' {
            return scan.skip().map(|()| None);
        }
        let mut request = Self {
            uid: None,
            operation: None,
            namespace: None,
            name: None,
            username: None,
            sub_resource: None,
            group: None,
            kind: None,
            object: None,
            old_object: None,
        };
        scan.object(|key, scan| {
            let (place, what) = match key {
                "uid" => (&mut request.uid, "request.uid"),
                "operation" => (&mut request.operation, "request.operation"),
                "namespace" => (&mut request.namespace, "request.namespace"),
                "name" => (&mut request.name, "request.name"),
                "subResource" => (&mut request.sub_resource, "request.subResource"),
                "kind" => {
                    return scan.object(|key, scan| match key {
                        "group" => text(&mut request.group, "request.kind.group", scan),
                        "kind" => text(&mut request.kind, "request.kind.kind", scan),
                        _ => scan.skip(),
                    });
                }
                "userInfo" => {
                    return scan.object(|key, scan| match key {
                        "username" => {
                            text(&mut request.username, "request.userInfo.username", scan)
                        }
                        _ => scan.skip(),
                    });
                }
                "object" => return once(&mut request.object, "request.object", object(scan)?),
                "oldObject" => {
                    return once(&mut request.old_object, "request.oldObject", object(scan)?);
                }
                _ => return scan.skip(),
            };
            text(place, what, scan)
        })?;
        Ok(Some(request))
    }

    fn of(self, webhook: Webhook) -> Result<Posted<'a, T>, ReviewError> {
        let uid = self.uid.filter(|uid| !uid.is_empty());
        let uid = uid.ok_or(ReviewError::Lacks("uid"))?;
        let (wanted_kind, wanted_sub) = match webhook {
            Webhook::MutateScaler | Webhook::ValidateScaler => (KIND, ""),
            Webhook::ValidateScalerStatus => (KIND, "status"),
            Webhook::ValidateDeployment => (DEPLOYMENT_KIND, ""),
        };
        let group = self.group.unwrap_or_default();
        let kind = self.kind.unwrap_or_default();
        let sub = self.sub_resource.unwrap_or_default();
        if group != GROUP || kind != wanted_kind || sub != wanted_sub {
            return Err(ReviewError::WrongKind {
                wanted: place_of(wanted_kind, GROUP, wanted_sub),
                found: place_of(
                    &shown(&kind),
                    &shown(&group),
                    &sub.chars().take(64).collect::<String>(),
                ),
            });
        }
        let operation = match self.operation.as_deref() {
            Some("CREATE") => Operation::Create,
            Some("UPDATE") => Operation::Update,
            Some(_) => Operation::Other,
            None => return Err(ReviewError::Lacks("operation")),
        };
        let (new, old) = (self.object.flatten(), self.old_object.flatten());
        if operation != Operation::Other && new.is_none() {
            return Err(ReviewError::Lacks("object"));
        }
        if operation == Operation::Update && old.is_none() {
            return Err(ReviewError::Lacks("oldObject"));
        }
        Ok(Posted {
            review: Review {
                uid,
                operation,
                namespace: self.namespace.unwrap_or_default(),
                name: self.name.unwrap_or_default(),
                username: self.username.unwrap_or_default(),
            },
            new,
            old,
        })
    }
}

/// An object, or `None` for `null`.
fn object<'a, T: View<'a>>(scan: &mut Scan<'a>) -> Result<Option<T>, ScanError> {
    if scan.peek()? == b'n' {
        return scan.skip().map(|()| None);
    }
    T::read(scan).map(Some)
}

fn text<'a>(
    place: &mut Option<Cow<'a, str>>,
    what: &'static str,
    scan: &mut Scan<'a>,
) -> Result<(), ScanError> {
    let text = scan.text(what)?;
    if let Some(text) = text {
        return once(place, what, text);
    }
    Ok(())
}

fn place_of(kind: &str, group: &str, sub: &str) -> String {
    if sub.is_empty() {
        format!("{kind}.{group}")
    } else {
        format!("{kind}.{group}/{sub}")
    }
}

/// A foreign word, short enough to be repeated.
fn shown(word: &str) -> String {
    if word.is_empty() {
        return "(none)".to_owned();
    }
    word.chars().take(64).collect()
}

/// The uid of a review, and nothing else of it: cheap, and also there when the rest cannot be read.
pub fn uid_of(body: &[u8]) -> Option<String> {
    let mut uid = None;
    // Whatever comes after the uid is of no interest: an error ends the walk.
    let _ = Scan::of_bytes(body).ok()?.object(|key, scan| {
        if key != "request" {
            return scan.skip();
        }
        scan.object(|key, scan| {
            if key != "uid" {
                return scan.skip();
            }
            uid = scan.text("request.uid")?;
            Err(ScanError::Truncated)
        })
    });
    uid.filter(|uid| !uid.is_empty()).map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::super::object::ScalerView;
    use super::*;

    fn body(request: &str) -> String {
        format!(
            "{{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{request}}}"
        )
    }

    fn request(fields: &str) -> String {
        body(&format!(
            "{{\"uid\":\"u\",\"kind\":{{\"group\":\"worker.gpustack.ai\",\"version\":\"v1\",\"kind\":\"ModelDeploymentScaler\"}},{fields}}}"
        ))
    }

    fn read(text: &str) -> Result<Posted<'_, ScalerView<'_>>, ReviewError> {
        Posted::read(Webhook::ValidateScaler, text.as_bytes())
    }

    #[test]
    fn a_review_is_read_whatever_the_order_of_its_fields() {
        let text = request(
            "\"options\":{\"kind\":\"CreateOptions\"},\"object\":{\"a\":[1],\"spec\":{}},\"oldObject\":null,\"dryRun\":true,\
             \"userInfo\":{\"groups\":[\"g\"],\"username\":\"a\\u006en\"},\"name\":\"x\",\"namespace\":\"n\",\"operation\":\"CREATE\"",
        );
        let posted = read(&text).unwrap();
        let review = posted.review;
        assert_eq!(review.uid, "u");
        assert_eq!(review.operation, Operation::Create);
        assert_eq!(
            (&*review.name, &*review.namespace, &*review.username),
            ("x", "n", "ann")
        );
        assert_eq!(posted.new.unwrap().spec, "{}");
        assert_eq!(posted.old, None);
        assert!(review.is_by(&super::super::Operator("ann".to_owned())));
        assert!(!review.is_by(&super::super::Operator(String::new())));
    }

    #[test]
    fn a_body_that_is_no_review_is_an_error_that_says_why() {
        for (text, message) in [
            (
                String::new(),
                "the body is no AdmissionReview: it ends in the middle",
            ),
            (
                "[]".to_owned(),
                "the body is no AdmissionReview: it is no JSON at byte 0",
            ),
            (
                "{}".to_owned(),
                "the body is no admission.k8s.io/v1 AdmissionReview, but (none) (none)",
            ),
            (
                "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\"}"
                    .to_owned(),
                "the body is no admission.k8s.io/v1 AdmissionReview, but admission.k8s.io/v1beta1 AdmissionReview",
            ),
            (
                "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}".to_owned(),
                "the AdmissionReview has no request",
            ),
            (body("null"), "the AdmissionReview has no request"),
            (body("{}"), "the AdmissionReview's request has no uid"),
            (
                body("{\"uid\":7}"),
                "the body is no AdmissionReview: request.uid has the wrong type",
            ),
            (
                body("{\"uid\":\"u\",\"uid\":\"v\"}"),
                "the body is no AdmissionReview: request.uid is there twice",
            ),
            (
                body("{\"uid\":\"u\",\"object\":{},\"object\":{}}"),
                "the body is no AdmissionReview: request.object is there twice",
            ),
            (
                body("{\"uid\":\"u\",\"kind\":{\"group\":\"apps\",\"kind\":\"Deployment\"}}"),
                "this webhook judges ModelDeploymentScaler.worker.gpustack.ai, not Deployment.apps",
            ),
            (
                request("\"subResource\":\"status\",\"operation\":\"UPDATE\""),
                "this webhook judges ModelDeploymentScaler.worker.gpustack.ai, not ModelDeploymentScaler.worker.gpustack.ai/status",
            ),
            (
                request("\"object\":{}"),
                "the AdmissionReview's request has no operation",
            ),
            (
                request("\"operation\":\"CREATE\""),
                "the AdmissionReview's request has no object",
            ),
            (
                request("\"operation\":\"CREATE\",\"object\":null"),
                "the AdmissionReview's request has no object",
            ),
            (
                request("\"operation\":\"UPDATE\",\"object\":{}"),
                "the AdmissionReview's request has no oldObject",
            ),
            (
                format!("{}}}", request("\"operation\":\"CREATE\",\"object\":{}")),
                "the body is no AdmissionReview: something follows the review at byte 200",
            ),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_truncated_review_is_an_error_wherever_it_is_cut() {
        let text = request("\"operation\":\"CREATE\",\"object\":{\"a\":\"b\"}");
        for end in 0..text.len() {
            assert!(read(&text[..end]).is_err());
        }
        assert!(read(&text).is_ok());
    }

    #[test]
    fn the_uid_is_found_without_reading_what_follows() {
        assert_eq!(
            uid_of(body("{\"name\":\"x\",\"uid\":\"a-b\",\"obj").as_bytes()).as_deref(),
            Some("a-b")
        );
        assert_eq!(uid_of(body("{\"uid\":\"\"}").as_bytes()), None);
        assert_eq!(uid_of(b"{\"uid\":\"x\"}"), None);
        assert_eq!(uid_of(b"\xff"), None);
        assert_eq!(uid_of(b""), None);
    }
}
