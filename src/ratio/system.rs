//! A policy's bounds and ratios, and the lattice of the vectors that keep them.

use super::{
    Bounds, Conflict, End, Ratio, Replicas,
    lattice::{Interval, Net},
};

/// The most roles that a system may have; a scaler has at most 16.
pub const MAX_ROLES: usize = super::lattice::MOST_ROLES / 2;

/// The most ratios that a system may have; a scaler has at most 64.
pub const MAX_RATIOS: usize = 1024;

/// The bounds of every role and the ratios between them. Roles are named by their place.
#[derive(Clone, Debug)]
pub struct System {
    pub(super) bounds: Vec<Bounds>,
    pub(super) ratios: Vec<Ratio>,
    pub(super) net: Net,
    /// For each role, the first role of its component.
    components: Vec<usize>,
}

impl System {
    /// A system in which every index is in range, no ratio joins a role with itself, and every ratio is positive.
    pub fn new(bounds: Vec<Bounds>, ratios: Vec<Ratio>) -> Result<Self, SystemError> {
        let roles = bounds.len();
        if roles == 0 || roles > MAX_ROLES {
            return Err(SystemError::Roles(roles));
        }
        if ratios.len() > MAX_RATIOS {
            return Err(SystemError::Ratios(ratios.len()));
        }
        let mut components: Vec<usize> = (0..roles).collect();
        for (index, ratio) in ratios.iter().enumerate() {
            let (n, d) = (ratio.numerator, ratio.denominator);
            if n >= roles || d >= roles {
                return Err(SystemError::NoSuchRole { ratio: index });
            }
            if n == d {
                return Err(SystemError::SameRole { ratio: index });
            }
            if [ratio.min, ratio.target, ratio.max]
                .into_iter()
                .flatten()
                .any(|value| !value.is_positive())
            {
                return Err(SystemError::NotPositive { ratio: index });
            }
            let (kept, joined) = (
                components[n].min(components[d]),
                components[n].max(components[d]),
            );
            for component in &mut components {
                if *component == joined {
                    *component = kept;
                }
            }
        }
        let net = Net::new(
            roles,
            ratios.iter().flat_map(Ratio::arcs).map(|(_, arc)| arc),
        );
        Ok(Self {
            bounds,
            ratios,
            net,
            components,
        })
    }

    /// The bounds of each role, as given.
    pub fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// The ratios, as given.
    pub fn ratios(&self) -> &[Ratio] {
        &self.ratios
    }

    /// The first role of the component that `role` belongs to. Roles that are joined by ratios move together.
    pub fn component(&self, role: usize) -> usize {
        self.components[role]
    }

    /// Does any ratio join `role` with another?
    pub fn is_coupled(&self, role: usize) -> bool {
        self.ratios
            .iter()
            .any(|ratio| ratio.numerator == role || ratio.denominator == role)
    }

    /// The feasible vectors, or the proof that there are none.
    pub fn propagate(&self) -> Result<Lattice<'_>, Box<Conflict>> {
        let mut intervals = self.intervals();
        match self.net.propagate(&mut intervals) {
            Ok(()) => Ok(Lattice {
                system: self,
                reach: intervals.into_iter().map(Interval::bounds).collect(),
            }),
            Err(_) => Err(Box::new(Conflict::of(self))),
        }
    }

    /// Is there any feasible vector?
    pub fn is_feasible(&self) -> bool {
        self.net.propagate(&mut self.intervals()).is_ok()
    }

    /// Every bound and every end of a ratio that `vector`, one count a role, breaks: bounds first.
    pub fn violations<'a>(
        &'a self,
        vector: &'a [Replicas],
    ) -> impl Iterator<Item = Constraint> + 'a {
        const ENDS: [End; 2] = [End::Min, End::Max];
        let bounds =
            self.bounds
                .iter()
                .zip(vector)
                .enumerate()
                .flat_map(|(role, (bounds, &count))| {
                    let broken = [count < bounds.lo(), count > bounds.hi()];
                    ENDS.into_iter()
                        .zip(broken)
                        .filter_map(move |(end, broken)| {
                            broken.then_some(Constraint::Bound { role, end })
                        })
                });
        let ratios = self
            .ratios
            .iter()
            .enumerate()
            .flat_map(move |(index, ratio)| {
                ENDS.into_iter()
                    .filter(move |&end| {
                        let (n, d) = (vector.get(ratio.numerator), vector.get(ratio.denominator));
                        n.zip(d).is_some_and(|(&n, &d)| !ratio.holds(end, n, d))
                    })
                    .map(move |end| Constraint::Ratio { ratio: index, end })
            });
        bounds.chain(ratios)
    }

    /// Does `vector` have one count a role and keep every bound and ratio?
    pub fn allows(&self, vector: &[Replicas]) -> bool {
        vector.len() == self.bounds.len() && self.violations(vector).next().is_none()
    }

    pub(super) fn intervals(&self) -> Vec<Interval> {
        self.bounds.iter().copied().map(Interval::from).collect()
    }
}

/// One constraint of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Constraint {
    /// `roles[role].minReplicas` or `.maxReplicas`.
    Bound {
        /// Place of the role.
        role: usize,
        /// Which of both.
        end: End,
    },
    /// `ratios[ratio].min` or `.max`.
    Ratio {
        /// Place of the ratio.
        ratio: usize,
        /// Which of both.
        end: End,
    },
}

/// Why bounds and ratios are no system. Admission names these faults itself, with their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// None, or more than [`MAX_ROLES`].
    #[error("{0} roles: a system has 1 to {MAX_ROLES}")]
    Roles(usize),
    /// More than [`MAX_RATIOS`].
    #[error("{0} ratios: a system has at most {MAX_RATIOS}")]
    Ratios(usize),
    /// A ratio names a role that has no bounds.
    #[error("ratios[{ratio}] names a role without bounds")]
    NoSuchRole {
        /// Place of the ratio.
        ratio: usize,
    },
    /// Numerator and denominator are one role.
    #[error("ratios[{ratio}] joins a role with itself")]
    SameRole {
        /// Place of the ratio.
        ratio: usize,
    },
    /// A part of a ratio is zero or negative.
    #[error("ratios[{ratio}] is not positive")]
    NotPositive {
        /// Place of the ratio.
        ratio: usize,
    },
}

/// The feasible vectors of a system: at least one.
#[derive(Clone, Debug)]
pub struct Lattice<'a> {
    pub(super) system: &'a System,
    pub(super) reach: Vec<Bounds>,
}

impl<'a> Lattice<'a> {
    /// The exact smallest and largest count of each role in any feasible vector. The vector of all smallest counts
    /// is feasible, and so is that of all largest; not every count between them need occur.
    pub fn reach(&self) -> &[Bounds] {
        &self.reach
    }

    /// The system that it belongs to.
    pub const fn system(&self) -> &'a System {
        self.system
    }

    /// The smallest feasible vector.
    pub fn least(&self) -> Vec<Replicas> {
        self.reach.iter().map(|bounds| bounds.lo()).collect()
    }

    /// The largest feasible vector.
    pub fn greatest(&self) -> Vec<Replicas> {
        self.reach.iter().map(|bounds| bounds.hi()).collect()
    }

    /// The least feasible vector within `range`, one interval a role; `None` when there is none.
    pub fn least_within(&self, range: &[Bounds]) -> Option<Vec<Replicas>> {
        self.within(range)
            .map(|intervals| intervals.into_iter().map(|i| i.bounds().lo()).collect())
    }

    /// The greatest feasible vector within `range`, one interval a role; `None` when there is none.
    pub fn greatest_within(&self, range: &[Bounds]) -> Option<Vec<Replicas>> {
        self.within(range)
            .map(|intervals| intervals.into_iter().map(|i| i.bounds().hi()).collect())
    }

    fn within(&self, range: &[Bounds]) -> Option<Vec<Interval>> {
        if range.len() != self.reach.len() {
            return None;
        }
        let mut intervals: Vec<Interval> = (self.reach.iter().zip(range))
            .map(|(reach, range)| Interval {
                lo: reach.lo().max(range.lo()).into(),
                hi: reach.hi().min(range.hi()).into(),
            })
            .collect();
        if intervals.iter().any(|interval| interval.lo > interval.hi) {
            return None;
        }
        self.system
            .net
            .propagate(&mut intervals)
            .ok()
            .map(|()| intervals)
    }
}

impl From<Bounds> for Interval {
    fn from(bounds: Bounds) -> Self {
        Self {
            lo: bounds.lo().into(),
            hi: bounds.hi().into(),
        }
    }
}

impl Interval {
    /// As bounds: of an interval that propagation left, which is not empty.
    pub(super) fn bounds(self) -> Bounds {
        let (lo, hi) = (
            Replicas::saturating(self.lo.into()),
            Replicas::saturating(self.hi.into()),
        );
        Bounds::new(lo, hi).unwrap_or(Bounds::only(lo))
    }
}
