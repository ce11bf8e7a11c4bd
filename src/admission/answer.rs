//! What the API server reads back: an `AdmissionReview`, written as text.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::review::{Review, ReviewError};
use super::{Answer, Verdict};
use crate::policy::{Fault, FaultKind};

/// So many faults are listed; what is left is counted.
const LISTED: usize = 32;
/// The message, which repeats the faults for clients that show no causes, grows to about so many bytes.
const MESSAGE_BYTES: usize = 2048;
/// More warnings than these are noise.
const WARNINGS: usize = 8;
/// The API server cuts a warning here.
const WARNING_CHARS: usize = 255;

/// A refusal, as Kubernetes' Status has it.
#[derive(Clone, Debug, Default, Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "Kubernetes' Status has a field of that name"
)]
struct Status<'a> {
    status: &'static str,
    message: &'a str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Details::is_empty")]
    details: Details<'a>,
    code: u16,
}

/// What the refusal is about.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

impl Details<'_> {
    fn is_empty(&self) -> bool {
        self.name.is_empty()
            && self.kind.is_empty()
            && self.causes.is_empty()
            && self.retry_after_seconds.is_none()
    }
}

/// One cause of a refusal.
#[derive(Clone, Debug, Serialize)]
struct Cause<'a> {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: &'a str,
}

/// What an object is, for a refusal's details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// API group.
    pub(crate) group: &'a str,
    /// Kind.
    pub(crate) kind: &'a str,
    /// Name; empty where the API server chooses it.
    pub(crate) name: &'a str,
}

/// A refusal by one rule.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// HTTP code of the status.
    pub(crate) code: u16,
    /// The rule, as a stable word.
    pub(crate) reason: &'static str,
    /// The rule, what breaks it, and the next step.
    pub(crate) message: String,
    /// The field that breaks it, where it is one.
    pub(crate) field: String,
}

fn open(uid: &str, allowed: bool, room: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(room);
    body.extend_from_slice(
        b"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"response\":{\"uid\":",
    );
    put(&mut body, uid);
    body.extend_from_slice(b",\"allowed\":");
    body.extend_from_slice(if allowed { b"true" } else { b"false" });
    body
}

fn put<T: Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    // Writing to memory, of strings and numbers: it cannot fail.
    let _ = serde_json::to_writer(body, value);
}

fn put_warnings(body: &mut Vec<u8>, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let shown: Vec<&str> = warnings.iter().take(WARNINGS).map(|w| cut(w)).collect();
    body.extend_from_slice(b",\"warnings\":");
    put(body, &shown);
}

fn cut(warning: &str) -> &str {
    warning
        .char_indices()
        .nth(WARNING_CHARS)
        .map_or(warning, |(end, _)| &warning[..end])
}

fn close(mut body: Vec<u8>, verdict: Verdict, reason: &'static str, uid: &str) -> Answer {
    body.extend_from_slice(b"}}");
    Answer {
        http: 200,
        body,
        verdict,
        reason,
        uid: Some(uid.to_owned()),
    }
}

/// The write may go on; warnings reach whoever wrote.
pub(crate) fn allow(uid: &str, warnings: &[String]) -> Answer {
    let mut body = open(uid, true, 160 + warnings.len() * 256);
    put_warnings(&mut body, warnings);
    close(body, Verdict::Allowed, "", uid)
}

/// The write may go on, changed by a JSON Patch, written as JSON; an empty text is no patch.
pub(crate) fn allow_patched(uid: &str, patch: &str) -> Answer {
    let mut body = open(uid, true, 224 + patch.len() * 4 / 3);
    if !patch.is_empty() {
        body.extend_from_slice(b",\"patchType\":\"JSONPatch\",\"patch\":\"");
        let start = body.len();
        body.resize(start + patch.len().div_ceil(3) * 4, b'=');
        // The room is exact, so that encoding cannot fail; it writes the padding too.
        let _ = STANDARD.encode_slice(patch, &mut body[start..]);
        body.push(b'"');
    }
    close(body, Verdict::Allowed, "", uid)
}

/// The write breaks one rule.
pub(crate) fn deny(
    uid: &str,
    subject: Subject<'_>,
    denial: &Denial,
    warnings: &[String],
) -> Answer {
    let status = Status {
        status: "Failure",
        message: &denial.message,
        reason: denial.reason,
        details: Details {
            name: subject.name,
            group: subject.group,
            kind: subject.kind,
            causes: vec![Cause {
                reason: denial.reason,
                message: denial.message.clone(),
                field: &denial.field,
            }],
            retry_after_seconds: (denial.code == 503).then_some(1),
        },
        code: denial.code,
    };
    let verdict = if denial.code == 503 {
        Verdict::Unreadable
    } else {
        Verdict::Denied
    };
    refusal(uid, &status, verdict, warnings)
}

/// The object has faults: 422, each with its field.
pub(crate) fn invalid(uid: &str, subject: Subject<'_>, faults: &[Fault]) -> Answer {
    let mut causes: Vec<Cause<'_>> = faults
        .iter()
        .take(LISTED)
        .map(|fault| Cause {
            reason: cause_word(fault.kind),
            message: sentence(fault),
            field: &fault.path,
        })
        .collect();
    let message = summary(subject, &causes, faults.len());
    if faults.len() > LISTED {
        causes.push(Cause {
            reason: cause_word(FaultKind::Invalid),
            message: format!("and {} more", faults.len() - LISTED),
            field: "spec",
        });
    }
    let status = Status {
        status: "Failure",
        message: &message,
        reason: "Invalid",
        details: Details {
            name: subject.name,
            group: subject.group,
            kind: subject.kind,
            causes,
            retry_after_seconds: None,
        },
        code: 422,
    };
    refusal(uid, &status, Verdict::Denied, &[])
}

/// All faults in one sentence, as Kubernetes writes it; cut where it grows long.
fn summary(subject: Subject<'_>, causes: &[Cause<'_>], total: usize) -> String {
    let mut message = format!(
        "{}.{} \"{}\" is invalid: ",
        subject.kind, subject.group, subject.name
    );
    let mut shown = 0;
    if total > 1 {
        message.push('[');
    }
    for cause in causes {
        if shown > 0 {
            if message.len() + cause.message.len() > MESSAGE_BYTES {
                break;
            }
            message.push_str(", ");
        }
        message.push_str(cause.field);
        message.push_str(": ");
        message.push_str(&cause.message);
        shown += 1;
    }
    if shown < total {
        let more = format!(", and {} more", total - shown);
        message.push_str(&more);
    }
    if total > 1 {
        message.push(']');
    }
    message
}

/// The type of a cause, as Kubernetes names it.
pub(crate) const fn cause_word(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Invalid => "FieldValueInvalid",
        FaultKind::NotSupported => "FieldValueNotSupported",
        FaultKind::Required => "FieldValueRequired",
        FaultKind::Duplicate => "FieldValueDuplicate",
        FaultKind::NotFound => "FieldValueNotFound",
        FaultKind::Forbidden => "FieldValueForbidden",
        FaultKind::TooMany => "FieldValueTooMany",
        FaultKind::TooLong => "FieldValueTooLong",
        FaultKind::TypeInvalid => "FieldValueTypeInvalid",
    }
}

/// A fault in the words of Kubernetes' field errors: kind, value, rule.
pub(crate) fn sentence(fault: &Fault) -> String {
    let kind = match fault.kind {
        FaultKind::Invalid | FaultKind::TypeInvalid => "Invalid value",
        FaultKind::NotSupported => "Unsupported value",
        FaultKind::Required => "Required value",
        FaultKind::Duplicate => "Duplicate value",
        FaultKind::NotFound => "Not found",
        FaultKind::Forbidden => "Forbidden",
        FaultKind::TooMany => "Too many",
        FaultKind::TooLong => "Too long",
    };
    let valueless = matches!(fault.kind, FaultKind::Required | FaultKind::Forbidden);
    let mut sentence =
        String::with_capacity(kind.len() + fault.value.len() + fault.message.len() + 4);
    sentence.push_str(kind);
    if !fault.value.is_empty() && !valueless {
        sentence.push_str(": ");
        sentence.push_str(&fault.value);
    }
    if !fault.message.is_empty() {
        sentence.push_str(": ");
        sentence.push_str(&fault.message);
    }
    sentence
}

fn refusal(uid: &str, status: &Status<'_>, verdict: Verdict, warnings: &[String]) -> Answer {
    let mut body = open(uid, false, 1024);
    body.extend_from_slice(b",\"status\":");
    put(&mut body, status);
    put_warnings(&mut body, warnings);
    close(body, verdict, status.reason, uid)
}

/// A refusal that the server itself makes once the uid is known, as a review: no room, no time, a panic.
pub fn refuse(
    uid: &str,
    code: u16,
    reason: &'static str,
    message: &str,
    retry_after_seconds: Option<u32>,
) -> Answer {
    let status = Status {
        status: "Failure",
        message,
        reason,
        details: Details {
            retry_after_seconds,
            ..Details::default()
        },
        code,
    };
    refusal(uid, &status, Verdict::Denied, &[])
}

/// A body that is no review: 400, with a Status that clients of Kubernetes can print.
pub(crate) fn malformed(error: &ReviewError) -> Answer {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Standalone<'a> {
        api_version: &'static str,
        kind: &'static str,
        #[serde(flatten)]
        status: Status<'a>,
    }
    let message = error.to_string();
    let status = Status {
        status: "Failure",
        message: &message,
        reason: "BadRequest",
        details: Details::default(),
        code: 400,
    };
    let mut body = Vec::new();
    put(
        &mut body,
        &Standalone {
            api_version: "v1",
            kind: "Status",
            status,
        },
    );
    Answer {
        http: 400,
        body,
        verdict: Verdict::Malformed,
        reason: "BadRequest",
        uid: None,
    }
}

impl<'a> Subject<'a> {
    /// The object of a review.
    pub(crate) fn of(review: &'a Review<'_>, kind: &'static str) -> Self {
        Self {
            group: crate::api::scaler::GROUP,
            kind,
            name: &review.name,
        }
    }
}
