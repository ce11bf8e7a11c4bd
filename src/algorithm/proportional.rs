//! Proportional: one live measurement over a fixed target.
//!
//! The ratio, the deadband and the ceiling are those of the Kubernetes Horizontal Pod Autoscaler, in integers: its
//! `ceil(f64 * n)` asks for a replica too many in about one case of a thousand.

use crate::{
    api::{Replicas, quantity::Nanos, scaler::Metric},
    signal::{Observation, Rate, Reading},
};

use super::number::{ceil_div, nanos_of};

/// A role total: counted requests, or a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Total {
    /// Requests.
    Requests(u64),
    /// Tokens per second.
    Tokens(Rate),
}

/// The total of `metric`, if it was read.
pub(super) fn total(metric: Metric, seen: &Observation) -> Option<Total> {
    let requests = |reading: Reading<u64>| reading.value();
    let tokens = |reading: Reading<Rate>| reading.value();
    match metric {
        Metric::QueueDepth => Some(Total::Requests(
            requests(seen.running)?.saturating_add(requests(seen.waiting)?),
        )),
        Metric::RunningRequests => requests(seen.running).map(Total::Requests),
        Metric::WaitingRequests => requests(seen.waiting).map(Total::Requests),
        Metric::PromptTokensPerSecond => tokens(seen.prompt_rate).map(Total::Tokens),
        Metric::GenerationTokensPerSecond => tokens(seen.generation_rate).map(Total::Tokens),
        Metric::TotalTokensPerSecond => Some(Total::Tokens(
            tokens(seen.prompt_rate)? + tokens(seen.generation_rate)?,
        )),
    }
}

/// The count that `total` asks for; `None` inside the tolerance, where the count is held.
///
/// `ready` is at least one; `target` and `tolerance` are positive.
pub(super) fn count(total: Total, ready: u32, target: Nanos, tolerance: Nanos) -> Option<Replicas> {
    // Beyond 2^57 units nothing real is measured; within, every product below fits 127 bits.
    const LARGEST: i128 = (1 << 57) * 1_000_000_000;
    let each = target.get().min(LARGEST);
    let amount = match total {
        Total::Requests(n) => i128::from(n.min(1 << 57)) * Nanos::ONE.get(),
        Total::Tokens(rate) => nanos_of(rate.get()),
    };
    // |amount / (ready * each) - 1| <= tolerance
    let full = i128::from(ready.min(u32::from(Replicas::MAX.get()))) * each;
    let off = (amount - full).abs();
    let held = match (
        off.checked_mul(Nanos::ONE.get()),
        full.checked_mul(tolerance.get()),
    ) {
        (Some(left), Some(right)) => left <= right,
        // Nanos of a nano are below what any measurement resolves here.
        _ => off <= full / Nanos::ONE.get() * tolerance.get(),
    };
    if held {
        return None;
    }
    Some(match total {
        Total::Requests(_) => {
            let need = amount / each + i128::from(amount % each != 0);
            Replicas::saturating(i64::try_from(need).unwrap_or(i64::MAX))
        }
        Total::Tokens(rate) => ceil_div(rate.get(), target.to_f64()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nanos(text: &str) -> Nanos {
        crate::api::Quantity::Text(text.into()).nanos().unwrap()
    }

    fn of(requests: u64, ready: u32, target: &str, tolerance: &str) -> Option<u16> {
        count(
            Total::Requests(requests),
            ready,
            nanos(target),
            nanos(tolerance),
        )
        .map(Replicas::get)
    }

    #[test]
    fn the_deadband_holds_at_both_edges() {
        for (requests, ready, target, tolerance, wanted) in [
            // 1.1 and 0.9 at a tolerance of 0.1 hold; HPA in f64 says 1.1 is outside.
            (11, 1, "10", "0.1", None),
            (9, 1, "10", "0.1", None),
            (21, 2, "10", "0.05", None),
            (19, 2, "10", "0.05", None),
            (111, 1, "100", "0.1", Some(2)),
            (89, 1, "100", "0.1", Some(1)),
            (1101, 10, "100", "0.1", Some(12)),
            // HPA H6, H9, H15, H19, in requests.
            (60, 3, "15", "0.1", Some(4)),
            (60, 5, "20", "0.1", Some(3)),
            (62, 3, "20", "0.1", None),
        ] {
            assert_eq!(
                of(requests, ready, target, tolerance),
                wanted,
                "{requests} / {ready} at {target} +- {tolerance}"
            );
        }
    }

    #[test]
    fn the_ceiling_is_exact_where_floats_overshoot() {
        // HPA asks for 8, 15, 100 and 8 (anchors 1.7): usage u percent of n Pods at a target of 100 percent.
        for (usage, pods, exact) in [
            (28_u64, 25_u32, 7),
            (56, 25, 14),
            (220, 45, 99),
            (14, 50, 7),
        ] {
            assert_eq!(
                of(usage * u64::from(pods), pods, "100", "0.000000001"),
                Some(exact)
            );
        }
    }

    #[test]
    fn an_idle_role_needs_one_and_an_absurd_one_the_most() {
        assert_eq!(of(0, 4, "8", "0.1"), Some(1));
        assert_eq!(of(u64::MAX, 1, "1n", "0.1"), Some(1024));
        // 214,748,364 requests at a tenth each overflowed 32 bits in HPA and shrank to one.
        assert_eq!(of(214_748_364, 3, "0.1", "0.1"), Some(1024));
        assert_eq!(of(1, 1, "9223372036854775807", "1"), None);
        assert_eq!(of(1, 1, "9223372036854775807", "0.5"), Some(1));
    }

    #[test]
    fn a_huge_fleet_at_its_target_holds() {
        assert_eq!(of(1 << 57, 1024, "140737488355328", "0.000000001"), None);
    }

    proptest! {
        #[test]
        fn more_requests_never_ask_for_fewer(requests in 0_u64..1_000_000, ready in 1_u32..1024, target in 1_i128..1_000_000_000_000) {
            let tolerance = Nanos::new(1);
            let ask = |n| count(Total::Requests(n), ready, Nanos::new(target), tolerance).unwrap_or_else(|| Replicas::saturating(i64::from(ready)));
            prop_assert!(ask(requests) <= ask(requests + 1));
        }

        #[test]
        fn tokens_and_target_scale_together(requests in 0_u64..100_000, ready in 1_u32..64, target in 1_i128..1_000_000, factor in 1_u32..1000) {
            let tolerance = nanos("0.1");
            let one = count(Total::Requests(requests), ready, Nanos::new(target * 1_000_000), tolerance);
            let many = count(Total::Requests(requests * u64::from(factor)), ready, Nanos::new(target * 1_000_000 * i128::from(factor)), tolerance);
            prop_assert_eq!(one, many);
        }
    }
}
