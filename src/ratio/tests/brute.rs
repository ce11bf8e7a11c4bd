//! Brute force, and random systems small enough for it.

use proptest::prelude::*;

use super::*;
use crate::api::quantity::Nanos;

/// Does the vector keep all ratios? By the definition, in wide integers.
pub(super) fn keeps(ratios: &[Ratio], vector: &[i64]) -> bool {
    ratios.iter().all(|ratio| {
        let both = (vector.get(ratio.numerator), vector.get(ratio.denominator));
        let (Some(&n), Some(&d)) = both else {
            return true;
        };
        let (n, d) = (i128::from(n) * 1_000_000_000, i128::from(d));
        ratio.min.is_none_or(|min| (min.get() - 1) * d <= n)
            && ratio.max.is_none_or(|max| n <= (max.get() + 1) * d)
    })
}

/// Every vector in the box that keeps all ratios.
pub(super) fn feasible(ranges: &[(i64, i64)], ratios: &[Ratio]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &(lo, hi) in ranges {
        let longer = |vector: &Vec<i64>| {
            let vector = vector.clone();
            (lo..=hi).map(move |count| [&vector[..], &[count]].concat())
        };
        all = all
            .iter()
            .flat_map(longer)
            .filter(|vector| keeps(ratios, vector))
            .collect();
    }
    all
}

pub(super) fn ranges(system: &System) -> Vec<(i64, i64)> {
    system
        .bounds()
        .iter()
        .map(|bounds| (bounds.lo().into(), bounds.hi().into()))
        .collect()
}

pub(super) fn numbers(vector: &[Replicas]) -> Vec<i64> {
    vector.iter().map(|&count| count.into()).collect()
}

pub(super) fn replicas(vector: &[i64]) -> Vec<Replicas> {
    vector.iter().map(|&number| count(number)).collect()
}

/// A ratio of small counts, exact or off by what the slack forgives, or by one nano more.
fn value() -> impl Strategy<Value = Nanos> {
    (1..=12_i128, 1..=12_i128, -2..=3_i128)
        .prop_map(|(n, d, off)| Nanos::new(n * 1_000_000_000 / d + off))
}

fn any_ratio(roles: usize) -> impl Strategy<Value = Ratio> {
    let ends = (0..roles, 1..roles);
    let band = (
        value(),
        prop_oneof![Just(None), value().prop_map(Some)],
        0..5,
    );
    (ends, band, prop::option::weighted(0.6, value())).prop_map(
        move |((numerator, offset), (a, b, kind), target)| {
            let denominator = (numerator + offset) % roles;
            let b = b.unwrap_or(a);
            let (min, max) = match kind {
                0 => (Some(a), None),
                1 => (None, Some(a)),
                2 => (None, None),
                _ => (Some(a.min(b)), Some(a.max(b))),
            };
            let target = target.map(|target| {
                target
                    .max(min.unwrap_or(target))
                    .min(max.unwrap_or(Nanos::MAX))
            });
            Ratio {
                numerator,
                denominator,
                min,
                target,
                max,
            }
        },
    )
}

/// Up to five roles of up to twelve counts, and up to six ratios: trees, cycles, both directions of one pair.
pub(super) fn any_system() -> impl Strategy<Value = System> {
    (2..=5_usize).prop_flat_map(|roles| {
        let ends = prop::collection::vec((1..=12_i64, 1..=12_i64), roles);
        let ratios = prop::collection::vec(any_ratio(roles), 1..=6);
        (ends, ratios).prop_map(|(ends, ratios)| {
            let bounds = ends
                .iter()
                .map(|&(a, b)| bounds(a.min(b), a.max(b)))
                .collect();
            System::new(bounds, ratios).unwrap()
        })
    })
}

/// The same with wide bounds and at least one vector, which is what admission lets through.
pub(super) fn feasible_system() -> impl Strategy<Value = System> {
    let wide = (2..=4_usize).prop_flat_map(|roles| {
        let ends = prop::collection::vec((1..=3_i64, 5..=12_i64), roles);
        let ratios = prop::collection::vec(any_ratio(roles), 1..=4);
        (ends, ratios).prop_map(|(ends, ratios)| {
            System::new(
                ends.iter().map(|&(lo, hi)| bounds(lo, hi)).collect(),
                ratios,
            )
            .unwrap()
        })
    });
    prop_oneof![wide, any_system()].prop_filter("infeasible", System::is_feasible)
}

pub(super) fn any_step() -> impl Strategy<Value = StepLimit> {
    prop_oneof![
        (0..=5_u32).prop_map(StepLimit::Pods),
        prop::sample::select(vec![0, 1, 10, 25, 34, 50, 100, 150, 1000])
            .prop_map(StepLimit::Percent),
        (0..=4_u32, prop::sample::select(vec![0, 10, 50, 100]))
            .prop_map(|(replicas, percent)| StepLimit::Larger { replicas, percent }),
    ]
}

pub(super) fn any_pacing() -> impl Strategy<Value = Pacing> {
    (any_step(), any_step()).prop_map(|(up, down)| Pacing { up, down })
}

/// May one pass take a role from one count to the other?
pub(super) fn legal(pacing: Pacing, from: i64, to: i64) -> bool {
    let percent = |percent: u32| (i64::from(percent) * from).div_ceil_of(100);
    let step = match if to > from { pacing.up } else { pacing.down } {
        StepLimit::Pods(pods) => pods.into(),
        StepLimit::Percent(limit) => percent(limit),
        StepLimit::Larger {
            replicas,
            percent: limit,
        } => percent(limit).max(replicas.into()),
    };
    (to - from).abs() <= step
}

trait DivCeil {
    fn div_ceil_of(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_of(self, by: i64) -> i64 {
        self / by + i64::from(self % by > 0)
    }
}

pub(super) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    }
}
