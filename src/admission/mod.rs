//! Admission: defaults, validation and the verdict on every write.
