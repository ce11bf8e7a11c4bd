//! Proofs: their sentences, and that they prove.

use proptest::prelude::*;

use super::{brute::*, *};

#[test]
fn the_proof_is_a_chain_that_a_person_can_follow() {
    let system = system(&[(1, 4), (3, 8)], [ratio(0, 1, "2", "", "")]);
    let conflict = system.propagate().unwrap_err();
    assert_eq!(
        conflict.explain(&system, &["prefill", "decode"]),
        "prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force decode <= 2, \
         but decode >= 3 (minReplicas)"
    );
    assert_eq!(
        conflict.advise(&["prefill", "decode"]),
        "raise prefill maxReplicas, or lower decode minReplicas, or lower ratios[0].min"
    );
    assert_eq!(conflict.first_ratio(), Some(0));
}

#[test]
fn a_contradictory_cycle_shows_its_ratios_alone() {
    let cycle = [ratio(0, 1, "2", "", ""), ratio(1, 0, "1", "", "")];
    let pair = system(&[(1, 8), (1, 8)], cycle);
    assert_eq!(
        explain(&pair, &["prefill", "decode"]),
        "prefill/decode >= 2 (ratios[0].min) and decode/prefill >= 1 (ratios[1].min) allow no counts from 1 to 1024"
    );
    let conflict = pair.propagate().unwrap_err();
    assert_eq!(
        conflict.advise(&["prefill", "decode"]),
        "lower ratios[0].min, or lower ratios[1].min"
    );

    let three = system(
        &[(1, 8); 4],
        [
            fixed(0, 1, "1"),
            fixed(1, 2, "1"),
            fixed(2, 3, "3"),
            ratio(0, 2, "", "", "0.5"),
        ],
    );
    assert_eq!(
        explain(&three, &["a", "b", "c", "d"]),
        "a/b >= 1 (ratios[0].min) and b/c >= 1 (ratios[1].min) and a/c <= 0.5 (ratios[3].max) \
         allow no counts from 1 to 1024"
    );
    assert_eq!(three.propagate().unwrap_err().first_ratio(), Some(0));
}

#[test]
fn a_ratio_written_too_short_is_followed_step_by_step() {
    let system = system(&[(1, 3), (3, 9)], [fixed(0, 1, "0.333")]);
    assert_eq!(
        explain(&system, &["a", "b"]),
        "b <= 9 (maxReplicas) and a/b <= 0.333 (ratios[0].max) force a <= 2, \
         then a/b >= 0.333 (ratios[0].min) forces b <= 6, then a/b <= 0.333 (ratios[0].max) forces a <= 1, \
         then a/b >= 0.333 (ratios[0].min) forces b <= 3, then a/b <= 0.333 (ratios[0].max) forces a <= 0, \
         but a >= 1 (minReplicas)"
    );
}

#[test]
fn what_no_count_can_keep_says_so() {
    let most = system(&[(1, 1024), (600, 700)], [ratio(0, 1, "2", "", "")]);
    assert_eq!(
        explain(&most, &["a", "b"]),
        "a <= 1024 (maxReplicas) and a/b >= 2 (ratios[0].min) force b <= 512, but b >= 600 (minReplicas)"
    );
    let lower = system(&[(1, 100), (600, 700)], [ratio(0, 1, "2", "", "")]);
    assert_eq!(
        explain(&lower, &["a", "b"]),
        "a <= 1024 (no role has more) and a/b >= 2 (ratios[0].min) force b <= 512, but b >= 600 (minReplicas)"
    );
    let alone = system(&[(1, 9), (1, 9)], [ratio(0, 1, "2000", "", "")]);
    assert_eq!(
        explain(&alone, &["a", "b"]),
        "a <= 1024 (no role has more) and a/b >= 2000 (ratios[0].min) force b <= 0, but b >= 1 (minReplicas)"
    );
}

#[test]
fn a_long_chain_shows_its_ends() {
    let roles: Vec<(i64, i64)> = (0..16)
        .map(|role| if role == 15 { (9, 9) } else { (1, 8) })
        .collect();
    let ratios: Vec<Ratio> = (0..15)
        .map(|role| ratio(role + 1, role, "", "", "1"))
        .collect();
    let names: Vec<String> = (0..16).map(|role| format!("r{role}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Roles 1 to 14 are bounded by 8 as well: the nearest one is where the proof starts.
    let bounds = |roles: &[(i64, i64)]| roles.iter().map(|&(lo, hi)| bounds(lo, hi)).collect();
    let near = System::new(bounds(&roles), ratios.clone()).unwrap();
    assert_eq!(
        explain(&near, &names),
        "r14 <= 8 (maxReplicas) and r15/r14 <= 1 (ratios[14].max) force r15 <= 8, but r15 >= 9 (minReplicas)"
    );
    let free: Vec<(i64, i64)> = roles
        .iter()
        .enumerate()
        .map(|(role, &(lo, hi))| {
            if (1..15).contains(&role) {
                (1, 99)
            } else {
                (lo, hi)
            }
        })
        .collect();
    let far = System::new(bounds(&free), ratios).unwrap();
    let text = explain(&far, &names);
    assert!(
        text.starts_with(
            "r0 <= 8 (maxReplicas) and r1/r0 <= 1 (ratios[0].max) force r1 <= 8, then "
        ),
        "{text}"
    );
    assert!(
        text.contains("forces r6 <= 8, then 8 more steps, then r15/r14 <= 1"),
        "{text}"
    );
    assert!(
        text.ends_with("forces r15 <= 8, but r15 >= 9 (minReplicas)"),
        "{text}"
    );
}

#[test]
fn the_slow_cycle_is_decided_and_its_ratios_are_named() {
    let ring = |role: usize| {
        ratio(
            (role + 1) % 16,
            role,
            "",
            "",
            if role == 0 { "0.999023437" } else { "1" },
        )
    };
    let slow = System::new(vec![Bounds::ALL; 16], (0..16).map(ring).collect()).unwrap();
    let conflict = slow.propagate().unwrap_err();
    assert_eq!(conflict.minimal.len(), 16);
    assert_eq!(conflict.remedies, conflict.minimal);
    assert!(matches!(conflict.proof, Proof::Ratios(_)));
}

/// The system of some of the constraints; bounds that are left out become 1 and 1024.
fn part(system: &System, keep: impl Fn(Constraint) -> bool) -> System {
    let ends = system.bounds().iter().enumerate().map(|(role, given)| {
        let lo = if keep(Constraint::Bound {
            role,
            end: End::Min,
        }) {
            given.lo()
        } else {
            Replicas::MIN
        };
        let hi = if keep(Constraint::Bound {
            role,
            end: End::Max,
        }) {
            given.hi()
        } else {
            Replicas::MAX
        };
        Bounds::new(lo, hi).unwrap()
    });
    let ratios = system
        .ratios()
        .iter()
        .enumerate()
        .map(|(ratio, given)| Ratio {
            min: given.min.filter(|_| {
                keep(Constraint::Ratio {
                    ratio,
                    end: End::Min,
                })
            }),
            max: given.max.filter(|_| {
                keep(Constraint::Ratio {
                    ratio,
                    end: End::Max,
                })
            }),
            ..*given
        });
    System::new(ends.collect(), ratios.collect()).unwrap()
}

fn constraints(system: &System) -> Vec<Constraint> {
    let ends = [End::Min, End::Max];
    let bounds =
        (0..system.bounds().len()).flat_map(|role| ends.map(|end| Constraint::Bound { role, end }));
    let ratios = (0..system.ratios().len())
        .flat_map(|ratio| ends.map(|end| Constraint::Ratio { ratio, end }));
    bounds.chain(ratios).collect()
}

/// Does the claim follow from the one before and from one end of a ratio? Every pair of counts is tried.
fn follows(system: &System, before: Claim, step: &Step) -> bool {
    let given = system.ratios()[step.ratio];
    let keeps = |claim: Claim, count: i32| match claim.end {
        End::Min => count >= claim.count,
        End::Max => count <= claim.count,
    };
    (1..=64).all(|numerator| {
        (1..=64).all(|denominator| {
            let at = |role| {
                if role == given.numerator {
                    numerator
                } else {
                    denominator
                }
            };
            let pair = (count(numerator.into()), count(denominator.into()));
            !keeps(before, at(before.role))
                || !given.holds(step.end, pair.0, pair.1)
                || keeps(step.claim, at(step.claim.role))
        })
    })
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn a_proof_proves_and_nothing_in_it_is_spare(system in any_system()) {
        let Err(conflict) = system.propagate() else { return Ok(()) };
        let minimal = &conflict.minimal;
        prop_assert!(!part(&system, |one| minimal.contains(&one)).is_feasible());
        for &spare in minimal {
            prop_assert!(part(&system, |one| one != spare && minimal.contains(&one)).is_feasible());
        }
        let helps: Vec<Constraint> =
            constraints(&system).into_iter().filter(|&spare| part(&system, |one| one != spare).is_feasible()).collect();
        prop_assert_eq!(&helps, &conflict.remedies);
        match &conflict.proof {
            Proof::Chain { from, steps, against } => {
                let mut before = *from;
                for step in steps {
                    prop_assert!(follows(&system, before, step), "{:?} then {:?}", before, step);
                    let used = Constraint::Ratio { ratio: step.ratio, end: step.end };
                    prop_assert!(minimal.contains(&used));
                    before = step.claim;
                }
                prop_assert_eq!(before.role, against.role);
                let contradicts = match before.end {
                    End::Max => against.end == End::Min && before.count < against.count,
                    End::Min => against.end == End::Max && before.count > against.count,
                };
                prop_assert!(contradicts, "{:?} against {:?}", before, against);
                for bound in [from, against] {
                    let given = system.bounds()[bound.role];
                    let truths = match bound.end {
                        End::Min => [1, given.lo().into()],
                        End::Max => [1024, given.hi().into()],
                    };
                    prop_assert!(truths.contains(&bound.count));
                }
            }
            Proof::Ratios(ratios) => prop_assert_eq!(ratios, minimal),
        }
    }
}
