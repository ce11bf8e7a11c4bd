//! Writes to a scaler: its defaults, and the verdict on its spec.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::advice::{self, Target};
use super::answer::{Denial, Subject, allow, allow_patched, deny, invalid};
use super::object::ScalerView;
use super::review::{Posted, Review};
use super::scan::{Scan, same_json};
use super::target::DeploymentView;
use super::{Answer, Decision, Fact, Facts, Operator, Pending, Question, Then, defaults};
use crate::api::{
    BINDING_ANNOTATION, DEPLOYMENT_KIND,
    scaler::{FINALIZER, KIND},
};
use crate::policy::{self, Fault, FaultKind, Policy, Reading};

/// Fills the defaults; never denies.
pub(crate) fn mutate(posted: &Posted<'_, ScalerView<'_>>) -> Answer {
    let Posted { review, new, old } = posted;
    let Some(new) = new else {
        return allow_patched(&review.uid, "");
    };
    // What did not change is not touched: else a label edit would store the defaults of a newer release, raise the
    // generation, and count as an edit of the spec.
    if let Some(old) = old
        && (new.deleting || same_json(old.spec, new.spec))
    {
        return allow_patched(&review.uid, "");
    }
    match serde_json::from_str::<&RawValue>(new.spec) {
        Ok(spec) => allow_patched(&review.uid, &defaults::patch(spec)),
        // No spec: the schema names that.
        Err(_) => allow_patched(&review.uid, ""),
    }
}

/// What is left to do once the facts are there.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The spec to be judged; `None` where no rule looks at it.
    judged: Option<Judged>,
    /// The scaler's UID, where a user took its finalizer away.
    released: Option<String>,
    /// Name of the target, where there is one to ask about.
    target: String,
}

/// A spec with its faults so far.
#[derive(Debug)]
struct Judged {
    reading: Reading,
    outcome: Result<Policy, Vec<Fault>>,
}

/// Judges a scaler, or asks about its target first.
pub(crate) fn validate<'a>(
    posted: Posted<'a, ScalerView<'a>>,
    operator: &Operator,
) -> Decision<'a> {
    let Posted { review, new, old } = posted;
    let Some(new) = new else {
        return Decision::Answer(allow(&review.uid, &[]));
    };
    let mut waiting = Waiting {
        judged: None,
        released: None,
        target: String::new(),
    };
    let mut retargeted = None;
    let free = old.as_ref().is_some_and(|old| {
        new.deleting || same_json(old.spec, new.spec) || only_brakes(old.spec, new.spec)
    });
    if !free {
        let reading = policy::read(&raw(new.spec));
        let outcome = policy::check(&reading);
        retargeted = old.as_ref().and_then(|old| retarget(old.spec, new.spec));
        waiting.judged = Some(Judged { reading, outcome });
    }
    if let Some(old) = &old
        && old.finalizer
        && !new.finalizer
        && !review.is_by(operator)
    {
        waiting.released = Some(old.uid.clone().into_owned());
    }
    if let Some(fault) = retargeted {
        // Judged against no target: neither the old nor the new one is meant.
        let faults = waiting.judged.map_or_else(Vec::new, |judged| {
            let mut faults = vec![fault];
            faults.extend(judged.outcome.err().unwrap_or_default());
            faults
        });
        return Decision::Answer(invalid(&review.uid, Subject::of(&review, KIND), &faults));
    }
    let questions = waiting.questions(&review.namespace, new.spec);
    if questions.is_empty() {
        return Decision::Answer(waiting.answer(&review, &Facts::default()));
    }
    Pending::ask(review, questions, Then::Scaler(Box::new(waiting)))
}

impl Waiting {
    /// What must be known, in the order in which [`Waiting::answer`] takes the facts.
    fn questions(&mut self, namespace: &str, spec: &str) -> Vec<Question> {
        let mut questions = Vec::new();
        let Some(target) = Brakes::read(spec).target.filter(|name| is_name(name)) else {
            return questions;
        };
        self.target = target.into_owned();
        if self.judged.is_some() {
            questions.push(Question::Target {
                namespace: namespace.to_owned(),
                name: self.target.clone(),
            });
            questions.push(Question::HintScalersOf {
                namespace: namespace.to_owned(),
                target: self.target.clone(),
            });
        }
        if self.released.is_some() {
            questions.push(Question::HintBinding {
                namespace: namespace.to_owned(),
                target: self.target.clone(),
            });
        }
        questions
    }

    /// The verdict.
    pub(crate) fn answer(self, review: &Review<'_>, facts: &Facts) -> Answer {
        let mut warnings = Vec::new();
        if let Some(uid) = &self.released
            && let Some(warning) = self.still_bound(uid, facts)
        {
            warnings.push(warning);
        }
        let Some(Judged { reading, outcome }) = self.judged else {
            return allow(&review.uid, &warnings);
        };
        let subject = Subject::of(review, KIND);
        let read = match facts.0.first() {
            _ if self.target.is_empty() => Ok(None),
            Some(Fact::Object(read)) => read.as_ref().map(Option::as_deref).map_err(Clone::clone),
            _ => Err("no answer".to_owned()),
        };
        let read = read.and_then(|bytes| match bytes.map(DeploymentView::of_bytes) {
            None => Ok(Target::Absent),
            Some(Ok(view)) if view.deleting => Ok(Target::Deleting),
            Some(Ok(view)) => Ok(Target::Present(view.shape(&self.target))),
            Some(Err(error)) => Err(error.to_string()),
        });
        let (mut faults, policy) = match outcome {
            Ok(policy) => (Vec::new(), Some(policy)),
            Err(faults) => (faults, None),
        };
        let target = match read {
            Ok(target) => target,
            Err(why) if faults.is_empty() => {
                let denial = Denial {
                    code: 503,
                    reason: "TargetUnreadable",
                    message: format!(
                        "could not read {DEPLOYMENT_KIND} {}/{}: {why}; try again",
                        review.namespace, self.target
                    ),
                    field: "spec.targetRef".to_owned(),
                };
                return deny(&review.uid, subject, &denial, &[]);
            }
            Err(_) => Target::Unknown,
        };
        if let Target::Present(shape) = &target {
            faults.extend(policy::fit(&reading, shape));
            policy::in_field_order(&mut faults);
        }
        let Some(policy) = policy.filter(|_| faults.is_empty()) else {
            return invalid(&review.uid, subject, &faults);
        };
        let others: Vec<&str> = match facts.0.get(1) {
            Some(Fact::Names(names)) => names
                .iter()
                .map(String::as_str)
                .filter(|name| *name != review.name)
                .collect(),
            _ => Vec::new(),
        };
        warnings.extend(advice::warnings(&policy, &reading.spec, &target, &others));
        allow(&review.uid, &warnings)
    }

    /// What to say to a user who took the finalizer of a scaler that still holds its target.
    fn still_bound(&self, uid: &str, facts: &Facts) -> Option<String> {
        let text = facts.0.iter().find_map(|fact| match fact {
            Fact::Annotation(text) => text.as_deref(),
            _ => None,
        })?;
        // Only a hint: what is no payload names nobody.
        let binding: Value = serde_json::from_str(text).ok()?;
        (binding.get("scalerUID")?.as_str()? == uid && !uid.is_empty()).then(|| {
            format!(
                "{DEPLOYMENT_KIND} \"{}\" still names this scaler as its owner: once the scaler is gone, remove the annotation {BINDING_ANNOTATION} there, or its replicas stay locked ({FINALIZER} would have released it)",
                self.target
            )
        })
    }
}

/// A spec as `serde_json` wants it; an absent one reads as an empty one, which lacks what is required.
fn raw(spec: &str) -> Cow<'_, RawValue> {
    match serde_json::from_str::<&RawValue>(spec) {
        Ok(raw) => Cow::Borrowed(raw),
        Err(_) => Cow::Owned(RawValue::NULL.to_owned()),
    }
}

/// The parts of a spec that decide whether its other parts are looked at.
#[derive(Debug, Default, PartialEq, Eq)]
struct Brakes<'a> {
    suspend: bool,
    active: bool,
    target: Option<Cow<'a, str>>,
}

impl<'a> Brakes<'a> {
    fn read(spec: &'a str) -> Self {
        let mut brakes = Self::default();
        // A field of the wrong type is told by `policy`, which reads the spec in full.
        let _ = Scan::new(spec).object(|key, scan| {
            match key {
                "suspend" => brakes.suspend = scan.raw()? == "true",
                "mode" => brakes.active = scan.raw()? == "\"Active\"",
                "targetRef" if scan.peek()? == b'{' => scan.object(|key, scan| match key {
                    "name" if scan.peek()? == b'"' => {
                        brakes.target = Some(scan.string()?);
                        Ok(())
                    }
                    _ => scan.skip(),
                })?,
                _ => scan.skip()?,
            }
            Ok(())
        });
        brakes
    }
}

/// Whether a change only stops the scaler, or makes it a bystander: that is never refused.
fn only_brakes(old: &str, new: &str) -> bool {
    let (before, after) = (Brakes::read(old), Brakes::read(new));
    let pulled = (!before.suspend && after.suspend) || (before.active && !after.active);
    let released = (before.suspend && !after.suspend) || (!before.active && after.active);
    if !pulled || released {
        return false;
    }
    let rest = |spec: &str| {
        let mut spec = defaults::filled(&raw(spec))?;
        let fields = spec.as_object_mut()?;
        fields.remove("suspend");
        // Anything but the two words is a fault, not a brake.
        let mode = fields.remove("mode")?;
        matches!(mode.as_str(), Some("Shadow" | "Active")).then_some(spec)
    };
    rest(old).is_some_and(|old| rest(new).is_some_and(|new| old == new))
}

/// The fault of a changed reference.
fn retarget(old: &str, new: &str) -> Option<Fault> {
    let (old, new) = (Brakes::read(old).target, Brakes::read(new).target);
    if old == new {
        return None;
    }
    let name = new.as_deref().unwrap_or_default();
    Some(Fault {
        path: "spec.targetRef".to_owned(),
        kind: FaultKind::Forbidden,
        value: String::new(),
        message: if name.is_empty() {
            "immutable: make a new scaler for another target".to_owned()
        } else {
            format!("immutable: make a new scaler for \"{name}\"")
        },
    })
}

/// Whether a name can be one of an object, so that it is worth asking for: else its fault is told, and nothing is read.
fn is_name(name: &str) -> bool {
    let is_end =
        |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    name.len() <= 253
        && name.split('.').map(str::as_bytes).all(|part| {
            is_end(part.first())
                && is_end(part.last())
                && part.iter().all(|byte| is_end(Some(byte)) || *byte == b'-')
        })
}
