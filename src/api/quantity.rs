//! Kubernetes quantities, kept as written and read exactly in nanos.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The form of a quantity, as the schema states it for strings.
pub const PATTERN: &str =
    r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$";

/// The most characters that are read.
pub const LONGEST: usize = 64;

/// The largest quantity: 2^63-1 whole units.
const LARGEST: i128 = (i64::MAX as i128) * Nanos::ONE.0;

/// A Kubernetes quantity as it was written: a string such as `"0.5"`, `"500m"`, `"2"`, or an integer.
///
/// Nothing is judged when it is decoded; [`Quantity::nanos`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for Nanos {
    /// The shortest decimal: `0.5`, `8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (
            self.0.unsigned_abs() / 1_000_000_000,
            self.0.unsigned_abs() % 1_000_000_000,
        );
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write!(f, "{whole}")?;
        if rest == 0 {
            return Ok(());
        }
        let digits = format!("{rest:09}");
        write!(f, ".{}", digits.trim_end_matches('0'))
    }
}

/// Why a quantity cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is no quantity.
    #[error("must be a quantity: write \"0.5\", \"500m\" or \"8\"")]
    Malformed,
    /// The text is longer than [`LONGEST`].
    #[error("must have at most 64 characters: write \"0.5\", \"500m\" or \"8\"")]
    TooLong,
    /// The magnitude is above 2^63-1.
    #[error("must be at most 9223372036854775807: write \"0.5\", \"500m\" or \"8\"")]
    TooLarge,
}

impl Quantity {
    /// The value in nanos. Digits below a nano round away from zero, as Kubernetes' own parser does.
    pub fn nanos(&self) -> Result<Nanos, QuantityError> {
        match self {
            Self::Int(units) => Ok(Nanos(i128::from(*units) * Nanos::ONE.0)),
            Self::Text(text) => parse(text),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(units) => units.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// What a suffix multiplies by: a power of ten, or of 1024.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Kibi(u32),
}

fn parse(text: &str) -> Result<Nanos, QuantityError> {
    if text.len() > LONGEST {
        return Err(QuantityError::TooLong);
    }
    let bytes = text.as_bytes();
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let whole = digits(bytes);
    let after = &bytes[whole..];
    let (fraction, suffix) = match after {
        [b'.', rest @ ..] => rest.split_at(digits(rest)),
        _ => after.split_at(0),
    };
    if whole + fraction.len() == 0 {
        return Err(QuantityError::Malformed);
    }
    let scale = scale(suffix).ok_or(QuantityError::Malformed)?;
    let magnitude = read(&bytes[..whole], fraction, scale).ok_or(QuantityError::TooLarge)?;
    if magnitude > LARGEST {
        return Err(QuantityError::TooLarge);
    }
    Ok(Nanos(if negative { -magnitude } else { magnitude }))
}

fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn scale(suffix: &[u8]) -> Option<Scale> {
    Some(match suffix {
        b"" => Scale::Ten(0),
        b"n" => Scale::Ten(-9),
        b"u" => Scale::Ten(-6),
        b"m" => Scale::Ten(-3),
        b"k" => Scale::Ten(3),
        b"M" => Scale::Ten(6),
        b"G" => Scale::Ten(9),
        b"T" => Scale::Ten(12),
        b"P" => Scale::Ten(15),
        b"E" => Scale::Ten(18),
        b"Ki" => Scale::Kibi(1),
        b"Mi" => Scale::Kibi(2),
        b"Gi" => Scale::Kibi(3),
        b"Ti" => Scale::Kibi(4),
        b"Pi" => Scale::Kibi(5),
        b"Ei" => Scale::Kibi(6),
        [b'e' | b'E', exponent @ ..] => {
            let (negative, number) = match exponent {
                [b'-', rest @ ..] => (true, rest),
                [b'+', rest @ ..] => (false, rest),
                _ => (false, exponent),
            };
            if number.is_empty() || digits(number) != number.len() {
                return None;
            }
            // More than four digits of exponent are beyond every magnitude that 64 characters of mantissa could undo.
            let power = number
                .iter()
                .fold(0_i32, |power, b| {
                    power.saturating_mul(10).saturating_add(i32::from(b - b'0'))
                })
                .min(10_000);
            Scale::Ten(if negative { -power } else { power })
        }
        _ => return None,
    })
}

/// The magnitude in nanos; `None` when it is beyond every limit.
fn read(whole: &[u8], fraction: &[u8], scale: Scale) -> Option<i128> {
    let digit = |b: &u8| i128::from(b - b'0');
    match scale {
        // Shift the point, take digits down to nanos, round up if anything is left.
        Scale::Ten(power) => {
            let places = i32::try_from(whole.len()).ok()? + power + 9;
            let mut nanos = 0_i128;
            let mut place = 0;
            let mut rest = false;
            for value in whole.iter().chain(fraction).map(digit) {
                if place < places {
                    nanos = nanos.checked_mul(10)?.checked_add(value)?;
                } else {
                    rest |= value != 0;
                }
                place += 1;
            }
            while nanos > 0 && place < places {
                nanos = nanos.checked_mul(10)?;
                place += 1;
            }
            nanos.checked_add(i128::from(rest))
        }
        // 1024^power units: exact for the whole part; the fraction contributes 1024^power * 0.f, rounded up to a nano.
        Scale::Kibi(power) => {
            let unit = 1_i128 << (10 * power);
            let count = whole
                .iter()
                .map(digit)
                .try_fold(0_i128, |n, d| n.checked_mul(10)?.checked_add(d))?;
            let mut nanos = count.checked_mul(unit)?.checked_mul(Nanos::ONE.0)?;
            // Each digit is worth unit * 10^9 / 10^k; unit * 10^9 is below 2^90, so a remainder times ten fits.
            let mut worth = unit * Nanos::ONE.0;
            let mut left = (0_i128, 1_i128);
            let mut rest = false;
            for value in fraction.iter().map(digit) {
                if left.1 > 1 || worth % 10 != 0 {
                    // Below the last exact decimal place of the unit: keep a fraction over a power of ten.
                    match left
                        .1
                        .checked_mul(10)
                        .filter(|&d| d < 1_000_000_000_000_000_000)
                    {
                        Some(divisor) => left = (left.0 * 10 + value * worth, divisor),
                        None => rest |= value != 0,
                    }
                } else {
                    worth /= 10;
                    nanos = nanos.checked_add(value * worth)?;
                }
            }
            nanos = nanos.checked_add(left.0 / left.1)?;
            nanos.checked_add(i128::from(rest || left.0 % left.1 != 0))
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(units) => to.serialize_i64(*units),
            Self::Text(text) => to.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Form;
        impl de::Visitor<'_> for Form {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string such as \"0.5\", or an integer")
            }
            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::Int(units))
            }
            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                i64::try_from(units)
                    .map(Quantity::Int)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(units), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::Text(text.into()))
            }
        }
        from.deserialize_any(Form)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "pattern": PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Result<i128, QuantityError> {
        Quantity::Text(text.into()).nanos().map(Nanos::get)
    }

    #[test]
    fn the_whole_grammar_is_read_exactly() {
        for (text, value) in [
            ("0.5", 500_000_000),
            ("500m", 500_000_000),
            ("2", 2_000_000_000),
            ("+2.", 2_000_000_000),
            (".5", 500_000_000),
            ("-0.1", -100_000_000),
            ("1e-1", 100_000_000),
            ("1E3", 1_000_000_000_000),
            ("5E", 5_000_000_000_000_000_000_000_000_000),
            ("5E3", 5_000_000_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1.5Ki", 1_536_000_000_000),
            ("1n", 1),
            ("1u", 1_000),
            ("0.0000000001", 1),
            ("0.1n", 1),
            ("-0.1n", -1),
            ("0e99999", 0),
            ("1e-400", 1),
            ("9223372036854775807", 9_223_372_036_854_775_807_000_000_000),
            ("0.00000000093132257461547851562500Ki", 954),
        ] {
            assert_eq!(nanos(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "", "abc", ".", "-", "1.2.3", "1 ", " 1", "1e", "1e+", "1ki", "1mm", "0x1", "1_0",
            "NaN", "inf", "٣",
        ] {
            assert_eq!(nanos(text), Err(QuantityError::Malformed), "{text}");
        }
        for text in [
            "1e400",
            "9223372036854775808",
            "9223372036854775807.1",
            "8Ei",
            "10E",
        ] {
            assert_eq!(nanos(text), Err(QuantityError::TooLarge), "{text}");
        }
        assert_eq!(nanos(&"0".repeat(64)), Ok(0));
        assert_eq!(nanos(&"0".repeat(65)), Err(QuantityError::TooLong));
    }

    #[test]
    fn it_is_kept_as_written_and_a_fraction_must_be_quoted() {
        for json in [r#""0.50""#, "8", "-1", r#""abc""#] {
            let quantity: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), json);
        }
        for json in ["0.1", "true", "{}", "18446744073709551615"] {
            assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn nanos_print_as_the_shortest_decimal() {
        for (value, text) in [
            (500_000_000, "0.5"),
            (8_000_000_000, "8"),
            (-1, "-0.000000001"),
            (0, "0"),
        ] {
            assert_eq!(Nanos::new(value).to_string(), text);
        }
    }
}
