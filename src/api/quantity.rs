//! Kubernetes quantities, kept as written and read exactly in nanos.

use serde::{Deserialize, Serialize};

/// A Kubernetes quantity as it was written: a string such as `"0.5"`, `"500m"`, `"2"`, or an integer.
///
/// Nothing is judged when it is decoded; [`Quantity::nanos`] reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// Written as an integer.
    Int(i64),
    /// Written as a string.
    Text(String),
}

/// A number of nanos: billionths of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(i128);

impl Nanos {
    /// One whole unit.
    pub const ONE: Self = Self(1_000_000_000);
    /// So many nanos.
    pub const fn new(nanos: i128) -> Self {
        Self(nanos)
    }
    /// The number of nanos.
    pub const fn get(self) -> i128 {
        self.0
    }
}

impl schemars::JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"x-kubernetes-int-or-string": true})
    }
}
