//! Numbers without surprises: exact conversions between measured floats and integers of nanos, and the one division of
//! a rate by a capacity.

use crate::api::Replicas;

/// Relative slack of a rate over a capacity: rates carry the rounding of a division, and `ceil` would turn the last bit
/// into a replica.
const SLACK: f64 = 1e-9;

/// A finite, non-negative float in nanos, to the nearest nano, saturating at 2^57 whole units: read from its bits, so
/// that nothing is lost in a cast.
pub fn nanos_of(value: f64) -> i128 {
    const LARGEST: i128 = (1 << 57) * 1_000_000_000;
    let bits = value.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
    let fraction = bits & ((1 << 52) - 1);
    if !value.is_finite() || value <= 0.0 {
        return if value == f64::INFINITY { LARGEST } else { 0 };
    }
    // value = mantissa * 2^shift; a subnormal is below a nano anyway.
    let mantissa = i128::from(fraction | (1 << 52));
    let shift = exponent - 1075;
    if shift > 4 {
        return LARGEST;
    }
    let nanos = mantissa * 1_000_000_000;
    match u32::try_from(-shift) {
        Ok(0) => nanos,
        Ok(right) if right < 100 => (nanos + (1 << (right - 1))) >> right,
        Ok(_) => 0,
        Err(_) => nanos << shift,
    }
    .min(LARGEST)
}

/// Replicas that a rate needs at so much for each: `ceil(rate / each)`, at least one, at most 1024.
///
/// A relative 1e-9 of the quotient is forgiven first (Knative needs 11 Pods for a load of 21 at 70 % of 3, where 10
/// suffice: 70 % of 3 is 2.0999999999999996 to it).
pub fn ceil_div(rate: f64, each: f64) -> Replicas {
    let need = rate / each * (1.0 - SLACK);
    let (mut low, mut high) = (Replicas::MIN.get(), Replicas::MAX.get());
    while low < high {
        let middle = u16::midpoint(low, high);
        if f64::from(middle) >= need {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Replicas::saturating(i64::from(low))
}

/// Whether `value` lies strictly above `limit`, by more than the relative slack.
pub(super) fn above(value: f64, limit: f64) -> bool {
    value > limit * (1.0 + SLACK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::quantity::Nanos;
    use proptest::prelude::*;

    #[test]
    fn a_rate_at_a_multiple_of_the_capacity_needs_no_replica_more() {
        for (rate, each, count) in [
            (21.0, 0.7 * 3.0, 10),
            (0.1 * 3.0, 0.1, 3),
            ((0..30).map(|_| 0.1).sum::<f64>(), 0.1, 30),
            (2400.0, 2000.0, 2),
            (2000.0, 2000.0, 1),
            (2000.1, 2000.0, 2),
            (0.0, 2000.0, 1),
            (1e300, 1e-9, 1024),
            (f64::MAX, f64::MIN_POSITIVE, 1024),
        ] {
            assert_eq!(ceil_div(rate, each).get(), count, "{rate} / {each}");
        }
    }

    #[test]
    fn nanos_of_a_float_are_exact() {
        for (value, nanos) in [
            (0.0, 0),
            (1.0, 1_000_000_000),
            (0.1, 100_000_000),
            (1e-9, 1),
            (4e-10, 0),
            (1e30, (1 << 57) * 1_000_000_000),
            (f64::NAN, 0),
            (-1.0, 0),
        ] {
            assert_eq!(nanos_of(value), nanos, "{value}");
        }
    }

    proptest! {
        #[test]
        fn nanos_and_floats_convert_both_ways(nanos in 0_i128..1_000_000_000_000_000) {
            prop_assert_eq!(nanos_of(Nanos::new(nanos).to_f64()), nanos);
        }

        #[test]
        fn the_count_is_the_least_that_serves(rate in 0.0..1e6_f64, each in 0.1..1e5_f64) {
            let count = f64::from(ceil_div(rate, each).get());
            prop_assert!(count * each >= rate * (1.0 - 2e-9) || count >= 1024.0);
            prop_assert!(count <= 1.0 || (count - 1.0) * each < rate);
        }
    }
}
