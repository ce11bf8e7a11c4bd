//! One fault of a spec.

/// Why a field is refused, in the words of Kubernetes' field errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The value breaks a rule.
    Invalid,
    /// The value is none of the supported words.
    NotSupported,
    /// The field must be there.
    Required,
    /// The key is there twice.
    Duplicate,
    /// The name refers to nothing.
    NotFound,
    /// The field must not be there, or must not change.
    Forbidden,
    /// There are too many entries.
    TooMany,
    /// The value is too long.
    TooLong,
    /// The value has another JSON type.
    TypeInvalid,
}

/// One fault: where it is, what is there, the rule, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field from the object's root, such as `spec.roles[0].maxReplicas`.
    pub path: String,
    /// Why it is refused.
    pub kind: FaultKind,
    /// The value as JSON, shortened where it is long; empty where there is none.
    pub value: String,
    /// The rule and the way out.
    pub message: String,
}
