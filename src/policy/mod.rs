//! The checked policy: what admission accepted and the planner can run.
//!
//! A spec is read once, by one conversion, into a [`Policy`] in which every rule holds and every default is in place.
//! Admission reports the faults of that conversion; planning and the offline commands use its result.

mod checked;
mod fault;

pub use checked::{
    AlgorithmPolicy, Capacities, Filter, Policy, PredictivePolicy, ProportionalPolicy, RatioPolicy,
    RebalanceOrder, RoleIndex, RolePolicy, ScaleDownPolicy, ScaleUpPolicy, TokenPolicy,
};
pub use fault::{Fault, FaultKind};
mod shim; pub use shim::*;
