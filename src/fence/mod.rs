//! The binding fence: one owner of a target's replica counts, by annotations and terms.
