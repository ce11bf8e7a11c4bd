//! The checked policy: what admission accepted and the planner can run.
//!
//! A spec is read once, by one conversion, into a [`Policy`] in which every rule holds and every default is in place:
//! [`read()`] decodes it, [`check()`] judges it alone, [`fit()`] against its target. Admission reports their faults;
//! planning and the offline commands use the result.

mod check;
mod checked;
pub mod defaults;
mod fault;
mod fit;
mod name;
mod order;
mod range;
mod read;
#[cfg(test)]
mod tests;

pub use check::check;
pub use checked::{
    AlgorithmPolicy, Capacities, Filter, Policy, PredictivePolicy, ProportionalPolicy, RatioPolicy,
    RebalanceOrder, RoleIndex, RolePolicy, ScaleDownPolicy, ScaleUpPolicy, TokenPolicy,
};
pub use fault::{Fault, FaultKind};
pub use fit::{TargetRole, TargetShape, fit, largest_that_fits};
pub use name::{is_label, is_subdomain};
pub use order::in_field_order;
pub use read::{Reading, nearest, read, unknown_fields};
