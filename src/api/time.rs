//! A point in time as status stores it.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A point in time in whole seconds since 1970, UTC; written as RFC 3339. Fractions are cut, so that what was stored
/// and read back is what was in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The first second of year 1, and the last that the time library holds, a day before year 10000.
    const RANGE: (i64, i64) = (-62_135_596_800, 253_402_207_199);

    /// So many seconds since 1970, clamped to the years 1 to 9999.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.clamp(Self::RANGE.0, Self::RANGE.1))
    }

    /// Seconds since 1970.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// So many seconds later, clamped as [`Time::from_seconds`].
    #[must_use]
    pub fn plus(self, seconds: i64) -> Self {
        Self::from_seconds(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to this; negative if it lies after.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }
}

impl From<jiff::Timestamp> for Time {
    fn from(at: jiff::Timestamp) -> Self {
        Self::from_seconds(at.as_second())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0) {
            Ok(at) => at.fmt(f),
            Err(_) => write!(f, "@{}", self.0),
        }
    }
}

impl FromStr for Time {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse::<jiff::Timestamp>().map(Self::from)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(|_| {
            D::Error::custom(format_args!(
                "{text:?} is no RFC 3339 time, such as 2026-01-31T12:00:00Z"
            ))
        })
    }
}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_rfc_3339_in_whole_seconds() {
        let t: Time = "2026-12-01T13:48:02.987+01:00".parse().unwrap();
        assert_eq!(t.to_string(), "2026-12-01T12:48:02Z");
        assert_eq!(
            serde_json::from_str::<Time>(&serde_json::to_string(&t).unwrap()).unwrap(),
            t
        );
        assert_eq!(t.plus(60).since(t), 60);
    }

    #[test]
    fn no_time_is_out_of_range() {
        for far in [i64::MIN, i64::MAX] {
            let t = Time::from_seconds(0).plus(far);
            assert_eq!(t.to_string().parse::<Time>().unwrap(), t);
        }
    }
}
