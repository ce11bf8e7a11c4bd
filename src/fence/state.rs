//! What the fence looks at in a target.

use std::borrow::Cow;

/// A role and its count; an omitted count is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleCount<'a> {
    /// Name of the role.
    pub name: Cow<'a, str>,
    /// Its count as stored, not judged here: the schema keeps it within 1..=1024.
    pub count: i64,
}

/// A ModelDeployment, as far as the fence looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetState<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID; empty for one that is about to be made.
    pub uid: &'a str,
    /// Whether it is under deletion.
    pub deleting: bool,
    /// Roles in stored order.
    pub roles: Vec<RoleCount<'a>>,
    /// The binding annotation, raw.
    pub binding: Option<&'a str>,
    /// The decision annotation, raw.
    pub decision: Option<&'a str>,
}

impl TargetState<'_> {
    /// The count of a role. A name that occurs twice has none: whoever reads it could take either.
    pub(super) fn count(&self, name: &str) -> Option<i64> {
        let mut found = self.roles.iter().filter(|role| role.name == name);
        match (found.next(), found.next()) {
            (Some(role), None) => Some(role.count),
            _ => None,
        }
    }

    /// Whether both have the same roles with the same counts, in any order.
    pub(super) fn same_vector(&self, other: &TargetState<'_>) -> bool {
        self.roles == other.roles
            || (self.roles.len() == other.roles.len()
                && self.roles.iter().all(|role| {
                    self.count(&role.name).is_some() && other.count(&role.name) == Some(role.count)
                }))
    }

    /// Whether both have the same role names, in any order.
    pub(super) fn same_roles(&self, other: &TargetState<'_>) -> bool {
        self.roles.len() == other.roles.len()
            && self
                .roles
                .iter()
                .all(|role| self.count(&role.name).is_some() && other.count(&role.name).is_some())
    }
}
