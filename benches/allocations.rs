//! Allocations of one decision of each webhook, against reading the same bytes into a `Value`.

#[path = "admission/reviews.rs"]
mod reviews;

use divan::{AllocProfiler, Bencher};
use reviews::{operator, reviews};
use serde_json::Value;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const WEBHOOKS: [usize; 4] = [0, 1, 2, 3];
const SIZES: [usize; 2] = [4 << 10, 256 << 10];

#[divan::bench(args = WEBHOOKS, consts = SIZES)]
fn decide<const SIZE: usize>(bencher: Bencher<'_, '_>, webhook: usize) {
    let operator = operator();
    let review = reviews(SIZE).swap_remove(webhook);
    bencher.bench_local(|| review.decide(&operator));
}

#[divan::bench(args = WEBHOOKS, consts = SIZES)]
fn value<const SIZE: usize>(bencher: Bencher<'_, '_>, webhook: usize) {
    let review = reviews(SIZE).swap_remove(webhook);
    bencher.bench_local(|| serde_json::from_slice::<Value>(&review.body));
}
