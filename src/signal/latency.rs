//! Histograms of several Pods to one percentile.
//!
//! Engines let users set their buckets, so that Pods of one role may differ. Over the union of boundaries a Pod
//! contributes at each one its count at the nearest lower boundary that it has; that is the same as adding up, boundary
//! by boundary, what each Pod counted since its boundary before.

use super::engine::{Family, Part, Point, Stream};
use super::observation::Milliseconds;
use super::window::Pair;

/// The share of observations below the percentile that is read, in hundredths.
const PERCENT: f64 = 95.0;

/// Observations of one Pod between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    steps: Vec<Step>,
    /// Seconds that all observations took together, by stream; `None` where the engine does not say.
    sums: Vec<(Stream, f64)>,
}

/// Observations in one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// The upper bound in seconds; infinite for those above every boundary, or without any.
    le: f64,
    /// The largest finite boundary of the series.
    top: f64,
    count: f64,
    stream: Stream,
}

impl Histogram {
    /// What was observed of `family` between the two samples of `pair`.
    pub(super) fn grown(pair: &Pair<'_>, family: Family) -> Self {
        let mut histogram = Self {
            steps: Vec::new(),
            sums: pair
                .grown(family, Part::Sum)
                .map(|(point, grown)| (point.stream, grown))
                .collect(),
        };
        let counts: Vec<_> = pair.grown(family, Part::Count).collect();
        let buckets: Vec<_> = pair.grown(family, Part::Bucket).collect();
        for series in buckets.chunk_by(|(a, _), (b, _)| (a.group, a.series) == (b.group, b.series))
        {
            let Some((first, _)) = series.first() else {
                continue;
            };
            let top = series
                .iter()
                .map(|(point, _)| point.le)
                .filter(|le| le.is_finite())
                .fold(0.0, f64::max);
            let infinite = series.last().is_some_and(|(last, _)| !last.le.is_finite());
            let count = find(&counts, first)
                .filter(|_| !infinite)
                .map(|(_, grown)| (f64::INFINITY, *grown));
            // Cumulative counts of a scrape that raced with an observation may fall: the running maximum does not.
            let mut below: f64 = 0.0;
            for (le, cumulative) in series
                .iter()
                .map(|(point, grown)| (point.le, *grown))
                .chain(count)
            {
                let count = (cumulative - below).max(0.0);
                below = below.max(cumulative);
                histogram.push(Step {
                    le,
                    top,
                    count,
                    stream: first.stream,
                });
            }
        }
        for (point, count) in &counts {
            if find(&buckets, point).is_none() {
                histogram.push(Step {
                    le: f64::INFINITY,
                    top: 0.0,
                    count: *count,
                    stream: point.stream,
                });
            }
        }
        histogram
    }

    fn push(&mut self, step: Step) {
        if step.count > 0.0 {
            self.steps.push(step);
        }
    }
}

/// Any of `grown`, which is in the order of a sample, that is of the series of `point`.
fn find<'a, 'b>(grown: &'a [(&'b Point, f64)], point: &Point) -> Option<&'a (&'b Point, f64)> {
    let place = grown
        .binary_search_by_key(&(point.group, point.series), |(other, _)| {
            (other.group, other.series)
        })
        .ok()?;
    grown.get(place)
}

/// The 95th percentile over the histograms of a role: the upper bound of the bucket that covers it. `None`: nothing was
/// observed.
///
/// Above every boundary it is the mean, but not less than the largest finite boundary, which is known to lie below it.
/// Where streaming requests were observed they alone count: SGLang to 0.5.20 takes the whole answer of the others for
/// the first token.
pub fn p95<'a>(histograms: impl Iterator<Item = &'a Histogram> + Clone) -> Option<Milliseconds> {
    let steps = || histograms.clone().flat_map(|histogram| &histogram.steps);
    let streaming = steps().any(|step| step.stream == Stream::Streaming);
    let counts = |stream: Stream| !(streaming && stream == Stream::Whole);
    let mut steps: Vec<Step> = steps()
        .filter(|step| counts(step.stream))
        .copied()
        .collect();
    let total: f64 = steps.iter().map(|step| step.count).sum();
    if total <= 0.0 {
        return None;
    }
    steps.sort_unstable_by(|a, b| a.le.total_cmp(&b.le));
    let mut below = 0.0;
    let covering = steps.iter().find(|step| {
        below += step.count;
        below * 100.0 >= total * PERCENT
    })?;
    let seconds = if covering.le.is_finite() {
        covering.le
    } else {
        let sums = histograms
            .flat_map(|histogram| &histogram.sums)
            .filter(|(stream, _)| counts(*stream));
        let seconds: f64 = sums.map(|(_, seconds)| seconds).sum();
        let infinite = steps.iter().filter(|step| !step.le.is_finite());
        let top = infinite.map(|step| step.top).fold(0.0, f64::max);
        (seconds / total).max(top)
    };
    Milliseconds::new(seconds * 1000.0)
}

#[cfg(test)]
mod tests;
