//! A measured number as status stores it.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A finite number, written as the shortest decimal string that reads back as the same `f64`, without an exponent.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Decimal(f64);

impl Decimal {
    /// The number, if it is finite.
    pub const fn new(number: f64) -> Option<Self> {
        if number.is_finite() {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Decimal {
    // The standard library's `{}` for floats is the shortest round-trip form and never uses an exponent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        text.parse()
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| D::Error::custom(format_args!("{text:?} is no finite decimal number")))
    }
}

impl JsonSchema for Decimal {
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_written_without_an_exponent() {
        assert_eq!(Decimal::new(2400.0).unwrap().to_string(), "2400");
        assert_eq!(Decimal::new(0.1).unwrap().to_string(), "0.1");
        assert_eq!(Decimal::new(1e-7).unwrap().to_string(), "0.0000001");
        assert_eq!(Decimal::new(f64::NAN), None);
        assert!(serde_json::from_str::<Decimal>("\"inf\"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(bits: u64) {
            if let Some(d) = Decimal::new(f64::from_bits(bits)) {
                let back: Decimal = serde_json::from_str(&serde_json::to_string(&d).unwrap()).unwrap();
                prop_assert_eq!(back.get().to_bits(), d.get().to_bits());
            }
        }
    }
}
