use proptest::prelude::*;

use super::*;
use crate::signal::engine::Collector;
use crate::signal::observation::{Milliseconds, Rate};

const INTERVAL: Duration = Duration::from_secs(15);

fn at(pass: u32) -> Duration {
    INTERVAL * pass
}

fn sample(body: &str) -> Result<Sample, Refusal> {
    Collector::default().sample(body.as_bytes(), None)
}

/// A vLLM Pod with counters at these values.
fn vllm(running: u32, waiting: u32, prompt: u32, generation: u32) -> String {
    format!(
        "vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n\
         vllm:prompt_tokens_by_source_total{{source=\"local_compute\"}} {prompt}\n\
         vllm:generation_tokens_total {generation}\n"
    )
}

fn server<'a>(expected: &'a [&'a str]) -> Roster<'a> {
    roster(RoleKind::Server, expected)
}

fn roster<'a>(kind: RoleKind, expected: &'a [&'a str]) -> Roster<'a> {
    Roster {
        kind,
        ready: 3,
        expected,
        interval: INTERVAL,
    }
}

/// A role of Pods `a`, `b`, ... after passes with these bodies.
fn role(passes: &[&[Result<String, Refusal>]]) -> Role {
    let mut role = Role::default();
    for (pass, pods) in (1..).zip(passes) {
        for (uid, outcome) in ["a", "b", "c"].iter().zip(*pods) {
            role.record(
                uid,
                "1",
                at(pass),
                outcome.clone().and_then(|body| sample(&body)),
            );
        }
    }
    role
}

fn rate(tokens_per_second: f64) -> Reading<Rate> {
    Reading::Value(Rate::new(tokens_per_second).unwrap())
}

/// From the text of a scrape to the numbers of an algorithm (AIBrix#1629: window values never arrived).
#[test]
fn two_scrapes_make_a_window_whose_values_arrive() {
    let body = |prompt, generation, slow: u32| {
        vllm(7, 16, prompt, generation)
            + &format!(
                "vllm:kv_cache_usage_perc 0.25\nvllm:time_to_first_token_seconds_bucket{{le=\"0.5\"}} {slow}\n\
                 vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {slow}\n"
            )
    };
    let role = role(&[&[Ok(body(0, 0, 0))], &[Ok(body(3000, 600, 9))]]);
    assert_eq!(
        role.observe(&server(&["a"]), at(2)),
        Observation {
            ready: 3,
            coverage: Coverage {
                answered: 1,
                expected: 1,
                ..Coverage::default()
            },
            running: Reading::Value(7),
            waiting: Reading::Value(16),
            prompt_rate: rate(200.0),
            generation_rate: rate(40.0),
            ttft: Latency::P95(Milliseconds::new(500.0).unwrap()),
            itl: Latency::Missing,
            signal: SignalState::Fresh,
            cache_use: Reading::Value(0.25),
        }
    );
}

/// A warm-up that reports zero instead of unknown (kthena#1037) makes a fleet shrink at its start.
#[test]
fn before_its_first_window_a_role_is_missing_and_not_idle() {
    let seen = role(&[&[Ok(vllm(0, 0, 5, 5))]]).observe(&server(&["a"]), at(1));
    assert_eq!(
        (seen.signal, seen.prompt_rate, seen.ttft),
        (SignalState::Missing, Reading::Missing, Latency::Missing)
    );
    // Gauges need one scrape only.
    assert_eq!(
        (seen.running, seen.waiting),
        (Reading::Value(0), Reading::Value(0))
    );
    assert_eq!(seen.coverage.gaps, [(Gap::NewBaseline, 1)].into());
}

/// Idle that reads as NaN (dynamo#6985) keeps a planner from ever shrinking.
#[test]
fn an_engine_without_work_is_idle_and_a_measured_zero() {
    let idle = || Ok(vllm(0, 0, 5, 5));
    let seen = role(&[&[idle()], &[idle()]]).observe(&server(&["a"]), at(2));
    assert_eq!(
        (seen.signal, seen.ttft, seen.itl),
        (SignalState::Idle, Latency::Idle, Latency::Idle)
    );
    assert_eq!(
        (seen.prompt_rate, seen.generation_rate),
        (rate(0.0), rate(0.0))
    );
    assert!(seen.coverage.is_complete());
}

#[test]
fn a_latency_that_is_told_after_the_work_holds_no_idle_role() {
    let body = |slow: u32| {
        Ok(vllm(0, 0, 5, 5)
            + &format!(
                "vllm:time_to_first_token_seconds_bucket{{le=\"10.0\"}} {slow}\n\
                 vllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {slow}\n"
            ))
    };
    let seen = role(&[&[body(0)], &[body(9)]]).observe(&server(&["a"]), at(2));
    assert_eq!((seen.signal, seen.ttft), (SignalState::Idle, Latency::Idle));
}

/// A gauge of zero must not swallow what counters say (Knative#6991).
#[test]
fn tokens_that_moved_between_two_idle_gauges_are_work() {
    let seen =
        role(&[&[Ok(vllm(0, 0, 0, 0))], &[Ok(vllm(0, 0, 150, 0))]]).observe(&server(&["a"]), at(2));
    assert_eq!(
        (seen.signal, seen.prompt_rate),
        (SignalState::Fresh, rate(10.0))
    );
}

/// A hung engine: nothing runs, the queue is high (sglang#24140).
#[test]
fn an_engine_that_hangs_with_a_queue_is_not_idle() {
    let hung = || Ok(vllm(0, 40, 5, 5));
    let seen = role(&[&[hung()], &[hung()]]).observe(&server(&["a"]), at(2));
    assert_eq!(
        (seen.signal, seen.waiting, seen.ttft),
        (SignalState::Fresh, Reading::Value(40), Latency::Missing)
    );
}

/// One Pod without metrics blocked all resizing (kubernetes#30471, AIBrix#617).
#[test]
fn a_pod_that_does_not_answer_costs_its_own_place_and_nothing_else() {
    let busy = |tokens| Ok(vllm(4, 0, tokens, 0));
    let role = role(&[&[busy(0), busy(0)], &[busy(300), Err(Refusal::Timeout)]]);
    let seen = role.observe(&server(&["a", "b"]), at(2));
    assert_eq!(
        (seen.signal, seen.running, seen.prompt_rate),
        (SignalState::Fresh, Reading::Value(4), rate(20.0))
    );
    assert_eq!((seen.coverage.answered, seen.coverage.expected), (1, 2));
    assert_eq!(
        seen.coverage.gaps,
        [(Gap::Scrape(Refusal::Timeout), 1)].into()
    );
    assert!(!seen.coverage.is_complete());
}

/// A source that never recovered after one missing answer (keda#3152).
#[test]
fn after_one_missing_answer_the_next_window_spans_it() {
    let busy = |tokens| Ok(vllm(4, 0, tokens, 0));
    let role = role(&[&[busy(0)], &[Err(Refusal::Refused)], &[busy(300)]]);
    let seen = role.observe(&server(&["a"]), at(3));
    assert_eq!(
        (seen.prompt_rate, seen.coverage.is_complete()),
        (rate(10.0), true)
    );
}

/// A source that is out is no load of zero (keda#965), and an old value is not shown as current (kube-metrics-adapter#597).
#[test]
fn readings_that_stop_are_missing_and_then_stale_but_never_idle() {
    let idle = || Ok(vllm(0, 0, 5, 5));
    let role = role(&[&[idle()], &[idle()], &[Err(Refusal::Refused)]]);
    let seen = role.observe(&server(&["a"]), at(3));
    assert_eq!(
        (seen.signal, seen.running, seen.prompt_rate),
        (SignalState::Missing, Reading::Missing, Reading::Missing)
    );
    assert_eq!(
        role.observe(&server(&["a"]), at(4)).signal,
        SignalState::Missing
    );
    let later = at(4) + Duration::from_millis(1);
    assert_eq!(
        role.observe(&server(&["a"]), later).signal,
        SignalState::Stale
    );
}

#[test]
fn a_reading_is_current_for_two_intervals_and_at_least_thirty_seconds() {
    let idle = || Ok(vllm(0, 0, 5, 5));
    let role = role(&[&[idle()], &[idle()]]);
    for (interval, current) in [(5, 30), (15, 30), (60, 120)] {
        let roster = Roster {
            interval: Duration::from_secs(interval),
            ..server(&["a"])
        };
        let last = at(2) + Duration::from_secs(current);
        assert_eq!(role.observe(&roster, last).signal, SignalState::Idle);
        let stale = role.observe(&roster, last + Duration::from_millis(1));
        assert_eq!(stale.signal, SignalState::Stale);
        assert_eq!(stale.coverage.gaps, [(Gap::Stale, 1)].into());
    }
}

/// Samples of Pods that are gone, or of a service that was replaced (llm-d-autoscaling#385, Knative#5291).
#[test]
fn a_pod_that_is_gone_does_not_speak() {
    let busy = || Ok(vllm(9, 9, 5, 5));
    let mut role = role(&[&[busy(), busy()], &[busy(), busy()]]);
    assert_eq!(
        role.observe(&server(&["a"]), at(2)).running,
        Reading::Value(9)
    );
    role.retain(|uid| uid == "a");
    let seen = role.observe(&server(&["a", "b"]), at(2));
    assert_eq!(seen.coverage.gaps, [(Gap::NotSampled, 1)].into());
    assert_eq!(seen.running, Reading::Value(9));
}

/// Pods counted from metrics (Knative#2103).
#[test]
fn ready_replicas_come_from_pods_and_not_from_metrics() {
    assert_eq!(Role::default().observe(&server(&[]), at(1)).ready, 3);
    assert_eq!(
        Role::default().observe(&server(&[]), at(1)).signal,
        SignalState::Missing
    );
}

/// Double reports that doubled the load (Knative#6743).
#[test]
fn a_report_that_is_not_later_is_the_same_report() {
    let mut role = role(&[&[Ok(vllm(4, 0, 0, 0))], &[Ok(vllm(4, 0, 300, 0))]]);
    let before = role.observe(&server(&["a"]), at(2));
    for when in [at(2), at(1)] {
        role.record("a", "1", when, sample(&vllm(8, 8, 900, 900)));
    }
    assert_eq!(role.observe(&server(&["a"]), at(2)), before);
}

#[test]
fn a_container_that_restarted_is_a_new_baseline_though_its_counters_are_higher() {
    let mut role = role(&[&[Ok(vllm(4, 0, 0, 0))]]);
    role.record("a", "2", at(2), sample(&vllm(4, 0, 300, 0)));
    let seen = role.observe(&server(&["a"]), at(2));
    assert_eq!(
        (seen.signal, seen.coverage.gaps),
        (SignalState::Missing, [(Gap::NewBaseline, 1)].into())
    );
    role.record("a", "2", at(3), sample(&vllm(4, 0, 450, 0)));
    assert_eq!(role.observe(&server(&["a"]), at(3)).prompt_rate, rate(10.0));
}

#[test]
fn a_new_pod_makes_coverage_incomplete_until_it_has_a_rate() {
    let busy = |tokens| Ok(vllm(4, 0, tokens, 0));
    let mut role = role(&[&[busy(0)], &[busy(300), busy(0)]]);
    let seen = role.observe(&server(&["a", "b"]), at(2));
    assert_eq!(
        (seen.prompt_rate, seen.running),
        (rate(20.0), Reading::Value(8))
    );
    assert_eq!(seen.coverage.gaps, [(Gap::NewBaseline, 1)].into());
    for (uid, tokens) in [("a", 600), ("b", 150)] {
        role.record(uid, "1", at(3), sample(&vllm(4, 0, tokens, 0)));
    }
    let seen = role.observe(&server(&["a", "b"]), at(3));
    assert_eq!(
        (seen.prompt_rate, seen.coverage.is_complete()),
        (rate(30.0), true)
    );
}

#[test]
fn a_zero_of_the_clamp_may_not_shrink_a_busy_role() {
    let body = |running: u32, prompt: u32, hits: u32| {
        Ok(format!(
            "vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total {prompt}\n\
             vllm:prefix_cache_hits_total {hits}\nvllm:generation_tokens_total 0\n"
        ))
    };
    let seen = |running| {
        role(&[&[body(running, 0, 0)], &[body(running, 100, 900)]]).observe(&server(&["a"]), at(2))
    };
    assert_eq!(seen(5).prompt_rate, rate(0.0));
    assert_eq!(seen(5).coverage.gaps, [(Gap::ClampedDemand, 1)].into());
    assert!(seen(0).coverage.is_complete());
}

#[test]
fn a_role_needs_the_rates_of_its_kind_only() {
    let body = |generation: u32| {
        Ok(format!(
            "sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total {generation}\n"
        ))
    };
    let role = role(&[&[body(0)], &[body(150)]]);
    let decode = role.observe(&roster(RoleKind::Decode, &["a"]), at(2));
    assert_eq!(
        (decode.signal, decode.generation_rate),
        (SignalState::Fresh, rate(10.0))
    );
    assert!(decode.coverage.is_complete());
    let server = role.observe(&server(&["a"]), at(2));
    assert_eq!(server.coverage.gaps, [(Gap::SeriesMissing, 1)].into());
    let prefill = role.observe(&roster(RoleKind::Prefill, &["a"]), at(2));
    assert_eq!(prefill.signal, SignalState::Missing);
}

#[test]
fn requests_without_room_wait_on_a_decode_and_on_no_other_role() {
    let body = "sglang:num_running_reqs 1\nsglang:num_queue_reqs 1\nsglang:num_decode_transfer_queue_reqs 5\n\
                sglang:num_decode_prealloc_queue_reqs 2\n";
    let role = role(&[&[Ok(body.to_owned())]]);
    let waiting = |kind| role.observe(&roster(kind, &["a"]), at(1)).waiting;
    assert_eq!(waiting(RoleKind::Decode), Reading::Value(8));
    assert_eq!(waiting(RoleKind::Server), Reading::Value(1));
}

#[test]
fn sixty_five_pods_are_one_too_many() {
    let names: Vec<String> = (0..65).map(|n| format!("{n:02}")).collect();
    let uids: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut role = Role::default();
    for (pass, tokens) in [(1, 0), (2, 15)] {
        for uid in &uids {
            role.record(uid, "1", at(pass), sample(&vllm(1, 0, tokens, 0)));
        }
    }
    let all = role.observe(&server(&uids[..64]), at(2));
    assert!(all.coverage.is_complete());
    assert_eq!(
        (all.running, all.prompt_rate),
        (Reading::Value(64), rate(64.0))
    );
    let above = role.observe(&server(&uids), at(2));
    assert_eq!(
        (above.running, above.prompt_rate),
        (Reading::Value(64), rate(64.0))
    );
    assert_eq!((above.coverage.answered, above.coverage.expected), (64, 65));
    assert_eq!(above.coverage.gaps, [(Gap::AboveCap, 1)].into());
}

#[test]
fn a_whole_number_is_read_from_its_bits() {
    for (value, expected) in [
        (0.0, 0),
        (0.25, 1),
        (1.0, 1),
        (1.5, 2),
        (8.0, 8),
        (4_503_599_627_370_497.0, 4_503_599_627_370_497),
        (9_007_199_254_740_994.0, 9_007_199_254_740_994),
        (9_223_372_036_854_775_808.0, 1 << 63),
        (18_446_744_073_709_551_616.0, u64::MAX),
        (f64::MAX, u64::MAX),
        (f64::MIN_POSITIVE, 1),
    ] {
        assert_eq!(whole(value), expected, "{value}");
    }
}

/// Requests of three groups of one Pod, and tokens that they moved.
fn groups() -> impl Strategy<Value = Vec<(u32, u32, u32, u32)>> {
    prop::collection::vec((0..50u32, 0..50u32, 0..10_000u32, 0..10_000u32), 1..4)
}

/// The body of a Pod: its groups in this rotation, each counter split into so many children by a label of the user's.
fn body(groups: &[(u32, u32, u32, u32)], moved: bool, rotation: usize, split: u32) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (rank, (running, waiting, prompt, generation)) in groups.iter().enumerate() {
        lines.push(format!(
            "sglang:num_running_reqs{{dp_rank=\"{rank}\"}} {running}\n"
        ));
        lines.push(format!(
            "sglang:num_queue_reqs{{dp_rank=\"{rank}\"}} {waiting}\n"
        ));
        for (mode, tokens) in [("prefill_compute", prompt), ("decode", generation)] {
            for child in 0..split {
                let share = if moved {
                    tokens / split + u32::from(child < tokens % split)
                } else {
                    0
                };
                lines.push(format!(
                    "sglang:realtime_tokens_total{{mode=\"{mode}\",tenant=\"{child}\",dp_rank=\"{rank}\"}} {share}\n"
                ));
            }
        }
    }
    let rotation = rotation % lines.len();
    lines.rotate_left(rotation);
    lines.concat()
}

proptest! {
    /// The order of Pods, the order of lines and how a series is split say nothing about the load.
    #[test]
    fn order_and_splits_do_not_matter(
        pods in prop::collection::vec(groups(), 1..4),
        rotation in 0..40usize,
        split in 1..5u32,
    ) {
        let names = ["a", "b", "c"];
        let observe = |order: &[usize], rotation: usize, split: u32| {
            let mut role = Role::default();
            for (pass, moved) in [(1, false), (2, true)] {
                for pod in order {
                    role.record(names[*pod], "1", at(pass), sample(&body(&pods[*pod], moved, rotation, split)));
                }
            }
            role.observe(&server(&names[..pods.len()]), at(2))
        };
        let order: Vec<usize> = (0..pods.len()).collect();
        let reversed: Vec<usize> = order.iter().rev().copied().collect();
        let expected = observe(&order, 0, 1);
        let sum = |of: fn(&(u32, u32, u32, u32)) -> u32| pods.iter().flatten().map(|group| u64::from(of(group))).sum::<u64>();
        prop_assert_eq!(expected.running, Reading::Value(sum(|group| group.0)));
        prop_assert_eq!(expected.waiting, Reading::Value(sum(|group| group.1)));
        prop_assert_eq!(&observe(&reversed, 0, 1), &expected);
        let split = observe(&order, rotation, split);
        prop_assert_eq!(split.running, expected.running);
        prop_assert_eq!(split.coverage, expected.coverage);
        let close = |a: Reading<Rate>, b: Reading<Rate>| (a.value().unwrap().get() - b.value().unwrap().get()).abs() < 1e-6;
        prop_assert!(close(split.prompt_rate, expected.prompt_rate));
        prop_assert!(close(split.generation_rate, expected.generation_rate));
    }

    /// A restart at any moment never shows as a rate.
    #[test]
    fn a_counter_that_began_anew_never_makes_a_rate(before in 1..1_000_000u32, after in 0..1_000_000u32) {
        let role = role(&[&[Ok(vllm(1, 0, before, before))], &[Ok(vllm(1, 0, after, after))]]);
        let seen = role.observe(&server(&["a"]), at(2));
        let expected = after.checked_sub(before).map(|moved| f64::from(moved) / 15.0);
        prop_assert_eq!(seen.prompt_rate, Reading::from(expected.and_then(Rate::new)));
    }
}
