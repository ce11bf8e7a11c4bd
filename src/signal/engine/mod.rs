//! What vLLM and SGLang mean by their series.
//!
//! The tables cover vLLM 0.5 to 0.32 and SGLang 0.3.6 to 0.5.23. A name that a release dropped stays here beside the
//! one that replaced it; which of two is read is decided where they are read ([`Sample`] and `window`).

mod identity;
mod sample;

use std::fmt;
use std::str::FromStr;

pub use identity::{Mode, Stream};
pub use sample::{Collector, Gauge, Point, Sample};

/// An inference engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// vLLM: names begin with `vllm:`.
    Vllm,
    /// SGLang: names begin with `sglang:`.
    Sglang,
}

impl Engine {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Vllm, Self::Sglang];

    /// The word that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }

    const fn table(self) -> &'static [(&'static str, Family)] {
        match self {
            Self::Vllm => VLLM,
            Self::Sglang => SGLANG,
        }
    }

    /// The engine that a name belongs to, and the name without its prefix. A Prometheus client writes `_` for the `:`
    /// under `OpenMetrics`, and Ray puts `ray_` in front.
    fn of(name: &[u8]) -> Option<(Self, &[u8])> {
        let name = name.strip_prefix(b"ray_").unwrap_or(name);
        Self::ALL.into_iter().find_map(|engine| {
            match name.strip_prefix(engine.as_str().as_bytes())? {
                [b':' | b'_', rest @ ..] => Some((engine, rest)),
                _ => None,
            }
        })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be vllm or sglang")]
pub struct UnknownEngine;

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(word: &str) -> Result<Self, UnknownEngine> {
        Self::ALL
            .into_iter()
            .find(|engine| engine.as_str() == word)
            .ok_or(UnknownEngine)
    }
}

/// A family of series that is read. What both engines have goes by one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Gauge: requests in execution.
    Running,
    /// Gauge: requests in the scheduler's queue.
    Waiting,
    /// Gauge, SGLang Decode: requests whose KV cache is being transferred.
    TransferQueue,
    /// Gauge, SGLang Decode: requests that found no room yet.
    PreallocQueue,
    /// Gauge: fraction of the KV cache in use.
    CacheUse,
    /// Gauge: the same, by the name of vLLM to 0.10.
    OldCacheUse,
    /// Counter: prompt tokens.
    Prompt,
    /// Counter, vLLM from 0.16: prompt tokens by where they came from.
    PromptBySource,
    /// Counter: prompt tokens that a cache answered.
    PromptCached,
    /// Counter, vLLM: prefix-cache hits in tokens, counted at each look-up.
    Hits,
    /// Counter: the same, by the name of vLLM to 0.10. Blocks, not tokens, to 0.8.5, which reads too much demand and
    /// never too little.
    OldHits,
    /// Counter, SGLang from 0.5.18: prompt tokens of prefill batches.
    Effective,
    /// Counter, SGLang from 0.5.7: tokens as they are computed.
    Realtime,
    /// Counter: generated tokens.
    Generation,
    /// Histogram: time to first token, in seconds.
    Ttft,
    /// Histogram: inter-token latency, in seconds.
    Itl,
    /// Histogram: the same, by its old name.
    OldItl,
    /// Gauge of the process: when it began.
    ProcessStart,
}

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Gauge,
    Counter,
    Histogram,
}

impl Family {
    const fn shape(self) -> Shape {
        match self {
            Self::Running
            | Self::Waiting
            | Self::TransferQueue
            | Self::PreallocQueue
            | Self::CacheUse
            | Self::OldCacheUse
            | Self::ProcessStart => Shape::Gauge,
            Self::Prompt
            | Self::PromptBySource
            | Self::PromptCached
            | Self::Hits
            | Self::OldHits
            | Self::Effective
            | Self::Realtime
            | Self::Generation => Shape::Counter,
            Self::Ttft | Self::Itl | Self::OldItl => Shape::Histogram,
        }
    }

    /// Whether SGLang's scheduler writes it, which labels ranks, and not its tokenizer, which does not.
    const fn of_scheduler(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::Waiting
                | Self::TransferQueue
                | Self::PreallocQueue
                | Self::CacheUse
                | Self::Effective
                | Self::Realtime
        )
    }
}

/// A set of families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families(u32);

impl Families {
    const fn bit(family: Family) -> u32 {
        1 << family as u32
    }

    fn insert(&mut self, family: Family) {
        self.0 |= Self::bit(family);
    }

    /// Whether `family` is in it.
    pub const fn contains(self, family: Family) -> bool {
        self.0 & Self::bit(family) != 0
    }
}

/// Which series of a family a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The gauge or counter.
    Value,
    /// `_bucket` of a histogram.
    Bucket,
    /// `_sum` of a histogram.
    Sum,
    /// `_count` of a histogram.
    Count,
}

/// A wanted name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    engine: Option<Engine>,
    family: Family,
    part: Part,
}

/// Exposed names, without the prefix and, for histograms, without the suffix of the part.
const VLLM: &[(&str, Family)] = &[
    ("num_requests_running", Family::Running),
    ("num_requests_waiting", Family::Waiting),
    ("kv_cache_usage_perc", Family::CacheUse),
    ("gpu_cache_usage_perc", Family::OldCacheUse),
    ("prompt_tokens_total", Family::Prompt),
    ("prompt_tokens_by_source_total", Family::PromptBySource),
    ("prompt_tokens_cached_total", Family::PromptCached),
    ("prefix_cache_hits_total", Family::Hits),
    ("gpu_prefix_cache_hits_total", Family::OldHits),
    ("generation_tokens_total", Family::Generation),
    ("time_to_first_token_seconds", Family::Ttft),
    ("inter_token_latency_seconds", Family::Itl),
    ("time_per_output_token_seconds", Family::OldItl),
];

const SGLANG: &[(&str, Family)] = &[
    ("num_running_reqs", Family::Running),
    ("num_queue_reqs", Family::Waiting),
    ("num_decode_transfer_queue_reqs", Family::TransferQueue),
    ("num_decode_prealloc_queue_reqs", Family::PreallocQueue),
    ("token_usage", Family::CacheUse),
    ("prompt_tokens_total", Family::Prompt),
    ("cached_tokens_total", Family::PromptCached),
    ("prefill_effective_tokens_total", Family::Effective),
    ("realtime_tokens_total", Family::Realtime),
    ("generation_tokens_total", Family::Generation),
    ("time_to_first_token_seconds", Family::Ttft),
    ("inter_token_latency_seconds", Family::Itl),
    ("time_per_output_token_seconds", Family::OldItl),
];

const PARTS: [(&str, Part); 3] = [
    ("_bucket", Part::Bucket),
    ("_sum", Part::Sum),
    ("_count", Part::Count),
];

/// The lengths that names of a table have, with and without the suffixes of parts, as a set of bits: most names of a
/// body are of another length, and need not be compared.
const fn lengths(table: &[(&str, Family)]) -> u64 {
    let mut set = 0;
    let mut place = 0;
    while place < table.len() {
        let (name, family) = table[place];
        if matches!(family.shape(), Shape::Histogram) {
            let mut part = 0;
            while part < PARTS.len() {
                set |= 1 << (name.len() + PARTS[part].0.len());
                part += 1;
            }
        } else {
            set |= 1 << name.len();
        }
        place += 1;
    }
    set
}

const VLLM_LENGTHS: u64 = lengths(VLLM);
const SGLANG_LENGTHS: u64 = lengths(SGLANG);

/// The family and part that a sample of `engine` with this unprefixed name belongs to.
fn sample_name(engine: Engine, name: &[u8]) -> Option<Name> {
    let lengths = match engine {
        Engine::Vllm => VLLM_LENGTHS,
        Engine::Sglang => SGLANG_LENGTHS,
    };
    if name.len() >= 64 || lengths & (1 << name.len()) == 0 {
        return None;
    }
    let found = |name: &[u8], part: Part| {
        let (_, family) = engine
            .table()
            .iter()
            .find(|(known, _)| known.as_bytes() == name)?;
        ((family.shape() == Shape::Histogram) == (part != Part::Value)).then_some(Name {
            engine: Some(engine),
            family: *family,
            part,
        })
    };
    found(name, Part::Value).or_else(|| {
        PARTS
            .into_iter()
            .find_map(|(suffix, part)| found(name.strip_suffix(suffix.as_bytes())?, part))
    })
}

/// The family that HELP or TYPE of `engine` declares. `OpenMetrics` leaves `_total` away there.
fn declared_family(engine: Engine, name: &[u8]) -> Option<Family> {
    engine.table().iter().find_map(|(known, family)| {
        let whole = known.as_bytes() == name;
        let bare = family.shape() == Shape::Counter
            && known.as_bytes().strip_suffix(b"_total") == Some(name);
        (whole || bare).then_some(*family)
    })
}

#[cfg(test)]
mod tests;
