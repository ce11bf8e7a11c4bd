//! Against a brute force that knows the definitions only: up to five roles of twelve counts, cycles, both directions of
//! one pair, ratios exact or off by what the slack forgives or by one nano more, followers.

use std::ops::Range;

use super::*;

/// Does the vector keep all bands? Roles beyond its end are not asked yet.
fn keeps(bands: &[Band], vector: &[i64]) -> bool {
    bands.iter().all(|band| {
        let both = (vector.get(band.numerator), vector.get(band.denominator));
        let (Some(&n), Some(&d)) = both else {
            return true;
        };
        let (n, d) = (i128::from(n) * 1_000_000_000, i128::from(d));
        band.min.is_none_or(|min| (min.get() - 1) * d <= n)
            && band.max.is_none_or(|max| n <= (max.get() + 1) * d)
    })
}

/// Every vector within the bounds that keeps all bands.
fn feasible(system: &System) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for bounds in system.bounds() {
        let (min, max) = (i64::from(bounds.min), i64::from(bounds.max));
        all = all
            .iter()
            .flat_map(|shorter: &Vec<i64>| {
                (min..=max).map(move |count| [&shorter[..], &[count]].concat())
            })
            .filter(|vector| keeps(system.bands(), vector))
            .collect();
    }
    all
}

fn numbers(vector: &[Replicas]) -> Vec<i64> {
    vector.iter().map(|&count| count.into()).collect()
}

fn ratio() -> impl Strategy<Value = Nanos> {
    (1..=12_i128, 1..=12_i128, -2..=3_i128)
        .prop_map(|(n, d, off)| Nanos::new(n * 1_000_000_000 / d + off))
}

/// A ratio, and its target.
fn any_link(roles: usize) -> impl Strategy<Value = Link> {
    let band = (ratio(), prop::option::of(ratio()), 0..5);
    let target = prop::option::weighted(0.6, ratio());
    (0..roles, 1..roles, band, target).prop_map(move |(numerator, offset, (a, b, kind), target)| {
        let b = b.unwrap_or(a);
        let (min, max) = match kind {
            0 => (Some(a), None),
            1 => (None, Some(a)),
            2 => (None, None),
            _ => (Some(a.min(b)), Some(a.max(b))),
        };
        Link {
            numerator,
            denominator: (numerator + offset) % roles,
            target,
            min,
            max,
        }
    })
}

fn of(list: &[(i64, i64)], links: &[Link]) -> System {
    let bands = links
        .iter()
        .map(|link| band(link.numerator, link.denominator, link.min, link.max));
    system(list, bands.collect())
}

fn any_system(
    roles: Range<usize>,
    lo: Range<i64>,
    hi: Range<i64>,
    links: usize,
) -> impl Strategy<Value = (System, Vec<Link>)> {
    roles.prop_flat_map(move |roles| {
        let ends = prop::collection::vec((lo.clone(), hi.clone()), roles);
        let links = prop::collection::vec(any_link(roles), 1..=links);
        (ends, links).prop_map(|(ends, links)| {
            let ends: Vec<_> = ends.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
            (of(&ends, &links), links)
        })
    })
}

/// Up to five roles, many systems of which allow nothing.
fn any() -> impl Strategy<Value = (System, Vec<Link>)> {
    any_system(2..6, 1..13, 1..13, 6)
}

/// With at least one vector, which is what admission lets through.
fn sound() -> impl Strategy<Value = (System, Vec<Link>)> {
    prop_oneof![any(), any_system(2..5, 1..4, 5..13, 4)]
        .prop_filter("infeasible", |(system, _)| system.tight().is_ok())
}

/// A sound system, one of its vectors, and a wish or none for each role.
fn scene() -> impl Strategy<Value = (System, Vec<Link>, Vec<i64>, Vec<Option<Replicas>>)> {
    let wishes = prop::collection::vec(prop::option::weighted(0.75, (1..=14_i64).prop_map(n)), 5);
    (sound(), any_index(), wishes).prop_map(|((system, links), pick, mut wishes)| {
        let all = feasible(&system);
        let current = pick.get(&all).clone();
        wishes.truncate(current.len());
        (system, links, current, wishes)
    })
}

fn any_index() -> impl Strategy<Value = prop::sample::Index> {
    proptest::arbitrary::any::<prop::sample::Index>()
}

fn any_step() -> impl Strategy<Value = Step> {
    let percents = |list: &[u32]| prop::sample::select(list.to_vec());
    prop_oneof![
        (0..=5_u32).prop_map(Step::Pods),
        percents(&[0, 1, 10, 25, 34, 50, 100, 150, 1000]).prop_map(Step::Percent),
        (0..=4_u32, percents(&[0, 10, 50, 100]))
            .prop_map(|(replicas, percent)| Step::Larger { replicas, percent }),
    ]
}

/// May one pass take a role from one count to the other?
fn legal((up, down): (Step, Step), from: i64, to: i64) -> bool {
    let percent = |p: u32| {
        let product = i64::from(p) * from;
        product / 100 + i64::from(product % 100 > 0)
    };
    let most = match if to > from { up } else { down } {
        Step::Pods(pods) => pods.into(),
        Step::Percent(p) => percent(p),
        Step::Larger {
            replicas,
            percent: p,
        } => percent(p).max(replicas.into()),
    };
    (to - from).abs() <= most
}

/// The counts that the steps leave around the current ones.
fn paced((up, down): (Step, Step), current: &[Replicas]) -> (Vec<Replicas>, Vec<Replicas>) {
    let moved = |&count: &Replicas, by: i64| Replicas::saturating(i64::from(count) + by);
    let lowest = current.iter().map(|count| moved(count, -down.of(*count)));
    let highest = current.iter().map(|count| moved(count, up.of(*count)));
    (lowest.collect(), highest.collect())
}

/// The wishes of all roles, as the planner completes them: within reach first, then followers.
fn complete(
    system: &System,
    links: &[Link],
    current: &[i64],
    wishes: &[Option<Replicas>],
) -> Vec<Replicas> {
    let tight = system.tight().unwrap();
    let reach = |(role, wish): (usize, &Option<Replicas>)| {
        wish.map(|wish| wish.clamp(tight.lo[role], tight.hi[role]))
    };
    let own: Vec<_> = wishes.iter().enumerate().map(reach).collect();
    follow(links, &vector(current), &own)
        .into_iter()
        .enumerate()
        .map(|(role, wish)| wish.clamp(tight.lo[role], tight.hi[role]))
        .collect()
}

fn short(wishes: &[i64], vector: &[i64]) -> i64 {
    let each = wishes.iter().zip(vector);
    each.map(|(wish, count)| (wish - count).max(0)).sum()
}

fn cost(wishes: &[i64], vector: &[i64]) -> (i64, i64) {
    (short(wishes, vector), short(vector, wishes))
}

fn beyond(up: bool, from: &[i64], to: &[i64]) -> bool {
    let mut each = from.iter().zip(to);
    each.all(|(from, to)| if up { to >= from } else { to <= from })
}

/// The entries of each component.
fn parts(system: &System) -> Vec<Vec<usize>> {
    let components = system.components();
    let members = |first| (0..components.len()).filter(move |&role| components[role] == first);
    (0..system.roles())
        .map(|first| members(first).collect::<Vec<_>>())
        .filter(|members: &Vec<usize>| !members.is_empty())
        .collect()
}

fn pick(members: &[usize], vector: &[i64]) -> Vec<i64> {
    members.iter().map(|&role| vector[role]).collect()
}

/// Where passes by brute force stop: each takes the vector that is furthest.
fn stop(all: &[Vec<i64>], from: &[i64], up: bool, step: Step) -> Vec<i64> {
    let still = Step::Pods(0);
    let steps = if up { (step, still) } else { (still, step) };
    let mut at = from.to_vec();
    loop {
        let near = |to: &&Vec<i64>| {
            at.iter()
                .zip(*to)
                .all(|(&from, &to)| legal(steps, from, to))
        };
        let far = |to: &&Vec<i64>| to.iter().sum::<i64>() * if up { 1 } else { -1 };
        match all.iter().filter(near).max_by_key(far) {
            Some(next) if *next != at => at.clone_from(next),
            _ => return at,
        }
    }
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn five_roles_are_decided_as_by_brute_force((system, _) in any()) {
        let all = feasible(&system);
        let Ok(tight) = system.tight() else {
            prop_assert!(all.is_empty());
            return Ok(());
        };
        for role in 0..system.roles() {
            prop_assert_eq!(Some(i64::from(tight.lo[role])), all.iter().map(|v| v[role]).min());
            prop_assert_eq!(Some(i64::from(tight.hi[role])), all.iter().map(|v| v[role]).max());
        }
        prop_assert!(all.contains(&numbers(&tight.lo)) && all.contains(&numbers(&tight.hi)));
    }

    #[test]
    fn a_box_has_the_least_and_the_greatest_vector_of_brute_force(
        (system, _) in sound(),
        inner in prop::collection::vec((1..=12_i64, 1..=12_i64), 5),
    ) {
        let ends = system.bounds().iter().zip(&inner).map(|(bounds, &(a, b))| {
            (n(a.min(b)).max(bounds.min), n(a.max(b)).min(bounds.max))
        });
        let (lo, hi): (Vec<_>, Vec<_>) = ends.unzip();
        let inside = |v: &Vec<i64>| v.iter().enumerate().all(|(role, &count)| lo[role] <= n(count) && n(count) <= hi[role]);
        let all: Vec<_> = feasible(&system).into_iter().filter(inside).collect();
        let extreme = |best: fn(i64, i64) -> i64| {
            all.iter().cloned().reduce(|a, b| a.iter().zip(&b).map(|(&a, &b)| best(a, b)).collect())
        };
        let found = system.within(lo.clone(), hi.clone()).ok();
        prop_assert_eq!(found.as_ref().map(|found| numbers(&found.lo)), extreme(i64::min));
        prop_assert_eq!(found.as_ref().map(|found| numbers(&found.hi)), extreme(i64::max));
    }

    #[test]
    fn ways_out_are_all_the_single_parts_that_help((system, _) in any()) {
        let Some(conflict) = system.conflict() else { return Ok(()) };
        let without = |part: Part| {
            let mut bounds = system.bounds().to_vec();
            let mut bands = system.bands().to_vec();
            match part {
                Part::Min(role) => bounds[role].min = Replicas::MIN,
                Part::Max(role) => bounds[role].max = Replicas::MAX,
                Part::Band(band, End::Min) => bands[band].min = None,
                Part::Band(band, End::Max) => bands[band].max = None,
            }
            System::new(bounds, bands).unwrap().tight().is_ok()
        };
        let mut expected: Vec<Part> = (0..system.roles()).flat_map(|role| [Part::Min(role), Part::Max(role)]).collect();
        expected.extend((0..system.bands().len()).flat_map(|band| [End::Min, End::Max].map(|end| Part::Band(band, end))));
        expected.retain(|&part| without(part));
        let mut found = conflict.ways_out;
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_goal_with_followers_is_the_one_optimum((system, links, current, wishes) in scene()) {
        let wishes = complete(&system, &links, &current, &wishes);
        let goal = numbers(&system.goal(&vector(&current), &wishes));
        let wishes = numbers(&wishes);
        let all = feasible(&system);
        prop_assert!(all.contains(&goal));
        for members in parts(&system) {
            let (wishes, current, goal) = (pick(&members, &wishes), pick(&members, &current), pick(&members, &goal));
            let up = wishes.iter().zip(&current).any(|(wish, now)| wish > now);
            let mut side: Vec<_> = all.iter().map(|v| pick(&members, v)).filter(|v| beyond(up, &current, v)).collect();
            side.sort_unstable();
            side.dedup();
            let best = side.iter().map(|v| cost(&wishes, v)).min();
            let optima: Vec<_> = side.iter().filter(|v| Some(cost(&wishes, v)) == best).collect();
            prop_assert_eq!(optima, [&goal]);
        }
    }

    #[test]
    fn a_follower_wishes_what_the_definition_says((system, links, current, wishes) in scene()) {
        let found = follow(&links, &vector(&current), &wishes);
        for role in (0..system.roles()).filter(|&role| wishes[role].is_none()) {
            let beside = links.iter().filter_map(|link| {
                let other = if link.numerator == role { link.denominator } else { link.numerator };
                let mine = link.numerator == role || link.denominator == role;
                wishes[other].filter(|_| mine).map(|wish| (link, i64::from(wish)))
            });
            let beside: Vec<(&Link, i64)> = beside.collect();
            let asks = |&(link, wish): &(&Link, i64)| {
                let (target, wish) = (link.target?.get(), i128::from(wish));
                (1..=1024_i64).find(|&count| {
                    let count = i128::from(count);
                    if link.numerator == role {
                        (target - 1) * wish <= 1_000_000_000 * count
                    } else {
                        1_000_000_000 * wish <= (target + 1) * count
                    }
                })
            };
            let fits = |count: i64| beside.iter().all(|&(link, wish)| {
                let mut pair = vec![wish; system.roles()];
                pair[role] = count;
                keeps(&[band(link.numerator, link.denominator, link.min, link.max)], &pair)
            });
            let expected = beside.iter().filter_map(asks).max().or_else(|| {
                (1..=1024).filter(|&count| fits(count)).min_by_key(|count| (count - current[role]).abs())
            });
            // Neighbours whose bands leave nothing in common are for the goal to settle.
            if let Some(expected) = expected {
                prop_assert_eq!(found[role], n(expected));
            }
        }
    }

    #[test]
    fn a_pass_goes_as_far_as_it_may((system, links, current, wishes) in scene(), steps in (any_step(), any_step())) {
        let now = vector(&current);
        let goal = system.goal(&now, &complete(&system, &links, &current, &wishes));
        let (lowest, highest) = paced(steps, &now);
        let next = numbers(&system.pass(&now, &goal, &lowest, &highest));
        let goal = numbers(&goal);
        let between = |v: &&Vec<i64>| (0..current.len()).all(|role| {
            let (now, end, to) = (current[role], goal[role], v[role]);
            now.min(end) <= to && to <= now.max(end) && legal(steps, now, to)
        });
        let all = feasible(&system);
        let reachable: Vec<_> = all.iter().filter(between).collect();
        prop_assert!(reachable.contains(&&next));
        for other in reachable {
            prop_assert!((0..current.len()).all(|role| (other[role] - current[role]).abs() <= (next[role] - current[role]).abs()));
        }
    }

    #[test]
    fn constant_wishes_come_to_rest_where_no_legal_step_leads_closer(
        (system, links, start, wishes) in scene(),
        steps in (any_step(), any_step()),
    ) {
        let all = feasible(&system);
        let (mut at, mut ways) = (start.clone(), vec![0_i64; start.len()]);
        let wished = loop {
            let wished = complete(&system, &links, &at, &wishes);
            let goal = system.goal(&vector(&at), &wished);
            let (lowest, highest) = paced(steps, &vector(&at));
            let next = numbers(&system.pass(&vector(&at), &goal, &lowest, &highest));
            prop_assert!(all.contains(&next));
            for role in 0..at.len() {
                prop_assert!(legal(steps, at[role], next[role]));
                let way = (next[role] - at[role]).signum();
                // A component may turn once: when nobody is short any more, the rest shrinks. No role turns back.
                prop_assert!(way * ways[role] >= 0, "{:?} turns back to {:?}", at, next);
                ways[role] += way;
            }
            if next == at {
                break numbers(&wished);
            }
            at = next;
        };
        for members in parts(&system) {
            let (wished, now) = (pick(&members, &wished), pick(&members, &at));
            let up = wished.iter().zip(&now).any(|(wish, now)| wish > now);
            for other in all.iter().map(|v| pick(&members, v)) {
                let near = now.iter().zip(&other).all(|(&from, &to)| legal(steps, from, to));
                if near && beyond(up, &now, &other) {
                    prop_assert!(cost(&wished, &now) <= cost(&wished, &other), "{:?} stalls below {:?}", now, other);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn a_role_can_move_where_two_vectors_differ_by_a_legal_pass(
        (system, _) in sound().prop_filter("too many pairs", |(system, _)| feasible(system).len() < 300),
        step in any_step(),
    ) {
        let all = feasible(&system);
        for role in 0..system.roles() {
            for (direction, way) in [(Direction::Up, 1), (Direction::Down, -1)] {
                let still = Step::Pods(0);
                let steps = if way > 0 { (step, still) } else { (still, step) };
                let moves = all.iter().any(|from| all.iter().any(|to| {
                    (to[role] - from[role]) * way > 0 && from.iter().zip(to).all(|(&from, &to)| legal(steps, from, to))
                }));
                prop_assert_eq!(system.can_move(role, direction, step), moves);
            }
        }
    }

    #[test]
    fn a_way_stops_where_that_of_brute_force_does((system, _) in sound(), step in any_step(), index in any_index()) {
        let all = feasible(&system);
        let tight = system.tight().unwrap();
        for (direction, far, end) in [(Direction::Up, &tight.lo, &tight.hi), (Direction::Down, &tight.hi, &tight.lo)] {
            for start in [far.clone(), vector(index.get::<Vec<i64>>(&all))] {
                let up = direction == Direction::Up;
                let stops = |step| stop(&all, &numbers(&start), up, step);
                let journey = system.journey(&start, direction, step);
                prop_assert_eq!(&journey.goal, end);
                prop_assert_eq!(numbers(&journey.stops), stops(step));
                let least = (1..=8).find(|&pods| stops(Step::Pods(pods)) == numbers(end));
                prop_assert_eq!(system.step_that_arrives(&start, direction, 8), least);
            }
        }
    }
}
