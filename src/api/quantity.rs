//! Kubernetes quantities, kept as written and read exactly in nanos.
//!
//! A number is read as Kubernetes' own parser reads it (`k8s.io/apimachinery/pkg/api/resource`): decimal suffixes
//! `n u m k M G T P E`, binary ones `Ki Mi Gi Ti Pi Ei`, decimal exponents, and what lies below a nano rounded away
//! from zero. Two things differ on purpose: a number above the largest is an error instead of being cut to it, and
//! a number needs a digit (Kubernetes reads `"Ki"` as zero). No float and no big integer is involved.
//!
//! ```
//! use mds::api::quantity::{Nanos, Quantity};
//!
//! assert_eq!(Quantity::from("500m").nanos(), Ok(Nanos::new(500_000_000)));
//! assert_eq!(Quantity::from(8).nanos(), Ok(Nanos::whole(8)));
//! assert_eq!(Quantity::from("1.50").nanos().unwrap().to_string(), "1.5");
//! ```

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::{Serialize, Serializer};

/// The pattern of a quantity written as a string, as Kubernetes' own resources have it in their schemas. It lets a
/// few strings through that are no quantities (`"1e.5"`, `"1e400"`): [`Quantity::nanos`] judges.
pub const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The most characters that a quantity may have.
pub const MAX_LENGTH: usize = 64;

/// A Kubernetes quantity as it was written: a string such as `"0.5"`, `"500m"`, `"2"`, or an integer.
///
/// Nothing is judged when it is decoded; [`Quantity::nanos`] reads it. Two quantities are equal when they are
/// written alike; compare their nanos to compare their values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Written as an integer.
    Int(i64),
    /// Written as a string.
    Text(String),
}

impl Quantity {
    /// The exact number of nanos; what lies below a nano is rounded away from zero.
    pub fn nanos(&self) -> Result<Nanos, QuantityError> {
        match self {
            Self::Int(units) => Ok(Nanos::whole(*units)),
            Self::Text(text) => text.parse(),
        }
    }
}

impl From<i64> for Quantity {
    fn from(units: i64) -> Self {
        Self::Int(units)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// As written.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(units) => units.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// As written: an integer stays an integer.
impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(units) => serializer.serialize_i64(*units),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// From a string or an integer. A number with a fraction is an error: a float is not exact.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl Visitor<'_> for Written {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"a quantity: a string such as "0.5" or "500m", or an integer"#)
            }

            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::Int(units))
            }

            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                i64::try_from(units)
                    .map(Quantity::Int)
                    .map_err(|_| E::custom(format_args!("{units}: {}", QuantityError::TooLarge)))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                if number.is_finite() {
                    Err(E::custom(format_args!(
                        r#"{number:?} is not an integer: write it in quotes, "{number}""#
                    )))
                } else {
                    Err(E::invalid_type(Unexpected::Float(number), &self))
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Quantity, E> {
                Ok(Quantity::Text(text))
            }
        }

        deserializer.deserialize_any(Written)
    }
}

/// `x-kubernetes-int-or-string` and [`PATTERN`], no more: the API server applies a pattern to the string form only,
/// and a description would be copied into each field.
impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::Quantity").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "pattern": PATTERN })
    }
}

/// A number of nanos: billionths of one.
///
/// It displays as the shortest decimal without an exponent: `0.5`, `8`, `-0.000000001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(i128);

impl Nanos {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One whole unit.
    pub const ONE: Self = Self(PER_UNIT);
    /// The largest quantity: 2^63-1 whole units.
    pub const MAX: Self = Self::whole(i64::MAX);

    /// So many nanos.
    pub const fn new(nanos: i128) -> Self {
        Self(nanos)
    }

    /// So many whole units.
    pub const fn whole(units: i64) -> Self {
        // No overflow: 2^63 * 10^9 < 2^93.
        Self(units as i128 * PER_UNIT)
    }

    /// The number of nanos.
    pub const fn get(self) -> i128 {
        self.0
    }

    /// The number as a float, to the nearest that can be told from its parts.
    pub fn to_f64(self) -> f64 {
        /// 2^32, to put two halves of an integer together.
        const HALF: f64 = 4_294_967_296.0;
        let whole = (self.0 / PER_UNIT).unsigned_abs().min(u128::from(u64::MAX));
        let rest = u32::try_from((self.0 % PER_UNIT).unsigned_abs()).unwrap_or(0);
        let high = u32::try_from(whole >> 32).unwrap_or(u32::MAX);
        let low = u32::try_from(whole & u128::from(u32::MAX)).unwrap_or(u32::MAX);
        let value = f64::from(high) * HALF + f64::from(low) + f64::from(rest) / 1e9;
        if self.0 < 0 { -value } else { value }
    }

    /// Above zero?
    pub const fn is_positive(self) -> bool {
        self.0 > 0
    }
}

const PER_UNIT: i128 = 1_000_000_000;

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.unsigned_abs();
        let (units, mut fraction) = (
            size / PER_UNIT.unsigned_abs(),
            size % PER_UNIT.unsigned_abs(),
        );
        let sign = if self.0 < 0 { "-" } else { "" };
        if fraction == 0 {
            return write!(f, "{sign}{units}");
        }
        let mut places = 9;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            places -= 1;
        }
        write!(f, "{sign}{units}.{fraction:0places$}")
    }
}

/// Why a text is no quantity. The messages say what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// Not in the grammar; also the empty text.
    #[error(r#"not a quantity: write "0.5", "500m" or "8""#)]
    Malformed,
    /// More than 2^63-1 whole units, or less than the negative of that.
    #[error("too large: the largest quantity is 9223372036854775807")]
    TooLarge,
    /// More than [`MAX_LENGTH`] characters.
    #[error("too long: a quantity has at most 64 characters")]
    TooLong,
}

impl std::str::FromStr for Nanos {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > MAX_LENGTH {
            // Characters, not bytes; what is not ASCII is malformed anyway.
            return Err(if text.chars().count() > MAX_LENGTH {
                QuantityError::TooLong
            } else {
                QuantityError::Malformed
            });
        }
        let (negative, unsigned) = sign(text.as_bytes());
        let written = Written::split(unsigned)?;
        let size = written.nanos().ok_or(QuantityError::TooLarge)?;
        Ok(Self(if negative { -size } else { size }))
    }
}

/// An unsigned number as written: its digits on both sides of the point, times `10^exponent * 2^doublings`. Only one
/// of the last two is ever set.
struct Written<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i32,
    doublings: u32,
}

impl<'a> Written<'a> {
    fn split(text: &'a [u8]) -> Result<Self, QuantityError> {
        let (whole, rest) = digits(text);
        let (fraction, suffix) = match rest {
            [b'.', rest @ ..] => digits(rest),
            rest => (&[][..], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Malformed);
        }
        let (exponent, doublings) = match suffix {
            b"" => (0, 0),
            b"n" => (-9, 0),
            b"u" => (-6, 0),
            b"m" => (-3, 0),
            b"k" => (3, 0),
            b"M" => (6, 0),
            b"G" => (9, 0),
            b"T" => (12, 0),
            b"P" => (15, 0),
            b"E" => (18, 0),
            b"Ki" => (0, 10),
            b"Mi" => (0, 20),
            b"Gi" => (0, 30),
            b"Ti" => (0, 40),
            b"Pi" => (0, 50),
            b"Ei" => (0, 60),
            [b'e' | b'E', power @ ..] => (exponent(power)?, 0),
            _ => return Err(QuantityError::Malformed),
        };
        Ok(Self {
            whole,
            fraction,
            exponent,
            doublings,
        })
    }

    /// The digits' values, without leading zeros.
    fn digits(&self) -> impl Iterator<Item = u128> + Clone {
        let all = self.whole.iter().chain(self.fraction);
        all.map(|&digit| u128::from(digit - b'0'))
            .skip_while(|&digit| digit == 0)
    }

    /// The power of ten that turns the digits, read as one integer, into nanos.
    fn scale(&self) -> Option<i32> {
        Some(self.exponent + 9 - i32::try_from(self.fraction.len()).ok()?)
    }

    /// The number of nanos, rounded up; `None` above [`Nanos::MAX`].
    fn nanos(&self) -> Option<i128> {
        self.small().or_else(|| self.any())
    }

    /// The usual case, a few digits and no part below a nano, in machine words: 18 digits and 10^18 each fit one.
    fn small(&self) -> Option<i128> {
        let scale = usize::try_from(self.scale()?).ok()?;
        let power = POWERS.get(scale)?;
        if self.doublings > 0 || self.whole.len() + self.fraction.len() > 18 {
            return None;
        }
        let read = |value: u64, &digit: &u8| value * 10 + u64::from(digit - b'0');
        let value = self
            .fraction
            .iter()
            .fold(self.whole.iter().fold(0, read), read);
        let size = i128::from(value) * i128::from(*power);
        (size <= Nanos::MAX.0).then_some(size)
    }

    fn any(&self) -> Option<i128> {
        let mut digits = self.digits();
        let significant = i32::try_from(digits.clone().count()).ok()?;
        if significant == 0 {
            return Some(0);
        }
        // So many digits stand before the point of a count of nanos.
        let before = significant + self.scale()?;
        if before > LONGEST {
            return None;
        }
        let mut nanos = 0_u128;
        for _ in 0..before {
            nanos = nanos * 10 + digits.next().unwrap_or(0);
        }
        let nanos = nanos.checked_mul(1 << self.doublings)?;
        let below = if digits.clone().all(|digit| digit == 0) {
            0
        } else if self.doublings == 0 {
            1
        } else {
            let zeros = usize::try_from(-before).unwrap_or(0);
            doubled(std::iter::repeat_n(0, zeros).chain(digits), self.doublings)
        };
        let size = i128::try_from(nanos.checked_add(below)?).ok()?;
        (size <= Nanos::MAX.0).then_some(size)
    }
}

/// The digits that [`Nanos::MAX`] has.
const LONGEST: i32 = 28;

/// The powers of ten that fit a word.
const POWERS: [u64; 19] = {
    let mut powers = [1; 19];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// `0.digits * 2^doublings`, rounded up. At most 54 digits count: 64 characters less `.`, nine digits of whole nanos
/// and a suffix leave no more. Long multiplication in limbs of 18 digits; a limb times 2^60 fits 128 bits.
fn doubled(mut digits: impl Iterator<Item = u128>, doublings: u32) -> u128 {
    const LIMB: u128 = 1_000_000_000_000_000_000;
    let mut limbs = [0; 3];
    for limb in &mut limbs {
        for _ in 0..18 {
            *limb = *limb * 10 + digits.next().unwrap_or(0);
        }
    }
    let (mut carry, mut inexact) = (0, false);
    for limb in limbs.iter().rev() {
        let product = (limb << doublings) + carry;
        inexact |= !product.is_multiple_of(LIMB);
        carry = product / LIMB;
    }
    carry + u128::from(inexact)
}

/// Whether a minus stands in front, and what follows the sign.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    }
}

/// The leading digits, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// A signed integer after `e`. Held within what already means "too large" or "below a nano" for 64 characters.
fn exponent(text: &[u8]) -> Result<i32, QuantityError> {
    let (negative, unsigned) = sign(text);
    let (number, rest) = digits(unsigned);
    if number.is_empty() || !rest.is_empty() {
        return Err(QuantityError::Malformed);
    }
    let size = number.iter().fold(0, |size, &digit| {
        1000.min(size * 10 + i32::from(digit - b'0'))
    });
    Ok(if negative { -size } else { size })
}

#[cfg(test)]
mod tests;
