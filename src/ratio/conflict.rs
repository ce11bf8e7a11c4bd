//! Why no vector exists: a minimal set of bounds and ratios that is already impossible, and a chain to follow.

use std::fmt::Write as _;

use crate::api::{Replicas, quantity::Nanos};

use super::system::{Arc, Band, Bounds, End, System};

/// A chain with more steps than this is a cycle that winds down count by count: its parts say more.
const LONGEST_CHAIN: usize = 8;

/// One bound, or one end of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The least count of a role.
    Min(usize),
    /// The largest count of a role.
    Max(usize),
    /// An end of a band, by its place.
    Band(usize, End),
}

/// Why a system has no vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// A minimal set that is impossible: without any one of them, the others can be kept. In order: bounds, then bands.
    pub parts: Vec<Part>,
    /// Every part of the system whose removal alone leaves a vector.
    pub ways_out: Vec<Part>,
    chain: Option<Chain>,
}

/// Two lines of reasoning that meet in one role.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    role: usize,
    most: Vec<Step>,
    least: Vec<Step>,
}

/// A role's count is at most, or at least, this, because of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    role: usize,
    count: i64,
    part: Part,
}

/// Bounds and bands, some of them left out.
#[derive(Clone)]
struct Subset<'a> {
    system: &'a System,
    kept: Vec<Part>,
}

impl System {
    /// Why no vector exists; `None` when one does.
    pub fn conflict(&self) -> Option<Conflict> {
        self.tight().err()?;
        let all: Vec<Part> = (0..self.roles())
            .flat_map(|role| [Part::Min(role), Part::Max(role)])
            .chain(self.arcs().iter().map(|arc| Part::Band(arc.band, arc.end)))
            .collect();
        let whole = Subset {
            system: self,
            kept: all,
        };
        // Bounds first, so that a contradiction among ratios is shown by the ratios alone; the other way round may find a
        // smaller set.
        let forward = whole.minimal(false);
        let backward = whole.minimal(true);
        let least = if backward.kept.len() < forward.kept.len() {
            backward
        } else {
            forward
        };
        let ways_out = least
            .kept
            .iter()
            .copied()
            .filter(|&part| whole.without(part).is_possible())
            .collect();
        Some(Conflict {
            chain: least.chain(),
            parts: least.kept,
            ways_out,
        })
    }
}

impl Subset<'_> {
    fn without(&self, part: Part) -> Self {
        Self {
            system: self.system,
            kept: self
                .kept
                .iter()
                .copied()
                .filter(|&other| other != part)
                .collect(),
        }
    }

    fn intervals(&self) -> (Vec<i64>, Vec<i64>) {
        let (lowest, highest) = (i64::from(Replicas::MIN), i64::from(Replicas::MAX));
        let (mut lo, mut hi) = (
            vec![lowest; self.system.roles()],
            vec![highest; self.system.roles()],
        );
        for part in &self.kept {
            match *part {
                Part::Min(role) => lo[role] = i64::from(self.system.bounds()[role].min),
                Part::Max(role) => hi[role] = i64::from(self.system.bounds()[role].max),
                Part::Band(..) => {}
            }
        }
        (lo, hi)
    }

    fn arcs(&self) -> impl Iterator<Item = &Arc> {
        self.system
            .arcs()
            .iter()
            .filter(|arc| self.kept.contains(&Part::Band(arc.band, arc.end)))
    }

    fn is_possible(&self) -> bool {
        let (lo, hi) = self.intervals();
        let bounds = lo.iter().zip(&hi).map(|(&lo, &hi)| Bounds {
            min: Replicas::saturating(lo),
            max: Replicas::saturating(hi),
        });
        let mut bands: Vec<Band> = vec![];
        for arc in self.arcs() {
            let whole = self.system.bands()[arc.band];
            let (min, max) = if arc.end == End::Min {
                (whole.min, None)
            } else {
                (None, whole.max)
            };
            bands.push(Band { min, max, ..whole });
        }
        System::new(bounds.collect(), bands).is_ok_and(|system| system.tight().is_ok())
    }

    /// Drops each part in turn, and keeps it dropped while the rest stays impossible.
    fn minimal(&self, bands_first: bool) -> Self {
        let mut order = self.kept.clone();
        if bands_first {
            order.reverse();
        }
        order.into_iter().fold(self.clone(), |rest, part| {
            let fewer = rest.without(part);
            if fewer.is_possible() { rest } else { fewer }
        })
    }

    /// Follows tightenings breadth first until two meet; `None` when that takes too many steps to be read.
    fn chain(&self) -> Option<Chain> {
        let (lo, hi) = self.intervals();
        let mut most: Vec<Vec<Step>> = vec![vec![]; hi.len()];
        let mut least: Vec<Vec<Step>> = vec![vec![]; lo.len()];
        let (mut lo, mut hi) = (lo, hi);
        for &part in &self.kept {
            match part {
                Part::Min(role) => {
                    least[role] = vec![Step {
                        role,
                        count: lo[role],
                        part,
                    }];
                }
                Part::Max(role) => {
                    most[role] = vec![Step {
                        role,
                        count: hi[role],
                        part,
                    }];
                }
                Part::Band(..) => {}
            }
        }
        for _ in 0..=2 * LONGEST_CHAIN {
            if let Some(role) = (0..lo.len()).find(|&role| lo[role] > hi[role]) {
                let chain = Chain {
                    role,
                    most: most[role].clone(),
                    least: least[role].clone(),
                };
                return (chain.most.len() + chain.least.len() <= LONGEST_CHAIN).then_some(chain);
            }
            for arc in self.arcs() {
                let part = Part::Band(arc.band, arc.end);
                let ceiling = arc.b * hi[arc.y] / arc.a;
                if ceiling < hi[arc.x] {
                    hi[arc.x] = ceiling;
                    let mut line = most[arc.y].clone();
                    line.push(Step {
                        role: arc.x,
                        count: ceiling,
                        part,
                    });
                    most[arc.x] = line;
                    break;
                }
                let need = arc.a * lo[arc.x];
                let floor = need / arc.b + i64::from(need % arc.b != 0);
                if floor > lo[arc.y] {
                    lo[arc.y] = floor;
                    let mut line = least[arc.x].clone();
                    line.push(Step {
                        role: arc.y,
                        count: floor,
                        part,
                    });
                    least[arc.y] = line;
                    break;
                }
            }
        }
        None
    }
}

impl Conflict {
    /// The band that the proof names first, by its place.
    pub fn first_band(&self) -> Option<usize> {
        let lines = self
            .chain
            .iter()
            .flat_map(|chain| chain.most.iter().chain(&chain.least));
        lines
            .map(|step| step.part)
            .chain(self.parts.iter().copied())
            .find_map(|part| match part {
                Part::Band(band, _) => Some(band),
                Part::Min(_) | Part::Max(_) => None,
            })
    }

    /// The proof as a person follows it: `prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force
    /// decode <= 2, but decode >= 3 (minReplicas)`; the parts alone where the chain is long or a cycle.
    pub fn proof(&self, system: &System, roles: &[&str]) -> String {
        let say = Speaker { system, roles };
        let Some(chain) = &self.chain else {
            return format!(
                "{} cannot hold together",
                join(self.parts.iter().map(|&part| say.part(part)), "and")
            );
        };
        let (most, least) = (say.line(&chain.most, "<="), say.line(&chain.least, ">="));
        let role = say.role(chain.role);
        match (most, least) {
            // One side follows from the range of counts alone.
            (None, Some(least)) => format!("{least}, but {role} <= 1024 always"),
            (Some(most), None) => format!("{most}, but {role} >= 1 always"),
            (most, least) => format!(
                "{}, but {}",
                most.unwrap_or_default(),
                least.unwrap_or_default()
            ),
        }
    }

    /// What to change, one way a part: `raise prefill's maxReplicas` and the like.
    pub fn ways_out(&self, roles: &[&str]) -> String {
        let role = |index: usize| roles.get(index).copied().unwrap_or("?");
        let way = |part: &Part| match *part {
            Part::Min(index) => format!("lower minReplicas of {}", role(index)),
            Part::Max(index) => format!("raise maxReplicas of {}", role(index)),
            Part::Band(band, End::Min) => format!("lower ratios[{band}].min"),
            Part::Band(band, End::Max) => format!("raise ratios[{band}].max"),
        };
        if self.ways_out.is_empty() {
            return "no single change helps: there is more than one contradiction".into();
        }
        join(self.ways_out.iter().map(way), "or")
    }
}

struct Speaker<'a> {
    system: &'a System,
    roles: &'a [&'a str],
}

impl Speaker<'_> {
    fn role(&self, index: usize) -> &str {
        self.roles.get(index).copied().unwrap_or("?")
    }

    fn part(&self, part: Part) -> String {
        match part {
            Part::Min(role) => format!(
                "{} >= {} (minReplicas)",
                self.role(role),
                self.system.bounds()[role].min
            ),
            Part::Max(role) => format!(
                "{} <= {} (maxReplicas)",
                self.role(role),
                self.system.bounds()[role].max
            ),
            Part::Band(index, end) => {
                let band = &self.system.bands()[index];
                let (sign, word, limit) = if end == End::Min {
                    (">=", "min", band.min)
                } else {
                    ("<=", "max", band.max)
                };
                let limit = limit.map_or_else(String::new, |limit: Nanos| limit.to_string());
                format!(
                    "{}/{} {sign} {limit} (ratios[{index}].{word})",
                    self.role(band.numerator),
                    self.role(band.denominator)
                )
            }
        }
    }

    /// One line of reasoning: facts joined by `and`, and what they force.
    fn line(&self, steps: &[Step], sign: &str) -> Option<String> {
        let (last, before) = steps.split_last()?;
        if before.is_empty() && !matches!(last.part, Part::Band(..)) {
            return Some(self.part(last.part));
        }
        let mut text = String::new();
        for (index, step) in steps.iter().enumerate() {
            let joint = if index == 0 { "" } else { " and " };
            let _ = write!(text, "{joint}{}", self.part(step.part));
            let first = index == 0 && !matches!(step.part, Part::Band(..));
            if !first {
                let verb = if index == 0 { "forces" } else { "force" };
                let _ = write!(
                    text,
                    " {verb} {} {sign} {}",
                    self.role(step.role),
                    step.count
                );
            }
        }
        Some(text)
    }
}

fn join(words: impl Iterator<Item = String>, last: &str) -> String {
    let mut words: Vec<String> = words.collect();
    match words.pop() {
        None => String::new(),
        Some(end) if words.is_empty() => end,
        Some(end) => format!("{} {last} {end}", words.join(", ")),
    }
}
