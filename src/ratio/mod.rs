//! Exact-integer ratios: which vectors of replica counts exist, and which one to take.
//!
//! A [`System`] holds bounds for every role and ratios between roles, all by place. [`System::propagate`] decides:
//! either a [`Lattice`], whose [`Lattice::reach`] is the exact range of each role, or a [`Conflict`], which is a proof
//! that a person can follow. On a lattice, [`Lattice::goal`] says where a vector should go, and [`Lattice::pass`] how
//! far one pass takes it. The advice ([`Lattice::unreachable`], [`Lattice::stuck`], [`Lattice::halts`]) tells what is
//! feasible but will disappoint.
//!
//! Integers only: no float, no search, no limit, and so nothing undecided.
//!
//! ```
//! use mds::api::{Quantity, Replicas};
//! use mds::ratio::{Bounds, Ratio, System};
//!
//! let count = |count| Replicas::new(count).unwrap();
//! let bounds = |lo, hi| Bounds::new(count(lo), count(hi)).unwrap();
//! let two = Quantity::from("2").nanos().unwrap();
//! let ratio = Ratio { numerator: 0, denominator: 1, min: Some(two), target: None, max: None };
//!
//! let roomy = System::new(vec![bounds(1, 16), bounds(1, 16)], vec![ratio]).unwrap();
//! let lattice = roomy.propagate().unwrap();
//! assert_eq!(lattice.reach(), [bounds(2, 16), bounds(1, 8)]);
//!
//! let tight = System::new(vec![bounds(1, 4), bounds(3, 8)], vec![ratio]).unwrap();
//! assert_eq!(
//!     tight.propagate().unwrap_err().explain(&tight, &["prefill", "decode"]),
//!     "prefill <= 4 (maxReplicas) and prefill/decode >= 2 (ratios[0].min) force decode <= 2, \
//!      but decode >= 3 (minReplicas)"
//! );
//! ```

mod advice;
mod bound;
mod conflict;
mod goal;
mod lattice;
mod step;
mod system;
#[cfg(test)]
mod tests;

use crate::api::Replicas;

pub use advice::{Halt, Start, Stuck, Unreachable};
pub use bound::{Bounds, End, Ratio};
pub use conflict::{Claim, Conflict, Proof, Step};
pub use goal::{Direction, Goal, GoalError};
pub use step::{Pacing, StepLimit};
pub use system::{Constraint, Lattice, MAX_RATIOS, MAX_ROLES, System, SystemError};
