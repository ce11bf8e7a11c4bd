//! What the cluster stores: the scaler, its status, and the parts that we read of other resources.

pub mod quantity;
mod replicas;

pub use quantity::Quantity;
pub use replicas::{Replicas, ReplicasError};
