//! Predictive: the larger of the forecast and the TokenThroughput result.

use crate::{
    api::{Replicas, quantity::Nanos},
    policy::PredictivePolicy,
};

use super::{
    kalman::Trend,
    number::{above, ceil_div},
};

/// Shrinking needs the others to stay at or below this share of their capacity.
const CONSOLIDATION: f64 = 0.8;

/// The count that the forecast asks for.
pub(super) fn count(filter: &Trend, capacity: Nanos, policy: &PredictivePolicy) -> Replicas {
    ceil_div(filter.forecast(policy.horizon), capacity.to_f64())
}

/// Whether one replica less would leave the others above 80 % of what they can carry, now or in the forecast.
///
/// `fewest` is the smaller of the current and the ready count. The idea is the consolidation test of the Dynamo
/// planner's load loop, in rates.
pub(super) fn must_not_consolidate(
    filter: Option<&Trend>,
    stable: f64,
    fewest: u32,
    target: Nanos,
    capacity: Nanos,
    horizon: u32,
) -> bool {
    let others = f64::from(fewest.saturating_sub(1));
    let forecast = filter.map_or(0.0, |filter| filter.forecast(horizon));
    above(stable, CONSOLIDATION * target.to_f64() * others)
        || above(forecast, CONSOLIDATION * capacity.to_f64() * others)
}
