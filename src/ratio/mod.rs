//! Exact-integer ratios: which vectors of replica counts exist, and which one to take.
