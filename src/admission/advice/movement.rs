//! What of a policy's room is out of reach: bounds, directions, and ways that stop half-way.

use super::Target;
use crate::api::Replicas;
use crate::policy::Policy;
use crate::ratio::{Band, Bounds, Direction, Intervals, Step, System};

/// Steps of more replicas than these are not proposed.
const LARGEST_STEP: u32 = 64;

/// The policy's bounds and bands; `None` only for a policy that is not sound.
pub(super) fn system(policy: &Policy) -> Option<System> {
    let bounds = policy.roles.iter().map(|role| Bounds {
        min: role.min,
        max: role.max,
    });
    let bands = policy.ratios.iter().map(|ratio| Band {
        numerator: ratio.numerator,
        denominator: ratio.denominator,
        min: ratio.min,
        max: ratio.max,
    });
    System::new(bounds.collect(), bands.collect()).ok()
}

/// Warns of bounds that nothing reaches, directions that are barred, and ways that stop half-way.
pub(super) fn warn(policy: &Policy, system: &System, target: &Target, said: &mut Vec<String>) {
    let Ok(tight) = system.tight() else { return };
    about_bounds(policy, &tight, said);
    for (direction, step) in [
        (Direction::Up, policy.scale_up.step),
        (Direction::Down, policy.scale_down.step),
    ] {
        if step.is_zero() {
            said.push(match direction {
                Direction::Up => "behavior.scaleUp.stepPolicy.value 0 forbids every growth; use suspend or mode Shadow to stop the scaler".to_owned(),
                Direction::Down => "behavior.scaleDown.stepPolicy.value 0 forbids every shrink: what grew stays".to_owned(),
            });
        } else if !system.bands().is_empty() {
            // Without ratios every step of a replica is allowed, and every way arrives.
            let way = Way {
                policy,
                system,
                tight: &tight,
                direction,
                step,
            };
            if !way.bars_a_role(said) {
                way.stops_short(target, said);
            }
        }
    }
}

fn about_bounds(policy: &Policy, tight: &Intervals, said: &mut Vec<String>) {
    for (i, role) in policy.roles.iter().enumerate() {
        if tight.hi[i] < role.max {
            said.push(format!(
                "{}.maxReplicas {} can never be used; {} is the most that the ratios allow",
                role.name, role.max, tight.hi[i]
            ));
        }
        if tight.lo[i] > role.min {
            said.push(format!(
                "{}.minReplicas {} can never be used; {} is the least that the ratios allow",
                role.name, role.min, tight.lo[i]
            ));
        }
    }
}

/// One direction of a policy.
struct Way<'a> {
    policy: &'a Policy,
    system: &'a System,
    tight: &'a Intervals,
    direction: Direction,
    step: Step,
}

impl Way<'_> {
    const fn block(&self) -> &'static str {
        match self.direction {
            Direction::Up => "behavior.scaleUp",
            Direction::Down => "behavior.scaleDown",
        }
    }

    /// Whether the ratios leave a role no single step; then says so.
    fn bars_a_role(&self, said: &mut Vec<String>) -> bool {
        let barred: Vec<&str> = (0..self.system.roles())
            // A role without room has a warning of its own.
            .filter(|&i| self.tight.lo[i] < self.tight.hi[i])
            .filter(|&i| !self.system.can_move(i, self.direction, self.step))
            .map(|i| self.policy.roles[i].name.as_str())
            .collect();
        if barred.is_empty() {
            return false;
        }
        let start = match self.direction {
            Direction::Up => &self.tight.lo,
            Direction::Down => &self.tight.hi,
        };
        let (never, moves) = match self.direction {
            Direction::Up => ("never grow", "adds"),
            Direction::Down => ("never shrink", "removes"),
        };
        said.push(format!(
            "{} {never}: one pass {moves} at most {}, and no vector so near keeps the ratios; {}",
            listed(&barred),
            step_text(self.step),
            self.way_out(start)
        ));
        true
    }

    /// Says where the way from the far end, or from the target's counts, ends before its goal.
    fn stops_short(&self, target: &Target, said: &mut Vec<String>) {
        let far = match self.direction {
            Direction::Up => self.tight.lo.clone(),
            Direction::Down => self.tight.hi.clone(),
        };
        let mut starts = vec![far];
        if let Some(counts) = current(self.policy, target)
            && self.system.allows(&counts)
            && counts != starts[0]
        {
            starts.push(counts);
        }
        for start in starts {
            let journey = self.system.journey(&start, self.direction, self.step);
            if journey.arrives() {
                continue;
            }
            said.push(format!(
                "{} stops short: from {} passes reach {}, not {}; {}",
                match self.direction {
                    Direction::Up => "growth",
                    Direction::Down => "shrinking",
                },
                Self::vector(&start),
                Self::vector(&journey.stops),
                Self::vector(&journey.goal),
                self.way_out(&journey.stops)
            ));
            // One is enough: the way out is the same.
            return;
        }
    }

    fn way_out(&self, start: &[Replicas]) -> String {
        match self
            .system
            .step_that_arrives(start, self.direction, LARGEST_STEP)
        {
            Some(step) => format!(
                "{}.stepPolicy {{type: Pods, value: {step}}} would do",
                self.block()
            ),
            None => "widen the ratios".to_owned(),
        }
    }

    /// A vector as people write it: `(18, 12)`; long ones are cut.
    fn vector(counts: &[Replicas]) -> String {
        const SHOWN: usize = 6;
        let mut text = String::from("(");
        for (i, count) in counts.iter().take(SHOWN).enumerate() {
            if i > 0 {
                text.push_str(", ");
            }
            text.push_str(&count.to_string());
        }
        if counts.len() > SHOWN {
            text.push_str(", ...");
        }
        text.push(')');
        text
    }
}

/// The target's counts in the order of the policy's roles, where it has all of them.
pub(super) fn current(policy: &Policy, target: &Target) -> Option<Vec<Replicas>> {
    let Target::Present(shape) = target else {
        return None;
    };
    let count = |name: &str| {
        let role = shape.roles.iter().find(|role| role.name == name)?;
        Some(role.count)
    };
    policy.roles.iter().map(|role| count(&role.name)).collect()
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [first, second, rest @ ..] => format!("{first}, {second} and {} more", rest.len()),
    }
}

fn step_text(step: Step) -> String {
    match step {
        Step::Pods(1) => "one replica".to_owned(),
        Step::Pods(n) => format!("{n} replicas"),
        Step::Percent(p) => format!("{p} percent"),
        Step::Larger { replicas, percent } => {
            format!("the larger of {replicas} replicas and {percent} percent")
        }
    }
}
