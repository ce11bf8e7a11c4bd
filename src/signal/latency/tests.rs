use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;

use super::p95;
use crate::signal::engine::Collector;
use crate::signal::observation::Milliseconds;
use crate::signal::window::Window;

/// Cumulative counts by boundary.
type Buckets<'a> = &'a [(&'a str, u32)];

fn lines(labels: &str, buckets: Buckets<'_>, count: Option<u32>, sum: Option<f64>) -> String {
    let mut body = String::new();
    for (le, count) in buckets {
        let _ = writeln!(
            body,
            "vllm:time_to_first_token_seconds_bucket{{{labels}le=\"{le}\"}} {count}"
        );
    }
    if let Some(count) = count {
        let _ = writeln!(
            body,
            "vllm:time_to_first_token_seconds_count{{{labels}}} {count}"
        );
    }
    if let Some(sum) = sum {
        let _ = writeln!(
            body,
            "vllm:time_to_first_token_seconds_sum{{{labels}}} {sum}"
        );
    }
    body
}

/// A Pod that observed what `body` says since it began.
fn pod(body: &str) -> Window {
    let declared = "# TYPE vllm:time_to_first_token_seconds histogram\n".to_owned();
    let sample = |body: &str| Collector::default().sample(body.as_bytes(), None).unwrap();
    Window::between(
        &sample(&declared),
        &sample(&(declared.clone() + body)),
        Duration::from_secs(1),
    )
    .unwrap()
}

fn role(pods: &[String]) -> Option<f64> {
    let windows: Vec<Window> = pods.iter().map(|body| pod(body)).collect();
    p95(windows.iter().map(|window| &window.ttft)).map(Milliseconds::get)
}

fn one(buckets: Buckets<'_>, count: Option<u32>, sum: Option<f64>) -> Option<f64> {
    role(&[lines("", buckets, count, sum)])
}

#[test]
fn the_percentile_is_the_upper_bound_of_the_bucket_that_covers_it() {
    assert_eq!(
        one(
            &[("0.5", 95), ("1.0", 100), ("+Inf", 100)],
            Some(100),
            Some(40.0)
        ),
        Some(500.0)
    );
    assert_eq!(
        one(
            &[("0.5", 94), ("1.0", 100), ("+Inf", 100)],
            Some(100),
            Some(40.0)
        ),
        Some(1000.0)
    );
    assert_eq!(
        one(&[("0.5", 1), ("+Inf", 1)], Some(1), Some(0.1)),
        Some(500.0)
    );
    assert_eq!(one(&[("0.5", 0), ("+Inf", 0)], Some(0), Some(0.0)), None);
}

/// A top bucket that is too small (vllm#15202) puts the percentile where no boundary tells it.
#[test]
fn a_percentile_above_every_boundary_is_the_mean_but_not_below_the_last_boundary() {
    assert_eq!(
        one(&[("10.0", 0), ("+Inf", 4)], Some(4), Some(100.0)),
        Some(25_000.0)
    );
    // 94 at 0.1 s and 6 at 500 s: the mean of 30 s hides a percentile above 400 s.
    assert_eq!(
        one(
            &[("0.1", 94), ("400", 94), ("+Inf", 100)],
            Some(100),
            Some(3_009.4)
        ),
        Some(400_000.0)
    );
}

#[test]
fn without_buckets_it_is_the_mean() {
    assert_eq!(one(&[], Some(4), Some(2.0)), Some(500.0));
}

#[test]
fn without_an_infinite_bucket_the_count_tells_what_lies_above() {
    assert_eq!(
        one(&[("1", 9), ("2", 10)], Some(10), Some(9.0)),
        Some(2_000.0)
    );
    assert_eq!(
        one(&[("1", 5), ("2", 5)], Some(10), Some(90.0)),
        Some(9_000.0)
    );
}

#[test]
fn buckets_out_of_order_and_falling_are_set_right() {
    let buckets = [("1.0", 90), ("+Inf", 100), ("0.1", 10), ("0.5", 8)];
    assert_eq!(one(&buckets, Some(100), Some(33.0)), Some(1_000.0));
}

#[test]
fn pods_with_other_boundaries_count_at_the_nearest_lower_one() {
    let coarse = lines(
        "",
        &[("1", 50), ("10", 100), ("+Inf", 100)],
        Some(100),
        Some(300.0),
    );
    let fine = lines(
        "",
        &[("0.5", 90), ("2", 100), ("+Inf", 100)],
        Some(100),
        Some(60.0),
    );
    // At 2: 50 and 100 of 200, at 10: 100 and 100.
    assert_eq!(role(&[coarse, fine]), Some(10_000.0));
}

#[test]
fn an_idle_pod_with_high_boundaries_does_not_raise_the_percentile_of_another() {
    let busy = lines("", &[("10", 0), ("+Inf", 4)], Some(4), Some(48.0));
    let idle = lines("", &[("160", 0), ("+Inf", 0)], Some(0), Some(0.0));
    assert_eq!(role(&[busy, idle]), Some(12_000.0));
}

#[test]
fn streaming_requests_count_alone_where_there_are_some() {
    let whole = lines(
        "is_streaming=\"false\",",
        &[("1", 0), ("8", 100), ("+Inf", 100)],
        Some(100),
        Some(500.0),
    );
    let streaming = lines(
        "is_streaming=\"true\",",
        &[("1", 3), ("8", 3), ("+Inf", 3)],
        Some(3),
        Some(1.0),
    );
    assert_eq!(role(&[whole.clone() + &streaming]), Some(1_000.0));
    assert_eq!(role(&[whole]), Some(8_000.0));
}

proptest! {
    /// Against brute force: every observation put into the buckets of its Pod, the union of boundaries evaluated one by
    /// one.
    #[test]
    fn the_percentile_equals_that_of_the_union_of_boundaries(
        pods in prop::collection::vec(
            (prop::sample::subsequence(vec![1u32, 2, 4, 8, 16], 1..5), prop::collection::vec(0..20u32, 0..12)), 1..4),
        rotation in 0..4usize,
    ) {
        let body = |(boundaries, seen): &(Vec<u32>, Vec<u32>)| {
            let below = |le: u32| seen.iter().filter(|value| **value <= le).count();
            let mut body = String::new();
            for le in boundaries {
                let _ = writeln!(body, "vllm:time_to_first_token_seconds_bucket{{le=\"{le}\"}} {}", below(*le));
            }
            let _ = writeln!(body, "vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {}", seen.len());
            let _ = writeln!(body, "vllm:time_to_first_token_seconds_count {}", seen.len());
            let _ = writeln!(body, "vllm:time_to_first_token_seconds_sum {}", seen.iter().sum::<u32>());
            body
        };
        let total: usize = pods.iter().map(|pod| pod.1.len()).sum();
        let cumulative = |le: u32| -> usize {
            pods.iter().map(|(boundaries, seen)| {
                let own = boundaries.iter().filter(|own| **own <= le).max();
                own.map_or(0, |own| seen.iter().filter(|value| *value <= own).count())
            }).sum()
        };
        let covering = [1, 2, 4, 8, 16].into_iter().find(|le| cumulative(*le) * 100 >= total * 95);
        let expected = if total == 0 { None } else if let Some(le) = covering { Some(f64::from(le) * 1000.0) } else {
            let mean = f64::from(pods.iter().flat_map(|pod| &pod.1).sum::<u32>()) / f64::from(u32::try_from(total).unwrap());
            let top = pods.iter().filter(|(b, seen)| seen.iter().any(|v| b.iter().all(|le| v > le)))
                .filter_map(|(b, _)| b.iter().max()).max().copied().unwrap_or(0);
            Some(mean.max(f64::from(top)) * 1000.0)
        };
        let mut bodies: Vec<String> = pods.iter().map(body).collect();
        prop_assert_eq!(role(&bodies), expected);
        bodies.rotate_left(rotation % pods.len());
        prop_assert_eq!(role(&bodies), expected);
    }
}
