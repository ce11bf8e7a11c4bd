//! What the cluster stores: the scaler, its status, and the parts that we read of other resources.

mod crd;
mod decimal;
mod deployment;
pub mod quantity;
mod replicas;
pub mod scaler;
pub mod status;
mod term;
mod time;
mod workload;

pub use crd::crd;
pub use decimal::Decimal;
pub use deployment::{
    BINDING_ANNOTATION, DECISION_ANNOTATION, DEPLOYMENT_KIND, DEPLOYMENT_PLURAL, Deployment,
    DeploymentMeta, DeploymentSpec, DeploymentStatus, Parallelism, Retirement, Role, RoleKind,
    RoleReport,
};
pub use quantity::Quantity;
pub use replicas::{Replicas, ReplicasError};
pub use scaler::{Scaler, ScalerSpec};
pub use status::{ScalerStatus, Vector};
pub use term::{Term, TermError};
pub use time::Time;
pub use workload::{
    Owner, Workload, WorkloadCondition, WorkloadMeta, WorkloadSpec, WorkloadStatus,
};
