//! Recommendations of the past, and the wish that they leave.

use crate::api::{Replicas, Time};

/// The longest window in which growth looks back: every sample younger than this is kept as it is.
const KEEP: i64 = 600;
/// The longest window in which shrinking looks back.
const LONGEST: i64 = 1800;
/// Samples that status holds.
pub(super) const CAPACITY: usize = 256;

/// The raw recommendations of one role, oldest first, at most one a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<(Time, Replicas)>);

impl History {
    /// A history as it was stored: in time order, at most 256 samples, the newest where there are more.
    pub fn restore(mut samples: Vec<(Time, Replicas)>) -> Self {
        samples.sort_by_key(|&(at, _)| at);
        samples.drain(..samples.len().saturating_sub(CAPACITY));
        Self(samples)
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> &[(Time, Replicas)] {
        &self.0
    }

    /// The time of the newest sample.
    pub fn newest(&self) -> Option<Time> {
        self.0.last().map(|&(at, _)| at)
    }

    /// Appends a recommendation. A silence longer than `gap` seconds before it restarts the span: what was recommended
    /// meanwhile is not known. Of two in the same second the later one stands.
    pub fn push(&mut self, now: Time, count: Replicas, gap: i64) {
        match self.newest() {
            Some(last) if now.since(last) > gap => self.0.clear(),
            Some(last) if now <= last => {
                // A clock that was set back counts as standing still.
                while self.0.len() > 1
                    && self.0.iter().rev().nth(1).is_some_and(|&(at, _)| at >= now)
                {
                    self.0.pop();
                }
                self.0.pop();
            }
            _ => {}
        }
        self.0.push((now, count));
        self.trim(now);
    }

    /// Whether the history reaches back over the last `window` seconds.
    pub fn spans(&self, now: Time, window: u32) -> bool {
        self.0
            .first()
            .is_some_and(|&(at, _)| now.since(at) >= i64::from(window))
    }

    /// The highest recommendation of the last `window` seconds, both ends included.
    pub fn highest(&self, now: Time, window: u32) -> Option<Replicas> {
        self.within(now, window).max()
    }

    /// The lowest recommendation of the last `window` seconds, both ends included.
    pub fn lowest(&self, now: Time, window: u32) -> Option<Replicas> {
        self.within(now, window).min()
    }

    fn within(&self, now: Time, window: u32) -> impl Iterator<Item = Replicas> + '_ {
        let opens = now.plus(-i64::from(window));
        self.0
            .iter()
            .rev()
            .take_while(move |&&(at, _)| at >= opens)
            .map(|&(_, count)| count)
    }

    /// Keeps what a window may still ask for in at most [`CAPACITY`] samples.
    ///
    /// The longest window at the shortest interval has 360 samples; a plain ring of 256 would never span it, and the
    /// role would never shrink. Older neighbours merge into the higher of the two, at the newer time: at the older one
    /// the floor would expire early. The oldest sample proves the span and stays.
    fn trim(&mut self, now: Time) {
        let beyond = self
            .0
            .iter()
            .take_while(|&&(at, _)| now.since(at) >= LONGEST)
            .count();
        self.0.drain(..beyond.saturating_sub(1));
        while self.0.len() > CAPACITY {
            let old = self
                .0
                .iter()
                .take_while(|&&(at, _)| now.since(at) >= KEEP)
                .count();
            let mut merged = Vec::with_capacity(self.0.len());
            merged.extend(self.0.first().copied());
            let (aged, young) = self.0[1..].split_at(old.saturating_sub(1));
            for pair in aged.chunks(2) {
                if let [first, .., last] = pair {
                    merged.push((last.0, first.1.max(last.1)));
                } else {
                    merged.extend_from_slice(pair);
                }
            }
            merged.extend_from_slice(young);
            if merged.len() == self.0.len() {
                // Nothing is old enough to merge: more than one sample a second is not to be had, so this is a restored
                // oddity. The newest samples are the ones that decide.
                merged.drain(1..=merged.len() - CAPACITY);
            }
            self.0 = merged;
        }
    }
}

/// What stabilization makes of a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// The count that the role asks for now.
    pub count: Replicas,
    /// Whether a window changed it.
    pub delayed: bool,
}

/// The wish of a role: growth waits until `up` seconds agree on it, shrinking stays at or above the highest
/// recommendation of the last `down` seconds; neither moves before the history spans its window. An `up` of zero does
/// not wait. (Kubernetes HPA, `stabilizationWindowSeconds`, but for the demand that the history span.)
pub(super) fn stabilize(
    history: &History,
    raw: Replicas,
    current: Replicas,
    up: u32,
    down: u32,
    now: Time,
) -> Wish {
    let count = if raw > current && up > 0 {
        if history.spans(now, up) {
            history
                .lowest(now, up)
                .map_or(current, |lowest| lowest.clamp(current, raw))
        } else {
            current
        }
    } else if raw < current {
        if history.spans(now, down) {
            history
                .highest(now, down)
                .map_or(current, |highest| highest.clamp(raw, current))
        } else {
            current
        }
    } else {
        raw
    };
    Wish {
        count,
        delayed: count != raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(1_000_000 + seconds)
    }

    fn n(count: i64) -> Replicas {
        Replicas::new(count).unwrap()
    }

    fn history(samples: &[(i64, i64)]) -> History {
        let mut history = History::default();
        for &(seconds, count) in samples {
            history.push(at(seconds), n(count), 330);
        }
        history
    }

    #[test]
    fn growth_is_immediate_without_a_window() {
        assert_eq!(
            stabilize(&history(&[(0, 9)]), n(9), n(2), 0, 300, at(0)),
            Wish {
                count: n(9),
                delayed: false
            }
        );
    }

    #[test]
    fn growth_takes_the_lowest_of_a_spanned_window() {
        // HPA S3 and S8, with a history that spans.
        let h = history(&[(0, 4), (60, 4), (120, 5), (180, 7)]);
        assert_eq!(
            stabilize(&h, n(7), n(1), 120, 300, at(180)),
            Wish {
                count: n(4),
                delayed: true
            }
        );
        assert_eq!(
            stabilize(&h, n(7), n(1), 181, 300, at(180)),
            Wish {
                count: n(1),
                delayed: true
            }
        );
        assert_eq!(stabilize(&h, n(7), n(5), 120, 300, at(180)).count, n(5));
    }

    #[test]
    fn shrinking_waits_for_the_span_and_stays_at_the_floor() {
        let h = history(&[(0, 8), (150, 5), (300, 2)]);
        assert_eq!(stabilize(&h, n(2), n(9), 0, 300, at(300)).count, n(8));
        assert_eq!(stabilize(&h, n(2), n(9), 0, 301, at(300)).count, n(9));
        let mut later = h.clone();
        later.push(at(301), n(2), 330);
        assert_eq!(stabilize(&later, n(2), n(9), 0, 300, at(301)).count, n(5));
    }

    #[test]
    fn a_long_silence_restarts_the_span() {
        let mut h = history(&[(0, 2), (300, 2)]);
        h.push(at(631), n(2), 330);
        assert_eq!(h.samples(), [(at(631), n(2))]);
    }

    #[test]
    fn a_clock_set_back_does_not_stretch_the_history() {
        let mut h = history(&[(0, 2), (15, 3), (30, 4)]);
        h.push(at(10), n(9), 330);
        assert_eq!(h.samples(), [(at(0), n(2)), (at(10), n(9))]);
    }

    #[test]
    fn half_an_hour_every_five_seconds_fits_and_spans() {
        let mut h = History::default();
        for pass in 0..1000_i64 {
            h.push(at(pass * 5), n(1 + pass % 7), 330);
            assert!(h.samples().len() <= CAPACITY);
            assert_eq!(h.spans(at(pass * 5), 1800), pass * 5 >= 1800, "pass {pass}");
        }
    }

    proptest! {
        #[test]
        fn a_merged_history_never_lowers_the_floor(counts in prop::collection::vec(1_i64..1000, 300..700), window in 1_u32..1800) {
            let mut merged = History::default();
            let mut whole = vec![];
            for (pass, &count) in (0_i64..).zip(&counts) {
                merged.push(at(pass * 5), n(count), 330);
                whole.push((at(pass * 5), n(count)));
            }
            let now = merged.newest().unwrap();
            let opens = now.plus(-i64::from(window));
            let truth = whole.iter().filter(|&&(t, _)| t >= opens).map(|&(_, c)| c).max();
            prop_assert!(merged.highest(now, window) >= truth);
            if i64::from(window) < KEEP {
                prop_assert_eq!(merged.highest(now, window), truth);
            }
        }

        #[test]
        fn a_wish_never_leaves_the_way_from_current_to_raw(counts in prop::collection::vec(1_i64..50, 1..60), current in 1_i64..50, up in 0_u32..600, down in 1_u32..600) {
            let mut h = History::default();
            for (pass, &count) in (0_i64..).zip(&counts) {
                h.push(at(pass * 15), n(count), 330);
            }
            let raw = h.samples().last().unwrap().1;
            let wish = stabilize(&h, raw, n(current), up, down, h.newest().unwrap()).count;
            prop_assert!(wish >= raw.min(n(current)) && wish <= raw.max(n(current)));
        }
    }
}
