//! Every rule of a spec that needs no target, and the policy when all of them hold.
//!
//! The rules stand in the order of the fields, and so do the faults. A rule over several fields judges only parts that
//! are sound themselves; feasibility is decided when roles and ratios have no fault.

mod algorithm;
mod behavior;
mod roles;

use crate::api::{
    Quantity, ScalerSpec,
    quantity::{Nanos, QuantityError},
    scaler::TargetRef,
};

use super::{
    checked::Policy,
    defaults,
    fault::{Fault, FaultKind},
    name::is_subdomain,
    order::in_field_order,
    range::{self, Range},
    read::Reading,
};

pub(super) use algorithm::{FALLBACKS, FORECASTS, algorithm_kind};

/// Judges a spec: the policy, or every fault.
pub fn check(reading: &Reading) -> Result<Policy, Vec<Fault>> {
    let spec = &reading.spec;
    let mut checker = Checker {
        reading,
        faults: vec![],
        told: vec![],
    };
    if checker.broken("spec") {
        return Err(checker.faults);
    }
    let policy = checker.policy(spec);
    checker.rest();
    match policy {
        Some(policy) if checker.faults.is_empty() => Ok(policy),
        _ => {
            in_field_order(&mut checker.faults);
            Err(checker.faults)
        }
    }
}

/// Collects faults in the order of the fields.
struct Checker<'a> {
    reading: &'a Reading,
    faults: Vec<Fault>,
    /// Ill-typed parts that have been reported.
    told: Vec<&'a str>,
}

/// What a field of a spec holds once its rules were asked: nothing where a fault was found.
type Sound<T> = Option<T>;

impl<'a> Checker<'a> {
    fn policy(&mut self, spec: &ScalerSpec) -> Sound<Policy> {
        let target = self.target(spec.target_ref.as_ref());
        self.broken("spec.mode");
        self.broken("spec.suspend");
        self.broken("spec.sampling");
        let sampling = spec.sampling.clone().unwrap_or_default();
        let interval = self.seconds(
            "spec.sampling.intervalSeconds",
            sampling.interval_seconds,
            defaults::INTERVAL_SECONDS,
            range::INTERVAL,
        );
        let pending_timeout = self.seconds(
            "spec.sampling.pendingTimeoutSeconds",
            sampling.pending_timeout_seconds,
            defaults::PENDING_TIMEOUT_SECONDS,
            range::PENDING_TIMEOUT,
        );
        let shape = self.shape(spec);
        let algorithm = self.algorithm(spec);
        let scale_up = self.scale_up(spec);
        let scale_down = self.scale_down(spec);
        let rebalance = self.rebalance(spec);
        let (roles, ratios) = shape?;
        Some(Policy {
            target: target?,
            mode: spec.mode.unwrap_or_default(),
            suspend: spec.suspend.unwrap_or(false),
            interval: interval?,
            pending_timeout: pending_timeout?,
            roles,
            ratios,
            algorithm: algorithm?,
            scale_up: scale_up?,
            scale_down: scale_down?,
            rebalance: rebalance?,
        })
    }

    fn target(&mut self, target: Option<&TargetRef>) -> Sound<String> {
        if self.broken("spec.targetRef") || self.broken("spec.targetRef.name") {
            return None;
        }
        let Some(target) = target else {
            self.required(
                "spec.targetRef",
                "name the ModelDeployment to scale: targetRef: {name: llm-serving}",
            );
            return None;
        };
        match target.name.as_deref() {
            None | Some("") => self.required("spec.targetRef.name", "name the ModelDeployment to scale: targetRef: {name: llm-serving}"),
            Some(name) if !is_subdomain(name) => self.invalid(
                "spec.targetRef.name",
                &quoted(name),
                "must be a name of lower-case letters, digits, '-' and '.', at most 253 characters: write the ModelDeployment's own name",
            ),
            Some(name) => return Some(name.to_owned()),
        }
        None
    }

    /// An integer in its range, or its default where it is absent.
    fn integer(
        &mut self,
        path: &str,
        value: Option<i32>,
        default: i32,
        range: Range,
    ) -> Sound<i32> {
        if self.broken(path) {
            return None;
        }
        let value = value.unwrap_or(default);
        if range.contains(value) {
            return Some(value);
        }
        let rule = match range {
            range::MIN_REPLICAS | range::MAX_REPLICAS if value < 1 => {
                "must be at least 1: a scaler cannot scale to zero".to_owned()
            }
            _ => range.rule(),
        };
        self.invalid(path, &value.to_string(), &rule);
        None
    }

    fn seconds(
        &mut self,
        path: &str,
        value: Option<i32>,
        default: i32,
        range: Range,
    ) -> Sound<u32> {
        self.integer(path, value, default, range)
            .and_then(|n| u32::try_from(n).ok())
    }

    /// A quantity of any sign, if it is given.
    fn quantity(&mut self, path: &str, value: Option<&Quantity>) -> Sound<Option<Nanos>> {
        if self.broken(path) {
            return None;
        }
        let Some(quantity) = value else {
            return Some(None);
        };
        match quantity.nanos() {
            Ok(nanos) => Some(Some(nanos)),
            Err(error) => {
                let value = match quantity {
                    Quantity::Int(n) => n.to_string(),
                    Quantity::Text(text) => quoted(text),
                };
                let way = match error {
                    QuantityError::Malformed => error.to_string(),
                    QuantityError::TooLarge | QuantityError::TooLong => {
                        format!("{error}: write \"0.5\", \"500m\" or \"8\"")
                    }
                };
                self.invalid(path, &value, &way);
                None
            }
        }
    }

    /// A positive quantity, if it is given.
    fn positive(&mut self, path: &str, value: Option<&Quantity>) -> Sound<Option<Nanos>> {
        let nanos = self.quantity(path, value)?;
        if let (Some(nanos), Some(written)) = (nanos, value)
            && nanos <= Nanos::new(0)
        {
            self.invalid(path, &written_as(written), "must be greater than 0");
            return None;
        }
        Some(nanos)
    }

    /// A positive quantity, or its default where it is absent.
    fn positive_or(&mut self, path: &str, value: Option<&Quantity>, default: &str) -> Sound<Nanos> {
        Some(
            self.positive(path, value)?
                .unwrap_or_else(|| constant(default)),
        )
    }

    /// Whether the part at `path` was ill-typed; then that fault is reported here.
    fn broken(&mut self, path: &str) -> bool {
        let Some((key, fault)) = self.reading.broken.get_key_value(path) else {
            return false;
        };
        if !self.told.contains(&key.as_str()) {
            self.told.push(key);
            self.faults.push(fault.clone());
        }
        true
    }

    /// Reports the ill-typed parts that no rule has come by.
    fn rest(&mut self) {
        let reading: &'a Reading = self.reading;
        for path in reading.broken.keys() {
            self.broken(path);
        }
    }

    fn fault(&mut self, path: &str, kind: FaultKind, value: &str, message: impl Into<String>) {
        self.faults.push(Fault {
            path: path.to_owned(),
            kind,
            value: value.to_owned(),
            message: message.into(),
        });
    }

    fn invalid(&mut self, path: &str, value: &str, message: &str) {
        self.fault(path, FaultKind::Invalid, value, message);
    }

    fn required(&mut self, path: &str, message: &str) {
        self.fault(path, FaultKind::Required, "", message);
    }
}

/// A text as JSON, cut where it is long.
pub(in crate::policy) fn quoted(text: &str) -> String {
    super::read::brief(&serde_json::Value::from(text))
}

fn written_as(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Int(n) => n.to_string(),
        Quantity::Text(text) => quoted(text),
    }
}

/// A default of `defaults`, in nanos.
fn constant(text: &str) -> Nanos {
    text.parse().unwrap_or(Nanos::ONE)
}

#[cfg(test)]
mod tests;
