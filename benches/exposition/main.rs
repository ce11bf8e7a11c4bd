//! Reading an exposition, beside two crates that do and a scan for newlines that does not; and a whole pass.
//!
//! `prometheus-parse` skips every name with a colon, so it is given the body with underscores as well, which it reads.
//! `openmetrics-parser` refuses some bodies whole; where it does, the bench says so and leaves it out.

mod bodies;

use std::hint::black_box;
use std::time::Duration;

use bodies::{bodies, made};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use mds::api::RoleKind;
use mds::signal::engine::{Collector, Engine};
use mds::signal::exposition::{self, Reader, Series};
use mds::signal::role::{MAX_PODS, Role, Roster};

/// The parser alone: the wanted series, and nothing made of them but a sum.
#[derive(Default)]
struct Sum(f64);

const WANTED: [&[u8]; 16] = [
    b"num_requests_running",
    b"num_requests_waiting",
    b"kv_cache_usage_perc",
    b"prompt_tokens_by_source_total",
    b"prompt_tokens_total",
    b"generation_tokens_total",
    b"num_running_reqs",
    b"num_queue_reqs",
    b"token_usage",
    b"prefill_effective_tokens_total",
    b"realtime_tokens_total",
    b"cached_tokens_total",
    b"time_to_first_token_seconds_bucket",
    b"time_to_first_token_seconds_count",
    b"inter_token_latency_seconds_bucket",
    b"inter_token_latency_seconds_count",
];

impl Reader for Sum {
    type Name = ();

    fn name(&mut self, name: &[u8]) -> Option<()> {
        let name = name
            .strip_prefix(b"vllm:")
            .or_else(|| name.strip_prefix(b"sglang:"))?;
        WANTED.contains(&name).then_some(())
    }

    fn declared(&mut self, _: &[u8]) {}

    fn series(&mut self, series: Series<'_, ()>) {
        self.0 += series.value;
    }

    fn bad(&mut self, (): ()) {}
}

fn parsers(criterion: &mut Criterion) {
    for body in bodies() {
        let text = String::from_utf8_lossy(&body.bytes).into_owned();
        let underscored = text.replace("vllm:", "vllm_").replace("sglang:", "sglang_");
        let mut group = criterion.benchmark_group(body.name);
        group.throughput(Throughput::Bytes(
            u64::try_from(body.bytes.len()).unwrap_or_default(),
        ));
        group.bench_function("newline-scan", |bencher| {
            bencher.iter(|| {
                memchr::memchr_iter(b'\n', black_box(&body.bytes))
                    .fold(0, |sum: usize, at| sum ^ at)
            });
        });
        group.bench_function("mds-parser", |bencher| {
            bencher.iter(|| {
                let mut sum = Sum::default();
                exposition::read(black_box(&body.bytes), &mut sum).map(|_| sum.0)
            });
        });
        let mut collector = Collector::default();
        group.bench_function("mds", |bencher| {
            bencher.iter(|| collector.sample(black_box(&body.bytes), None));
        });
        for (name, text) in [
            ("prometheus-parse", &underscored),
            ("prometheus-parse-as-sent", &text),
        ] {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let lines = black_box(text).lines().map(|line| Ok(line.to_owned()));
                    prometheus_parse::Scrape::parse(lines).map(|scrape| scrape.samples.len())
                });
            });
        }
        match openmetrics_parser::prometheus::parse_prometheus(&text) {
            Ok(_) => {
                group.bench_function("openmetrics-parser", |bencher| {
                    bencher.iter(|| {
                        openmetrics_parser::prometheus::parse_prometheus(black_box(&text)).is_ok()
                    });
                });
            }
            Err(error) => println!(
                "{}/openmetrics-parser: refuses the body: {error:?}",
                body.name
            ),
        }
        group.finish();
    }
}

/// The second pass over a role: bodies to samples, samples to windows, windows to the observation.
fn pass(criterion: &mut Criterion) {
    let size = 300 << 10;
    let names: Vec<String> = (0..MAX_PODS).map(|pod| format!("pod-{pod:02}")).collect();
    let uids: Vec<&str> = names.iter().map(String::as_str).collect();
    // A body of its own for each Pod, as each was received.
    let bodies: Vec<Vec<u8>> = uids.iter().map(|_| made(size, 75)).collect();
    let mut collector = Collector::default();
    let mut first = Role::default();
    for uid in &uids {
        first.record(
            uid,
            "1",
            Duration::from_mins(1),
            collector.sample(&made(size, 60), None),
        );
    }
    let roster = Roster {
        kind: RoleKind::Server,
        ready: 64,
        expected: &uids,
        interval: Duration::from_secs(15),
    };
    criterion.bench_function("pass-64x300KiB", |bencher| {
        bencher.iter_batched(
            || first.clone(),
            |mut role| {
                for (uid, body) in uids.iter().zip(&bodies) {
                    role.record(
                        uid,
                        "1",
                        Duration::from_secs(75),
                        collector.sample(body, Some(Engine::Sglang)),
                    );
                }
                let seen = role.observe(&roster, Duration::from_secs(75));
                assert!(seen.coverage.is_complete());
                seen
            },
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(benches, parsers, pass);
criterion_main!(benches);
