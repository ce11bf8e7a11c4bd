//! Bounds and ratios, and whether any vector keeps them.

use crate::{
    api::{
        Replicas, ScalerSpec,
        scaler::{Ratio, RoleBounds},
    },
    policy::{
        checked::{RatioPolicy, RolePolicy},
        defaults,
        fault::FaultKind,
        name::is_label,
        range,
    },
    ratio::{Band, Bounds, System},
};

use super::{Checker, Sound, quoted, written_as};

impl Checker<'_> {
    pub(super) fn shape(
        &mut self,
        spec: &ScalerSpec,
    ) -> Sound<(Vec<RolePolicy>, Vec<RatioPolicy>)> {
        let before = self.faults.len();
        let roles = self.roles(spec);
        let ratios = self.ratios(spec);
        if self.faults.len() > before {
            return None;
        }
        let (roles, ratios) = (roles?, ratios?);
        self.feasible(&roles, &ratios);
        (self.faults.len() == before).then_some((roles, ratios))
    }

    fn roles(&mut self, spec: &ScalerSpec) -> Sound<Vec<RolePolicy>> {
        if self.broken("spec.roles") {
            return None;
        }
        let example =
            "give bounds for every role of the target: roles: [{name: server, maxReplicas: 4}]";
        let list = match spec.roles.as_deref() {
            None | Some([]) => {
                self.required("spec.roles", example);
                return None;
            }
            Some(list) => list,
        };
        if list.len() > range::MOST_ROLES {
            self.fault(
                "spec.roles",
                FaultKind::TooMany,
                &list.len().to_string(),
                format!("must have at most {} entries", range::MOST_ROLES),
            );
            return None;
        }
        let mut roles = Vec::with_capacity(list.len());
        for (index, role) in list.iter().enumerate() {
            let path = format!("spec.roles[{index}]");
            if self.broken(&path) {
                continue;
            }
            let name = self.role_name(&format!("{path}.name"), role.name.as_deref());
            if let Some(first) = name.as_ref().and_then(|name| {
                list[..index]
                    .iter()
                    .position(|other| other.name.as_ref() == Some(name))
            }) {
                let value = quoted(role.name.as_deref().unwrap_or_default());
                self.fault(
                    &path,
                    FaultKind::Duplicate,
                    &value,
                    format!("{value} is already at roles[{first}]"),
                );
            }
            let min = self.integer(
                &format!("{path}.minReplicas"),
                role.min_replicas,
                defaults::MIN_REPLICAS,
                range::MIN_REPLICAS,
            );
            let max_path = format!("{path}.maxReplicas");
            let max = match role.max_replicas {
                None if !self.broken(&max_path) => {
                    self.required(
                        &max_path,
                        "state the most replicas of this role: maxReplicas: 4",
                    );
                    None
                }
                value => self.integer(
                    &max_path,
                    value,
                    defaults::MIN_REPLICAS,
                    range::MAX_REPLICAS,
                ),
            };
            let (Some(min), Some(max)) = (min, max) else {
                continue;
            };
            if min > max {
                self.invalid(
                    &max_path,
                    &max.to_string(),
                    &format!(
                        "must be at least minReplicas ({min}): raise it, or lower minReplicas"
                    ),
                );
                continue;
            }
            let count = |n: i32| Replicas::saturating(i64::from(n));
            roles.extend(name.map(|name| RolePolicy {
                name,
                min: count(min),
                max: count(max),
            }));
        }
        (roles.len() == list.len()).then_some(roles)
    }

    fn role_name(&mut self, path: &str, name: Option<&str>) -> Sound<String> {
        if self.broken(path) {
            return None;
        }
        match name {
            None | Some("") => self.required(path, "name a role of the target: name: server"),
            Some(name) if !is_label(name) => {
                self.invalid(path, &quoted(name), "must be a label of lower-case letters, digits and '-', at most 63 characters: write the role's own name");
            }
            Some(name) => return Some(name.to_owned()),
        }
        None
    }

    /// The place of a role that some other part names; a fault where it has no bounds.
    pub(super) fn role(
        &mut self,
        path: &str,
        name: Option<&str>,
        spec: &ScalerSpec,
    ) -> Sound<usize> {
        if self.broken(path) {
            return None;
        }
        let list = spec.roles.as_deref().unwrap_or_default();
        match name {
            None | Some("") => {
                self.required(path, "name one of spec.roles");
                None
            }
            Some(name) => {
                let found = list
                    .iter()
                    .position(|role| role.name.as_deref() == Some(name));
                // Without any roles, or with one that has no name, the fault may be theirs.
                let is_named =
                    |role: &RoleBounds| role.name.as_ref().is_some_and(|n| !n.is_empty());
                if found.is_none() && !list.is_empty() && list.iter().all(is_named) {
                    let names: Vec<_> = list
                        .iter()
                        .filter_map(|role| role.name.as_deref())
                        .collect();
                    let message = format!(
                        "not in spec.roles ({}): add bounds for it, or correct the name",
                        names.join(", ")
                    );
                    self.fault(path, FaultKind::NotFound, &quoted(name), message);
                }
                found
            }
        }
    }

    fn ratios(&mut self, spec: &ScalerSpec) -> Sound<Vec<RatioPolicy>> {
        if self.broken("spec.ratios") {
            return None;
        }
        let list = spec.ratios.as_deref().unwrap_or_default();
        if list.len() > range::MOST_RATIOS {
            self.fault(
                "spec.ratios",
                FaultKind::TooMany,
                &list.len().to_string(),
                format!("must have at most {} entries", range::MOST_RATIOS),
            );
            return None;
        }
        let mut ratios = Vec::with_capacity(list.len());
        for (index, ratio) in list.iter().enumerate() {
            let path = format!("spec.ratios[{index}]");
            if self.broken(&path) {
                continue;
            }
            let pair = |ratio: &Ratio| {
                ratio
                    .numerator_role
                    .clone()
                    .zip(ratio.denominator_role.clone())
            };
            if let Some((numerator, denominator)) = pair(ratio)
                && let Some(first) = list[..index]
                    .iter()
                    .position(|other| pair(other) == pair(ratio))
            {
                let value = quoted(&format!("{numerator}/{denominator}"));
                self.fault(
                    &path,
                    FaultKind::Duplicate,
                    &value,
                    format!("{value} is already at ratios[{first}]"),
                );
            }
            let numerator = self.role(
                &format!("{path}.numeratorRole"),
                ratio.numerator_role.as_deref(),
                spec,
            );
            let denominator_path = format!("{path}.denominatorRole");
            let mut denominator =
                self.role(&denominator_path, ratio.denominator_role.as_deref(), spec);
            if ratio.numerator_role.is_some() && ratio.numerator_role == ratio.denominator_role {
                self.invalid(
                    &denominator_path,
                    &quoted(ratio.denominator_role.as_deref().unwrap_or_default()),
                    "must differ from numeratorRole",
                );
                denominator = None;
            }
            let target = self.positive(&format!("{path}.target"), ratio.target.as_ref());
            let min = self.positive(&format!("{path}.min"), ratio.min.as_ref());
            let max = self.positive(&format!("{path}.max"), ratio.max.as_ref());
            let (Some(target), Some(min), Some(max)) = (target, min, max) else {
                continue;
            };
            self.ordered(&path, ratio, target, min, max);
            ratios.extend(
                numerator
                    .zip(denominator)
                    .map(|(numerator, denominator)| RatioPolicy {
                        numerator,
                        denominator,
                        target,
                        min,
                        max,
                    }),
            );
        }
        (ratios.len() == list.len()).then_some(ratios)
    }

    /// `min <= target <= max`, for those given.
    fn ordered(
        &mut self,
        path: &str,
        ratio: &Ratio,
        target: Option<crate::api::quantity::Nanos>,
        min: Option<crate::api::quantity::Nanos>,
        max: Option<crate::api::quantity::Nanos>,
    ) {
        let text = |quantity: &Option<crate::api::Quantity>| {
            quantity.as_ref().map(written_as).unwrap_or_default()
        };
        let plain =
            |quantity: &Option<crate::api::Quantity>| text(quantity).trim_matches('"').to_owned();
        if let (Some(target), Some(min)) = (target, min)
            && min > target
        {
            self.invalid(
                &format!("{path}.target"),
                &text(&ratio.target),
                &format!("must be at least min ({})", plain(&ratio.min)),
            );
        }
        if let (Some(target), Some(max)) = (target, max)
            && target > max
        {
            self.invalid(
                &format!("{path}.max"),
                &text(&ratio.max),
                &format!("must be at least target ({})", plain(&ratio.target)),
            );
        }
        if let (None, Some(min), Some(max)) = (target, min, max)
            && min > max
        {
            self.invalid(
                &format!("{path}.max"),
                &text(&ratio.max),
                &format!("must be at least min ({})", plain(&ratio.min)),
            );
        }
    }

    fn feasible(&mut self, roles: &[RolePolicy], ratios: &[RatioPolicy]) {
        let bounds = roles
            .iter()
            .map(|role| Bounds {
                min: role.min,
                max: role.max,
            })
            .collect();
        let bands = ratios
            .iter()
            .map(|r| Band {
                numerator: r.numerator,
                denominator: r.denominator,
                min: r.min,
                max: r.max,
            })
            .collect();
        // The rules above are those of a system.
        let Ok(system) = System::new(bounds, bands) else {
            return;
        };
        let Some(conflict) = system.conflict() else {
            return;
        };
        let names: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        let index = conflict.first_band().unwrap_or(0);
        let value = ratios.get(index).map_or_else(String::new, |ratio| {
            quoted(&format!(
                "{}/{}",
                names[ratio.numerator], names[ratio.denominator]
            ))
        });
        let message = format!(
            "no counts keep every bound and ratio: {}; {}",
            conflict.proof(&system, &names),
            conflict.ways_out(&names)
        );
        self.invalid(&format!("spec.ratios[{index}]"), &value, &message);
    }
}
