//! Exact-integer ratios: which vectors of replica counts exist, and which one to take.
//!
//! No floating point. A ratio is an integer of nanos, and each comparison forgives one nano, because a user cannot write
//! 1/3: two different ratios of counts up to 1024 differ by more than 9.5e-7, so that no wrong vector slips in.
//!
//! A [`System`] is bounds and bands. [`System::tight`] decides it, [`System::conflict`] says why nothing fits,
//! [`System::goal`] and [`System::pass`] say where to go, [`System::can_move`] and [`System::journey`] what will
//! disappoint.

mod advice;
mod conflict;
mod goal;
mod lattice;
mod system;
#[cfg(test)]
mod tests;

pub use advice::{Direction, Journey, Step};
pub use conflict::{Conflict, Part};
pub use goal::{Link, follow};
pub use system::{Band, Bounds, End, Infeasible, Intervals, MAX_ROLES, System, SystemError};
