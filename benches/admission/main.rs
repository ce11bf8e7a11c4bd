//! One decision of each webhook, decode to encode, against `serde_json` reading the same bytes into a `Value`.
//!
//! The reviews are UPDATEs, so that each holds the object twice: "4 KiB" is the size of one.

mod reviews;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use reviews::{operator, reviews};
use serde_json::Value;

fn decisions(c: &mut Criterion) {
    let operator = operator();
    for (label, size) in [("4KiB", 4 << 10), ("256KiB", 256 << 10)] {
        for review in reviews(size) {
            let answer = review.decide(&operator);
            assert_eq!(answer.http, 200);
            let mut group = c.benchmark_group(format!("{}/{label}", review.name));
            group.throughput(Throughput::Bytes(review.body.len() as u64));
            group.bench_function("decide", |b| {
                b.iter(|| black_box(review.decide(black_box(&operator))));
            });
            group.bench_function("value", |b| {
                b.iter(|| serde_json::from_slice::<Value>(black_box(&review.body)));
            });
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(300)).measurement_time(std::time::Duration::from_secs(1)).sample_size(30);
    targets = decisions
}
criterion_main!(benches);
