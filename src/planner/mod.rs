//! The planner: one vector per pass, from policy, target, observations and memory.
