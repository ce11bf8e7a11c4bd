//! Two samples of one Pod: what moved between them.
//!
//! The formula of a demand is chosen for the pair, from what both samples have, and never changes inside it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::engine::{Engine, Family, Mode, Part, Point, Sample};
use super::latency::Histogram;
use super::observation::Rate;

/// A sum of seconds may shrink by this part of itself when a client adds up its processes in another order.
const SUM_SLACK: f64 = 1e-9;

/// Why a pair of samples gives no rate and the later one is a new baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewBaseline {
    /// There is no earlier sample, or no time passed.
    First,
    /// The Pod or its engine container is another one.
    Replaced,
    /// The process began at another time, or is another engine.
    Restarted,
    /// The set of scheduler groups changed.
    Regrouped,
    /// A histogram has other buckets.
    Rebucketed,
    /// A counter went down: the process began anew, and with it every counter of the Pod.
    Decreased,
}

/// Prompt tokens per second that the prefix cache did not answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The rate.
    pub rate: Rate,
    /// Whether a subtraction of look-ups went below zero and was clamped: the rate is then no proof of little demand.
    pub clamped: bool,
}

/// What moved between two samples of one Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Prompt demand, where the engine counts prompts.
    pub prompt: Option<Demand>,
    /// Generated tokens per second, where the engine counts them.
    pub generation: Option<Rate>,
    /// Times to first token that were observed.
    pub ttft: Histogram,
    /// Inter-token latencies that were observed.
    pub itl: Histogram,
}

impl Window {
    /// What moved from `before` to `after` in `elapsed`.
    ///
    /// # Errors
    /// Why `after` is a new baseline.
    pub fn between(
        before: &Sample,
        after: &Sample,
        elapsed: Duration,
    ) -> Result<Self, NewBaseline> {
        let pair = Pair { before, after };
        let seconds = elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return Err(NewBaseline::First);
        }
        pair.one_process()?;
        let rate = |tokens: f64| Rate::new(tokens / seconds);
        let latency = |families: &[Family]| {
            families
                .iter()
                .find(|family| pair.both_have(**family))
                .map_or_else(Histogram::default, |family| {
                    Histogram::grown(&pair, *family)
                })
        };
        Ok(Self {
            prompt: pair.prompt().and_then(|(tokens, clamped)| {
                Some(Demand {
                    rate: rate(tokens)?,
                    clamped,
                })
            }),
            generation: pair.generation().and_then(rate),
            ttft: latency(&[Family::Ttft]),
            itl: latency(&[Family::Itl, Family::OldItl]),
        })
    }
}

/// Tokens by scheduler group.
type Tokens = BTreeMap<u64, f64>;

pub(super) struct Pair<'a> {
    before: &'a Sample,
    after: &'a Sample,
}

impl Pair<'_> {
    /// Whether both samples have `family`, and no series of it is missing in either.
    fn both_have(&self, family: Family) -> bool {
        self.before.has_whole(family) && self.after.has_whole(family)
    }

    /// Whether the two samples are of one process that ran on.
    fn one_process(&self) -> Result<(), NewBaseline> {
        let (before, after) = (self.before, self.after);
        if before.engine() != after.engine() || before.process_start() != after.process_start() {
            return Err(NewBaseline::Restarted);
        }
        for of_scheduler in [false, true] {
            // Engines create series late: a first group is no change.
            let some = before.groups(of_scheduler).next().is_some();
            if some && !before.groups(of_scheduler).eq(after.groups(of_scheduler)) {
                return Err(NewBaseline::Regrouped);
            }
        }
        let compared = |point: &&Point| self.both_have(point.family);
        for point in before.points().iter().filter(compared) {
            match find(after.points(), point) {
                Some(now) if now.value >= point.value => {}
                Some(now)
                    if point.part == Part::Sum && now.value >= point.value * (1.0 - SUM_SLACK) => {}
                None if point.part == Part::Bucket => return Err(NewBaseline::Rebucketed),
                None if point.value <= 0.0 => {}
                _ => return Err(NewBaseline::Decreased),
            }
        }
        let new_bucket_of_old_series = |point: &Point| {
            point.part == Part::Bucket
                && find(before.points(), point).is_none()
                && before
                    .part(point.family, Part::Bucket)
                    .binary_search_by_key(&(point.group, point.series), |old| {
                        (old.group, old.series)
                    })
                    .is_ok()
        };
        if after
            .points()
            .iter()
            .filter(compared)
            .any(new_bucket_of_old_series)
        {
            return Err(NewBaseline::Rebucketed);
        }
        Ok(())
    }

    /// How far each series of one part of a family moved. A series that is new counts from zero: the family was there
    /// before, so that its engine creates children late. Callers make sure that both samples have the family.
    pub(super) fn grown(&self, family: Family, part: Part) -> impl Iterator<Item = (&Point, f64)> {
        self.after.part(family, part).iter().map(|point| {
            let from = find(self.before.points(), point).map_or(0.0, |before| before.value);
            (point, (point.value - from).max(0.0))
        })
    }

    /// Tokens of a counter by group, of the children that `wanted` accepts.
    fn tokens(&self, family: Family, wanted: impl Fn(Mode) -> bool) -> Option<Tokens> {
        self.both_have(family).then(|| {
            let mut tokens = Tokens::new();
            for (point, grown) in self.grown(family, Part::Value) {
                *tokens.entry(point.group).or_default() +=
                    if wanted(point.mode) { grown } else { 0.0 };
            }
            tokens
        })
    }

    /// Prompt tokens that no cache answered, and whether a clamp made them so few.
    fn prompt(&self) -> Option<(f64, bool)> {
        match self.after.engine() {
            Engine::Vllm => self.vllm_prompt(),
            Engine::Sglang => self.sglang_prompt(),
        }
    }

    fn vllm_prompt(&self) -> Option<(f64, bool)> {
        if let Some(computed) =
            self.tokens(Family::PromptBySource, |mode| mode == Mode::LocalCompute)
        {
            return Some((computed.values().sum(), false));
        }
        let prompts = self.tokens(Family::Prompt, |_| true)?;
        if let Some(cached) = self.tokens(Family::PromptCached, |_| true) {
            return Some((subtract(&prompts, &cached).0, false));
        }
        // To 0.26 a request that waits for blocks is looked up, and its hits are counted, at every step.
        let hits = [Family::Hits, Family::OldHits]
            .into_iter()
            .find_map(|hits| self.tokens(hits, |_| true));
        Some(hits.map_or_else(
            || (prompts.values().sum(), false),
            |hits| subtract(&prompts, &hits),
        ))
    }

    fn sglang_prompt(&self) -> Option<(f64, bool)> {
        let children = self.after.part(Family::Effective, Part::Value);
        if (children.is_empty() || children.iter().any(|child| child.mode == Mode::Input))
            && let Some(input) = self.tokens(Family::Effective, |mode| mode == Mode::Input)
        {
            return Some((input.values().sum(), false));
        }
        if let Some(computed) = self.tokens(Family::Realtime, |mode| mode == Mode::PrefillCompute) {
            return Some((computed.values().sum(), false));
        }
        let prompts = self.tokens(Family::Prompt, |_| true)?;
        let totals = self
            .after
            .part(Family::PromptCached, Part::Value)
            .iter()
            .any(|child| child.mode == Mode::Total);
        let hits = self
            .tokens(Family::Effective, |mode| mode == Mode::Hit)
            .or_else(|| self.tokens(Family::PromptCached, |mode| !totals || mode == Mode::Total));
        Some(hits.map_or_else(
            || (prompts.values().sum(), false),
            |hits| subtract(&prompts, &hits),
        ))
    }

    fn generation(&self) -> Option<f64> {
        let realtime = match self.after.engine() {
            Engine::Vllm => None,
            // SGLang's other counter moves only when a request ends.
            Engine::Sglang => self.tokens(Family::Realtime, |mode| mode == Mode::Decode),
        };
        let tokens = realtime.or_else(|| self.tokens(Family::Generation, |_| true))?;
        Some(tokens.values().sum())
    }
}

/// `from - tokens`, never below zero, and whether that had to be seen to. Group by group where both count by the same
/// groups, else in all: SGLang's tokenizer does not know the ranks of its schedulers.
fn subtract(from: &Tokens, tokens: &Tokens) -> (f64, bool) {
    let (mut left, mut clamped) = (0.0, false);
    let mut take = |from: f64, tokens: f64| {
        clamped |= tokens > from;
        left += (from - tokens).max(0.0);
    };
    if tokens.keys().all(|group| from.contains_key(group)) {
        for (group, from) in from {
            take(*from, tokens.get(group).copied().unwrap_or_default());
        }
    } else {
        take(from.values().sum(), tokens.values().sum());
    }
    (left, clamped)
}

fn find<'a>(points: &'a [Point], point: &Point) -> Option<&'a Point> {
    let place = points.binary_search_by(|other| other.key_cmp(point)).ok()?;
    points.get(place)
}

#[cfg(test)]
mod tests;
