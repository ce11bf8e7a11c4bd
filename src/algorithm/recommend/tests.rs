use super::*;
use crate::ratio::Step;
use crate::{
    api::scaler::{Metric, Mode},
    policy::{Capacities, Filter, RebalanceOrder, RolePolicy, ScaleDownPolicy, ScaleUpPolicy},
    signal::{Coverage, Gap, Latency, Milliseconds, Reading},
};
use proptest::prelude::*;

fn nanos(text: &str) -> Nanos {
    crate::api::Quantity::Text(text.into()).nanos().unwrap()
}

fn replicas(n: i64) -> Replicas {
    Replicas::new(n).unwrap()
}

fn at(seconds: i64) -> Time {
    Time::from_seconds(seconds)
}

/// The documented defaults, at capacities of 2000 for Prefill and Server, 800 for Decode.
pub(in crate::algorithm) fn token_policy() -> TokenPolicy {
    TokenPolicy {
        capacity: Capacities {
            prefill: Some(nanos("2000")),
            decode: Some(nanos("800")),
            server: Some(nanos("2000")),
        },
        stable_window: 180,
        panic_window: 60,
        panic_threshold: nanos("2"),
        ttft_target: nanos("500"),
        itl_target: nanos("50"),
    }
}

fn predictive_policy() -> PredictivePolicy {
    PredictivePolicy {
        token: token_policy(),
        capacity: token_policy().capacity,
        horizon: 300,
        min_points: 6,
        filter: Filter {
            q_level: 1.0,
            q_trend: 0.1,
            measurement_noise: 10.0,
        },
    }
}

fn policy(algorithm: AlgorithmPolicy, roles: usize) -> Policy {
    Policy {
        target: "t".into(),
        mode: Mode::Active,
        suspend: false,
        interval: 15,
        pending_timeout: 300,
        roles: (0..roles)
            .map(|i| RolePolicy {
                name: format!("r{i}"),
                min: Replicas::MIN,
                max: replicas(64),
            })
            .collect(),
        ratios: vec![],
        algorithm,
        scale_up: ScaleUpPolicy {
            stabilization: 0,
            step: Step::Larger {
                replicas: 4,
                percent: 100,
            },
        },
        scale_down: ScaleDownPolicy {
            stabilization: 300,
            cooldown_after_abort: 300,
            decode_grace: 120,
            step: Step::Pods(1),
        },
        rebalance: RebalanceOrder::Opposing,
    }
}

/// A role of `ready` replicas, seen whole, with this demand in prompt tokens per second and latencies within target.
fn seen(ready: u32, demand: f64) -> Observation {
    Observation {
        ready,
        coverage: Coverage {
            answered: ready,
            expected: ready,
            ..Coverage::default()
        },
        running: Reading::Value(1),
        waiting: Reading::Value(0),
        prompt_rate: Reading::Value(Rate::new(demand).unwrap()),
        generation_rate: Reading::Value(Rate::ZERO),
        ttft: Latency::P95(Milliseconds::new(100.0).unwrap()),
        itl: Latency::P95(Milliseconds::new(10.0).unwrap()),
        signal: if demand > 0.0 {
            SignalState::Fresh
        } else {
            SignalState::Idle
        },
        cache_use: Reading::Missing,
    }
}

fn token() -> Policy {
    policy(AlgorithmPolicy::TokenThroughput(token_policy()), 1)
}

fn predictive() -> Policy {
    policy(AlgorithmPolicy::Predictive(predictive_policy()), 1)
}

/// One Prefill role through passes 15 seconds apart; what the last pass recommends.
struct Run {
    policy: Policy,
    memory: Vec<RoleMemory>,
    now: i64,
}

impl Run {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            memory: vec![],
            now: 0,
        }
    }

    fn pass(&mut self, current: i64, seen: &Observation) -> Recommendation {
        self.now += 15;
        self.again(current, seen)
    }

    fn again(&mut self, current: i64, seen: &Observation) -> Recommendation {
        let role = RoleView {
            kind: RoleKind::Prefill,
            current: replicas(current),
            seen,
            at: at(self.now),
        };
        let mut out = recommend(&self.policy, &[role], &self.memory, at(self.now));
        let (recommendation, memory) = out.remove(0);
        self.memory = vec![memory];
        recommendation
    }
}

fn raw(recommendation: Recommendation) -> i64 {
    i64::from(recommendation.raw.unwrap())
}

#[test]
fn demand_over_capacity_is_rounded_up() {
    for (demand, count) in [
        (0.0, 1),
        (1.0, 1),
        (2000.0, 1),
        (2000.1, 2),
        (2400.0, 2),
        (9999.0, 5),
    ] {
        let got = Run::new(token()).pass(5, &seen(5, demand));
        assert_eq!(
            (raw(got), got.reason),
            (count, Reason::Algorithm(AlgorithmKind::TokenThroughput)),
            "{demand}"
        );
    }
}

#[test]
fn panic_starts_at_the_threshold_and_forbids_shrinking() {
    let mut run = Run::new(token());
    let below = run.pass(2, &seen(2, 7999.0));
    assert_eq!((raw(below), below.holds), (4, false));
    let mut run = Run::new(token());
    let reached = run.pass(2, &seen(2, 8000.0));
    assert_eq!(
        (raw(reached), reached.reason, reached.holds),
        (4, Reason::Panic, true)
    );
}

#[test]
fn panic_takes_the_larger_of_both_windows() {
    // Knative #8106: a stable average above the recent one must not be ignored.
    let mut run = Run::new(token());
    for _ in 0..12 {
        run.pass(4, &seen(4, 17_000.0));
    }
    let falling = (0..4)
        .map(|_| run.pass(4, &seen(4, 1000.0)))
        .last()
        .unwrap();
    assert_eq!(falling.reason, Reason::Panic);
    // 8 of 12 spans at 17,000, 4 at 1,000: 11,667 tokens per second.
    assert_eq!(raw(falling), 6);
}

#[test]
fn panic_ends_a_stable_window_after_it_last_held_and_growth_does_not_renew_it() {
    let mut run = Run::new(token());
    assert_eq!(run.pass(1, &seen(1, 4000.0)).reason, Reason::Panic);
    let started = run.now;
    // The fleet has grown: the same demand is no panic any more (Knative #8125).
    while run.now + 15 < started + 180 {
        let lasting = run.pass(4, &seen(4, 4000.0));
        assert_eq!(
            (lasting.reason, lasting.holds),
            (Reason::Panic, true),
            "{} s",
            run.now - started
        );
    }
    let over = run.pass(4, &seen(4, 4000.0));
    assert_eq!(
        (raw(over), over.reason, over.holds),
        (2, Reason::Algorithm(AlgorithmKind::TokenThroughput), false)
    );
}

#[test]
fn a_latency_above_its_target_holds_and_far_above_it_grows() {
    let slow = |ms: f64| Observation {
        ttft: Latency::P95(Milliseconds::new(ms).unwrap()),
        ..seen(4, 2000.0)
    };
    let held = Run::new(token()).pass(4, &slow(550.0));
    assert_eq!(
        (raw(held), held.reason, held.holds),
        (1, Reason::LatencyGuardHold, true)
    );
    let grown = Run::new(token()).pass(4, &slow(601.0));
    assert_eq!((raw(grown), grown.reason), (5, Reason::LatencyGuardScaleUp));
    let edge = Run::new(token()).pass(4, &slow(600.0));
    assert_eq!((raw(edge), edge.reason), (1, Reason::LatencyGuardHold));
}

#[test]
fn a_latency_that_is_not_known_holds_but_lets_growth_through() {
    let blind = |demand| Observation {
        ttft: Latency::Missing,
        ..seen(2, demand)
    };
    let held = Run::new(token()).pass(2, &blind(100.0));
    assert_eq!(
        (raw(held), held.reason, held.holds),
        (1, Reason::LatencyGuardHold, true)
    );
    let grown = Run::new(token()).pass(2, &blind(7000.0));
    assert_eq!(
        (raw(grown), grown.reason),
        (4, Reason::Algorithm(AlgorithmKind::TokenThroughput))
    );
}

#[test]
fn without_ready_replicas_or_readings_the_declared_count_is_held() {
    // Kubernetes #138505: a hold is the count in spec, not the one in status.
    let mut absent = seen(0, 9000.0);
    let got = Run::new(token()).pass(7, &absent);
    assert_eq!(
        (raw(got), got.reason, got.holds),
        (7, Reason::NoReadyReplicas, true)
    );
    absent = Observation {
        signal: SignalState::Missing,
        prompt_rate: Reading::Missing,
        ..seen(3, 0.0)
    };
    let got = Run::new(token()).pass(7, &absent);
    assert_eq!(
        (raw(got), got.reason, got.holds),
        (7, Reason::SignalMissing, true)
    );
    absent = Observation {
        signal: SignalState::Stale,
        ..seen(3, 9000.0)
    };
    let got = Run::new(token()).pass(7, &absent);
    assert_eq!(
        (raw(got), got.reason, got.holds),
        (7, Reason::SignalStale, true)
    );
}

fn partial(ready: u32, demand: f64) -> Observation {
    let mut seen = seen(ready, demand);
    seen.coverage.answered -= 1;
    seen.coverage.add(Gap::NotSampled);
    seen
}

#[test]
fn what_was_seen_in_part_may_grow_and_never_shrink() {
    let grown = Run::new(token()).pass(4, &partial(4, 15_000.0));
    assert_eq!((raw(grown), grown.holds), (8, true));
    let held = Run::new(token()).pass(4, &partial(4, 100.0));
    assert_eq!(
        (raw(held), held.reason, held.holds),
        (1, Reason::PartialCoverage, true)
    );
}

#[test]
fn a_pod_that_does_not_answer_leaves_no_dent_in_the_windows() {
    let mut run = Run::new(token());
    for _ in 0..4 {
        run.pass(4, &seen(4, 7900.0));
    }
    for _ in 0..8 {
        run.pass(4, &partial(4, 2000.0));
    }
    let whole = run.pass(4, &seen(4, 7900.0));
    assert_eq!((raw(whole), whole.holds), (4, false));
}

#[test]
fn an_observation_counts_once() {
    let mut run = Run::new(predictive());
    for _ in 0..7 {
        run.pass(2, &seen(2, 3000.0));
    }
    let before = run.memory.clone();
    let first = run.again(2, &seen(2, 3000.0));
    assert_eq!(run.memory, before);
    assert_eq!(run.again(2, &seen(2, 3000.0)), first);
}

#[test]
fn a_forecast_waits_for_its_observations() {
    let mut run = Run::new(predictive());
    for pass in 0..5 {
        let warming = run.pass(2, &seen(2, 2400.0 + 100.0 * f64::from(pass)));
        assert_eq!(
            (raw(warming), warming.reason),
            (2, Reason::PredictorWarmingUp),
            "pass {pass}"
        );
    }
    let warm = run.pass(2, &seen(2, 2900.0));
    assert_eq!(warm.reason, Reason::Algorithm(AlgorithmKind::Predictive));
    // 100 tokens per second and pass: about 4,900 in 20 passes.
    assert_eq!(raw(warm), 3);
}

#[test]
fn an_idle_role_is_warm_after_as_many_zeros() {
    let mut run = Run::new(predictive());
    for _ in 0..6 {
        run.pass(1, &seen(1, 0.0));
    }
    let idle = run.pass(1, &seen(1, 0.0));
    assert_eq!(
        (raw(idle), idle.reason),
        (1, Reason::Algorithm(AlgorithmKind::Predictive))
    );
    assert_eq!(
        (run.memory[0].filter, run.memory[0].observations),
        (None, 7)
    );
    // Dynamo V7: the filter starts at the first nonzero demand, not at zero.
    run.pass(1, &seen(1, 50.0));
    assert_eq!(run.memory[0].filter, Some(Trend::first(50.0, 15)));
}

#[test]
fn a_missing_observation_is_none_and_not_zero() {
    // Dynamo V8 counts it as zero demand and forecasts 17 instead of 100.
    let mut run = Run::new(predictive());
    for _ in 0..8 {
        run.pass(2, &seen(2, 3000.0));
    }
    let missing = Observation {
        signal: SignalState::Missing,
        prompt_rate: Reading::Missing,
        ..seen(2, 0.0)
    };
    run.pass(2, &missing);
    run.pass(2, &seen(2, 3000.0));
    let filter = run.memory[0].filter.unwrap();
    assert!(
        (filter.level - 3000.0).abs() < 1.0 && filter.trend.abs() < 0.1,
        "{filter:?}"
    );
}

#[test]
fn after_warm_up_panic_asks_for_one_more_at_least() {
    let mut run = Run::new(predictive());
    run.pass(1, &seen(1, 4000.0));
    for _ in 0..6 {
        run.pass(3, &seen(3, 2000.0));
    }
    let panicking = run.pass(3, &seen(3, 2000.0));
    assert_eq!((raw(panicking), panicking.reason), (4, Reason::Panic));
}

#[test]
fn consolidation_needs_the_others_at_four_fifths_or_less() {
    // Two replicas left after the shrink carry 0.8 * 2000 * 2 = 3200 together.
    for (demand, held) in [(3200.0, false), (3201.0, true)] {
        let mut run = Run::new(predictive());
        let last = (0..8)
            .map(|_| run.pass(3, &seen(3, demand)))
            .last()
            .unwrap();
        assert_eq!((raw(last), last.holds), (2, held), "{demand}");
        let reason = if held {
            Reason::PredictiveConsolidationHold
        } else {
            Reason::Algorithm(AlgorithmKind::Predictive)
        };
        assert_eq!(last.reason, reason, "{demand}");
    }
}

#[test]
fn an_encode_role_follows_and_the_two_of_a_pair_read_their_own_demand() {
    let policy = policy(AlgorithmPolicy::TokenThroughput(token_policy()), 3);
    let (encode, prefill) = (seen(1, 0.0), seen(1, 5000.0));
    let decode = Observation {
        generation_rate: Reading::Value(Rate::new(1700.0).unwrap()),
        ..seen(3, 5000.0)
    };
    let view = |kind, seen| RoleView {
        kind,
        current: replicas(2),
        seen,
        at: at(15),
    };
    let roles = [
        view(RoleKind::Encode, &encode),
        view(RoleKind::Prefill, &prefill),
        view(RoleKind::Decode, &decode),
    ];
    let out = recommend(&policy, &roles, &[], at(15));
    assert_eq!(out[0].0, FOLLOWER);
    assert_eq!(out[1].0.raw, Some(replicas(3)));
    assert_eq!(out[2].0.raw, Some(replicas(3)));
}

fn proportional(metric: Metric, target: &str) -> Policy {
    policy(
        AlgorithmPolicy::Proportional(ProportionalPolicy {
            metric,
            tolerance: nanos("0.1"),
            targets: vec![Some(nanos(target))],
        }),
        1,
    )
}

#[test]
fn each_metric_reads_its_own_signal() {
    let busy = Observation {
        running: Reading::Value(30),
        waiting: Reading::Value(20),
        prompt_rate: Reading::Value(Rate::new(700.0).unwrap()),
        generation_rate: Reading::Value(Rate::new(100.0).unwrap()),
        ..seen(1, 1.0)
    };
    for (metric, count) in [
        (Metric::QueueDepth, 5),
        (Metric::RunningRequests, 3),
        (Metric::WaitingRequests, 2),
        (Metric::PromptTokensPerSecond, 70),
        (Metric::GenerationTokensPerSecond, 10),
        (Metric::TotalTokensPerSecond, 80),
    ] {
        let got = Run::new(proportional(metric, "10")).pass(1, &busy);
        assert_eq!(
            (raw(got), got.reason),
            (count, Reason::Algorithm(AlgorithmKind::Proportional)),
            "{metric:?}"
        );
    }
}

#[test]
fn a_gauge_needs_one_scrape_and_a_rate_two() {
    let first = Observation {
        signal: SignalState::Missing,
        prompt_rate: Reading::Missing,
        running: Reading::Value(40),
        ..seen(1, 0.0)
    };
    assert_eq!(
        raw(Run::new(proportional(Metric::RunningRequests, "10")).pass(1, &first)),
        4
    );
    let got = Run::new(proportional(Metric::PromptTokensPerSecond, "10")).pass(3, &first);
    assert_eq!((raw(got), got.reason), (3, Reason::SignalMissing));
}

#[test]
fn within_tolerance_the_declared_count_is_held() {
    // Two ready of three declared: the load is judged over the ready ones, the hold is the declared count.
    let near = Observation {
        running: Reading::Value(21),
        ..seen(2, 1.0)
    };
    let got = Run::new(proportional(Metric::RunningRequests, "10")).pass(3, &near);
    assert_eq!(
        (raw(got), got.reason, got.holds),
        (3, Reason::WithinTolerance, false)
    );
}

proptest! {
    #[test]
    fn more_demand_never_asks_for_fewer(demands in prop::collection::vec(0.0..40_000.0_f64, 1..40), more in 1.0..3.0_f64, ready in 1_u32..20) {
        let (mut low, mut high) = (Run::new(token()), Run::new(token()));
        for demand in demands {
            let (a, b) = (low.pass(4, &seen(ready, demand)), high.pass(4, &seen(ready, demand * more)));
            prop_assert!(raw(a) <= raw(b));
        }
    }

    #[test]
    fn tokens_and_capacities_scale_together(demands in prop::collection::vec(0_u32..40_000, 1..20), factor in 1_i128..50) {
        let mut scaled = token_policy();
        scaled.capacity.prefill = Some(Nanos::new(nanos("2000").get() * factor));
        let (mut one, mut many) = (Run::new(token()), Run::new(policy(AlgorithmPolicy::TokenThroughput(scaled), 1)));
        for demand in demands {
            let scale = Nanos::new(factor * 1_000_000_000).to_f64();
            let (a, b) = (one.pass(3, &seen(3, f64::from(demand))), many.pass(3, &seen(3, f64::from(demand) * scale)));
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn nothing_shrinks_after_a_reading_that_is_missing(demands in prop::collection::vec(prop::option::of(0.0..20_000.0_f64), 1..40)) {
        for policy in [token(), predictive(), proportional(Metric::TotalTokensPerSecond, "100")] {
            let mut run = Run::new(policy);
            for demand in &demands {
                let got = match demand {
                    Some(demand) => run.pass(9, &seen(3, *demand)),
                    None => run.pass(9, &Observation { signal: SignalState::Missing, prompt_rate: Reading::Missing, ..seen(3, 0.0) }),
                };
                prop_assert!(demand.is_some() || (raw(got) == 9 && got.holds));
            }
        }
    }
}
