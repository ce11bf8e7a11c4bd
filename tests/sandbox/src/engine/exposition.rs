//! What an engine shows of itself, in its own words.

use std::fmt::Write;

use super::Flavour;
use super::model::{Counters, Histogram, ITL, Model, Stage, TTFT, count};

/// The body of `/metrics`.
pub(super) fn write(model: &Model, flavour: Flavour) -> String {
    let mut page = Page {
        text: String::with_capacity(32 << 10),
    };
    match flavour {
        Flavour::Vllm => vllm(&mut page, model),
        Flavour::Sglang => sglang(&mut page, model),
    }
    page.text
}

struct Page {
    text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str) {
        let _ = writeln!(
            self.text,
            "# HELP {name} As shown by a fake engine.\n# TYPE {name} {kind}"
        );
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {value:?}");
    }

    fn one(&mut self, name: &str, kind: &str, labels: &str, value: f64) {
        self.family(name, kind);
        self.sample(name, labels, value);
    }

    /// A counter that is split by one label.
    fn split(&mut self, name: &str, labels: &str, by: &str, children: &[(&str, f64)]) {
        self.family(name, "counter");
        for (child, value) in children {
            self.sample(name, &format!("{labels},{by}=\"{child}\""), *value);
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, boundaries: &[f64], histogram: &Histogram) {
        self.family(name, "histogram");
        let mut below = 0.0;
        let infinite = std::iter::once(f64::INFINITY);
        for (boundary, count) in boundaries
            .iter()
            .copied()
            .chain(infinite)
            .zip(&histogram.counts)
        {
            below += count;
            let le = if boundary.is_finite() {
                format!("{boundary:?}")
            } else {
                "+Inf".to_owned()
            };
            self.sample(
                &format!("{name}_bucket"),
                &format!("{labels},le=\"{le}\""),
                below,
            );
        }
        self.sample(&format!("{name}_count"), labels, below);
        self.sample(&format!("{name}_sum"), labels, histogram.sum);
    }
}

fn vllm(page: &mut Page, model: &Model) {
    let labels = format!("engine=\"0\",model_name=\"{}\"", model.served_name);
    let counters = &model.counters;
    let looked_up = counters.prompt;
    page.one("process_start_time_seconds", "gauge", "", model.began);
    page.one(
        "vllm:num_requests_running",
        "gauge",
        &labels,
        count(model.running()),
    );
    page.one(
        "vllm:num_requests_waiting",
        "gauge",
        &labels,
        count(model.waiting()),
    );
    page.family("vllm:num_requests_waiting_by_reason", "gauge");
    for (reason, waiting) in [("capacity", model.waiting()), ("deferred", 0)] {
        let labels = format!("{labels},reason=\"{reason}\"");
        page.sample(
            "vllm:num_requests_waiting_by_reason",
            &labels,
            count(waiting),
        );
    }
    page.one(
        "vllm:kv_cache_usage_perc",
        "gauge",
        &labels,
        model.cache_use(),
    );
    page.one(
        "vllm:prefix_cache_queries_total",
        "counter",
        &labels,
        looked_up,
    );
    page.one(
        "vllm:prefix_cache_hits_total",
        "counter",
        &labels,
        counters.cached,
    );
    page.one("vllm:num_preemptions_total", "counter", &labels, 0.0);
    page.one(
        "vllm:prompt_tokens_total",
        "counter",
        &labels,
        counters.prompt,
    );
    let transferred = if model.stage == Stage::Decode {
        counters.prompt - counters.cached
    } else {
        0.0
    };
    let sources = [
        ("local_compute", counters.computed),
        ("local_cache_hit", counters.cached),
        ("external_kv_transfer", transferred),
    ];
    page.split(
        "vllm:prompt_tokens_by_source_total",
        &labels,
        "source",
        &sources,
    );
    page.one(
        "vllm:prompt_tokens_cached_total",
        "counter",
        &labels,
        counters.cached + transferred,
    );
    page.one(
        "vllm:generation_tokens_total",
        "counter",
        &labels,
        counters.generation,
    );
    page.one(
        "vllm:request_success_total",
        "counter",
        &format!("{labels},finished_reason=\"stop\""),
        counters.finished,
    );
    vllm_latencies(page, &labels, counters);
}

fn vllm_latencies(page: &mut Page, labels: &str, counters: &Counters) {
    page.histogram(
        "vllm:time_to_first_token_seconds",
        labels,
        TTFT,
        &counters.ttft,
    );
    page.histogram(
        "vllm:inter_token_latency_seconds",
        labels,
        ITL,
        &counters.itl,
    );
    page.histogram(
        "vllm:e2e_request_latency_seconds",
        labels,
        TTFT,
        &counters.e2e,
    );
}

fn sglang(page: &mut Page, model: &Model) {
    let kind = match model.stage {
        Stage::Server => "unified",
        Stage::Prefill => "prefill",
        Stage::Decode => "decode",
    };
    let tokenizer = format!(
        "engine_type=\"{kind}\",model_name=\"{}\"",
        model.served_name
    );
    let scheduler = format!("{tokenizer},moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"");
    let counters = &model.counters;
    page.one(
        "sglang:num_running_reqs",
        "gauge",
        &scheduler,
        count(model.running()),
    );
    // On a decode worker, requests that found no room wait in a queue of their own.
    let (queue, prealloc) = if model.stage == Stage::Decode {
        (0, model.waiting())
    } else {
        (model.waiting(), 0)
    };
    page.one("sglang:num_queue_reqs", "gauge", &scheduler, count(queue));
    page.one(
        "sglang:num_decode_prealloc_queue_reqs",
        "gauge",
        &scheduler,
        count(prealloc),
    );
    page.one(
        "sglang:num_decode_transfer_queue_reqs",
        "gauge",
        &scheduler,
        0.0,
    );
    page.one(
        "sglang:token_usage",
        "gauge",
        &scheduler,
        (model.cache_use() * 100.0).round() / 100.0,
    );
    page.one("sglang:fwd_occupancy", "gauge", &scheduler, f64::NAN);
    let effective = [
        ("input", counters.computed),
        ("device_hit", counters.cached),
        ("host_hit", 0.0),
        ("storage_hit", 0.0),
    ];
    page.split(
        "sglang:prefill_effective_tokens_total",
        &scheduler,
        "mode",
        &effective,
    );
    // Children appear with their first token.
    let realtime = [
        ("prefill_compute", counters.computed),
        ("prefill_cache", counters.cached),
        (
            "decode",
            (counters.generation - counters.ttft.counts.iter().sum::<f64>()).max(0.0),
        ),
    ];
    let born: Vec<(&str, f64)> = realtime
        .into_iter()
        .filter(|(_, tokens)| *tokens > 0.0)
        .collect();
    page.split("sglang:realtime_tokens_total", &scheduler, "mode", &born);
    sglang_tokenizer(page, &tokenizer, model);
}

/// What SGLang's tokenizer counts: requests, when they end.
fn sglang_tokenizer(page: &mut Page, tokenizer: &str, model: &Model) {
    let counters = &model.counters;
    let streaming = format!("{tokenizer},is_streaming=\"true\"");
    page.one(
        "sglang:prompt_tokens_total",
        "counter",
        &streaming,
        counters.finished_prompt,
    );
    page.one(
        "sglang:generation_tokens_total",
        "counter",
        &streaming,
        counters.finished_generation,
    );
    if counters.finished_cached > 0.0 {
        let sources = [
            ("device", counters.finished_cached),
            ("total", counters.finished_cached),
        ];
        page.split(
            "sglang:cached_tokens_total",
            tokenizer,
            "cache_source",
            &sources,
        );
    }
    if model.stage != Stage::Prefill {
        page.histogram(
            "sglang:time_to_first_token_seconds",
            &streaming,
            TTFT,
            &counters.ttft,
        );
        page.histogram(
            "sglang:inter_token_latency_seconds",
            tokenizer,
            ITL,
            &counters.itl,
        );
    }
    page.histogram(
        "sglang:e2e_request_latency_seconds",
        &streaming,
        TTFT,
        &counters.e2e,
    );
}
