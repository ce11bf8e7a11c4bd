//! The planner: one vector per pass, from policy, target, observations and memory.
//!
//! [`plan`] is the whole room. It recovers what failed, recommends, constrains and decides, and proposes at most one
//! commit; [`record`] brings the memory up to date once that commit was carried out. Nothing else survives a restart
//! than [`Memory`], which status holds. Pure: time is a parameter.

mod clock;
mod cohort;
mod commit;
mod condition;
mod constraint;
mod decide;
mod guard;
mod history;
mod memory;
mod pass;
mod rebalance;
mod retirement;
mod target;

pub use commit::{Donation, Proposal, record};
pub use condition::{ConditionReason, Verdict};
pub use constraint::Constraint;
pub use history::History;
pub use memory::{Memory, RolePast};
pub use pass::{Input, Plan, RolePlan, plan};
pub use target::{Retirement, Target, TargetRole};
