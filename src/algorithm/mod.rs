//! The three algorithms: from an observation to a recommended count.
