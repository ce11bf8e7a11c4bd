//! Verdict and tight bounds against brute force.

use proptest::prelude::*;

use super::{brute::*, *};

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn verdict_and_tight_bounds_are_those_of_brute_force(system in any_system()) {
        let all = feasible(&ranges(&system), system.ratios());
        prop_assert_eq!(system.is_feasible(), !all.is_empty());
        let Ok(lattice) = system.propagate() else { return Ok(()) };
        for (role, reach) in lattice.reach().iter().enumerate() {
            let least = all.iter().map(|vector| vector[role]).min();
            let most = all.iter().map(|vector| vector[role]).max();
            prop_assert_eq!((Some(reach.lo().into()), Some(reach.hi().into())), (least, most));
        }
        prop_assert!(all.contains(&numbers(&lattice.least())));
        prop_assert!(all.contains(&numbers(&lattice.greatest())));
    }

    #[test]
    fn a_vector_is_allowed_when_brute_force_finds_it(system in any_system(), vector in prop::array::uniform5(1..=12_i64)) {
        let vector = &vector[..system.bounds().len()];
        let inside = ranges(&system).iter().zip(vector).all(|((lo, hi), count)| (lo..=hi).contains(&count));
        prop_assert_eq!(system.allows(&replicas(vector)), inside && keeps(system.ratios(), vector));
    }

    #[test]
    fn least_and_greatest_within_a_box_are_those_of_brute_force(
        system in feasible_system(),
        inner in prop::collection::vec((1..=12_i64, 1..=12_i64), 5),
    ) {
        let lattice = system.propagate().unwrap();
        let inner: Vec<Bounds> =
            inner.iter().take(system.bounds().len()).map(|&(a, b)| bounds(a.min(b), a.max(b))).collect();
        let inside = |vector: &Vec<i64>| inner.iter().zip(vector).all(|(range, &number)| range.contains(count(number)));
        let all: Vec<_> = feasible(&ranges(&system), system.ratios()).into_iter().filter(inside).collect();
        let extreme = |pick: fn(i64, i64) -> i64| {
            all.iter().cloned().reduce(|a, b| a.iter().zip(&b).map(|(&a, &b)| pick(a, b)).collect())
        };
        prop_assert_eq!(lattice.least_within(&inner).map(|vector| numbers(&vector)), extreme(i64::min));
        prop_assert_eq!(lattice.greatest_within(&inner).map(|vector| numbers(&vector)), extreme(i64::max));
    }
}
