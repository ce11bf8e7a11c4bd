mod exhaustive;

use super::*;
use crate::api::{Quantity, Replicas, quantity::Nanos};
use proptest::prelude::*;

fn n(count: i64) -> Replicas {
    Replicas::new(count).unwrap()
}

fn vector(counts: &[i64]) -> Vec<Replicas> {
    counts.iter().map(|&count| n(count)).collect()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every use is an optional end of a band"
)]
fn q(text: &str) -> Option<Nanos> {
    Some(Quantity::Text(text.into()).nanos().unwrap())
}

fn bounds(list: &[(i64, i64)]) -> Vec<Bounds> {
    list.iter()
        .map(|&(min, max)| Bounds {
            min: n(min),
            max: n(max),
        })
        .collect()
}

fn band(numerator: usize, denominator: usize, min: Option<Nanos>, max: Option<Nanos>) -> Band {
    Band {
        numerator,
        denominator,
        min,
        max,
    }
}

fn fixed(numerator: usize, denominator: usize, ratio: &str) -> Band {
    band(numerator, denominator, q(ratio), q(ratio))
}

fn system(list: &[(i64, i64)], bands: Vec<Band>) -> System {
    System::new(bounds(list), bands).unwrap()
}

#[test]
fn a_third_written_to_nine_places_fits_and_to_three_does_not() {
    assert!(
        system(&[(1, 3), (3, 9)], vec![fixed(0, 1, "0.333333333")])
            .tight()
            .is_ok()
    );
    assert!(
        system(&[(1, 3), (3, 9)], vec![fixed(0, 1, "0.333")])
            .tight()
            .is_err()
    );
    assert!(
        system(&[(1, 1), (12, 12)], vec![fixed(0, 1, "0.083333333")])
            .tight()
            .is_ok()
    );
    assert!(
        system(&[(1, 1), (12, 12)], vec![fixed(0, 1, "0.083333332")])
            .tight()
            .is_err()
    );
}

#[test]
fn a_ratio_of_a_nano_binds_nothing_and_a_huge_one_means_1025() {
    assert!(
        system(&[(1, 1), (1024, 1024)], vec![band(0, 1, q("1n"), None)])
            .tight()
            .is_ok()
    );
    assert!(
        system(&[(1024, 1024), (1, 1)], vec![band(0, 1, q("1E"), None)])
            .tight()
            .is_err()
    );
    assert!(
        system(&[(1024, 1024), (1, 1)], vec![band(0, 1, None, q("1E"))])
            .tight()
            .is_ok()
    );
}

#[test]
fn the_proof_is_a_chain_that_a_person_can_follow() {
    let s = system(&[(1, 4), (3, 16)], vec![band(0, 1, q("2"), None)]);
    let conflict = s.conflict().unwrap();
    assert_eq!(
        conflict.proof(&s, &["prefill", "decode"]),
        "prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force decode <= 2, but decode >= 3 (minReplicas)"
    );
    assert_eq!(conflict.first_band(), Some(0));
    assert_eq!(
        conflict.ways_out(&["prefill", "decode"]),
        "raise maxReplicas of prefill, lower minReplicas of decode or lower ratios[0].min"
    );
}

#[test]
fn a_contradictory_cycle_is_shown_by_its_ratios_alone() {
    let s = system(
        &[(1, 16), (1, 16), (1, 16)],
        vec![fixed(0, 1, "2"), fixed(1, 2, "2"), fixed(0, 2, "3")],
    );
    let conflict = s.conflict().unwrap();
    assert_eq!(
        conflict.proof(&s, &["a", "b", "c"]),
        "a/b >= 2 (ratios[0].min), b/c >= 2 (ratios[1].min) and a/c <= 3 (ratios[2].max) cannot hold together"
    );
    assert!(
        conflict
            .parts
            .iter()
            .all(|part| matches!(part, Part::Band(..)))
    );
}

#[test]
fn two_contradictions_have_no_single_way_out() {
    let s = system(
        &[(1, 1), (4, 4), (1, 1), (4, 4)],
        vec![band(0, 1, q("1"), None), band(2, 3, q("1"), None)],
    );
    assert_eq!(
        s.conflict().unwrap().ways_out(&["a", "b", "c", "d"]),
        "no single change helps: there is more than one contradiction"
    );
}

#[test]
fn the_band_that_the_proof_names_first_is_the_one_to_point_at() {
    let bands = vec![band(1, 2, q("1"), None), band(0, 1, q("1"), None)];
    let chained = system(&[(1, 4), (1, 9), (5, 9)], bands);
    let conflict = chained.conflict().unwrap();
    assert_eq!(
        conflict.proof(&chained, &["a", "b", "c"]),
        "a <= 4 (maxReplicas) and a/b >= 1 (ratios[1].min) force b <= 4, \
         but c >= 5 (minReplicas) and b/c >= 1 (ratios[0].min) force b >= 5"
    );
    assert_eq!(conflict.first_band(), Some(1));
}

#[test]
fn more_roles_than_a_word_holds_twice_are_no_system() {
    let all = |roles| System::new(vec![Bounds::ANY; roles], vec![]);
    assert!(all(MAX_ROLES).is_ok_and(|system| system.tight().is_ok()));
    assert_eq!(
        all(MAX_ROLES + 1).unwrap_err().to_string(),
        "33 roles: a system has at most 32"
    );
}

#[test]
fn the_slowest_cycle_is_refuted_and_named_whole() {
    let ring = |role: usize| {
        let max = if role == 0 { "0.999023437" } else { "1" };
        band((role + 1) % 16, role, None, q(max))
    };
    let slow = System::new(vec![Bounds::ANY; 16], (0..16).map(ring).collect()).unwrap();
    let conflict = slow.conflict().unwrap();
    assert_eq!(conflict.parts.len(), 16);
    assert_eq!(conflict.ways_out, conflict.parts);
}

#[test]
fn the_slack_never_admits_a_vector_that_is_off_by_a_replica() {
    for (a, b) in [
        (1, 3),
        (2, 3),
        (1, 12),
        (1023, 1024),
        (1, 1024),
        (1024, 1023),
        (511, 1023),
        (1000, 7),
    ] {
        for nanos in [a * 1_000_000_000 / b, (a * 1_000_000_000 + b - 1) / b] {
            let ratio = Some(Nanos::new(nanos.into()));
            let only = system(&[(1, 1024), (1, 1024)], vec![band(0, 1, ratio, ratio)]);
            for numerator in 1..=1024 {
                // The band is an interval: its neighbours decide for all that lie beyond them.
                let near = numerator * b / a;
                for denominator in (near - 2).max(1)..=(near + 2).min(1024) {
                    let kept = only.allows(&vector(&[numerator, denominator]));
                    assert_eq!(
                        kept,
                        numerator * b == a * denominator,
                        "{numerator}/{denominator} as {a}/{b}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_ratio_with_a_role_that_is_not_there_is_no_system() {
    assert_eq!(
        System::new(bounds(&[(1, 2)]), vec![fixed(0, 1, "1")]),
        Err(SystemError::NoSuchRole {
            band: 0,
            role: 1,
            roles: 1
        })
    );
    assert_eq!(
        System::new(bounds(&[(1, 2)]), vec![fixed(0, 0, "1")]),
        Err(SystemError::SameRole(0))
    );
    assert_eq!(
        System::new(bounds(&[(1, 2), (1, 2)]), vec![fixed(0, 1, "0")]),
        Err(SystemError::NotPositive(0))
    );
}

#[test]
fn an_overloaded_role_grows_with_the_idle_ones_that_its_ratios_drag_along() {
    let s = system(
        &[(1, 16), (1, 16), (1, 16)],
        vec![fixed(0, 1, "1"), fixed(1, 2, "1")],
    );
    assert_eq!(
        s.goal(&vector(&[2, 2, 2]), &vector(&[8, 2, 2])),
        vector(&[8, 8, 8])
    );
}

#[test]
fn a_component_that_only_shrinks_takes_the_least_that_serves() {
    let s = system(
        &[(1, 16), (1, 16), (1, 16)],
        vec![band(0, 1, q("0.5"), q("2"))],
    );
    assert_eq!(
        s.goal(&vector(&[8, 8, 5]), &vector(&[6, 1, 9])),
        vector(&[6, 3, 9])
    );
}

#[test]
fn a_fixed_two_to_one_grows_and_never_shrinks_by_single_replicas() {
    let s = system(&[(2, 16), (1, 8)], vec![fixed(0, 1, "2")]);
    assert!(!s.can_move(0, Direction::Down, Step::Pods(1)));
    assert!(s.can_move(0, Direction::Down, Step::Pods(2)));
    assert!(s.can_move(
        0,
        Direction::Up,
        Step::Larger {
            replicas: 4,
            percent: 100
        }
    ));
    let down = s.journey(&vector(&[16, 8]), Direction::Down, Step::Pods(1));
    assert_eq!(
        (down.stops.clone(), down.arrives()),
        (vector(&[16, 8]), false)
    );
    assert_eq!(
        s.step_that_arrives(&vector(&[16, 8]), Direction::Down, 16),
        Some(2)
    );
}

#[test]
fn a_fixed_three_to_two_at_ten_percent_stops_at_eighteen_and_twelve() {
    let s = system(&[(3, 60), (2, 40)], vec![fixed(0, 1, "1.5")]);
    assert_eq!(
        s.journey(&vector(&[60, 40]), Direction::Down, Step::Percent(10))
            .stops,
        vector(&[18, 12])
    );
}

#[test]
fn a_follower_wishes_what_the_ratio_targets_ask_for() {
    let link = |numerator, denominator, target, min, max| Link {
        numerator,
        denominator,
        target,
        min,
        max,
    };
    let current = vector(&[1, 6, 3]);
    let wishes = [None, Some(n(6)), Some(n(3))];
    let half = [link(0, 1, q("0.5"), None, None)];
    assert_eq!(follow(&half, &current, &wishes)[0], n(3));
    let turned = [
        link(1, 0, q("2"), None, None),
        link(0, 2, q("2"), None, None),
    ];
    assert_eq!(follow(&turned, &current, &wishes)[0], n(6));
    let third = [link(0, 2, q("0.333333334"), None, None)];
    assert_eq!(follow(&third, &current, &wishes)[0], n(1));
    let bands = [link(0, 1, None, q("0.5"), q("2"))];
    assert_eq!(follow(&bands, &current, &wishes)[0], n(3));
    assert_eq!(follow(&[], &current, &wishes)[0], n(1));
}

#[test]
fn a_ratio_target_of_a_nano_asks_for_one() {
    let link = [Link {
        numerator: 0,
        denominator: 1,
        target: q("1n"),
        min: None,
        max: q("1n"),
    }];
    assert_eq!(
        follow(&link, &vector(&[5, 5]), &[None, Some(n(5))])[0],
        n(1)
    );
}

// Brute force over every vector of a small system.

const MOST: i64 = 7;

fn every(roles: usize) -> Vec<Vec<Replicas>> {
    (0..roles).fold(vec![vec![]], |all, _| {
        all.into_iter()
            .flat_map(|v| {
                (1..=MOST).map(move |count| {
                    let mut v = v.clone();
                    v.push(n(count));
                    v
                })
            })
            .collect()
    })
}

/// The bands as a person reads them, in exact arithmetic of their own: one nano is forgiven.
fn keeps(bands: &[Band], v: &[Replicas]) -> bool {
    bands.iter().all(|band| {
        let (a, b) = (
            i128::from(v[band.numerator].get()),
            i128::from(v[band.denominator].get()),
        );
        let above = band
            .min
            .is_none_or(|min| a * 1_000_000_000 >= (min.get() - 1) * b);
        let below = band
            .max
            .is_none_or(|max| a * 1_000_000_000 <= (max.get() + 1) * b);
        above && below
    })
}

fn a_ratio() -> impl Strategy<Value = Nanos> {
    (1_i128..8, 1_i128..8, -1_i128..=1)
        .prop_map(|(a, b, off)| Nanos::new(((a * 1_000_000_000) / b + off).max(1)))
}

fn a_system(most_roles: usize) -> impl Strategy<Value = System> {
    (2..=most_roles).prop_flat_map(|roles| {
        let role = (1..=MOST, 1..=MOST).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let band = (
            0..roles,
            1..roles,
            prop::option::of(a_ratio()),
            prop::option::of(a_ratio()),
        )
            .prop_map(move |(a, step, min, max)| {
                let (min, max) = if min.zip(max).is_some_and(|(a, b)| a > b) {
                    (max, min)
                } else {
                    (min, max)
                };
                Band {
                    numerator: a,
                    denominator: (a + step) % roles,
                    min,
                    max,
                }
            });
        (
            prop::collection::vec(role, roles),
            prop::collection::vec(band, 0..=roles + 1),
        )
            .prop_map(|(list, bands)| System::new(bounds(&list), bands).unwrap())
    })
}

fn feasible(system: &System) -> Vec<Vec<Replicas>> {
    every(system.roles())
        .into_iter()
        .filter(|v| system.in_bounds(v) && keeps(system.bands(), v))
        .collect()
}

fn shortfall(x: &[Replicas], d: &[Replicas]) -> (i64, i64) {
    x.iter().zip(d).fold((0, 0), |(short, over), (&x, &d)| {
        let off = i64::from(x) - i64::from(d);
        (short + (-off).max(0), over + off.max(0))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn the_verdict_and_the_tight_bounds_are_those_of_brute_force(s in a_system(4)) {
        let all = feasible(&s);
        match s.tight() {
            Err(Infeasible) => prop_assert!(all.is_empty()),
            Ok(tight) => {
                for role in 0..s.roles() {
                    prop_assert_eq!(Some(tight.lo[role]), all.iter().map(|v| v[role]).min());
                    prop_assert_eq!(Some(tight.hi[role]), all.iter().map(|v| v[role]).max());
                }
                prop_assert!(s.allows(&tight.lo) && s.allows(&tight.hi));
            }
        }
    }

    #[test]
    fn a_conflict_is_minimal(s in a_system(4)) {
        let Some(conflict) = s.conflict() else { return Ok(()) };
        let with = |parts: &[Part]| {
            let roles = (0..s.roles()).map(|role| Bounds {
                min: if parts.contains(&Part::Min(role)) { s.bounds()[role].min } else { Replicas::MIN },
                max: if parts.contains(&Part::Max(role)) { s.bounds()[role].max } else { Replicas::MAX },
            });
            let bands = s.bands().iter().enumerate().map(|(i, band)| Band {
                min: band.min.filter(|_| parts.contains(&Part::Band(i, End::Min))),
                max: band.max.filter(|_| parts.contains(&Part::Band(i, End::Max))),
                ..*band
            });
            System::new(roles.collect(), bands.collect()).unwrap().tight().is_ok()
        };
        prop_assert!(!with(&conflict.parts));
        for part in &conflict.parts {
            let fewer: Vec<Part> = conflict.parts.iter().copied().filter(|other| other != part).collect();
            prop_assert!(with(&fewer), "{:?} is not needed in {:?}", part, conflict.parts);
        }
        let names = ["a", "b", "c", "d"];
        prop_assert!(!conflict.proof(&s, &names).is_empty() && !conflict.ways_out(&names).is_empty());
    }

    #[test]
    fn the_goal_is_the_one_optimum_of_brute_force(s in a_system(4), at in 0_usize..10_000, wants in prop::collection::vec(1_i64..12, 4)) {
        let all = feasible(&s);
        prop_assume!(!all.is_empty());
        let current = &all[at % all.len()];
        let tight = s.tight().unwrap();
        let wishes: Vec<Replicas> = (0..s.roles()).map(|role| n(wants[role]).clamp(tight.lo[role], tight.hi[role])).collect();
        let components = s.components();
        let up: Vec<bool> = components.iter().map(|c| (0..s.roles()).any(|r| components[r] == *c && wishes[r] > current[r])).collect();
        let reachable = all.iter().filter(|v| (0..s.roles()).all(|r| if up[r] { v[r] >= current[r] } else { v[r] <= current[r] }));
        let best = reachable.clone().map(|v| shortfall(v, &wishes)).min().unwrap();
        let optima: Vec<_> = reachable.filter(|v| shortfall(v, &wishes) == best).collect();
        prop_assert_eq!(optima.len(), 1);
        prop_assert_eq!(&s.goal(current, &wishes), optima[0]);
    }

    #[test]
    fn constant_wishes_reach_a_fixed_point_and_never_stall(s in a_system(4), at in 0_usize..10_000, wants in prop::collection::vec(1_i64..12, 4), steps in (1_u32..4, 1_u32..4)) {
        let all = feasible(&s);
        prop_assume!(!all.is_empty());
        let mut current = all[at % all.len()].clone();
        let wishes = vector(&wants[..s.roles()]);
        let mut seen = vec![current.clone()];
        loop {
            let goal = s.goal(&current, &wishes);
            let lowest: Vec<_> = current.iter().map(|&c| Replicas::saturating(i64::from(c) - i64::from(steps.1))).collect();
            let highest: Vec<_> = current.iter().map(|&c| Replicas::saturating(i64::from(c) + i64::from(steps.0))).collect();
            let next = s.pass(&current, &goal, &lowest, &highest);
            prop_assert!(s.allows(&next));
            for role in 0..s.roles() {
                prop_assert!(lowest[role] <= next[role] && next[role] <= highest[role]);
            }
            if next == current {
                // Stalled only where no legal step leads closer.
                let components = s.components();
                for role in 0..s.roles() {
                    let up = (0..s.roles()).any(|r| components[r] == components[role] && goal[r] > current[r]);
                    let closer = all.iter().any(|v| (0..s.roles()).all(|r| {
                        let (low, high) = if components[r] != components[role] { (current[r], current[r]) }
                            else if up { (current[r], highest[r].min(goal[r])) } else { (lowest[r].max(goal[r]), current[r]) };
                        low <= v[r] && v[r] <= high.max(low)
                    }) && v != &current);
                    prop_assert!(!closer, "{:?} stalls before {:?}", current, goal);
                }
                break;
            }
            prop_assert!(!seen.contains(&next), "{:?} comes round again", next);
            seen.push(next.clone());
            current = next;
        }
    }

    #[test]
    fn a_role_can_move_when_brute_force_finds_the_two_vectors(s in a_system(3), role in 0_usize..3, percent in 0_u32..120, pods in 0_u32..4, kind in 0..3, up: bool) {
        let role = role % s.roles();
        let step = match kind { 0 => Step::Pods(pods), 1 => Step::Percent(percent), _ => Step::Larger { replicas: pods, percent } };
        let direction = if up { Direction::Up } else { Direction::Down };
        let all = feasible(&s);
        let found = all.iter().any(|x| all.iter().any(|y| (0..s.roles()).all(|r| {
            let (by, most) = (i64::from(y[r]) - i64::from(x[r]), step.of(x[r]));
            let by = if up { by } else { -by };
            0 <= by && by <= most && (r != role || by >= 1)
        })));
        prop_assert_eq!(s.can_move(role, direction, step), found);
    }
}
