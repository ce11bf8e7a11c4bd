//! The reconciler's patches, and the next term.
