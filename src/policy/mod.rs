//! The checked policy: what admission accepted and the planner can run.
