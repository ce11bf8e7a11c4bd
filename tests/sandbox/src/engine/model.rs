//! What happens inside a fake engine: requests, a queue, a batch, cache blocks. Pure; time is a parameter.

use std::collections::VecDeque;
use std::time::Duration;

/// The step of the simulation.
const STEP: f64 = 0.02;

/// At most so much time is played at once: what an engine did in an hour that nobody asked about is not missed.
const LONGEST: f64 = 120.0;

/// What an engine serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Prompts and generation.
    #[default]
    Server,
    /// Prompts: a request leaves with its first token.
    Prefill,
    /// Generation: a request comes with its cache.
    Decode,
}

/// What is asked of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests per second.
    pub requests: f64,
    /// Mean length of a prompt, in tokens.
    pub prompt: f64,
    /// Mean length of an answer, in tokens.
    pub output: f64,
    /// The part of a prompt that the prefix cache answers, 0 to 1.
    pub prefix_hits: f64,
}

impl Load {
    /// Nothing is asked.
    pub const NONE: Self = Self {
        requests: 0.0,
        prompt: 0.0,
        output: 0.0,
        prefix_hits: 0.0,
    };
}

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Talents {
    /// Requests in execution at most.
    pub batch: usize,
    /// Tokens that the cache holds.
    pub cache: f64,
    /// Prompt tokens that are computed in a second.
    pub prefill: f64,
    /// Seconds from token to token with one request in execution; it doubles towards a full batch.
    pub token: f64,
}

impl Default for Talents {
    fn default() -> Self {
        Self {
            batch: 64,
            cache: 400_000.0,
            prefill: 8_000.0,
            token: 0.02,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
    arrived: f64,
    prompt: f64,
    cached: f64,
    output: f64,
    /// Prompt tokens that are still to be computed.
    left: f64,
    /// Tokens generated so far.
    generated: f64,
    /// The part of a token that is under way.
    fraction: f64,
}

/// Observations by bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    /// One for each boundary, not cumulative, and one for what lies above.
    pub(super) counts: Vec<f64>,
    pub(super) sum: f64,
}

impl Histogram {
    fn observe(&mut self, boundaries: &[f64], value: f64, times: f64) {
        self.counts.resize(boundaries.len() + 1, 0.0);
        let bucket = boundaries.partition_point(|boundary| *boundary < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += times;
        }
        self.sum += value * times;
    }
}

/// Everything that only grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) prompt: f64,
    pub(super) cached: f64,
    pub(super) computed: f64,
    pub(super) generation: f64,
    pub(super) finished: f64,
    pub(super) finished_prompt: f64,
    pub(super) finished_cached: f64,
    pub(super) finished_generation: f64,
    pub(super) ttft: Histogram,
    pub(super) itl: Histogram,
    pub(super) e2e: Histogram,
}

/// The inside of a fake engine.
#[derive(Clone, Debug)]
pub struct Model {
    /// What is asked of it.
    pub load: Load,
    pub(super) stage: Stage,
    pub(super) served_name: String,
    pub(super) counters: Counters,
    /// When the process began, in seconds since the epoch.
    pub(super) began: f64,
    talents: Talents,
    clock: f64,
    debt: f64,
    arriving: f64,
    queue: VecDeque<Request>,
    batch: Vec<Request>,
    random: u64,
}

/// Boundaries that both engines have about where these are; what matters is that they are buckets.
pub(super) const TTFT: &[f64] = &[
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
    400.0,
];
pub(super) const ITL: &[f64] = &[
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2,
    0.4, 0.6, 0.8, 1.0,
];

impl Model {
    /// An engine that does nothing yet. The same `seed` and load give the same requests.
    pub fn new(stage: Stage, talents: Talents, served_name: &str, seed: u64) -> Self {
        let mut counters = Counters::default();
        for (histogram, boundaries) in [
            (&mut counters.ttft, TTFT),
            (&mut counters.e2e, TTFT),
            (&mut counters.itl, ITL),
        ] {
            histogram.observe(boundaries, 0.0, 0.0);
        }
        Self {
            load: Load::NONE,
            stage,
            served_name: served_name.to_owned(),
            counters,
            began: 1_796_000_000.0,
            talents,
            clock: 0.0,
            debt: 0.0,
            arriving: 0.0,
            queue: VecDeque::new(),
            batch: Vec::new(),
            random: seed,
        }
    }

    /// Lets time pass.
    pub fn advance(&mut self, elapsed: Duration) {
        self.debt = (self.debt + elapsed.as_secs_f64()).min(LONGEST);
        while self.debt >= STEP {
            self.debt -= STEP;
            self.step();
        }
    }

    /// Begins anew as another process.
    pub fn restart(&mut self) {
        let fresh = Self::new(self.stage, self.talents, &self.served_name, self.random);
        *self = Self {
            load: self.load,
            began: self.began + 1.0 + self.clock,
            ..fresh
        };
    }

    /// Sets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.counters = Self::new(self.stage, self.talents, "", 0).counters;
    }

    /// Requests in execution.
    pub fn running(&self) -> usize {
        self.batch.len()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The part of the cache that is in use.
    pub fn cache_use(&self) -> f64 {
        let held: f64 = self
            .batch
            .iter()
            .map(|request| request.prompt + request.generated)
            .sum();
        (held / self.talents.cache).min(1.0)
    }

    fn step(&mut self) {
        self.clock += STEP;
        self.arriving += self.load.requests * STEP;
        while self.arriving >= 1.0 {
            self.arriving -= 1.0;
            let request = self.request();
            self.queue.push_back(request);
        }
        self.admit();
        self.prefill();
        self.decode();
    }

    /// A request whose lengths lie between half and one and a half of the mean.
    fn request(&mut self) -> Request {
        let prompt = (self.load.prompt * (0.5 + self.chance())).ceil().max(1.0);
        let output = (self.load.output * (0.5 + self.chance())).ceil().max(1.0);
        // At least the last token is always computed.
        let cached = (prompt * self.load.prefix_hits)
            .floor()
            .clamp(0.0, prompt - 1.0);
        let left = if self.stage == Stage::Decode {
            0.0
        } else {
            prompt - cached
        };
        Request {
            arrived: self.clock,
            prompt,
            cached,
            output,
            left,
            generated: 0.0,
            fraction: 0.0,
        }
    }

    /// Takes requests into the batch while there is a slot, and room in the cache. One that is longer than the whole
    /// cache runs alone.
    fn admit(&mut self) {
        while self.batch.len() < self.talents.batch
            && let Some(next) = self.queue.front()
            && (self.batch.is_empty() || self.cache_use() + next.prompt / self.talents.cache < 1.0)
            && let Some(request) = self.queue.pop_front()
        {
            self.batch.push(request);
        }
    }

    fn prefill(&mut self) {
        let mut budget = self.talents.prefill * STEP;
        let counters = &mut self.counters;
        for request in &mut self.batch {
            if request.generated > 0.0 {
                continue;
            }
            let done = request.left.min(budget);
            budget -= done;
            request.left -= done;
            if request.left > 0.0 {
                break;
            }
            counters.prompt += request.prompt;
            counters.cached += request.cached;
            counters.computed += if self.stage == Stage::Decode {
                0.0
            } else {
                request.prompt - request.cached
            };
            counters.generation += 1.0;
            request.generated = 1.0;
            counters
                .ttft
                .observe(TTFT, self.clock - request.arrived, 1.0);
        }
        self.finish();
    }

    fn decode(&mut self) {
        let full = count(self.batch.len()) / count(self.talents.batch.max(1));
        let token = self.talents.token * (1.0 + full);
        for request in &mut self.batch {
            if request.generated < 1.0 {
                continue;
            }
            request.fraction += STEP / token;
            let tokens = request
                .fraction
                .floor()
                .min(request.output - request.generated)
                .max(0.0);
            request.fraction -= request.fraction.floor();
            request.generated += tokens;
            self.counters.generation += tokens;
            self.counters.itl.observe(ITL, token, tokens);
        }
        self.finish();
    }

    fn finish(&mut self) {
        let (stage, clock) = (self.stage, self.clock);
        let counters = &mut self.counters;
        self.batch.retain(|request| {
            let first = request.generated >= 1.0;
            let done = first && (stage == Stage::Prefill || request.generated >= request.output);
            if done {
                counters.finished += 1.0;
                counters.finished_prompt += request.prompt;
                counters.finished_cached += request.cached;
                counters.finished_generation += request.generated;
                counters.e2e.observe(TTFT, clock - request.arrived, 1.0);
            }
            !done
        });
    }

    /// A number from 0 to 1. Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u32::try_from((word ^ (word >> 31)) >> 32).unwrap_or_default();
        f64::from(high) / f64::from(u32::MAX)
    }
}

pub(super) fn count(requests: usize) -> f64 {
    u32::try_from(requests).map_or(f64::MAX, f64::from)
}
