//! A spec against its target: roles, kinds, and the names that the target's operator will generate.

use crate::api::{
    Replicas, RoleKind,
    scaler::{AlgorithmKind, Ratio, TokenThroughput},
};

use super::{
    check::{FALLBACKS, FORECASTS, algorithm_kind, quoted},
    fault::{Fault, FaultKind},
    read::Reading,
};

/// The most characters of a generated name: that of a Kubernetes label.
const LONGEST_NAME: usize = 63;

/// What a spec is fitted to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetShape {
    /// Name of the deployment.
    pub name: String,
    /// Its roles.
    pub roles: Vec<TargetRole>,
}

/// A role of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRole {
    /// Name of the role.
    pub name: String,
    /// What its replicas do; `None` for a word that this release does not know.
    pub kind: Option<RoleKind>,
    /// The count that it declares.
    pub count: Replicas,
    /// Pods of one instance.
    pub size: u32,
    /// Whether it has a command of its own.
    pub command: bool,
    /// Whether it is one elastic collective.
    pub elastic: bool,
    /// Name of its pool, if it has one.
    pub instance_type: Option<String>,
}

impl TargetShape {
    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&TargetRole> {
        self.roles.iter().find(|role| role.name == name)
    }
}

/// A generated name that does not fit, and the largest count with which all of a role's names do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Misfit {
    /// What is wrong with which name, and the way out.
    message: String,
    /// The largest count that fits; `None` when none does.
    most: Option<Replicas>,
}

/// Every fault of a spec against its target. Parts that are not sound themselves are passed over.
pub fn fit(reading: &Reading, target: &TargetShape) -> Vec<Fault> {
    let spec = &reading.spec;
    let mut faults = vec![];
    let roles = spec.roles.as_deref().unwrap_or_default();
    for (index, bounds) in roles.iter().enumerate() {
        let Some(name) = bounds.name.as_deref().filter(|name| !name.is_empty()) else {
            continue;
        };
        let path = format!("spec.roles[{index}].name");
        let Some(role) = target.role(name) else {
            let known: Vec<_> = target.roles.iter().map(|role| role.name.as_str()).collect();
            let message = format!(
                "ModelDeployment {} has the roles {}",
                quoted(&target.name),
                known.join(", ")
            );
            faults.push(fault(path, FaultKind::NotFound, quoted(name), message));
            continue;
        };
        if role.command {
            faults.push(fault(
                path.clone(),
                FaultKind::Forbidden,
                quoted(name),
                "its command makes its signals unmanaged: remove command there",
            ));
        }
        if role.elastic {
            faults.push(fault(
                path,
                FaultKind::Forbidden,
                quoted(name),
                "elasticEp widens one collective and adds no replicas: remove elasticEp there",
            ));
        }
        if let Some(max) = bounds
            .max_replicas
            .and_then(|max| Replicas::new(i64::from(max)).ok())
            && let Some(misfit) = misfit(target, role, max)
        {
            faults.push(fault(
                format!("spec.roles[{index}].maxReplicas"),
                FaultKind::Invalid,
                max.to_string(),
                misfit.message,
            ));
        }
    }
    match algorithm_kind(reading) {
        None | Some(AlgorithmKind::Proportional) => {}
        Some(kind) => capacities(reading, target, kind, &mut faults),
    }
    faults
}

fn fault(path: String, kind: FaultKind, value: String, message: impl Into<String>) -> Fault {
    Fault {
        path,
        kind,
        value,
        message: message.into(),
    }
}

/// Token algorithms: what each scaled kind needs.
fn capacities(
    reading: &Reading,
    target: &TargetShape,
    kind: AlgorithmKind,
    faults: &mut Vec<Fault>,
) {
    let spec = &reading.spec;
    let algorithm = spec.algorithm.clone().unwrap_or_default();
    let predictive = kind == AlgorithmKind::Predictive;
    let (path, token) = if predictive {
        (
            "spec.algorithm.predictive.tokenThroughput",
            algorithm
                .predictive
                .as_ref()
                .and_then(|p| p.token_throughput.clone()),
        )
    } else {
        (
            "spec.algorithm.tokenThroughput",
            algorithm.token_throughput.clone(),
        )
    };
    let given = token.as_ref().map(fallbacks);
    let forecasts = algorithm.predictive.as_ref().map(|p| {
        [
            p.prefill_token_capacity_per_replica.is_some(),
            p.decode_token_capacity_per_replica.is_some(),
            p.server_token_capacity_per_replica.is_some(),
        ]
    });
    let scaled = spec
        .roles
        .iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, bounds)| Some((index, target.role(bounds.name.as_deref()?)?)));
    let mut asked = vec![];
    for (index, role) in scaled {
        let place = match role.kind {
            Some(RoleKind::Prefill) => 0,
            Some(RoleKind::Decode) => 1,
            Some(RoleKind::Server) => 2,
            Some(RoleKind::Encode) => {
                encode(
                    spec.ratios.as_deref().unwrap_or_default(),
                    index,
                    role,
                    target,
                    faults,
                );
                continue;
            }
            None => {
                let message =
                    "this release does not know its kind: use a newer one, or remove its bounds";
                faults.push(fault(
                    format!("spec.roles[{index}].name"),
                    FaultKind::Forbidden,
                    quoted(&role.name),
                    message,
                ));
                continue;
            }
        };
        let mut need = |path: String| {
            let kind = [RoleKind::Prefill, RoleKind::Decode, RoleKind::Server][place].as_str();
            // One field serves every role of its kind.
            if !asked.contains(&path) && !reading.broken.contains_key(&path) {
                faults.push(fault(
                    path.clone(),
                    FaultKind::Required,
                    String::new(),
                    format!("role {} is of kind {kind}", quoted(&role.name)),
                ));
                asked.push(path);
            }
        };
        if given.is_some_and(|given| !given[place]) {
            need(format!("{path}.{}", FALLBACKS[place]));
        }
        if predictive && forecasts.is_some_and(|given| !given[place]) {
            need(format!("spec.algorithm.predictive.{}", FORECASTS[place]));
        }
    }
}

fn fallbacks(token: &TokenThroughput) -> [bool; 3] {
    [
        token.prefill_target_tokens_per_second.is_some(),
        token.decode_target_tokens_per_second.is_some(),
        token.server_target_tokens_per_second.is_some(),
    ]
}

/// An Encode role has no tokens: it needs a direct ratio, either way, to a Prefill or Decode role.
fn encode(
    ratios: &[Ratio],
    index: usize,
    role: &TargetRole,
    target: &TargetShape,
    faults: &mut Vec<Fault>,
) {
    let leads = |name: Option<&str>| {
        let kind = name
            .and_then(|name| target.role(name))
            .and_then(|role| role.kind);
        matches!(kind, Some(RoleKind::Prefill | RoleKind::Decode))
    };
    let own = Some(role.name.as_str());
    let coupled = ratios.iter().any(|ratio| {
        let (numerator, denominator) = (
            ratio.numerator_role.as_deref(),
            ratio.denominator_role.as_deref(),
        );
        (numerator == own && leads(denominator)) || (denominator == own && leads(numerator))
    });
    if !coupled {
        let known: Vec<_> = target
            .roles
            .iter()
            .map(|role| role.name.as_str())
            .filter(|name| leads(Some(name)))
            .collect();
        let message = if known.is_empty() {
            "of kind Encode, and the target has no Prefill or Decode role to follow: it cannot be scaled".to_owned()
        } else {
            format!("add a ratio to one of: {}", known.join(", "))
        };
        faults.push(fault(
            format!("spec.roles[{index}].name"),
            FaultKind::Required,
            quoted(&role.name),
            message,
        ));
    }
}

/// The largest count of a role whose generated names all fit, up to 1024; `None` when not even one replica does.
pub fn largest_that_fits(target: &TargetShape, role: &TargetRole) -> Option<Replicas> {
    misfit(target, role, Replicas::MAX).map_or(Some(Replicas::MAX), |misfit| misfit.most)
}

/// The first generated name at `max` replicas that does not fit.
fn misfit(target: &TargetShape, role: &TargetRole, max: Replicas) -> Option<Misfit> {
    let service = format!("{}-{}", target.name, role.name);
    for label in [&target.name, &role.name, &service] {
        if label.len() > LONGEST_NAME {
            let message = format!(
                "{} has {} characters, {LONGEST_NAME} fit: no count fits, shorten deployment or role name",
                whole(label),
                label.len()
            );
            return Some(Misfit {
                message,
                most: None,
            });
        }
    }
    if role.size <= 1 {
        return None;
    }
    let member = |count: u16| format!("{service}-r{}-m{}", count - 1, role.size - 1);
    let clash = clash(target, role).filter(|&(ordinal, _)| ordinal < max.get());
    // What fits must fit both rules: else the way out of one leads to the other.
    let most = clash
        .map_or(max.get(), |(ordinal, _)| ordinal)
        .min(longest_run(&member, max));
    let way = if most == 0 {
        "no count fits, shorten deployment or role name".to_owned()
    } else {
        format!("at most {most}, or shorten deployment or role name")
    };
    let name = member(max.get());
    let message = match clash {
        _ if name.len() > LONGEST_NAME => format!(
            "{} has {} characters, {LONGEST_NAME} fit: {way}",
            whole(&name),
            name.len()
        ),
        Some((0, sibling)) => format!(
            "ordinal 0 would be named like role {}: no count fits, rename one of the two",
            quoted(&sibling.name)
        ),
        Some((ordinal, sibling)) => format!(
            "ordinal {ordinal} would be named like role {}: at most {ordinal}",
            quoted(&sibling.name)
        ),
        None => return None,
    };
    Some(Misfit {
        message,
        most: Replicas::new(i64::from(most)).ok(),
    })
}

/// The largest count, up to `max`, whose last member's name fits; zero when none does. A name grows with the digits of
/// its ordinal only.
fn longest_run(member: &dyn Fn(u16) -> String, max: Replicas) -> u16 {
    [max.get(), 1000, 100, 10]
        .into_iter()
        .filter(|&count| count <= max.get())
        .find(|&count| member(count).len() <= LONGEST_NAME)
        .unwrap_or(0)
}

/// The first instance whose Service is named like a sibling's role Service: the sibling is called `<role>-r<ordinal>`.
fn clash<'a>(target: &'a TargetShape, role: &TargetRole) -> Option<(u16, &'a TargetRole)> {
    let siblings = target.roles.iter().filter_map(|sibling| {
        let rest = sibling.name.strip_prefix(role.name.as_str())?;
        Some((ordinal(rest.strip_prefix("-r")?)?, sibling))
    });
    siblings.min_by_key(|&(ordinal, _)| ordinal)
}

/// A generated name in quotes, whole: it is what does not fit.
fn whole(name: &str) -> String {
    format!("\"{name}\"")
}

/// An ordinal as a name has it: digits without leading zeros.
fn ordinal(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, size: u32) -> TargetRole {
        TargetRole {
            name: name.into(),
            kind: Some(RoleKind::Server),
            count: Replicas::MIN,
            size,
            command: false,
            elastic: false,
            instance_type: None,
        }
    }

    fn target(name: &str, roles: Vec<TargetRole>) -> TargetShape {
        TargetShape {
            name: name.into(),
            roles,
        }
    }

    fn most(target: &TargetShape, index: usize) -> Option<u16> {
        largest_that_fits(target, &target.roles[index]).map(Replicas::get)
    }

    #[test]
    fn fifty_seven_characters_of_size_two_fit_at_ten_replicas_and_not_at_eleven() {
        let t = target(&"d".repeat(50), vec![role(&"r".repeat(6), 2)]);
        assert_eq!(t.name.len() + 1 + t.roles[0].name.len(), 57);
        assert_eq!(most(&t, 0), Some(10));
        let eleven = misfit(&t, &t.roles[0], Replicas::saturating(11)).unwrap();
        let name = format!("{}-{}-r10-m1", "d".repeat(50), "r".repeat(6));
        assert_eq!(
            eleven.message,
            format!(
                "\"{name}\" has 64 characters, 63 fit: at most 10, or shorten deployment or role name"
            )
        );
    }

    #[test]
    fn a_service_of_sixty_three_characters_fits_and_of_sixty_four_does_not() {
        let (fits, not) = (
            target(&"d".repeat(56), vec![role("server", 1)]),
            target(&"d".repeat(57), vec![role("server", 1)]),
        );
        assert_eq!((most(&fits, 0), most(&not, 0)), (Some(1024), None));
    }

    #[test]
    fn an_instance_service_must_not_be_named_like_a_sibling() {
        let t = target("t", vec![role("x", 2), role("x-r3", 1), role("x-r07", 1)]);
        assert_eq!(most(&t, 0), Some(3));
        let four = misfit(&t, &t.roles[0], Replicas::saturating(4)).unwrap();
        assert_eq!(
            four.message,
            "ordinal 3 would be named like role \"x-r3\": at most 3"
        );
        assert_eq!(misfit(&t, &t.roles[0], Replicas::saturating(3)), None);
        assert_eq!(
            most(&target("t", vec![role("x", 2), role("x-r0", 1)]), 0),
            None
        );
        assert_eq!(
            most(&target("t", vec![role("x", 1), role("x-r3", 1)]), 0),
            Some(1024)
        );
    }

    #[test]
    fn a_count_that_fits_keeps_both_rules_on_names() {
        let name = "r".repeat(6);
        let t = target(
            &"d".repeat(50),
            vec![role(&name, 2), role(&format!("{name}-r3"), 1)],
        );
        assert_eq!(most(&t, 0), Some(3));
        let eleven = misfit(&t, &t.roles[0], Replicas::saturating(11)).unwrap();
        assert!(
            eleven.message.ends_with(
                "has 64 characters, 63 fit: at most 3, or shorten deployment or role name"
            )
        );
        let zero = target("t", vec![role("x", 2), role("x-r0", 1)]);
        let one = misfit(&zero, &zero.roles[0], Replicas::MIN).unwrap();
        assert_eq!(
            one.message,
            "ordinal 0 would be named like role \"x-r0\": no count fits, rename one of the two"
        );
    }
}
