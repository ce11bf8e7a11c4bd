//! Exact-integer ratios: which vectors of replica counts exist, and which one to take.
//!
//! No floating point. A ratio is an integer of nanos, and each comparison forgives one nano, because a user cannot write
//! 1/3: two different ratios of counts up to 1024 differ by more than 9.5e-7, so that no wrong vector slips in.

mod goal;
mod system;

pub use goal::{Link, follow};
pub use system::{Band, Bounds, End, Infeasible, Intervals, System, SystemError};
