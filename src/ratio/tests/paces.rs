//! The advice about steps against brute force.

use proptest::prelude::*;

use super::{brute::*, *};

fn one_way(direction: Direction, step: StepLimit) -> Pacing {
    match direction {
        Direction::Up => Pacing {
            up: step,
            down: StepLimit::Pods(0),
        },
        Direction::Down => Pacing {
            up: StepLimit::Pods(0),
            down: step,
        },
    }
}

/// Does any legal pass move the role that way, between any two feasible vectors?
fn moves(all: &[Vec<i64>], role: usize, direction: Direction, step: StepLimit) -> bool {
    let pacing = one_way(direction, step);
    all.iter().any(|from| {
        all.iter().any(|to| {
            (to[role] > from[role]) == (direction == Direction::Up)
                && to[role] != from[role]
                && from
                    .iter()
                    .zip(to)
                    .all(|(&from, &to)| legal(pacing, from, to))
        })
    })
}

/// Where passes by brute force stop: each takes the vector that is furthest in every role.
fn stop(all: &[Vec<i64>], from: &[i64], direction: Direction, step: StepLimit) -> Vec<i64> {
    let pacing = one_way(direction, step);
    let mut at = from.to_vec();
    loop {
        let legal = |to: &&Vec<i64>| {
            at.iter()
                .zip(*to)
                .all(|(&from, &to)| legal(pacing, from, to))
        };
        let furthest = all.iter().filter(legal).max_by_key(|to| {
            let sum: i64 = to.iter().sum();
            if direction == Direction::Up {
                sum
            } else {
                -sum
            }
        });
        match furthest {
            Some(next) if *next != at => at.clone_from(next),
            _ => return at,
        }
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn a_role_is_stuck_when_no_two_vectors_differ_by_a_legal_pass(
        system in feasible_system().prop_filter("too many pairs", |system| {
            feasible(&ranges(system), system.ratios()).len() < 300
        }),
        pacing in any_pacing(),
    ) {
        let lattice = system.propagate().unwrap();
        let all = feasible(&ranges(&system), system.ratios());
        let mut expected = Vec::new();
        for (role, reach) in lattice.reach().iter().enumerate() {
            for (direction, step) in [(Direction::Up, pacing.up), (Direction::Down, pacing.down)] {
                if reach.lo() < reach.hi() && !moves(&all, role, direction, step) {
                    let pods = (1..1024).find(|&pods| moves(&all, role, direction, StepLimit::Pods(pods))).unwrap();
                    expected.push(Stuck { role, direction, pods });
                }
            }
        }
        prop_assert_eq!(lattice.stuck(pacing), expected);
    }

    #[test]
    fn a_run_halts_where_brute_force_does(
        system in feasible_system(),
        pacing in any_pacing(),
        pick in any::<prop::sample::Index>(),
    ) {
        let lattice = system.propagate().unwrap();
        let all = feasible(&ranges(&system), system.ratios());
        let current = pick.get(&all).clone();
        let (least, greatest) = (numbers(&lattice.least()), numbers(&lattice.greatest()));
        let mut expected = Vec::new();
        for (direction, step) in [(Direction::Down, pacing.down), (Direction::Up, pacing.up)] {
            if step.is_zero() {
                continue;
            }
            let (far, end) = if direction == Direction::Up { (&least, &greatest) } else { (&greatest, &least) };
            for (start, from) in [(Start::Far, far), (Start::Current, &current)] {
                let at = stop(&all, from, direction, step);
                if at != *end {
                    let pods = (1..1024).find(|&pods| stop(&all, from, direction, StepLimit::Pods(pods)) == *end);
                    expected.push(Halt { start, direction, at: replicas(&at), pods: pods.unwrap() });
                }
            }
        }
        prop_assert_eq!(lattice.halts(pacing, Some(&replicas(&current))), expected);
    }
}
