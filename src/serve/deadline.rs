//! How long a review may take, and waiting no longer than that.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The longest that a review may take, whatever the API server allows.
const LONGEST: Duration = Duration::from_secs(9);

/// When a review must be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

/// The deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

impl Deadline {
    /// The deadline of a request that started at `started` with the query `query`.
    ///
    /// The API server says how long it waits in `?timeout=10s`. Nine tenths of that are used: an answer that arrives
    /// just after the API server gave up is worth nothing. Without the parameter, and at most, 9 s.
    pub fn of(started: Instant, query: Option<&str>) -> Self {
        Self(
            started
                + query
                    .and_then(timeout_parameter)
                    .map_or(LONGEST, |timeout| (timeout * 9 / 10).min(LONGEST)),
        )
    }

    /// The moment itself.
    pub fn instant(self) -> Instant {
        self.0
    }
}

/// Waits for `work`, at most until `deadline`. Work that is ready at once costs no timer.
pub async fn within<F: Future>(deadline: Deadline, work: F) -> Result<F::Output, Late> {
    let mut work = pin!(work);
    if let Poll::Ready(output) = futures::poll!(work.as_mut()) {
        return Ok(output);
    }
    tokio::time::timeout_at(deadline.0.into(), work)
        .await
        .map_err(|_| Late)
}

fn timeout_parameter(query: &str) -> Option<Duration> {
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="))?;
    go_duration(value)
}

/// Reads a duration as Go prints one: `10s`, `1m30s`, `1.5s`, `500ms`. A day at most; nothing negative.
///
/// Format: package `time` of the Go standard library, `ParseDuration`.
pub fn go_duration(text: &str) -> Option<Duration> {
    const DAY: u128 = 86_400_000_000_000;
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (unit, after) = unit(after)?;
        nanos += number(whole)?.checked_mul(unit)?;
        // Below a nanosecond nothing counts, so 18 digits are plenty.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        nanos += number(fraction)? * unit / scale;
        if nanos > DAY {
            return Some(Duration::from_hours(24));
        }
        rest = after;
    }
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn number(digits: &str) -> Option<u128> {
    match digits {
        "" => Some(0),
        // More than a day in any unit.
        _ if digits.len() > 20 => None,
        _ => digits.parse().ok(),
    }
}

fn unit(text: &str) -> Option<(u128, &str)> {
    // Longer names first: `ms` is not `m`.
    const UNITS: [(&str, u128); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    UNITS
        .iter()
        .find_map(|&(name, nanos)| text.strip_prefix(name).map(|rest| (nanos, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allowed(query: Option<&str>) -> Duration {
        let now = Instant::now();
        Deadline::of(now, query).instant() - now
    }

    #[test]
    fn nine_tenths_of_the_api_servers_patience_and_nine_seconds_at_most() {
        assert_eq!(allowed(None), Duration::from_secs(9));
        assert_eq!(allowed(Some("timeout=10s")), Duration::from_secs(9));
        assert_eq!(allowed(Some("timeout=30s")), Duration::from_secs(9));
        assert_eq!(
            allowed(Some("dry=1&timeout=2s")),
            Duration::from_millis(1800)
        );
        assert_eq!(allowed(Some("timeout=soon")), Duration::from_secs(9));
        assert_eq!(allowed(Some("timeout=0")), Duration::ZERO);
    }

    #[test]
    fn durations_are_read_as_go_prints_them() {
        let read = |text: &str| go_duration(text).map(|d| d.as_nanos());
        assert_eq!(read("10s"), Some(10_000_000_000));
        assert_eq!(read("1m30s"), Some(90_000_000_000));
        assert_eq!(read("1.5s"), Some(1_500_000_000));
        assert_eq!(read("500ms"), Some(500_000_000));
        assert_eq!(read("1h0m0.25s"), Some(3_600_250_000_000));
        assert_eq!(read("7us"), Some(7_000));
        assert_eq!(read("7µs"), Some(7_000));
        assert_eq!(read("99999h"), Some(86_400_000_000_000));
        for wrong in ["", "10", "s", "-1s", "1 s", "1.s.", "1x", "1s1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.smhnuµ-]{0,40}") {
            if let Some(duration) = go_duration(&text) {
                prop_assert!(duration <= Duration::from_hours(24));
            }
        }

        #[test]
        fn milliseconds_are_read_exactly(millis in 0_u64..86_400_000) {
            prop_assert_eq!(go_duration(&format!("{millis}ms")), Some(Duration::from_millis(millis)));
        }
    }
}
