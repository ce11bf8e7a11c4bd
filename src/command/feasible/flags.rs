//! Bounds, ratios and steps on the command line.

use std::str::FromStr;

use serde_json::{Value, json};

/// `NAME=MIN..MAX`, `NAME=..MAX` or `NAME=COUNT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleFlag {
    name: String,
    min: Option<i32>,
    max: i32,
}

impl FromStr for RoleFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "must be NAME=MIN..MAX, such as server=1..8".to_owned();
        let (name, bounds) = text.split_once('=').ok_or_else(wrong)?;
        let count = |text: &str| text.parse().map_err(|_| wrong());
        let (min, max) = match bounds.split_once("..") {
            Some(("", max)) => (None, count(max)?),
            Some((min, max)) => (Some(count(min)?), count(max)?),
            None => (Some(count(bounds)?), count(bounds)?),
        };
        Ok(Self {
            name: name.to_owned(),
            min,
            max,
        })
    }
}

impl RoleFlag {
    /// The entry of `spec.roles` that it stands for.
    pub(super) fn bounds(&self) -> Value {
        json!({"name": self.name, "minReplicas": self.min, "maxReplicas": self.max})
    }
}

/// `A/B=MIN..MAX`, with either end left out, or `A/B=RATIO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RatioFlag {
    numerator: String,
    denominator: String,
    min: Option<String>,
    max: Option<String>,
}

impl FromStr for RatioFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "must be A/B=MIN..MAX, such as prefill/decode=0.5..2".to_owned();
        let (roles, band) = text.split_once('=').ok_or_else(wrong)?;
        let (numerator, denominator) = roles.split_once('/').ok_or_else(wrong)?;
        // The end of a range that is left open.
        let end = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (min, max) = match band.split_once("..") {
            Some((min, max)) => (end(min), end(max)),
            None => (end(band), end(band)),
        };
        if min.is_none() && max.is_none() {
            return Err(wrong());
        }
        Ok(Self {
            numerator: numerator.to_owned(),
            denominator: denominator.to_owned(),
            min,
            max,
        })
    }
}

impl RatioFlag {
    /// The entry of `spec.ratios` that it stands for.
    pub(super) fn ratio(&self) -> Value {
        json!({"numeratorRole": self.numerator, "denominatorRole": self.denominator, "min": self.min, "max": self.max})
    }
}

/// `COUNT` or `PERCENT%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepFlag {
    unit: &'static str,
    value: i32,
}

impl FromStr for StepFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (unit, number) = match text.strip_suffix('%') {
            Some(number) => ("Percent", number),
            None => ("Pods", text),
        };
        let value = number
            .parse()
            .map_err(|_| "must be a number of replicas, such as 2, or a percentage, such as 50%")?;
        Ok(Self { unit, value })
    }
}

impl StepFlag {
    /// The `stepPolicy` that it stands for.
    pub(super) fn policy(&self) -> Value {
        json!({"type": self.unit, "value": self.value})
    }
}
