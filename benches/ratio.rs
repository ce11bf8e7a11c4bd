//! Feasibility, goal and pass, and reading quantities. Budgets, medians on one core: feasibility of three roles 1 us,
//! of sixteen in a tree 20 us, the slow case of sixteen 400 us; goal and pass of three roles 2 us.

#![expect(clippy::unwrap_used, reason = "a bench may fail")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mds::{
    api::{Quantity, Replicas},
    ratio::{Bounds, Pacing, Ratio, StepLimit, System},
};

fn count(count: i64) -> Replicas {
    Replicas::new(count).unwrap()
}

fn bounds(lo: i64, hi: i64) -> Bounds {
    Bounds::new(count(lo), count(hi)).unwrap()
}

fn ratio(numerator: usize, denominator: usize, min: &str, target: &str, max: &str) -> Ratio {
    let read = |text: &str| (!text.is_empty()).then(|| Quantity::from(text).nanos().unwrap());
    Ratio {
        numerator,
        denominator,
        min: read(min),
        target: read(target),
        max: read(max),
    }
}

/// The reference's example: encode, prefill, decode.
fn three() -> System {
    let roles = vec![bounds(1, 8), bounds(2, 16), bounds(2, 16)];
    System::new(
        roles,
        vec![
            ratio(1, 2, "0.5", "1", "2"),
            ratio(0, 1, "0.25", "0.5", "1"),
        ],
    )
    .unwrap()
}

/// Sixteen roles in a binary tree, each at most half as large again as its parent and at least half of it.
fn tree() -> System {
    let ratios = (1..16)
        .map(|role| ratio(role, (role - 1) / 2, "0.5", "1", "1.5"))
        .collect();
    System::new(
        (0..16)
            .map(|role| bounds(1 + role, 1024 - 40 * role))
            .collect(),
        ratios,
    )
    .unwrap()
}

/// A cycle in which each turn takes one replica away: the slowest refutation known.
fn slow() -> System {
    let ring = |role: usize| {
        ratio(
            (role + 1) % 16,
            role,
            "",
            "",
            if role == 0 { "0.999023437" } else { "1" },
        )
    };
    System::new(vec![Bounds::ALL; 16], (0..16).map(ring).collect()).unwrap()
}

fn feasibility(c: &mut Criterion) {
    let mut group = c.benchmark_group("feasibility");
    for (name, system, feasible) in [
        ("three roles", three(), true),
        ("sixteen in a tree", tree(), true),
        ("slow cycle of sixteen", slow(), false),
    ] {
        assert_eq!(system.is_feasible(), feasible, "{name}");
        group.bench_function(name, |b| b.iter(|| black_box(&system).is_feasible()));
    }
    let three = three();
    group.bench_function("three roles, built and propagated", |b| {
        b.iter(|| {
            let (roles, ratios) = (three.bounds().to_vec(), three.ratios().to_vec());
            System::new(roles, ratios)
                .unwrap()
                .propagate()
                .unwrap()
                .reach()
                .len()
        });
    });
    let tight = System::new(
        vec![bounds(1, 4), bounds(3, 8)],
        vec![ratio(0, 1, "2", "", "")],
    )
    .unwrap();
    group.bench_function("proof of two roles", |b| {
        b.iter(|| black_box(&tight).propagate().unwrap_err());
    });
    let slow = slow();
    group.sample_size(10);
    group.bench_function("proof of the slow cycle", |b| {
        b.iter(|| black_box(&slow).propagate().unwrap_err());
    });
    group.finish();
}

fn planning(c: &mut Criterion) {
    let mut group = c.benchmark_group("planning");
    let system = three();
    let lattice = system.propagate().unwrap();
    let current = [count(2), count(4), count(4)];
    let wishes = [None, Some(count(9)), Some(count(6))];
    let pacing = Pacing {
        up: StepLimit::Larger {
            replicas: 4,
            percent: 100,
        },
        down: StepLimit::Pods(1),
    };
    group.bench_function("goal and pass of three roles", |b| {
        b.iter(|| {
            let current = black_box(&current);
            let goal = lattice.goal(current, black_box(&wishes)).unwrap();
            lattice
                .pass(current, &goal, &current.map(|count| pacing.around(count)))
                .unwrap()
        });
    });
    group.bench_function("advice for three roles", |b| {
        b.iter(|| {
            let lattice = black_box(&lattice);
            (
                lattice.unreachable().count(),
                lattice.stuck(pacing),
                lattice.halts(pacing, None),
            )
        });
    });
    group.finish();
}

fn quantities(c: &mut Criterion) {
    let mut group = c.benchmark_group("quantity");
    for text in [
        "1",
        "0.5",
        "500m",
        "0.083333333",
        "1Gi",
        "1.0000000000000000000000000000000000000001Ei",
    ] {
        let quantity = Quantity::from(text);
        group.bench_function(text, |b| b.iter(|| black_box(&quantity).nanos().unwrap()));
    }
    group.finish();
}

criterion_group!(benches, feasibility, planning, quantities);
criterion_main!(benches);
