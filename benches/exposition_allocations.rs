//! Allocations of one sample: their number must not grow with the lines of a body.

#[path = "exposition/bodies.rs"]
#[expect(dead_code, reason = "the recorded bodies are not measured here")]
mod bodies;

use bodies::made;
use divan::{AllocProfiler, Bencher};
use mds::signal::engine::Collector;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// A collector that reads on: the steady state.
#[divan::bench(args = [30 << 10, 300 << 10, 3 << 20])]
fn sample(bencher: Bencher<'_, '_>, size: usize) {
    let body = made(size, 60);
    let mut collector = Collector::default();
    bencher.bench_local(move || collector.sample(&body, None));
}

/// Lines that are all wanted: so many series of one family.
#[divan::bench(args = [100, 1_000, 10_000])]
fn wanted(bencher: Bencher<'_, '_>, series: u32) {
    let lines: Vec<String> = (0..series)
        .map(|tenant| format!("sglang:generation_tokens_total{{model_name=\"m\",tenant=\"{tenant}\"}} {tenant}.0\n"))
        .collect();
    let body = lines.concat().into_bytes();
    let mut collector = Collector::default();
    bencher.bench_local(move || collector.sample(&body, None));
}
