//! A role: the windows of its Pods, and the observation that one pass makes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::engine::{Engine, Family, Gauge, Sample};
use super::latency::{Histogram, p95};
use super::observation::{Coverage, Gap, Latency, Observation, Reading, SignalState};
use super::refusal::Refusal;
use super::window::{NewBaseline, Window};
use crate::api::RoleKind;

/// Pods of a role that are read at most. Above, coverage is incomplete.
pub const MAX_PODS: usize = 64;

/// A reading is current for at least this long, whatever the interval.
const CURRENT: Duration = Duration::from_secs(30);

/// What a pass knows of a role from elsewhere than its engines.
#[derive(Clone, Copy, Debug)]
pub struct Roster<'a> {
    /// What the role serves.
    pub kind: RoleKind,
    /// Ready serving replicas.
    pub ready: u32,
    /// UIDs of the ready engine Pods that should answer, in a stable order.
    pub expected: &'a [&'a str],
    /// The sampling interval.
    pub interval: Duration,
}

impl<'a> Roster<'a> {
    /// The Pods that are read: the first [`MAX_PODS`].
    pub fn sampled(&self) -> &'a [&'a str] {
        self.expected.get(..MAX_PODS).unwrap_or(self.expected)
    }

    /// The age above which a reading says nothing any more: two intervals, at least 30 seconds.
    fn limit(&self) -> Duration {
        self.interval.saturating_mul(2).max(CURRENT)
    }
}

/// The Pods of a role, as their scrapes left them. Times are durations since any one moment of a monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Role {
    pods: BTreeMap<String, Pod>,
}

#[derive(Clone, Debug)]
struct Pod {
    /// The engine container: its ID, or its restart count.
    process: String,
    refusal: Option<Refusal>,
    last: Option<(Duration, Sample)>,
    window: Result<Window, NewBaseline>,
}

impl Role {
    /// Takes in the outcome of a scrape that was received `at`. `process` says which container answered: its ID or its
    /// restart count. A report that is not later than the one before is the same one again, and changes nothing.
    pub fn record(
        &mut self,
        uid: &str,
        process: &str,
        at: Duration,
        outcome: Result<Sample, Refusal>,
    ) {
        let pod = self.pods.entry(uid.to_owned()).or_insert_with(|| Pod {
            process: process.to_owned(),
            refusal: None,
            last: None,
            window: Err(NewBaseline::First),
        });
        let sample = match outcome {
            Ok(sample) => sample,
            Err(refusal) => {
                pod.refusal = Some(refusal);
                return;
            }
        };
        let replaced = pod.process != process;
        pod.window = match &pod.last {
            Some((before, _)) if at <= *before => return,
            Some(_) if replaced => Err(NewBaseline::Replaced),
            Some((before, earlier)) => {
                Window::between(earlier, &sample, at.saturating_sub(*before))
            }
            None => Err(NewBaseline::First),
        };
        if replaced {
            process.clone_into(&mut pod.process);
        }
        pod.refusal = None;
        pod.last = Some((at, sample));
    }

    /// Forgets the Pods that `lives` does not know. Samples of a Pod that is gone must not speak for the role.
    pub fn retain(&mut self, lives: impl Fn(&str) -> bool) {
        self.pods.retain(|uid, _| lives(uid));
    }

    /// What is known of the role `now`.
    pub fn observe(&self, roster: &Roster<'_>, now: Duration) -> Observation {
        let limit = roster.limit();
        let mut coverage = Coverage {
            expected: count(roster.expected.len()),
            ..Coverage::default()
        };
        let mut answered = Vec::with_capacity(roster.sampled().len());
        let mut newest = None;
        for uid in roster.sampled() {
            let Some(pod) = self.pods.get(*uid) else {
                coverage.add(Gap::NotSampled);
                continue;
            };
            newest = newest.max(pod.last.as_ref().map(|(at, _)| *at));
            match (&pod.refusal, &pod.last) {
                (Some(refusal), _) => coverage.add(Gap::Scrape(*refusal)),
                (None, None) => coverage.add(Gap::NotSampled),
                (None, Some((at, _))) if now.saturating_sub(*at) > limit => {
                    coverage.add(Gap::Stale);
                }
                (None, Some((_, sample))) => answered.push(Answer {
                    sample,
                    window: pod.window.as_ref().ok(),
                }),
            }
        }
        for _ in roster.sampled().len()..roster.expected.len() {
            coverage.add(Gap::AboveCap);
        }
        coverage.answered = count(answered.len());
        for answer in &answered {
            answer.gaps(roster.kind, &mut coverage);
        }
        let expired = newest.is_some_and(|newest| now.saturating_sub(newest) > limit);
        summarise(&answered, roster, coverage, expired)
    }
}

/// A Pod that answered.
struct Answer<'a> {
    sample: &'a Sample,
    window: Option<&'a Window>,
}

impl Answer<'_> {
    fn running(&self) -> Option<Gauge> {
        self.sample.gauge(Family::Running)
    }

    /// Requests that wait. On an SGLang Decode those without room yet, and those whose cache is on its way, wait too.
    fn waiting(&self, kind: RoleKind) -> Option<Gauge> {
        let queue = self.sample.gauge(Family::Waiting)?;
        if kind != RoleKind::Decode {
            return Some(queue);
        }
        let more = [Family::TransferQueue, Family::PreallocQueue];
        Some(
            more.into_iter()
                .filter(|family| self.sample.knows(*family))
                .fold(queue, |sum, family| {
                    let gauge = self.sample.gauge(family).unwrap_or_default();
                    Gauge {
                        sum: sum.sum + gauge.sum,
                        series: sum.series + gauge.series,
                        whole: sum.whole && gauge.whole,
                    }
                }),
        )
    }

    /// Counts in `coverage` what this Pod did not say.
    fn gaps(&self, kind: RoleKind, coverage: &mut Coverage) {
        let (running, waiting) = (self.running(), self.waiting(kind));
        let whole = |gauge: Option<Gauge>| gauge.is_some_and(|gauge| gauge.whole);
        let rates = self.window.is_none_or(|window| {
            (window.prompt.is_some() || !needs_prompts(kind))
                && (window.generation.is_some() || !needs_generation(kind))
        });
        if !(whole(running) && whole(waiting) && rates) {
            coverage.add(Gap::SeriesMissing);
        }
        if self.window.is_none() {
            coverage.add(Gap::NewBaseline);
        }
        let busy = [running, waiting]
            .into_iter()
            .flatten()
            .any(|gauge| gauge.sum > 0.0);
        let clamped = self
            .window
            .and_then(|window| window.prompt)
            .is_some_and(|demand| demand.clamped);
        if busy && clamped {
            coverage.add(Gap::ClampedDemand);
        }
    }
}

fn summarise(
    answered: &[Answer<'_>],
    roster: &Roster<'_>,
    coverage: Coverage,
    expired: bool,
) -> Observation {
    let kind = roster.kind;
    let windows = || answered.iter().filter_map(|answer| answer.window);
    let requests = |gauge: &dyn Fn(&Answer<'_>) -> Option<Gauge>| {
        let counts: Vec<f64> = answered
            .iter()
            .filter_map(gauge)
            .map(|gauge| gauge.sum)
            .collect();
        Reading::from((!counts.is_empty()).then(|| whole(counts.iter().sum())))
    };
    let running = requests(&|answer| answer.running());
    let waiting = requests(&|answer| answer.waiting(kind));
    let prompt_rate = total(windows().filter_map(|window| window.prompt.map(|demand| demand.rate)));
    let generation_rate = total(windows().filter_map(|window| window.generation));

    let needed = [
        (needs_prompts(kind), prompt_rate),
        (needs_generation(kind), generation_rate),
    ];
    let no_rate = needed.iter().any(|(needed, _)| *needed)
        && needed
            .iter()
            .all(|(needed, rate)| !needed || *rate == Reading::Missing);
    let still = [prompt_rate, generation_rate]
        .iter()
        .all(|rate| rate.value().is_none_or(super::Rate::is_zero));
    let signal = if answered.is_empty() {
        if expired {
            SignalState::Stale
        } else {
            SignalState::Missing
        }
    } else if windows().next().is_none() || no_rate {
        SignalState::Missing
    } else if (running, waiting) == (Reading::Value(0), Reading::Value(0)) && still {
        SignalState::Idle
    } else {
        SignalState::Fresh
    };
    let latency = |family: Family, of: &dyn Fn(&Window) -> &Histogram| {
        let knows = |answer: &Answer<'_>| answer.sample.knows(family);
        let sglang = |answer: &Answer<'_>| answer.sample.engine() == Engine::Sglang;
        let histograms: Vec<&Histogram> = windows().map(of).collect();
        let by_design = kind == RoleKind::Prefill
            && !answered.is_empty()
            && answered
                .iter()
                .all(|answer| sglang(answer) && !knows(answer));
        match p95(histograms.into_iter()) {
            _ if by_design => Latency::Unreported,
            // Observed late, of work that is done: it must hold nothing.
            _ if signal == SignalState::Idle => Latency::Idle,
            Some(p95) => Latency::P95(p95),
            None => Latency::Missing,
        }
    };
    let cache: Vec<Gauge> = answered
        .iter()
        .filter_map(|answer| answer.sample.cache_use())
        .collect();
    let groups: u32 = cache.iter().map(|gauge| gauge.series).sum();
    Observation {
        ready: roster.ready,
        coverage,
        running,
        waiting,
        prompt_rate,
        generation_rate,
        ttft: latency(Family::Ttft, &|window| &window.ttft),
        itl: latency(Family::Itl, &|window| &window.itl),
        signal,
        cache_use: Reading::from(
            Some(cache.iter().map(|gauge| gauge.sum).sum::<f64>() / f64::from(groups))
                .filter(|mean| mean.is_finite()),
        ),
    }
}

/// Whether a role of this kind answers prompts, so that its demand is not known without their rate.
const fn needs_prompts(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::Server | RoleKind::Prefill)
}

/// Whether a role of this kind generates.
const fn needs_generation(kind: RoleKind) -> bool {
    matches!(kind, RoleKind::Server | RoleKind::Decode)
}

fn total(rates: impl Iterator<Item = super::Rate>) -> Reading<super::Rate> {
    Reading::from(rates.fold(None, |sum: Option<super::Rate>, rate| {
        Some(sum.unwrap_or_default() + rate)
    }))
}

fn count(pods: usize) -> u32 {
    u32::try_from(pods).unwrap_or(u32::MAX)
}

/// The least whole number that is not below `value`, which is finite and not negative; at most the largest one.
fn whole(value: f64) -> u64 {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.ceil().to_bits();
    let mantissa = (bits & ((1 << FRACTION) - 1)) | (1 << FRACTION);
    // The sign is zero: what stands above the fraction is the exponent, biased by 1023.
    let exponent = bits >> FRACTION;
    match exponent.checked_sub(1023) {
        None => 0,
        Some(power @ 0..=52) => mantissa >> (52 - power),
        Some(power @ 53..=63) => mantissa << (power - 52),
        Some(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests;
