//! Rounds to a row: medians, and what one server is to the other.

use crate::client::Round;
use std::time::Duration;

pub const HEADER: &str = "case                            |  req/s: mds    bare  ratio |  p50 us: mds   bare |  p99 us: mds   bare  ratio | cpu us/req: mds   bare  ratio";

/// The rounds of both servers.
#[derive(Default)]
pub struct Row {
    mds: Side,
    bare: Side,
}

#[derive(Default)]
struct Side {
    per_second: Vec<f64>,
    median: Vec<f64>,
    slowest: Vec<f64>,
    /// Of all rounds together: a tick is too coarse for one.
    ticks: u64,
    requests: u64,
}

impl Row {
    pub fn add(&mut self, mds: bool, round: &Round, ticks: u64) {
        let side = if mds { &mut self.mds } else { &mut self.bare };
        let count = round.latencies.len();
        side.requests += count as u64;
        side.ticks += ticks;
        side.per_second
            .push(number(count as u64) / round.took.as_secs_f64());
        side.median.push(percentile(&round.latencies, 50));
        side.slowest.push(percentile(&round.latencies, 99));
    }

    pub fn line(&self, name: &str) -> String {
        let (mds, bare) = (&self.mds, &self.bare);
        let (mds_rate, bare_rate) = (median(&mds.per_second), median(&bare.per_second));
        let (mds_p99, bare_p99) = (median(&mds.slowest), median(&bare.slowest));
        let (mds_cpu, bare_cpu) = (mds.processor(), bare.processor());
        format!(
            "{name:<31} | {mds_rate:>11.0} {bare_rate:>7.0}  {:>5.2} | {:>12.0} {:>6.0} | {mds_p99:>12.0} {bare_p99:>6.0}  {:>5.2} | {mds_cpu:>15.1} {bare_cpu:>6.1}  {:>5.2}",
            mds_rate / bare_rate,
            median(&mds.median),
            median(&bare.median),
            mds_p99 / bare_p99,
            mds_cpu / bare_cpu,
        )
    }
}

impl Side {
    /// Microseconds of processor time for a request.
    fn processor(&self) -> f64 {
        number(self.ticks) * 10_000.0 / number(self.requests)
    }
}

/// Counts of a benchmark are far below 2^32.
fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted
        .get(at)
        .map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
