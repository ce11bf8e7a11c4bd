//! What can go wrong, when, and how often.

use super::Seen;
use serde_json::json;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The API server never sees it; this comes back.
    Refuse(Refusal),
    /// It is passed on later.
    Delay(Duration),
    /// The API server never sees it, and nothing comes back.
    Hang,
    /// The API server never sees it, and the connection is cut.
    Cut,
    /// It is carried out, and the connection is cut before the answer.
    LoseAnswer,
    /// The connection is cut at once; the request lands later all the same.
    LandLate(Duration),
    /// It is carried out, and the answer is cut off after this time: for watches.
    CutAnswerAfter(Duration),
}

/// A refusal as an API server spells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// The word.
    pub reason: &'static str,
    /// The sentence.
    pub message: &'static str,
    /// When to come back.
    pub retry_after_seconds: Option<u32>,
}

impl Refusal {
    /// 409: somebody else wrote first.
    pub fn conflict() -> Self {
        Self {
            code: 409,
            reason: "Conflict",
            message: "the object has been modified; please apply your changes to the latest version and try again",
            retry_after_seconds: None,
        }
    }

    /// 429: the API server sheds load.
    pub fn too_many_requests() -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: "too many requests, please try again later",
            retry_after_seconds: Some(1),
        }
    }

    /// 500: something broke inside.
    pub fn internal_error() -> Self {
        Self {
            code: 500,
            reason: "InternalError",
            message: "an internal error occurred",
            retry_after_seconds: None,
        }
    }

    pub(super) fn status(&self) -> Vec<u8> {
        let details = self
            .retry_after_seconds
            .map(|seconds| json!({"retryAfterSeconds": seconds}));
        json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details.unwrap_or_else(|| json!({})),
            "code": self.code,
        })
        .to_string()
        .into_bytes()
    }
}

/// Which requests meet a fault.
pub struct Rule {
    method: Option<String>,
    path: Box<dyn Fn(&str) -> bool + Send + Sync>,
    fault: Fault,
    left: Option<usize>,
    hits: Arc<AtomicUsize>,
}

impl Rule {
    /// Requests of this method (`*`: any) whose path and query satisfy `path`, every time.
    pub fn new(
        method: &str,
        path: impl Fn(&str) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) -> Self {
        Self {
            method: (method != "*").then(|| method.to_owned()),
            path: Box::new(path),
            fault,
            left: None,
            hits: Arc::default(),
        }
    }

    /// Only so many times.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.left = Some(times);
        self
    }

    fn fits(&self, method: &str, path: &str) -> bool {
        self.left != Some(0)
            && self.method.as_deref().is_none_or(|own| own == method)
            && (self.path)(path)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("method", &self.method)
            .field("fault", &self.fault)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// How often a rule was met.
#[derive(Clone, Debug)]
pub struct Injected {
    hits: Arc<AtomicUsize>,
}

impl Injected {
    /// The number of requests that met it so far.
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

/// The rules in force and the requests so far.
#[derive(Debug, Default)]
pub(super) struct Book {
    rules: Vec<Rule>,
    seen: Vec<Seen>,
}

impl Book {
    pub(super) fn add(&mut self, rule: Rule) -> Injected {
        let hits = Arc::clone(&rule.hits);
        self.rules.push(rule);
        Injected { hits }
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Notes a request, and says which fault it meets.
    pub(super) fn enter(&mut self, method: &str, path: &str) -> Option<Fault> {
        let rule = self.rules.iter_mut().find(|rule| rule.fits(method, path));
        let fault = rule.map(|rule| {
            rule.left = rule.left.map(|left| left - 1);
            rule.hits.fetch_add(1, Ordering::SeqCst);
            rule.fault.clone()
        });
        self.seen.push(Seen {
            method: method.to_owned(),
            path: path.to_owned(),
            faulted: fault.is_some(),
        });
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_met_by_its_method_and_path_as_often_as_it_says() {
        let mut book = Book::default();
        let rule = Rule::new("PATCH", |path| path.ends_with("/status"), Fault::Cut).times(1);
        let injected = book.add(rule);
        assert_eq!(book.enter("GET", "/a/status"), None);
        assert_eq!(book.enter("PATCH", "/a"), None);
        assert_eq!(book.enter("PATCH", "/a/status"), Some(Fault::Cut));
        assert_eq!(book.enter("PATCH", "/a/status"), None);
        assert_eq!(injected.hits(), 1);
        let faulted: Vec<bool> = book.seen().iter().map(|seen| seen.faulted).collect();
        assert_eq!(faulted, [false, false, true, false]);
    }

    #[test]
    fn the_oldest_rule_that_fits_is_taken_and_any_method_can_be_meant() {
        let mut book = Book::default();
        book.add(Rule::new("*", |_| true, Fault::Hang).times(1));
        book.add(Rule::new("*", |_| true, Fault::Cut));
        assert_eq!(book.enter("GET", "/"), Some(Fault::Hang));
        assert_eq!(book.enter("GET", "/"), Some(Fault::Cut));
        book.clear();
        assert_eq!(book.enter("GET", "/"), None);
    }
}
