//! The three algorithms: from what was observed of a role to a recommended count.
//!
//! [`recommend`] is the whole room: policy, one [`RoleView`] per role, the memory of the last pass and the time give one
//! [`Recommendation`] per role and the memory of this pass. Bounds, ratios, pacing and guards come later, in `planner`.

mod guard;
mod kalman;
mod number;
mod predictive;
mod proportional;
mod reason;
mod recommend;
mod throughput;
mod window;

pub use guard::{Breach, Guard};
pub use kalman::Trend;
pub use number::{ceil_div, nanos_of};
pub use reason::Reason;
pub use recommend::{Recommendation, RoleMemory, RoleView, Sample, recommend};
pub use window::average;
