//! `mds`: replica counts of LLM inference deployments, decided exactly and written through a fence.
//!
//! Rooms, from the inside out (an arrow points from what is used to what uses it):
//!
//! ```text
//! api <- ratio <- policy <- fence <- admission <- serve      api <- signal
//! {policy, signal} <- algorithm <- planner                   {planner, fence} <- reconcile
//! command sees all; nobody sees command
//! ```
//!
//! `ratio`, `policy`, `fence`, `algorithm`, `planner` and the parsing half of `signal` are pure: no clock, no I/O,
//! no randomness, no async. `tests/house.rs` reads the imports and fails when one creeps in.

pub mod admission;
pub mod algorithm;
pub mod api;
pub mod command;
pub mod fence;
pub mod planner;
pub mod policy;
pub mod ratio;
pub mod reconcile;
pub mod serve;
pub mod signal;
