//! Signals: from engines' `/metrics` bodies to an observation of a role.
//!
//! `exposition` reads the text, `engine` knows what vLLM and SGLang mean by it, `window` turns counters of successive
//! samples into rates, `latency` histograms into percentiles, and `role` the Pods of a role into its [`Observation`].
//! All of that is pure: time is a parameter. Only `scrape` talks to the network.

pub mod engine;
pub mod exposition;
pub mod latency;
pub mod observation;
pub mod refusal;
pub mod role;
pub mod scrape;
pub mod window;

pub use observation::{
    Coverage, Gap, Latency, Milliseconds, Observation, Rate, Reading, SignalState,
};
pub use refusal::Refusal;
