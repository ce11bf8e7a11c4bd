//! A small real cluster on one machine.

pub mod engine;
