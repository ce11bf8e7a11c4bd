//! A small real cluster on one machine.
