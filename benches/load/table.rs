//! Rounds to a row: medians, and what one server is to the other.

use crate::client::Round;
use std::time::Duration;

/// Who served a round.
#[derive(Clone, Copy)]
pub enum Side {
    Mds,
    Shell,
    Bare,
}

/// What the numbers are.
pub fn header(connections: usize, rounds: usize, length: Duration) -> String {
    format!(
        "{connections} connections, {rounds} rounds of {length:?}, interleaved; medians of the rounds. Times in \
         microseconds; cpu: of the server, for a request. Shell: mds with a constant for a decision.\n\n\
         {:<30} | {:^21} | {:^15} | {:^20} | {:^27}\n\
         {:<30} | {:>7} {:>7} {:>5} | {:>7} {:>7} | {:>7} {:>6} {:>5} | {:>6} {:>6} {:>6} {:>6}",
        "",
        "requests a second",
        "p50",
        "p99",
        "cpu",
        "review",
        "mds",
        "bare",
        "ratio",
        "mds",
        "bare",
        "mds",
        "bare",
        "ratio",
        "mds",
        "shell",
        "bare",
        "ratio",
    )
}

/// The rounds of the three servers.
#[derive(Default)]
pub struct Row([Rounds; 3]);

#[derive(Default)]
struct Rounds {
    per_second: Vec<f64>,
    middle: Vec<f64>,
    slowest: Vec<f64>,
    /// Of all rounds together: a tick is too coarse for one.
    ticks: u64,
    requests: u64,
}

impl Row {
    pub fn add(&mut self, side: Side, round: &Round, ticks: u64) {
        let rounds = &mut self.0[side as usize];
        let count = round.latencies.len() as u64;
        rounds.requests += count;
        rounds.ticks += ticks;
        rounds
            .per_second
            .push(number(count) / round.took.as_secs_f64());
        rounds.middle.push(percentile(&round.latencies, 50));
        rounds.slowest.push(percentile(&round.latencies, 99));
    }

    pub fn line(&self, name: &str) -> String {
        let [mds, shell, bare] = &self.0;
        let (mds_rate, bare_rate) = (median(&mds.per_second), median(&bare.per_second));
        let (mds_p99, bare_p99) = (median(&mds.slowest), median(&bare.slowest));
        format!(
            "{name:<30} | {mds_rate:>7.0} {bare_rate:>7.0} {:>5.2} | {:>7.0} {:>7.0} | {mds_p99:>7.0} {bare_p99:>6.0} {:>5.2} | \
             {:>6.1} {:>6.1} {:>6.1} {:>6.2}",
            mds_rate / bare_rate,
            median(&mds.middle),
            median(&bare.middle),
            mds_p99 / bare_p99,
            mds.processor(),
            shell.processor(),
            bare.processor(),
            mds.processor() / bare.processor(),
        )
    }
}

impl Rounds {
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
