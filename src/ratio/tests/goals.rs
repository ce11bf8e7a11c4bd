//! Goal and pass against brute force.

use proptest::prelude::*;

use super::{brute::*, *};

/// A feasible system, a feasible vector, and a wish or none for each role.
fn scene() -> impl Strategy<Value = (System, Vec<i64>, Vec<Option<Replicas>>)> {
    let wishes = prop::collection::vec(
        prop::option::weighted(0.75, (1..=14_i64).prop_map(count)),
        5,
    );
    (feasible_system(), any::<prop::sample::Index>(), wishes).prop_map(
        |(system, pick, mut wishes)| {
            let all = feasible(&ranges(&system), system.ratios());
            let current = pick.get(&all).clone();
            wishes.truncate(current.len());
            (system, current, wishes)
        },
    )
}

fn shortfall(wishes: &[i64], vector: &[i64]) -> i64 {
    wishes
        .iter()
        .zip(vector)
        .map(|(wish, count)| (wish - count).max(0))
        .sum()
}

fn surplus(wishes: &[i64], vector: &[i64]) -> i64 {
    shortfall(vector, wishes)
}

/// The entries of one component.
fn of(system: &System, component: usize, vector: &[i64]) -> Vec<i64> {
    (0..vector.len())
        .filter(|&role| system.component(role) == component)
        .map(|role| vector[role])
        .collect()
}

fn components(system: &System) -> Vec<usize> {
    (0..system.bounds().len())
        .filter(|&role| system.component(role) == role)
        .collect()
}

fn at_or(direction: Direction, from: &[i64], to: &[i64]) -> bool {
    from.iter().zip(to).all(|(from, to)| {
        if direction == Direction::Up {
            to >= from
        } else {
            to <= from
        }
    })
}

#[test]
fn one_overloaded_role_takes_its_idle_neighbours_along() {
    let system = system(&[(1, 16); 3], [fixed(0, 1, "1"), fixed(1, 2, "1")]);
    let lattice = system.propagate().unwrap();
    let current = counts([2, 2, 2]);
    let goal = lattice
        .goal(&current, &[Some(count(8)), Some(count(2)), Some(count(2))])
        .unwrap();
    assert_eq!(goal.counts, counts([8, 8, 8]));
    let pacing = Pacing {
        up: StepLimit::Pods(4),
        down: StepLimit::Pods(1),
    };
    let allowed: Vec<Bounds> = current.iter().map(|&count| pacing.around(count)).collect();
    assert_eq!(
        lattice.pass(&current, &goal, &allowed),
        Ok(counts([6, 6, 6]))
    );
}

#[test]
fn components_move_apart_from_each_other() {
    let system = system(&[(1, 16); 4], [fixed(0, 1, "1"), fixed(2, 3, "2")]);
    let lattice = system.propagate().unwrap();
    let current = counts([4, 4, 4, 2]);
    let goal = lattice
        .goal(
            &current,
            &[
                Some(count(2)),
                Some(count(3)),
                Some(count(7)),
                Some(count(1)),
            ],
        )
        .unwrap();
    assert_eq!(
        goal.directions,
        [
            Direction::Down,
            Direction::Down,
            Direction::Up,
            Direction::Up
        ]
    );
    assert_eq!(goal.counts, counts([3, 3, 8, 4]));
}

#[test]
fn a_follower_takes_what_the_target_of_its_ratio_asks_for() {
    // encode/prefill 0.5, as in the reference's example.
    let half = system(&[(1, 4), (1, 16)], [ratio(0, 1, "", "0.5", "")]);
    let goal = half
        .propagate()
        .unwrap()
        .goal(&counts([1, 2]), &[None, Some(count(5))])
        .unwrap();
    assert_eq!(goal.counts, counts([3, 5]));
    // The follower as denominator; a third as it can be written asks for 9, not for 10.
    let third = system(&[(1, 16), (1, 16)], [ratio(0, 1, "", "0.333333333", "")]);
    let goal = third
        .propagate()
        .unwrap()
        .goal(&counts([1, 1]), &[Some(count(3)), None])
        .unwrap();
    assert_eq!(goal.counts, counts([3, 9]));
    let third = system(&[(1, 16), (1, 16)], [ratio(0, 1, "", "0.333333334", "")]);
    let goal = third
        .propagate()
        .unwrap()
        .goal(&counts([1, 1]), &[None, Some(count(3))])
        .unwrap();
    assert_eq!(goal.counts, counts([1, 3]));
}

#[test]
fn a_follower_of_several_targets_takes_the_most() {
    let system = system(
        &[(1, 16); 3],
        [ratio(0, 1, "", "0.5", ""), ratio(0, 2, "", "1", "")],
    );
    let goal = system
        .propagate()
        .unwrap()
        .goal(&counts([1, 1, 1]), &[None, Some(count(8)), Some(count(5))])
        .unwrap();
    assert_eq!(goal.wishes, counts([5, 8, 5]));
}

#[test]
fn a_follower_without_a_target_stays_where_the_band_lets_it() {
    let system = system(&[(1, 16), (1, 16)], [ratio(0, 1, "0.5", "", "1")]);
    let lattice = system.propagate().unwrap();
    let wish = |current: [i64; 2], leader| {
        lattice
            .goal(&counts(current), &[None, Some(count(leader))])
            .unwrap()
            .counts
    };
    assert_eq!(wish([4, 4], 6), counts([4, 6]));
    assert_eq!(wish([4, 4], 12), counts([6, 12]));
    assert_eq!(wish([4, 4], 3), counts([3, 3]));
}

#[test]
fn a_wish_beyond_reach_is_cut_before_followers_look_at_it() {
    let system = system(&[(1, 16), (1, 4)], [ratio(0, 1, "", "2", "")]);
    let goal = system
        .propagate()
        .unwrap()
        .goal(&counts([2, 2]), &[None, Some(count(100))])
        .unwrap();
    assert_eq!(goal.counts, counts([8, 4]));
}

#[test]
fn counts_that_break_the_policy_have_no_goal() {
    let system = system(&[(1, 16), (1, 16)], [fixed(0, 1, "1")]);
    let lattice = system.propagate().unwrap();
    assert_eq!(
        lattice.goal(&counts([1, 2]), &[None, None]),
        Err(GoalError::Infeasible)
    );
    assert_eq!(
        lattice.goal(&counts([1]), &[None, None]),
        Err(GoalError::Length)
    );
}

proptest! {
    #![proptest_config(config(2500))]

    #[test]
    fn the_goal_is_the_one_optimum_that_brute_force_finds((system, current, wishes) in scene()) {
        let lattice = system.propagate().unwrap();
        let goal = lattice.goal(&replicas(&current), &wishes).unwrap();
        let (wished, reached) = (numbers(&goal.wishes), numbers(&goal.counts));
        for (role, wish) in wishes.iter().enumerate() {
            if let Some(wish) = wish {
                prop_assert_eq!(goal.wishes[role], lattice.reach()[role].clamp(*wish));
            }
        }
        let all = feasible(&ranges(&system), system.ratios());
        prop_assert!(all.contains(&reached));
        for component in components(&system) {
            let part = |vector: &[i64]| of(&system, component, vector);
            let (wished, current, reached) = (part(&wished), part(&current), part(&reached));
            let up = wished.iter().zip(&current).any(|(wish, now)| wish > now);
            let direction = if up { Direction::Up } else { Direction::Down };
            prop_assert_eq!(goal.directions[component], direction);
            let mut side: Vec<_> = all.iter().map(|v| part(v)).filter(|v| at_or(direction, &current, v)).collect();
            side.sort_unstable();
            side.dedup();
            let cost = |vector: &[i64]| (shortfall(&wished, vector), surplus(&wished, vector));
            let best = side.iter().map(|vector| cost(vector)).min();
            let optima: Vec<_> = side.iter().filter(|vector| Some(cost(vector)) == best).collect();
            prop_assert_eq!(optima, [&reached]);
        }
    }

    #[test]
    fn a_follower_wishes_for_what_the_definition_says((system, current, wishes) in scene()) {
        let lattice = system.propagate().unwrap();
        let goal = lattice.goal(&replicas(&current), &wishes).unwrap();
        let own = |role: usize| wishes[role].map(|_| i64::from(goal.wishes[role]));
        for role in (0..current.len()).filter(|&role| wishes[role].is_none()) {
            let mut asked: Vec<i64> = Vec::new();
            let mut bands: Vec<(Ratio, i64)> = Vec::new();
            for ratio in system.ratios() {
                let other = match role {
                    r if r == ratio.numerator => ratio.denominator,
                    r if r == ratio.denominator => ratio.numerator,
                    _ => continue,
                };
                let Some(wish) = own(other) else { continue };
                let least = |keeps: &dyn Fn(i128) -> bool| (0..200_000_i64).find(|&c| keeps(c.into())).unwrap_or(200_000);
                if let Some(target) = ratio.target.map(crate::api::quantity::Nanos::get) {
                    let (wish, nano) = (i128::from(wish), 1_000_000_000_i128);
                    asked.push(if role == ratio.numerator {
                        least(&|c| (target - 1) * wish <= nano * c)
                    } else {
                        least(&|c| nano * wish <= (target + 1) * c)
                    });
                }
                bands.push((*ratio, wish));
            }
            let fits = |c: i64| bands.iter().all(|&(ratio, wish)| {
                let mut pair = vec![0; current.len()];
                pair[ratio.numerator] = wish;
                pair[ratio.denominator] = wish;
                pair[role] = c;
                keeps(&[ratio], &pair)
            });
            let expected = match asked.into_iter().max() {
                Some(asked) => asked.clamp(1, 1024),
                None => match (1..=1024).filter(|&c| fits(c)).min_by_key(|c| (c - current[role]).abs()) {
                    Some(nearest) => nearest,
                    None => continue,
                },
            };
            prop_assert_eq!(goal.wishes[role], lattice.reach()[role].clamp(count(expected)));
        }
    }

    #[test]
    fn a_pass_goes_as_far_as_it_may((system, current, wishes) in scene(), pacing in any_pacing()) {
        let lattice = system.propagate().unwrap();
        let goal = lattice.goal(&replicas(&current), &wishes).unwrap();
        let allowed: Vec<Bounds> = replicas(&current).iter().map(|&count| pacing.around(count)).collect();
        let next = numbers(&lattice.pass(&replicas(&current), &goal, &allowed).unwrap());
        let all = feasible(&ranges(&system), system.ratios());
        let end = numbers(&goal.counts);
        let between = |vector: &&Vec<i64>| (0..current.len()).all(|role| {
            let (now, end, to) = (current[role], end[role], vector[role]);
            now.min(end) <= to && to <= now.max(end) && legal(pacing, now, to)
        });
        let reachable: Vec<_> = all.iter().filter(between).collect();
        prop_assert!(reachable.contains(&&next));
        // Nothing that may be reached lies beyond it in any role.
        for vector in reachable {
            for role in 0..current.len() {
                prop_assert!((vector[role] - current[role]).abs() <= (next[role] - current[role]).abs());
            }
        }
    }

    #[test]
    fn constant_wishes_come_to_rest_and_stall_only_where_no_legal_step_leads_closer(
        (system, start, wishes) in scene(),
        pacing in any_pacing(),
    ) {
        let lattice = system.propagate().unwrap();
        let all = feasible(&ranges(&system), system.ratios());
        let mut at = start.clone();
        let mut ways: Vec<Option<Direction>> = vec![None; at.len()];
        let mut shrinking = vec![false; at.len()];
        let rest = loop {
            let now = replicas(&at);
            let goal = lattice.goal(&now, &wishes).unwrap();
            let allowed: Vec<Bounds> = now.iter().map(|&count| pacing.around(count)).collect();
            let next = numbers(&lattice.pass(&now, &goal, &allowed).unwrap());
            prop_assert!(all.contains(&next));
            for role in 0..at.len() {
                prop_assert!(legal(pacing, at[role], next[role]));
                if next[role] != at[role] {
                    let way = if next[role] > at[role] { Direction::Up } else { Direction::Down };
                    // No role turns back. A component may, once: when nobody is short any more, the rest shrinks.
                    prop_assert_eq!(*ways[role].get_or_insert(way), way, "{:?} {:?}", at, next);
                    prop_assert!(way == Direction::Down || !shrinking[system.component(role)]);
                    shrinking[system.component(role)] |= way == Direction::Down;
                }
            }
            if next == at {
                break goal;
            }
            at = next;
        };
        let wished = numbers(&rest.wishes);
        for component in components(&system) {
            let direction = rest.directions[component];
            let part = |vector: &[i64]| of(&system, component, vector);
            let cost = |vector: &[i64]| (shortfall(&part(&wished), &part(vector)), surplus(&part(&wished), &part(vector)));
            for other in &all {
                let legal = (0..at.len())
                    .filter(|&role| system.component(role) == component)
                    .all(|role| legal(pacing, at[role], other[role]));
                if legal && at_or(direction, &part(&at), &part(other)) {
                    prop_assert!(cost(&at) <= cost(other), "{:?} stalls below {:?}", at, other);
                }
            }
        }
    }
}
