//! Feasibility, goal and pass, and reading quantities. Budgets, medians on one core: feasibility of three roles 1 us,
//! of sixteen in a tree 20 us, the slow case of sixteen 400 us; goal and pass of three roles 2 us.

#![expect(clippy::unwrap_used, reason = "a bench may fail")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mds::{
    api::{Quantity, Replicas},
    ratio::{Band, Bounds, Direction, Link, Step, System, follow},
};

fn count(count: i64) -> Replicas {
    Replicas::new(count).unwrap()
}

fn bounds(min: i64, max: i64) -> Bounds {
    Bounds {
        min: count(min),
        max: count(max),
    }
}

fn band(numerator: usize, denominator: usize, min: &str, max: &str) -> Band {
    let read = |text: &str| (!text.is_empty()).then(|| Quantity::from(text).nanos().unwrap());
    Band {
        numerator,
        denominator,
        min: read(min),
        max: read(max),
    }
}

/// The reference's example: encode, prefill, decode.
fn three() -> System {
    let roles = vec![bounds(1, 8), bounds(2, 16), bounds(2, 16)];
    System::new(roles, vec![band(1, 2, "0.5", "2"), band(0, 1, "0.25", "1")]).unwrap()
}

/// Sixteen roles in a binary tree, each at least half of its parent and at most half as large again.
fn tree() -> System {
    let bands = (1..16)
        .map(|role| band(role, (role - 1) / 2, "0.5", "1.5"))
        .collect();
    System::new(
        (0..16)
            .map(|role| bounds(1 + role, 1024 - 40 * role))
            .collect(),
        bands,
    )
    .unwrap()
}

/// A cycle in which each turn takes one replica away: the slowest refutation known.
fn slow() -> System {
    let ring = |role: usize| {
        band(
            (role + 1) % 16,
            role,
            "",
            if role == 0 { "0.999023437" } else { "1" },
        )
    };
    System::new(vec![Bounds::ANY; 16], (0..16).map(ring).collect()).unwrap()
}

fn feasibility(c: &mut Criterion) {
    let mut group = c.benchmark_group("feasibility");
    for (name, system, feasible) in [
        ("three roles", three(), true),
        ("sixteen in a tree", tree(), true),
        ("slow cycle of sixteen", slow(), false),
    ] {
        assert_eq!(system.tight().is_ok(), feasible, "{name}");
        group.bench_function(name, |b| b.iter(|| black_box(&system).tight()));
    }
    let parts = three();
    group.bench_function("three roles, built and decided", |b| {
        b.iter(|| {
            System::new(parts.bounds().to_vec(), parts.bands().to_vec())
                .unwrap()
                .tight()
        });
    });
    let tight = System::new(vec![bounds(1, 4), bounds(3, 8)], vec![band(0, 1, "2", "")]).unwrap();
    group.bench_function("proof of two roles", |b| {
        b.iter(|| black_box(&tight).conflict().unwrap());
    });
    let slow = slow();
    group.sample_size(10);
    group.bench_function("proof of the slow cycle", |b| {
        b.iter(|| black_box(&slow).conflict().unwrap());
    });
    group.finish();
}

fn planning(c: &mut Criterion) {
    let mut group = c.benchmark_group("planning");
    let system = three();
    let target = |text: &str| Some(Quantity::from(text).nanos().unwrap());
    let links: Vec<Link> = (system.bands().iter().zip([target("1"), target("0.5")]))
        .map(|(band, target)| Link {
            numerator: band.numerator,
            denominator: band.denominator,
            target,
            min: band.min,
            max: band.max,
        })
        .collect();
    let current = [count(2), count(4), count(4)];
    let wishes = [None, Some(count(9)), Some(count(6))];
    let (lowest, highest) = (
        [count(1), count(3), count(3)],
        [count(6), count(8), count(8)],
    );
    group.bench_function("goal and pass of three roles", |b| {
        b.iter(|| {
            let current = black_box(&current);
            let goal = system.goal(current, &follow(&links, current, black_box(&wishes)));
            system.pass(current, &goal, &lowest, &highest)
        });
    });
    group.bench_function("can three roles shrink", |b| {
        b.iter(|| {
            (0..3).all(|role| black_box(&system).can_move(role, Direction::Down, Step::Pods(1)))
        });
    });
    let wide = System::new(
        vec![bounds(3, 999), bounds(2, 666)],
        vec![band(0, 1, "1.5", "1.5")],
    )
    .unwrap();
    let from = wide.tight().unwrap().hi;
    group.sample_size(10);
    group.bench_function("a step that arrives, from 999", |b| {
        b.iter(|| black_box(&wide).step_that_arrives(&from, Direction::Down, 64));
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
