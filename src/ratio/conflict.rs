//! The proof that no vector exists: short enough to read, and minimal.

use std::fmt::Write as _;

use super::{
    Bounds, Constraint, End, Replicas, System,
    bound::Arc,
    lattice::{Interval, Net},
};

/// Why no vector keeps all bounds and ratios.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The proof.
    pub proof: Proof,
    /// What already contradicts itself: without any one of these, the rest of them can be kept. In order: bounds by
    /// role, then ratios.
    pub minimal: Vec<Constraint>,
    /// Each single bound or ratio whose removal makes the whole system feasible; may be empty.
    pub remedies: Vec<Constraint>,
}

/// How a contradiction comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// One bound and one ratio after another force a count that another bound forbids.
    Chain {
        /// The bound to start from.
        from: Claim,
        /// What each ratio then forces, at least one step. All claims of a chain have the same end.
        steps: Vec<Step>,
        /// The bound that the last claim contradicts: of the same role, with the other end.
        against: Claim,
    },
    /// These ratios alone leave no counts from 1 to 1024.
    Ratios(Vec<Constraint>),
}

/// `role <= count` ([`End::Max`]) or `role >= count` ([`End::Min`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Place of the role.
    pub role: usize,
    /// Which way it bounds.
    pub end: End,
    /// The count; a claim that a ratio forces may lie outside 1 to 1024.
    pub count: i32,
}

/// What one ratio forces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Place of the ratio.
    pub ratio: usize,
    /// Which end of its band.
    pub end: End,
    /// What follows from it and the claim before.
    pub claim: Claim,
}

impl Conflict {
    /// Of an infeasible system.
    pub(super) fn of(system: &System) -> Self {
        let everything = Trial::of(system);
        let free = Trial {
            bounds: vec![Bounds::ALL; system.bounds.len()],
            ..everything.clone()
        };
        // Ratios that contradict each other are the stronger statement: no bound can mend them.
        let (mut trial, mut chain) = match free.chain() {
            Some(chain) => (free.only(&chain), chain),
            None => match everything.chain() {
                Some(chain) => (everything.only(&chain), chain),
                // Never: the caller found it infeasible. An empty proof is better than a panic.
                None => {
                    return Self {
                        proof: Proof::Ratios(Vec::new()),
                        minimal: Vec::new(),
                        remedies: Vec::new(),
                    };
                }
            },
        };
        trial.minimize();
        if let Some(shorter) = trial.chain() {
            chain = shorter;
        }
        let minimal = trial.constraints();
        let proof = if minimal
            .iter()
            .any(|constraint| matches!(constraint, Constraint::Bound { .. }))
        {
            chain.proof()
        } else {
            match &chain.steps[..] {
                // One ratio beyond what any count can keep is a chain from 1 or 1024, and clearer so.
                [_] => chain.proof(),
                _ => Proof::Ratios(minimal.clone()),
            }
        };
        let remedies = minimal
            .iter()
            .copied()
            .filter(|&one| !everything.without(one).is_infeasible())
            .collect();
        Self {
            proof,
            minimal,
            remedies,
        }
    }

    /// The first ratio that the proof names.
    pub fn first_ratio(&self) -> Option<usize> {
        match &self.proof {
            Proof::Chain { steps, .. } => steps.first().map(|step| step.ratio),
            Proof::Ratios(ratios) => ratios.iter().find_map(|constraint| match constraint {
                Constraint::Ratio { ratio, .. } => Some(*ratio),
                Constraint::Bound { .. } => None,
            }),
        }
    }

    /// The proof as a sentence without a full stop, for people who know the roles by `names`:
    /// `prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force decode <= 2, but decode >= 3
    /// (minReplicas)`.
    pub fn explain(&self, system: &System, names: &[&str]) -> String {
        let words = Words { system, names };
        match &self.proof {
            Proof::Chain {
                from,
                steps,
                against,
            } => {
                let mut text = format!("{} and ", words.bound(*from));
                let shown = |index: usize| {
                    steps.len() <= SHOWN || index < SHOWN - 2 || index + 2 > steps.len()
                };
                for (index, step) in steps.iter().enumerate() {
                    let ratio = words.ratio(step.ratio, step.end);
                    let claim = words.claim(step.claim);
                    let _ = match index {
                        0 => write!(text, "{ratio} force {claim}"),
                        _ if shown(index) => write!(text, ", then {ratio} forces {claim}"),
                        _ if shown(index - 1) => {
                            write!(text, ", then {} more steps", steps.len() - SHOWN + 1)
                        }
                        _ => Ok(()),
                    };
                }
                let _ = write!(text, ", but {}", words.bound(*against));
                text
            }
            Proof::Ratios(ratios) => {
                let ratios: Vec<String> = ratios.iter().map(|&one| words.constraint(one)).collect();
                format!("{} allow no counts from 1 to 1024", ratios.join(" and "))
            }
        }
    }

    /// What would help, as a clause: `raise prefill maxReplicas, or lower ratios[0].min`. Empty when no single change
    /// does.
    pub fn advise(&self, names: &[&str]) -> String {
        let each: Vec<String> = (self.remedies.iter())
            .map(|constraint| match *constraint {
                Constraint::Bound {
                    role,
                    end: End::Min,
                } => format!("lower {} minReplicas", name(names, role)),
                Constraint::Bound {
                    role,
                    end: End::Max,
                } => format!("raise {} maxReplicas", name(names, role)),
                Constraint::Ratio {
                    ratio,
                    end: End::Min,
                } => format!("lower ratios[{ratio}].min"),
                Constraint::Ratio {
                    ratio,
                    end: End::Max,
                } => format!("raise ratios[{ratio}].max"),
            })
            .collect();
        each.join(", or ")
    }
}

/// The most steps of a chain that its sentence shows; of a longer one, the first and the last few.
const SHOWN: usize = 8;

/// How constraints read.
struct Words<'a> {
    system: &'a System,
    names: &'a [&'a str],
}

impl Words<'_> {
    fn claim(&self, claim: Claim) -> String {
        format!(
            "{} {} {}",
            name(self.names, claim.role),
            sign(claim.end),
            claim.count
        )
    }

    /// A claim that starts or ends a chain, with the field that says it.
    fn bound(&self, claim: Claim) -> String {
        let given = self
            .system
            .bounds
            .get(claim.role)
            .map(|bounds| match claim.end {
                End::Min => i32::from(bounds.lo()),
                End::Max => i32::from(bounds.hi()),
            });
        let source = match claim.end {
            End::Min if given == Some(claim.count) => "minReplicas",
            End::Max if given == Some(claim.count) => "maxReplicas",
            End::Min => "no role has fewer",
            End::Max => "no role has more",
        };
        format!("{} ({source})", self.claim(claim))
    }

    fn ratio(&self, ratio: usize, end: End) -> String {
        let field = if end == End::Min { "min" } else { "max" };
        let Some(given) = self.system.ratios.get(ratio) else {
            return format!("ratios[{ratio}].{field}");
        };
        let (numerator, denominator) = (
            name(self.names, given.numerator),
            name(self.names, given.denominator),
        );
        let value = given
            .end(end)
            .map(|value| value.to_string())
            .unwrap_or_default();
        format!(
            "{numerator}/{denominator} {} {value} (ratios[{ratio}].{field})",
            sign(end)
        )
    }

    fn constraint(&self, constraint: Constraint) -> String {
        match constraint {
            Constraint::Ratio { ratio, end } => self.ratio(ratio, end),
            Constraint::Bound { role, end } => {
                let bounds = self.system.bounds.get(role).copied().unwrap_or(Bounds::ALL);
                let count = if end == End::Min {
                    bounds.lo()
                } else {
                    bounds.hi()
                };
                self.bound(Claim {
                    role,
                    end,
                    count: count.into(),
                })
            }
        }
    }
}

fn name<'a>(names: &[&'a str], role: usize) -> &'a str {
    names.get(role).copied().unwrap_or("?")
}

const fn sign(end: End) -> &'static str {
    match end {
        End::Min => ">=",
        End::Max => "<=",
    }
}

/// Some of a system's constraints.
#[derive(Clone)]
struct Trial {
    bounds: Vec<Bounds>,
    /// Each end of a ratio that is given.
    ratios: Vec<(usize, End, Arc)>,
}

impl Trial {
    fn of(system: &System) -> Self {
        let ratios = (system.ratios.iter().enumerate())
            .flat_map(|(ratio, given)| given.arcs().map(move |(end, arc)| (ratio, end, arc)))
            .collect();
        Self {
            bounds: system.bounds.clone(),
            ratios,
        }
    }

    /// Those that the chain is made of.
    fn only(&self, chain: &Chain) -> Self {
        let mut bounds = vec![Bounds::ALL; self.bounds.len()];
        for claim in [chain.from, chain.against] {
            let (lo, hi) = (self.bounds[claim.role].lo(), self.bounds[claim.role].hi());
            let kept = &mut bounds[claim.role];
            *kept = match claim.end {
                End::Min => Bounds::new(lo, kept.hi()),
                End::Max => Bounds::new(kept.lo(), hi),
            }
            .unwrap_or(*kept);
        }
        let used = |ratio, end| {
            chain
                .steps
                .iter()
                .any(|step| (step.ratio, step.end) == (ratio, end))
        };
        Self {
            bounds,
            ratios: self
                .ratios
                .iter()
                .copied()
                .filter(|&(ratio, end, _)| used(ratio, end))
                .collect(),
        }
    }

    fn without(&self, constraint: Constraint) -> Self {
        let mut rest = self.clone();
        match constraint {
            Constraint::Bound { role, end } => {
                let bounds = &mut rest.bounds[role];
                *bounds = match end {
                    End::Min => Bounds::new(Replicas::MIN, bounds.hi()),
                    End::Max => Bounds::new(bounds.lo(), Replicas::MAX),
                }
                .unwrap_or(*bounds);
            }
            Constraint::Ratio { ratio, end } => {
                rest.ratios.retain(|&(r, e, _)| (r, e) != (ratio, end));
            }
        }
        rest
    }

    /// Those that are left, but for bounds that no count can break.
    fn constraints(&self) -> Vec<Constraint> {
        let bounds = self.bounds.iter().enumerate().flat_map(|(role, bounds)| {
            let min = (bounds.lo() > Replicas::MIN).then_some(Constraint::Bound {
                role,
                end: End::Min,
            });
            let max = (bounds.hi() < Replicas::MAX).then_some(Constraint::Bound {
                role,
                end: End::Max,
            });
            min.into_iter().chain(max)
        });
        bounds
            .chain(
                self.ratios
                    .iter()
                    .map(|&(ratio, end, _)| Constraint::Ratio { ratio, end }),
            )
            .collect()
    }

    /// Drops each constraint without which the rest stays impossible; bounds first.
    fn minimize(&mut self) {
        for constraint in self.constraints() {
            let rest = self.without(constraint);
            if rest.is_infeasible() {
                *self = rest;
            }
        }
    }

    fn is_infeasible(&self) -> bool {
        let net = Net::new(
            self.bounds.len(),
            self.ratios.iter().map(|&(_, _, arc)| arc),
        );
        let mut intervals: Vec<Interval> =
            self.bounds.iter().copied().map(Interval::from).collect();
        net.propagate(&mut intervals).is_err()
    }

    /// The chain of fewest steps; none when the trial is feasible.
    ///
    /// Upper bounds follow from upper bounds alone, so that a contradiction is always one chain of them that ends
    /// below a given lower bound, and just as well one of lower bounds. Both are followed breadth first.
    fn chain(&self) -> Option<Chain> {
        let mut trails = [
            Trail::new(End::Max, &self.bounds),
            Trail::new(End::Min, &self.bounds),
        ];
        loop {
            for trail in &mut trails {
                if let Some(last) = trail.advance(&self.ratios, &self.bounds) {
                    return Some(trail.chain(last, &self.ratios, &self.bounds));
                }
            }
            if trails.iter().all(Trail::is_over) {
                return None;
            }
        }
    }
}

/// A chain, as [`Proof::Chain`] has it.
struct Chain {
    from: Claim,
    steps: Vec<Step>,
    against: Claim,
}

impl Chain {
    fn proof(self) -> Proof {
        Proof::Chain {
            from: self.from,
            steps: self.steps,
            against: self.against,
        }
    }
}

/// All bounds of one kind that follow from the given ones, in rounds: what a round finds needs one step more than
/// what the round before found.
struct Trail {
    end: End,
    facts: Vec<Fact>,
    /// For each role, its tightest fact.
    best: Vec<usize>,
    /// The first fact of the last round.
    fresh: usize,
}

#[derive(Clone, Copy)]
struct Fact {
    role: usize,
    count: i32,
    /// The fact and the place of the ratio in the trial that it follows from; none for a given bound.
    cause: Option<(usize, usize)>,
}

impl Trail {
    fn new(end: End, bounds: &[Bounds]) -> Self {
        let facts = (bounds.iter().enumerate())
            .map(|(role, bounds)| {
                let count = if end == End::Max {
                    bounds.hi()
                } else {
                    bounds.lo()
                };
                Fact {
                    role,
                    count: count.into(),
                    cause: None,
                }
            })
            .collect();
        Self {
            end,
            facts,
            best: (0..bounds.len()).collect(),
            fresh: 0,
        }
    }

    const fn is_over(&self) -> bool {
        self.fresh == self.facts.len()
    }

    /// One round; answers with a fact that contradicts a given bound.
    fn advance(&mut self, ratios: &[(usize, End, Arc)], bounds: &[Bounds]) -> Option<usize> {
        let known = self.facts.len();
        let mut found: Vec<Option<Fact>> = vec![None; bounds.len()];
        for (place, (_, _, arc)) in ratios.iter().enumerate() {
            let (source, role) = if self.end == End::Max {
                (arc.y, arc.x)
            } else {
                (arc.x, arc.y)
            };
            let cause = self.best[source];
            if cause < self.fresh {
                continue;
            }
            let from = self.facts[cause].count;
            let (count, tighter): (_, fn(&i32, &i32) -> bool) = match self.end {
                End::Max => (arc.rule.most_x(from), i32::lt),
                End::Min => (arc.rule.least_y(from), i32::gt),
            };
            let before = found[role].map_or(self.facts[self.best[role]].count, |fact| fact.count);
            if tighter(&count, &before) {
                found[role] = Some(Fact {
                    role,
                    count,
                    cause: Some((cause, place)),
                });
            }
        }
        self.fresh = known;
        for fact in found.into_iter().flatten() {
            self.best[fact.role] = self.facts.len();
            self.facts.push(fact);
        }
        (known..self.facts.len()).find(|&index| {
            let fact = self.facts[index];
            match self.end {
                End::Max => fact.count < i32::from(bounds[fact.role].lo()),
                End::Min => fact.count > i32::from(bounds[fact.role].hi()),
            }
        })
    }

    /// How the fact came about, and the bound that it contradicts.
    fn chain(&self, last: usize, ratios: &[(usize, End, Arc)], bounds: &[Bounds]) -> Chain {
        let claim = |fact: Fact| Claim {
            role: fact.role,
            end: self.end,
            count: fact.count,
        };
        let mut fact = self.facts[last];
        let mut steps = Vec::new();
        let opposite = match self.end {
            End::Max => Claim {
                role: fact.role,
                end: End::Min,
                count: bounds[fact.role].lo().into(),
            },
            End::Min => Claim {
                role: fact.role,
                end: End::Max,
                count: bounds[fact.role].hi().into(),
            },
        };
        while let Some((cause, place)) = fact.cause {
            let (ratio, end, _) = ratios[place];
            steps.push(Step {
                ratio,
                end,
                claim: claim(fact),
            });
            fact = self.facts[cause];
        }
        steps.reverse();
        Chain {
            from: claim(fact),
            steps,
            against: opposite,
        }
    }
}
