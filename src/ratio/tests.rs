//! Worked examples here; below, properties against a brute force that knows the definitions only.

mod brute;
mod conflicts;
mod goals;
mod lattices;
mod paces;

use super::*;
use crate::api::Quantity;

fn count(count: i64) -> Replicas {
    Replicas::new(count).unwrap()
}

fn counts<const N: usize>(each: [i64; N]) -> Vec<Replicas> {
    each.into_iter().map(count).collect()
}

fn bounds(lo: i64, hi: i64) -> Bounds {
    Bounds::new(count(lo), count(hi)).unwrap()
}

/// `numerator/denominator` with an empty text for a part that is not given.
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

fn fixed(numerator: usize, denominator: usize, value: &str) -> Ratio {
    ratio(numerator, denominator, value, value, value)
}

fn system<const R: usize>(roles: &[(i64, i64)], ratios: [Ratio; R]) -> System {
    System::new(
        roles.iter().map(|&(lo, hi)| bounds(lo, hi)).collect(),
        ratios.to_vec(),
    )
    .unwrap()
}

fn explain(system: &System, names: &[&str]) -> String {
    system.propagate().unwrap_err().explain(system, names)
}

#[test]
fn a_third_is_within_a_nano_of_what_can_be_written() {
    assert!(system(&[(1, 3), (3, 9)], [fixed(0, 1, "0.333333333")]).is_feasible());
    assert!(system(&[(1, 3), (3, 9)], [fixed(0, 1, "0.333333334")]).is_feasible());
    assert!(system(&[(1, 1), (12, 12)], [fixed(0, 1, "0.083333333")]).is_feasible());
    assert!(!system(&[(1, 3), (3, 9)], [fixed(0, 1, "0.333")]).is_feasible());
    assert!(!system(&[(1, 3), (3, 9)], [fixed(0, 1, "0.333333331")]).is_feasible());
}

#[test]
fn the_slack_never_admits_a_vector_that_is_off_by_a_replica() {
    for (n, d) in [
        (1, 3),
        (2, 3),
        (1, 12),
        (1023, 1024),
        (1, 1024),
        (1024, 1023),
        (511, 1023),
        (1000, 7),
    ] {
        for nanos in [n * 1_000_000_000 / d, (n * 1_000_000_000 + d - 1) / d] {
            let value = crate::api::quantity::Nanos::new(nanos.into());
            let ratio = Ratio {
                numerator: 0,
                denominator: 1,
                min: Some(value),
                target: None,
                max: Some(value),
            };
            for numerator in 1..=1024 {
                // The band is an interval: its neighbours decide for all that lie beyond them.
                let near = numerator * d / n;
                for denominator in (near - 2).max(1)..=(near + 2).min(1024) {
                    let kept = [End::Min, End::Max]
                        .iter()
                        .all(|&end| ratio.holds(end, count(numerator), count(denominator)));
                    assert_eq!(
                        kept,
                        numerator * d == n * denominator,
                        "{numerator}/{denominator} as {n}/{d}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_ratio_above_1025_means_1025() {
    let most = [(1024, 1024), (1, 1)];
    assert!(system(&most, [ratio(0, 1, "1024", "", "")]).is_feasible());
    for far in ["1025", "1e9", "9223372036854775807"] {
        assert!(
            !system(&most, [ratio(0, 1, far, "", "")]).is_feasible(),
            "{far}"
        );
        assert!(
            system(&most, [ratio(0, 1, "", "", far)]).is_feasible(),
            "{far}"
        );
    }
    // The smallest ratio leaves nothing out.
    assert!(system(&[(1, 1), (1024, 1024)], [ratio(0, 1, "1n", "", "")]).is_feasible());
    assert!(!system(&[(1, 1), (1024, 1024)], [ratio(0, 1, "", "", "1n")]).is_feasible());
}

#[test]
fn a_system_is_checked_when_it_is_made() {
    let one = vec![bounds(1, 2), bounds(1, 2)];
    let made = |ratio| {
        System::new(one.clone(), vec![fixed(0, 1, "1"), ratio])
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(made(fixed(1, 0, "1")), Ok(()));
    assert_eq!(
        made(fixed(0, 2, "1")),
        Err("ratios[1] names a role without bounds".to_owned())
    );
    assert_eq!(
        made(fixed(1, 1, "1")),
        Err("ratios[1] joins a role with itself".to_owned())
    );
    assert_eq!(
        made(ratio(1, 0, "", "0", "")),
        Err("ratios[1] is not positive".to_owned())
    );
    assert_eq!(
        System::new(Vec::new(), Vec::new()).unwrap_err(),
        SystemError::Roles(0)
    );
    assert_eq!(
        System::new(vec![Bounds::ALL; 33], Vec::new()).unwrap_err(),
        SystemError::Roles(33)
    );
    let ratios = vec![fixed(0, 1, "1"); 1025];
    assert_eq!(
        System::new(one, ratios).unwrap_err(),
        SystemError::Ratios(1025)
    );
}

#[test]
fn roles_that_ratios_join_are_one_component() {
    let system = system(&[(1, 9); 5], [fixed(3, 4, "1"), ratio(1, 3, "", "2", "")]);
    assert_eq!(
        [0, 1, 2, 3, 4].map(|role| system.component(role)),
        [0, 1, 2, 1, 1]
    );
    assert_eq!(
        [0, 1, 2, 3, 4].map(|role| system.is_coupled(role)),
        [false, true, false, true, true]
    );
}

#[test]
fn a_bound_beyond_reach_is_named_with_the_nearest_count() {
    let system = system(&[(2, 16), (1, 16)], [ratio(0, 1, "2", "", "")]);
    let lattice = system.propagate().unwrap();
    let found: Vec<_> = lattice.unreachable().collect();
    assert_eq!(
        found,
        [Unreachable {
            role: 1,
            end: End::Max,
            bound: count(16),
            nearest: count(8)
        }]
    );
}

const DEFAULTS: Pacing = Pacing {
    up: StepLimit::Larger {
        replicas: 4,
        percent: 100,
    },
    down: StepLimit::Pods(1),
};

#[test]
fn two_to_one_with_default_steps_grows_and_never_shrinks() {
    let system = system(&[(2, 16), (1, 8)], [fixed(0, 1, "2")]);
    let lattice = system.propagate().unwrap();
    let stuck = |role| Stuck {
        role,
        direction: Direction::Down,
        pods: 2,
    };
    assert_eq!(lattice.stuck(DEFAULTS), [stuck(0), stuck(1)]);
    let halt = Halt {
        start: Start::Far,
        direction: Direction::Down,
        at: counts([16, 8]),
        pods: 2,
    };
    assert_eq!(lattice.halts(DEFAULTS, None), [halt]);
}

#[test]
fn three_to_two_at_ten_percent_stops_half_way() {
    let system = system(&[(3, 48), (2, 32)], [fixed(0, 1, "1.5")]);
    let lattice = system.propagate().unwrap();
    let pacing = Pacing {
        up: StepLimit::Percent(10),
        down: StepLimit::Percent(10),
    };
    let halts = lattice.halts(pacing, Some(&counts([30, 20])));
    let halt = |start, direction, at| Halt {
        start,
        direction,
        at: counts(at),
        pods: 3,
    };
    assert_eq!(
        halts,
        [
            halt(Start::Far, Direction::Down, [18, 12]),
            halt(Start::Current, Direction::Down, [18, 12]),
            halt(Start::Far, Direction::Up, [3, 2]),
        ]
    );
    assert_eq!(lattice.stuck(pacing), []);
}

#[test]
fn a_step_of_zero_is_stuck_and_one_replica_frees_it() {
    let system = system(&[(1, 4), (2, 2)], []);
    let pacing = Pacing {
        up: StepLimit::Pods(0),
        down: StepLimit::Percent(10),
    };
    let lattice = system.propagate().unwrap();
    assert_eq!(
        lattice.stuck(pacing),
        [Stuck {
            role: 0,
            direction: Direction::Up,
            pods: 1
        }]
    );
    assert_eq!(lattice.halts(pacing, None), []);
}

#[test]
fn violations_name_every_bound_and_ratio_that_is_broken() {
    let system = system(&[(2, 4), (1, 8)], [ratio(0, 1, "0.5", "", "2")]);
    let broken = |vector: [i64; 2]| system.violations(&counts(vector)).collect::<Vec<_>>();
    assert_eq!(broken([4, 2]), []);
    assert_eq!(
        broken([1, 8]),
        [
            Constraint::Bound {
                role: 0,
                end: End::Min
            },
            Constraint::Ratio {
                ratio: 0,
                end: End::Min
            }
        ]
    );
    assert_eq!(
        broken([5, 2]),
        [
            Constraint::Bound {
                role: 0,
                end: End::Max
            },
            Constraint::Ratio {
                ratio: 0,
                end: End::Max
            }
        ]
    );
    assert!(system.allows(&counts([4, 2])));
    assert!(!system.allows(&counts([4])));
}
