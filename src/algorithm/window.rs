//! The average of demand over a sliding window.

use crate::api::Time;

use super::Sample;

/// The time-weighted average of the demand over the `window` seconds before `now`, in tokens per second.
///
/// A sample's rate was measured over the span since the sample before it, and counts with that span. After a gap longer
/// than two sampling intervals it counts with one interval: what lies before is unknown, not zero. A window that is only
/// partly observed divides by the observed part (as Knative's does, `pkg/autoscaler/aggregation`). `None` when nothing
/// inside the window was observed.
pub fn average(samples: &[Sample], interval: u32, window: u32, now: Time) -> Option<f64> {
    let interval = i64::from(interval);
    let opens = now.plus(-i64::from(window));
    let mut total = 0.0;
    let mut observed = 0.0;
    let mut later: Option<Sample> = None;
    for sample in samples.iter().rev() {
        if let Some(after) = later {
            weigh(
                after,
                Some(sample.at),
                interval,
                opens,
                now,
                &mut total,
                &mut observed,
            );
        }
        if sample.at <= opens {
            later = None;
            break;
        }
        later = Some(*sample);
    }
    if let Some(first) = later {
        weigh(first, None, interval, opens, now, &mut total, &mut observed);
    }
    (observed > 0.0).then(|| total / observed)
}

fn weigh(
    sample: Sample,
    before: Option<Time>,
    interval: i64,
    opens: Time,
    now: Time,
    total: &mut f64,
    observed: &mut f64,
) {
    let begins = match before {
        Some(before) if sample.at.since(before) <= 2 * interval => before,
        _ => sample.at.plus(-interval),
    };
    let seconds = sample.at.min(now).since(begins.max(opens)).max(0);
    // At most a window of 600 seconds.
    let weight = u32::try_from(seconds).map_or(f64::from(u32::MAX), f64::from);
    *total += sample.rate.get() * weight;
    *observed += weight;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Rate;

    fn samples(list: &[(i64, f64)]) -> Vec<Sample> {
        list.iter()
            .map(|&(at, rate)| Sample {
                at: Time::from_seconds(at),
                rate: Rate::new(rate).unwrap(),
            })
            .collect()
    }

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    #[test]
    fn one_rate_is_a_window() {
        // Knative W1: one sample of 1 in a window of 5 averages 1, not 0.2.
        assert_eq!(average(&samples(&[(100, 1.0)]), 1, 5, at(100)), Some(1.0));
    }

    #[test]
    fn a_full_window_is_the_mean_and_slides() {
        // Knative W2, W3: 1..5 average 3; two seconds later only 3, 4, 5 are inside.
        let five = samples(&[(0, 1.0), (1, 2.0), (2, 3.0), (3, 4.0), (4, 5.0)]);
        assert_eq!(average(&five, 1, 5, at(4)), Some(3.0));
        assert_eq!(average(&five, 1, 5, at(6)), Some(4.0));
    }

    #[test]
    fn nothing_newer_than_the_window_is_missing() {
        // Knative W4 says 0 here; a silence is no measured zero.
        assert_eq!(average(&samples(&[(4, 5.0)]), 1, 5, at(10)), None);
        assert_eq!(average(&[], 15, 180, at(0)), None);
    }

    #[test]
    fn a_gap_is_unknown_and_not_zero() {
        let gap = samples(&[(0, 100.0), (15, 100.0), (120, 200.0)]);
        // 15 s of each at 100, then one interval at 200: the 90 s between count for nothing.
        assert_eq!(
            average(&gap, 15, 180, at(120)),
            Some((30.0 * 100.0 + 15.0 * 200.0) / 45.0)
        );
    }

    #[test]
    fn one_missed_sample_is_bridged() {
        let bridged = samples(&[(0, 100.0), (30, 200.0)]);
        assert_eq!(
            average(&bridged, 15, 180, at(30)),
            Some((15.0 * 100.0 + 30.0 * 200.0) / 45.0)
        );
    }

    #[test]
    fn a_span_is_cut_at_the_edge_of_the_window() {
        let edge = samples(&[(0, 100.0), (15, 200.0), (30, 300.0)]);
        assert_eq!(
            average(&edge, 15, 20, at(30)),
            Some((5.0 * 200.0 + 15.0 * 300.0) / 20.0)
        );
    }
}
