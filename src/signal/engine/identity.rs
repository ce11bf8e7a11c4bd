//! Who a series speaks for, read from its labels by name and never by position.

use super::super::exposition::Labels;
use super::{Engine, Family, Part};

/// What distinguishes one series of a family from another.
///
/// Label sets are kept as 64-bit hashes: nothing is copied from the body, and order does not matter. Two series of one
/// body that collide read as one, which is as unlikely as a damaged number and as harmless.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Identity {
    /// The scheduler that the series is of: model and vLLM `engine` or SGLang `dp_rank`.
    pub(super) group: u64,
    /// Which copy of that scheduler's numbers: `tp_rank`, `pp_rank`, `moe_ep_rank`, in this order; none is smallest.
    pub(super) copy: [u32; 3],
    /// All labels but `pid`, and but `le` for buckets.
    pub(super) series: u64,
    /// All labels, but `le` for buckets.
    pub(super) exact: u64,
    pub(super) mode: Mode,
    pub(super) stream: Stream,
    /// Whether the series is one priority's part of a total.
    pub(super) of_priority: bool,
}

/// The child of a family that is split by `source`, `mode` or `cache_source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Not split, or a child that no reading asks for.
    Other,
    /// vLLM: prompt tokens that were computed here.
    LocalCompute,
    /// SGLang `prefill_effective_tokens_total`: tokens that no cache answered.
    Input,
    /// SGLang `prefill_effective_tokens_total`: tokens that some cache answered.
    Hit,
    /// SGLang `realtime_tokens_total`: prompt tokens.
    PrefillCompute,
    /// SGLang `realtime_tokens_total`: generated tokens.
    Decode,
    /// SGLang `cached_tokens_total`: all sources together.
    Total,
}

/// Whether a latency is of requests that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// The release does not say.
    Unlabelled,
    /// They do.
    Streaming,
    /// They do not, and a release to 0.5.20 may have recorded the whole answer as first token.
    Whole,
}

impl Identity {
    pub(super) fn read(
        engine: Option<Engine>,
        family: Family,
        part: Part,
        labels: Labels<'_>,
    ) -> Self {
        let mut identity = Self {
            group: 0,
            copy: [0; 3],
            series: 0,
            exact: 0,
            mode: Mode::Other,
            stream: Stream::Unlabelled,
            of_priority: false,
        };
        let mut pid = 0;
        for (name, value) in labels.iter() {
            if part == Part::Bucket && name == b"le" {
                continue;
            }
            // A sum of mixed hashes is the same in every order.
            let label = hash(hash(0, name), value);
            if name == b"pid" {
                pid = label;
                continue;
            }
            identity.series = identity.series.wrapping_add(label);
            identity.learn(engine, family, name, value, label);
        }
        identity.exact = identity.series.wrapping_add(pid);
        identity
    }

    fn learn(
        &mut self,
        engine: Option<Engine>,
        family: Family,
        name: &[u8],
        value: &[u8],
        label: u64,
    ) {
        match (engine, name) {
            (_, b"model_name")
            | (Some(Engine::Vllm), b"engine")
            | (Some(Engine::Sglang), b"dp_rank") => {
                self.group = self.group.wrapping_add(label);
            }
            (_, b"tp_rank") => self.copy[0] = rank(value),
            (_, b"pp_rank") => self.copy[1] = rank(value),
            (_, b"moe_ep_rank") => self.copy[2] = rank(value),
            (_, b"priority") => self.of_priority = !value.is_empty(),
            (_, b"is_streaming") => {
                self.stream = if value == b"true" {
                    Stream::Streaming
                } else {
                    Stream::Whole
                };
            }
            _ => {
                if let Some(mode) = mode(family, name, value) {
                    self.mode = mode;
                }
            }
        }
    }
}

fn mode(family: Family, label: &[u8], value: &[u8]) -> Option<Mode> {
    Some(match (family, label, value) {
        (Family::PromptBySource, b"source", b"local_compute") => Mode::LocalCompute,
        (Family::Effective, b"mode", b"input") => Mode::Input,
        (Family::Effective, b"mode", b"device_hit" | b"host_hit" | b"storage_hit") => Mode::Hit,
        (Family::Realtime, b"mode", b"prefill_compute") => Mode::PrefillCompute,
        (Family::Realtime, b"mode", b"decode") => Mode::Decode,
        (Family::PromptCached, b"cache_source", b"total") => Mode::Total,
        _ => return None,
    })
}

/// A rank as a number that sorts behind "no rank". What is no number sorts last.
fn rank(value: &[u8]) -> u32 {
    let digits = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    digits.map_or(u32::MAX, |rank| rank.saturating_add(1))
}

/// Mixes `bytes` into `seed`: a multiply-and-fold hash, eight bytes at a time.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |state: u64, word: u64| {
        let product =
            u128::from(state ^ word ^ ODD) * u128::from(ODD.rotate_left(17) ^ word.rotate_left(32));
        let [low, high] = halves(product);
        low ^ high
    };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut state = seed ^ length.wrapping_mul(ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    fold(state, u64::from_le_bytes(last))
}

fn halves(product: u128) -> [u64; 2] {
    let bytes = product.to_le_bytes();
    let (words, _) = bytes.as_chunks::<8>();
    match words {
        [low, high] => [u64::from_le_bytes(*low), u64::from_le_bytes(*high)],
        _ => [0; 2],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::hash;

    #[test]
    fn a_hundred_thousand_labels_have_as_many_hashes() {
        let hashes: HashSet<u64> = (0..100_000)
            .map(|n| hash(hash(0, b"tenant"), format!("t-{n}").as_bytes()))
            .collect();
        assert_eq!(hashes.len(), 100_000);
    }

    #[test]
    fn where_a_name_ends_and_its_value_begins_is_part_of_the_hash() {
        assert_ne!(hash(hash(0, b"ab"), b"c"), hash(hash(0, b"a"), b"bc"));
        assert_ne!(hash(hash(0, b"a"), b""), hash(hash(0, b"a"), b"\0"));
    }
}
