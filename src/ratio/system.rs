//! A system of bounds and bands, and its exact smallest and largest counts.

use super::lattice::{Edge, Interval, MOST_ROLES, Net, Rule};
use crate::api::{Replicas, quantity::Nanos};

/// The most roles of a system; a scaler has at most 16.
pub const MAX_ROLES: usize = MOST_ROLES / 2;

/// Nanos in one.
const UNIT: i64 = 1_000_000_000;
/// A ratio above this many nanos means what this one means: counts end at 1024.
const LARGEST: i64 = 1025 * UNIT;

/// The counts that a role may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Fewest replicas.
    pub min: Replicas,
    /// Most replicas.
    pub max: Replicas,
}

impl Bounds {
    /// Any count.
    pub const ANY: Self = Self {
        min: Replicas::MIN,
        max: Replicas::MAX,
    };
}

/// A band around the count of one role over the count of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The role whose count is divided.
    pub numerator: usize,
    /// The role that it is divided by.
    pub denominator: usize,
    /// The least ratio, if there is one.
    pub min: Option<Nanos>,
    /// The greatest ratio, if there is one.
    pub max: Option<Nanos>,
}

/// Which end of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Its least ratio.
    Min,
    /// Its greatest ratio.
    Max,
}

/// `a * x <= b * y` over the counts of two roles: one end of a band, with its slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arc {
    pub a: i64,
    pub b: i64,
    pub x: usize,
    pub y: usize,
    pub band: usize,
    pub end: End,
}

impl Arc {
    /// Between the roles as they are numbered in the system.
    pub(super) const fn edge(&self) -> Edge {
        Edge {
            x: self.x,
            y: self.y,
            rule: Rule::Linear {
                a: self.a,
                b: self.b,
            },
        }
    }
}

/// A system cannot be built from these parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// More than [`MAX_ROLES`].
    #[error("{0} roles: a system has at most {MAX_ROLES}")]
    TooManyRoles(usize),
    /// A band names a role beyond the last.
    #[error("band {band} names role {role}, of {roles}")]
    NoSuchRole {
        /// The band's place.
        band: usize,
        /// The role's place.
        role: usize,
        /// How many roles there are.
        roles: usize,
    },
    /// A band names one role twice.
    #[error("band {0} divides a role by itself")]
    SameRole(usize),
    /// A ratio is not positive.
    #[error("band {0} has a ratio that is not positive")]
    NotPositive(usize),
}

/// Bounds of every role and bands between them.
///
/// Every constraint has the form `a * x <= b * y` with positive a and b. If it holds for two vectors it holds for their
/// component-wise minimum and maximum: the feasible vectors form a lattice, and bound propagation decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    bounds: Vec<Bounds>,
    bands: Vec<Band>,
    arcs: Vec<Arc>,
    net: Net,
    components: Vec<usize>,
}

/// Smallest and largest counts, role by role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Smallest counts.
    pub lo: Vec<Replicas>,
    /// Largest counts.
    pub hi: Vec<Replicas>,
}

impl Interval {
    pub(super) fn between((&lo, &hi): (&Replicas, &Replicas)) -> Self {
        Self {
            lo: lo.into(),
            hi: hi.into(),
        }
    }
}

/// No vector exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no vector of counts keeps every bound and ratio")]
pub struct Infeasible;

impl System {
    /// A system of these bounds and bands.
    pub fn new(bounds: Vec<Bounds>, bands: Vec<Band>) -> Result<Self, SystemError> {
        if bounds.len() > MAX_ROLES {
            return Err(SystemError::TooManyRoles(bounds.len()));
        }
        let mut arcs = Vec::with_capacity(2 * bands.len());
        for (index, band) in bands.iter().enumerate() {
            let (n, d) = (band.numerator, band.denominator);
            if let Some(&role) = [n, d].iter().find(|&&role| role >= bounds.len()) {
                return Err(SystemError::NoSuchRole {
                    band: index,
                    role,
                    roles: bounds.len(),
                });
            }
            if n == d {
                return Err(SystemError::SameRole(index));
            }
            if let Some(min) = band.min {
                let p = ratio(min).ok_or(SystemError::NotPositive(index))?;
                // One nano is no bound at all with its slack.
                if p > 1 {
                    arcs.push(Arc {
                        a: p - 1,
                        b: UNIT,
                        x: d,
                        y: n,
                        band: index,
                        end: End::Min,
                    });
                }
            }
            if let Some(max) = band.max {
                let p = ratio(max).ok_or(SystemError::NotPositive(index))?;
                arcs.push(Arc {
                    a: UNIT,
                    b: p + 1,
                    x: n,
                    y: d,
                    band: index,
                    end: End::Max,
                });
            }
        }
        let net = Net::new(bounds.len(), arcs.iter().map(Arc::edge));
        let components = components(bounds.len(), &bands);
        Ok(Self {
            bounds,
            bands,
            arcs,
            net,
            components,
        })
    }

    /// How many roles there are.
    pub fn roles(&self) -> usize {
        self.bounds.len()
    }

    /// The bounds.
    pub fn bounds(&self) -> &[Bounds] {
        &self.bounds
    }

    /// The bands.
    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    pub(super) fn arcs(&self) -> &[Arc] {
        &self.arcs
    }

    /// The exact smallest and largest count of each role in any feasible vector. Both ends are feasible as vectors; not
    /// every count between them need occur.
    pub fn tight(&self) -> Result<Intervals, Infeasible> {
        self.within(
            self.bounds.iter().map(|b| b.min).collect(),
            self.bounds.iter().map(|b| b.max).collect(),
        )
    }

    /// As [`System::tight`], between these counts, which may be narrower or wider than the bounds: only the bands are
    /// kept.
    pub fn within(&self, lo: Vec<Replicas>, hi: Vec<Replicas>) -> Result<Intervals, Infeasible> {
        if lo.len() != self.roles() || hi.len() != self.roles() {
            return Err(Infeasible);
        }
        let mut intervals: Vec<Interval> = lo.iter().zip(&hi).map(Interval::between).collect();
        if intervals.iter().any(|interval| interval.lo > interval.hi) {
            return Err(Infeasible);
        }
        self.net.propagate(&mut intervals).map_err(|_| Infeasible)?;
        // In place: these lists are of the right length.
        let (mut lo, mut hi) = (lo, hi);
        for (role, interval) in intervals.into_iter().enumerate() {
            lo[role] = Replicas::saturating(interval.lo.into());
            hi[role] = Replicas::saturating(interval.hi.into());
        }
        Ok(Intervals { lo, hi })
    }

    /// Whether a vector keeps every bound.
    pub fn in_bounds(&self, vector: &[Replicas]) -> bool {
        self.bounds.len() == vector.len()
            && self
                .bounds
                .iter()
                .zip(vector)
                .all(|(b, &count)| b.min <= count && count <= b.max)
    }

    /// The first band that a vector breaks, and its end.
    pub fn broken(&self, vector: &[Replicas]) -> Option<(usize, End)> {
        let count = |role: usize| vector.get(role).map_or(0, |c| i64::from(*c));
        self.arcs
            .iter()
            .find(|arc| arc.a * count(arc.x) > arc.b * count(arc.y))
            .map(|arc| (arc.band, arc.end))
    }

    /// Whether a vector keeps every bound and band.
    pub fn allows(&self, vector: &[Replicas]) -> bool {
        self.in_bounds(vector) && self.broken(vector).is_none()
    }

    /// Roles joined by bands, as a component number for each: the place of its first role.
    pub fn components(&self) -> &[usize] {
        &self.components
    }
}

fn components(roles: usize, bands: &[Band]) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..roles).collect();
    for band in bands {
        let (a, b) = (
            root(&mut parent, band.numerator),
            root(&mut parent, band.denominator),
        );
        parent[a.max(b)] = a.min(b);
    }
    (0..roles).map(|role| root(&mut parent, role)).collect()
}

fn root(parent: &mut [usize], mut role: usize) -> usize {
    while parent[role] != role {
        parent[role] = parent[parent[role]];
        role = parent[role];
    }
    role
}

/// A positive quantity as a ratio in nanos, at most [`LARGEST`].
fn ratio(quantity: Nanos) -> Option<i64> {
    let nanos = i64::try_from(quantity.get().min(i128::from(LARGEST))).ok()?;
    (nanos > 0).then_some(nanos)
}
