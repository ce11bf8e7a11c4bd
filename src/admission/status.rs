//! Writes to a scaler's status, which is the program's memory: nobody else writes it, and terms never go back.

use serde::Deserialize;

use super::answer::{Denial, Subject, allow, deny};
use super::object::ScalerView;
use super::review::{Operation, Posted};
use super::{Answer, Operator};
use crate::api::scaler::KIND;

/// What is read of a status. Whatever is not what it should be counts as absent: the schema has judged it.
#[derive(Debug, Default)]
pub(super) struct Binding {
    pub(super) uid: Option<String>,
    pub(super) term: Option<i64>,
}

#[derive(Deserialize)]
struct StatusView<'a> {
    #[serde(borrow, default)]
    binding: Option<BindingView<'a>>,
}

#[derive(Deserialize)]
struct BindingView<'a> {
    #[serde(rename = "targetUID", borrow, default)]
    target_uid: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    term: Option<i64>,
}

pub(super) fn binding(status: &str) -> Option<Binding> {
    if status.is_empty() || status == "null" {
        return None;
    }
    let view: StatusView<'_> = serde_json::from_str(status).ok()?;
    view.binding.map(|binding| Binding {
        uid: binding.target_uid.map(std::borrow::Cow::into_owned),
        term: binding.term,
    })
}

/// Judges a write to the status.
pub(crate) fn validate(posted: &Posted<'_, ScalerView<'_>>, operator: &Operator) -> Answer {
    let Posted { review, new, old } = posted;
    let (Operation::Update, Some(new), Some(old)) = (review.operation, new, old) else {
        return allow(&review.uid, &[]);
    };
    let denial = if review.is_by(operator) {
        backwards(old.status, new.status)
    } else {
        Some(Denial {
            code: 403,
            reason: "StatusOwned",
            message: "status is the memory of mds, which alone writes it: to stop planning, set spec.suspend: true; to make it forget, delete the scaler and create it again".to_owned(),
            field: "status".to_owned(),
        })
    };
    match denial {
        None => allow(&review.uid, &[]),
        Some(denial) => deny(&review.uid, Subject::of(review, KIND), &denial, &[]),
    }
}

/// Why the program may not write this, if it may not: a process that lost its term must not undo what its successor did.
fn backwards(old: &str, new: &str) -> Option<Denial> {
    let old = binding(old)?;
    let denial = |field: &str, message: String| {
        Some(Denial {
            code: 409,
            reason: "TermBackwards",
            message,
            field: field.to_owned(),
        })
    };
    let Some(new) = binding(new) else {
        return denial(
            "status.binding",
            "status.binding must not vanish: it keeps the last term, above which the next one is taken; read the scaler again".to_owned(),
        );
    };
    if old.uid != new.uid {
        return None;
    }
    match (old.term, new.term) {
        (Some(old), Some(new)) if new < old => denial(
            "status.binding.term",
            format!(
                "status.binding.term must not fall from {old} to {new}: another process took over; take a new term"
            ),
        ),
        (Some(old), None) => denial(
            "status.binding.term",
            format!(
                "status.binding.term {old} must not vanish while status.binding.targetUID stays: read the scaler again"
            ),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(old: &str, new: &str) -> Option<(String, String)> {
        backwards(old, new).map(|denial| (denial.field, denial.message))
    }

    #[test]
    fn a_term_neither_falls_nor_vanishes_while_the_target_stays() {
        let at = |uid: &str, term: &str| {
            format!("{{\"binding\":{{\"targetUID\":\"{uid}\"{term}}},\"roles\":[]}}")
        };
        let five = at("u", ",\"term\":5");
        for (old, new, field) in [
            ("", five.as_str(), ""),
            ("null", &five, ""),
            ("{}", &five, ""),
            (&five, &five, ""),
            (&five, &at("u", ",\"term\":6"), ""),
            (&five, &at("v", ",\"term\":1"), ""),
            (&five, &at("v", ""), ""),
            (&at("u", ""), &at("u", ""), ""),
            (&five, &at("u", ",\"term\":4"), "status.binding.term"),
            (&five, &at("u", ""), "status.binding.term"),
            (&five, "{}", "status.binding"),
            (&five, "", "status.binding"),
            (&at("u", ""), "{}", "status.binding"),
        ] {
            let field_found = verdict(old, new).map_or(String::new(), |(field, _)| field);
            assert_eq!(field_found, field, "{old} to {new}");
        }
    }

    #[test]
    fn a_falling_term_is_told_with_both_numbers() {
        assert_eq!(
            verdict("{\"binding\":{\"term\":5}}", "{\"binding\":{\"term\":4}}")
                .unwrap()
                .1,
            "status.binding.term must not fall from 5 to 4: another process took over; take a new term"
        );
    }
}
