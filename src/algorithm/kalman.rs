//! A causal local linear trend filter, in steps of the sampling interval.
//!
//! State `[level, trend]`, transition `[[1, k], [0, 1]]`, observation `[1, 0]`, process noise `diag(q_level, q_trend)`
//! per step, measurement noise `r` (Durbin and Koopman, *Time Series Analysis by State Space Methods*, section 3.2; the
//! Dynamo planner's filter with its initial state). The update is in Joseph form, which keeps the covariance positive.

use crate::policy::Filter;

/// Variance of level and trend after the first observation.
const INITIAL_VARIANCE: f64 = 1000.0;

/// The filter's state. Trend and covariances are kept per second, as status shows them, and converted by the interval
/// at each use: so a restored filter is bit for bit the one that was stored, also when the interval has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Tokens per second.
    pub level: f64,
    /// Tokens per second, per second.
    pub trend: f64,
    /// Variance of the level.
    pub p00: f64,
    /// Covariance of level and trend.
    pub p01: f64,
    /// Variance of the trend.
    pub p11: f64,
}

impl Trend {
    /// The state after the first observation; that observation is not weighed against anything.
    pub fn first(demand: f64, interval: u32) -> Self {
        let step = f64::from(interval);
        Self {
            level: demand,
            trend: 0.0,
            p00: INITIAL_VARIANCE,
            p01: 0.0,
            p11: INITIAL_VARIANCE / (step * step),
        }
    }

    /// The state `steps` intervals later, with one observation at their end. `None` when the numbers have left the
    /// range in which they mean something: the filter starts over.
    pub fn observe(&self, demand: f64, steps: u32, interval: u32, noise: &Filter) -> Option<Self> {
        let step = f64::from(interval);
        let k = f64::from(steps.max(1));
        let (trend, b, d) = (self.trend * step, self.p01 * step, self.p11 * step * step);
        // k predictions at once: P = F^k P F^kT + sum of F^j Q F^jT.
        let level = self.level + k * trend;
        let p00 = self.p00
            + 2.0 * k * b
            + k * k * d
            + k * noise.q_level
            + noise.q_trend * k * (k - 1.0) * (2.0 * k - 1.0) / 6.0;
        let p01 = b + k * d + noise.q_trend * k * (k - 1.0) / 2.0;
        let p11 = d + k * noise.q_trend;
        let r = noise.measurement_noise;
        let innovation = demand - level;
        let (k0, k1) = (p00 / (p00 + r), p01 / (p00 + r));
        let next = Self {
            level: level + k0 * innovation,
            trend: (trend + k1 * innovation) / step,
            p00: (1.0 - k0) * (1.0 - k0) * p00 + k0 * k0 * r,
            p01: ((1.0 - k0) * (p01 - k1 * p00) + k0 * k1 * r) / step,
            p11: (k1 * k1 * p00 - 2.0 * k1 * p01 + p11 + k1 * k1 * r) / (step * step),
        };
        next.is_sound().then_some(next)
    }

    /// Whether the state is finite and its covariance positive; a restored one is asked too.
    pub fn is_sound(&self) -> bool {
        let finite = [self.level, self.trend, self.p00, self.p01, self.p11]
            .iter()
            .all(|x| x.is_finite());
        finite && self.p00 > 0.0 && self.p11 > 0.0 && self.p00 * self.p11 > self.p01 * self.p01
    }

    /// The most demand expected up to `horizon` seconds ahead, at least zero: the whole way must be served, not only its
    /// end. The filter is not changed.
    pub fn forecast(&self, horizon: u32) -> f64 {
        self.level
            .max(self.level + f64::from(horizon) * self.trend)
            .max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOISE: Filter = Filter {
        q_level: 1.0,
        q_trend: 0.1,
        measurement_noise: 10.0,
    };

    fn run(observations: &[f64], interval: u32, noise: &Filter) -> Vec<Trend> {
        let mut state: Option<Trend> = None;
        observations
            .iter()
            .map(|&z| {
                let next = state.map_or_else(
                    || Trend::first(z, interval),
                    |s| s.observe(z, 1, interval, noise).unwrap(),
                );
                state = Some(next);
                next
            })
            .collect()
    }

    /// One step ahead and unclamped, as Dynamo forecasts.
    fn ahead(observations: &[f64], noise: &Filter) -> Vec<f64> {
        run(observations, 1, noise)
            .iter()
            .map(|s| s.level + s.trend)
            .collect()
    }

    fn close(got: &[f64], wanted: &[f64]) {
        assert_eq!(got.len(), wanted.len());
        for (g, w) in got.iter().zip(wanted) {
            assert!((g - w).abs() < 6e-4, "{got:?} is not {wanted:?}");
        }
    }

    #[test]
    fn dynamo_vectors_one_step_ahead() {
        let ramp: Vec<f64> = (1..=8).map(|i| 10.0 * f64::from(i)).collect();
        close(&ahead(&[100.0; 8], &NOISE), &[100.0; 8]);
        close(
            &ahead(&ramp, &NOISE)[4..],
            &[59.9478, 69.9685, 79.9791, 89.9854],
        );
        let hundreds: Vec<f64> = ramp.iter().map(|z| z * 10.0).collect();
        close(
            &ahead(&hundreds, &NOISE)[4..],
            &[599.4782, 699.6847, 799.7910, 899.8539],
        );
        let jump = [[100.0; 5], [200.0; 5]].concat();
        close(
            &ahead(&jump, &NOISE)[5..],
            &[182.9532, 215.7051, 228.8500, 233.1187, 232.9868],
        );
        let spike = [&[100.0; 5][..], &[500.0], &[100.0; 4]].concat();
        close(
            &ahead(&spike, &NOISE)[5..],
            &[431.8130, 276.9464, 195.1998, 148.7957, 121.4559],
        );
        let fall = [100.0, 80.0, 60.0, 40.0, 20.0, 10.0, 0.0, 0.0];
        close(
            &ahead(&fall, &NOISE)[4..],
            &[0.1044, -11.6416, -21.2408, -23.7959],
        );
        let stopped = [&[40.0; 5][..], &[0.0; 5], &[100.0; 4]].concat();
        close(
            &ahead(&stopped, &NOISE)[10..],
            &[41.0688, 75.2468, 96.2654, 108.4999],
        );
        let alternating: Vec<f64> = (0..10)
            .map(|i| if i % 2 == 0 { 100.0 } else { 200.0 })
            .collect();
        close(
            &ahead(&alternating, &NOISE)[4..],
            &[100.0468, 163.0662, 118.6579, 161.6434, 126.3121, 161.7817],
        );
        close(
            &ahead(
                &jump,
                &Filter {
                    measurement_noise: 1000.0,
                    ..NOISE
                },
            )[5..],
            &[164.0193, 197.6012, 216.0352, 226.4221, 232.2929],
        );
        close(
            &ahead(
                &jump,
                &Filter {
                    q_trend: 10.0,
                    ..NOISE
                },
            )[5..],
            &[224.9995, 240.9971, 225.1645, 209.7039, 201.6455],
        );
        close(&ahead(&[10.0, 20.0], &NOISE), &[10.0, 24.9229]);
    }

    #[test]
    fn the_state_after_each_observation_is_dynamos() {
        // Anchors 5.4, V11: level, trend, P00, P01, P11.
        let states = run(&[2400.0, 2420.0, 2390.0, 2410.0, 2400.0, 2500.0], 1, &NOISE);
        for (s, w) in states.iter().zip([
            [2400.0, 0.0, 1000.0, 0.0, 1000.0],
            [2419.9005, 9.9453, 9.9503, 4.9727, 502.835],
            [2390.7466, -27.9653, 9.8126, 9.5143, 19.7912],
            [2402.0817, -4.7603, 8.3231, 4.9144, 5.4894],
            [2399.2268, -3.9558, 7.1133, 3.0033, 2.4649],
            [2460.6055, 17.5857, 6.2384, 2.0569, 1.4401],
        ]) {
            close(&[s.level, s.trend, s.p00, s.p01, s.p11], &w);
        }
    }

    #[test]
    fn twenty_steps_ahead_in_steps_of_the_interval() {
        // Anchors 5.5, reading A: steps of 15 s, 300 s ahead.
        let noisy = run(
            &[
                1000.0, 1040.0, 1010.0, 1075.0, 1105.0, 1120.0, 1200.0, 1195.0,
            ],
            15,
            &NOISE,
        );
        close(&[noisy[7].forecast(300)], &[1836.076]);
        let ramp: Vec<f64> = (0..8).map(|i| 1000.0 + 30.0 * f64::from(i)).collect();
        close(&[run(&ramp, 15, &NOISE)[7].forecast(300)], &[1809.700]);
    }

    #[test]
    fn a_decline_is_served_until_it_has_happened() {
        let decline: Vec<f64> = (0..8).map(|i| 2400.0 - 100.0 * f64::from(i)).collect();
        let last = run(&decline, 15, &NOISE)[7];
        assert!(last.trend < 0.0);
        assert_eq!(last.forecast(300).to_bits(), last.level.to_bits());
    }

    #[test]
    fn a_forecast_is_never_negative() {
        let below = Trend {
            level: -6.0,
            ..Trend::first(0.0, 15)
        };
        assert_eq!(below.forecast(300).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn missed_steps_are_predictions_without_an_update() {
        let start = run(&[100.0, 110.0, 120.0], 15, &NOISE)[2];
        // Three predictions by hand, one at a time, then the update.
        let mut p = (
            start.level,
            start.trend * 15.0,
            start.p00,
            start.p01 * 15.0,
            start.p11 * 225.0,
        );
        for _ in 0..3 {
            p = (
                p.0 + p.1,
                p.1,
                p.2 + 2.0 * p.3 + p.4 + 1.0,
                p.3 + p.4,
                p.4 + 0.1,
            );
        }
        let gain = p.2 / (p.2 + 10.0);
        let got = start.observe(150.0, 3, 15, &NOISE).unwrap();
        close(&[got.level], &[p.0 + gain * (150.0 - p.0)]);
    }

    #[test]
    fn what_is_not_finite_starts_over() {
        let huge = Trend {
            level: f64::MAX,
            trend: f64::MAX,
            ..Trend::first(1.0, 15)
        };
        assert_eq!(huge.observe(1.0, 1, 15, &NOISE), None);
        assert!(
            !Trend {
                p00: -1.0,
                ..Trend::first(1.0, 15)
            }
            .is_sound()
        );
        assert!(
            !Trend {
                p01: 2000.0,
                ..Trend::first(1.0, 1)
            }
            .is_sound()
        );
    }

    proptest! {
        #[test]
        fn the_covariance_stays_positive(demands in prop::collection::vec(0.0..1e6_f64, 1..60), steps in 1_u32..50, interval in 5_u32..300) {
            let mut state = Trend::first(demands[0], interval);
            for &z in &demands {
                state = state.observe(z, steps, interval, &NOISE).unwrap();
                prop_assert!(state.is_sound());
            }
        }
    }
}
