//! A fencing term.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A fencing token's number: 1 to 2^63-1. The terms of one scaler on one target only rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Term(i64);

impl Term {
    /// The first term.
    pub const FIRST: Self = Self(1);

    /// The term with this number, if it is at least 1.
    pub const fn new(number: i64) -> Option<Self> {
        if number >= 1 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The term after this one; `None` after the last, 2^63-1.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<i64> for Term {
    type Error = TermError;
    fn try_from(number: i64) -> Result<Self, TermError> {
        Self::new(number).ok_or(TermError(number))
    }
}

impl From<Term> for i64 {
    fn from(term: Term) -> Self {
        term.0
    }
}

impl JsonSchema for Term {
    fn schema_name() -> Cow<'static, str> {
        "Term".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "format": "int64", "minimum": 1})
    }
}

/// A number below 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("term {0}: terms start at 1")]
pub struct TermError(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_start_at_one_and_end_at_the_largest_integer() {
        assert_eq!(Term::new(0), None);
        assert_eq!(Term::FIRST.next().map(Term::get), Some(2));
        assert_eq!(Term::new(i64::MAX).and_then(Term::next), None);
        assert_eq!(
            serde_json::from_str::<Term>("0").unwrap_err().to_string(),
            "term 0: terms start at 1"
        );
        assert!(serde_json::from_str::<Term>("1.0").is_err());
    }
}
