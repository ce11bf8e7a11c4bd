//! A replica count.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A count of serving replicas of one role: 1 to 1024. A scaler cannot scale to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i32")]
pub struct Replicas(u16);

impl Replicas {
    /// One replica: the smallest count, and what an omitted count means.
    pub const MIN: Self = Self(1);
    /// 1024 replicas: the largest count.
    pub const MAX: Self = Self(1024);

    /// The count, if it lies in 1..=1024.
    pub fn new(count: i64) -> Result<Self, ReplicasError> {
        match u16::try_from(count) {
            Ok(n) if (Self::MIN.0..=Self::MAX.0).contains(&n) => Ok(Self(n)),
            _ => Err(ReplicasError(count)),
        }
    }

    /// The count nearest to `count` within 1..=1024.
    pub fn saturating(count: i64) -> Self {
        u16::try_from(count.clamp(i64::from(Self::MIN.0), i64::from(Self::MAX.0)))
            .map_or(Self::MAX, Self)
    }

    /// The count as a number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<i64> for Replicas {
    type Error = ReplicasError;
    fn try_from(count: i64) -> Result<Self, ReplicasError> {
        Self::new(count)
    }
}

impl From<Replicas> for i32 {
    fn from(count: Replicas) -> Self {
        Self::from(count.0)
    }
}

impl From<Replicas> for i64 {
    fn from(count: Replicas) -> Self {
        Self::from(count.0)
    }
}

impl JsonSchema for Replicas {
    fn schema_name() -> Cow<'static, str> {
        "Replicas".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 1024})
    }
}

/// A count outside 1..=1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} replicas: a count is between 1 and 1024")]
pub struct ReplicasError(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_between_one_and_1024() {
        assert_eq!(Replicas::new(0), Err(ReplicasError(0)));
        assert_eq!(Replicas::new(1).map(Replicas::get), Ok(1));
        assert_eq!(Replicas::new(1024).map(Replicas::get), Ok(1024));
        assert_eq!(Replicas::new(1025), Err(ReplicasError(1025)));
        assert_eq!(
            Replicas::new(-1).unwrap_err().to_string(),
            "-1 replicas: a count is between 1 and 1024"
        );
    }

    #[test]
    fn saturating_takes_the_nearest_count() {
        assert_eq!(Replicas::saturating(i64::MIN), Replicas::MIN);
        assert_eq!(Replicas::saturating(7).get(), 7);
        assert_eq!(Replicas::saturating(i64::MAX), Replicas::MAX);
    }
}
