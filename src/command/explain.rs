//! `mds explain`: what a scaler will do, in plain words.

mod algorithm;

use std::fmt::Write as _;
use std::process::ExitCode;

use super::Outcome;
use super::judged::{Files, Judged};
use super::output::print;
use crate::api::Replicas;
use crate::api::scaler::{KIND, Mode};
use crate::policy::{Policy, RatioPolicy, RebalanceOrder, TargetShape, largest_that_fits};
use crate::ratio::{Intervals, Step};

/// Says in plain words what a scaler will do
///
/// Which counts each role can have, which role follows which, what is read and how often, what each limit means, and what will disappoint. A scaler with faults is judged instead, as by validate.
///
/// Exit codes: 0 explained, 1 a scaler has faults or a file cannot be read, 2 wrong usage.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,
}

impl Args {
    pub(super) fn run(self) -> Outcome {
        let mut code = ExitCode::SUCCESS;
        for scaler in self.files.judge()? {
            if let Some(policy) = scaler.policy.as_ref().filter(|_| scaler.faults.is_empty()) {
                print(&explain(&scaler, policy))?;
            } else {
                print(&scaler.text())?;
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }
}

/// Everything about a sound scaler.
fn explain(scaler: &Judged, policy: &Policy) -> String {
    let target = scaler.target.as_ref();
    let mut page = Page::default();
    page.line(&format!("{KIND} {} ({})", scaler.name, scaler.source));
    purpose(policy, &mut page);
    roles(policy, target, &mut page);
    ratios(policy, &mut page);
    algorithm::describe(policy, target, &mut page);
    growth(policy, &mut page);
    shrinking(policy, &mut page);
    rebalancing(policy, &mut page);
    if !scaler.warnings.is_empty() {
        page.part("Mind");
        for warning in &scaler.warnings {
            page.item(warning);
        }
    }
    page.text.push('\n');
    page.text
}

/// Text under headings.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn part(&mut self, heading: &str) {
        let _ = write!(self.text, "\n{heading}\n");
    }

    fn item(&mut self, text: &str) {
        let _ = writeln!(self.text, "  {text}");
    }
}

fn purpose(policy: &Policy, page: &mut Page) {
    page.line("");
    let target = &policy.target;
    if policy.suspend {
        page.line(&format!(
            "It is suspended: it plans nothing for ModelDeployment {target}, and holds no binding."
        ));
        page.line("Once suspend is false:");
    }
    let becomes = match policy.mode {
        Mode::Shadow => {
            "and only reports them in its own status: mode Active would write them to the target"
        }
        Mode::Active => {
            "and writes them to the target, which it binds: nobody else changes them then"
        }
    };
    page.line(&format!(
        "It plans the replica counts of ModelDeployment {target} every {} {becomes}.",
        seconds(policy.interval)
    ));
}

fn roles(policy: &Policy, target: Option<&TargetShape>, page: &mut Page) {
    page.part("Counts");
    let tight = policy.system().and_then(|system| system.tight().ok());
    for (index, role) in policy.roles.iter().enumerate() {
        let mut text = format!("{}: {}", role.name, between(role.min, role.max));
        if let Some(Intervals { lo, hi }) = &tight
            && (lo[index], hi[index]) != (role.min, role.max)
        {
            let _ = write!(text, "; the ratios leave {}", between(lo[index], hi[index]));
        }
        if let Some(shape) = target
            && let Some(known) = shape.role(&role.name)
        {
            let kind = known
                .kind
                .map_or("a kind unknown here", |kind| kind.as_str());
            let _ = write!(text, "; {kind}, now {}", known.count);
            if let Some(most) = largest_that_fits(shape, known)
                && most < Replicas::MAX
            {
                let _ = write!(text, "; the names of more than {most} would not fit");
            }
        }
        page.item(&text);
    }
}

fn between(low: Replicas, high: Replicas) -> String {
    if low == high {
        format!("always {low}")
    } else {
        format!("{low} to {high}")
    }
}

fn ratios(policy: &Policy, page: &mut Page) {
    if policy.ratios.is_empty() {
        if policy.roles.len() > 1 {
            page.item("No ratios: each role moves by itself.");
        }
        return;
    }
    page.part("Ratios");
    for ratio in &policy.ratios {
        page.item(&ratio_text(policy, ratio));
    }
    let components = policy
        .system()
        .map(|system| system.components().to_vec())
        .unwrap_or_default();
    for first in 0..components.len() {
        let together: Vec<&str> = (0..components.len())
            .filter(|&role| components[role] == first)
            .map(|role| policy.roles[role].name.as_str())
            .collect();
        if together.len() > 1 {
            page.item(&format!(
                "{} move together: in one write, all up or all down.",
                listed(&together)
            ));
        }
    }
}

fn ratio_text(policy: &Policy, ratio: &RatioPolicy) -> String {
    let (n, d) = (
        &policy.roles[ratio.numerator].name,
        &policy.roles[ratio.denominator].name,
    );
    let prefers = ratio
        .target
        .map_or_else(String::new, |target| format!("; {target} is preferred"));
    match (ratio.min, ratio.max) {
        (Some(min), Some(max)) if min == max => format!("{n} is always {min} times {d}."),
        (Some(min), Some(max)) => format!("{n} is {min} to {max} times {d}{prefers}."),
        (Some(min), None) => format!("{n} is at least {min} times {d}{prefers}."),
        (None, Some(max)) => format!("{n} is at most {max} times {d}{prefers}."),
        (None, None) => match ratio.target {
            Some(target) => {
                format!("{n} is preferred to be {target} times {d}; nothing enforces it.")
            }
            None => format!("{n} and {d} have no ratio to keep."),
        },
    }
}

fn growth(policy: &Policy, page: &mut Page) {
    page.part("Growth");
    let up = &policy.scale_up;
    if up.step.is_zero() {
        page.item("None: the step policy is zero.");
        return;
    }
    page.item(&format!(
        "One pass adds at most {} to a role.",
        step(up.step)
    ));
    page.item(&match up.stabilization {
        0 => "It does not wait: the first pass that asks for more gets it.".to_owned(),
        wait => format!(
            "It waits until recommendations go back {}, and then takes the least of them: a short burst adds nothing.",
            seconds(wait)
        ),
    });
    page.item(&format!(
        "Added replicas that get no resources within {} are taken back, all of them in one write, and ResourceExhausted is reported.",
        seconds(policy.pending_timeout)
    ));
}

fn shrinking(policy: &Policy, page: &mut Page) {
    page.part("Shrinking");
    let down = &policy.scale_down;
    if down.step.is_zero() {
        page.item("None: the step policy is zero. What grew stays.");
        return;
    }
    page.item(&format!(
        "One pass removes at most {} of a role.",
        step(down.step)
    ));
    page.item(&format!(
        "It waits until recommendations go back {}; the largest of them is the floor.",
        seconds(down.stabilization)
    ));
    page.item(&format!(
        "After a retirement that failed, nothing shrinks for {}.",
        seconds(down.cooldown_after_abort)
    ));
    page.item(&format!(
        "A Decode role that grew does not shrink for {}.",
        seconds(down.decode_grace)
    ));
    page.item(
        "Missing signals, a retirement under way and replicas that are not observed hold it.",
    );
}

fn rebalancing(policy: &Policy, page: &mut Page) {
    page.part("When resources are exhausted");
    page.item(&match &policy.rebalance {
        RebalanceOrder::Disabled => "No role gives a replica to another.".to_owned(),
        RebalanceOrder::Opposing => {
            "A role of the same pool that is to shrink anyhow may give one replica to the role that waits."
                .to_owned()
        }
        RebalanceOrder::Priority(order) => {
            let names: Vec<&str> = order
                .iter()
                .map(|&role| policy.roles[role].name.as_str())
                .collect();
            match names.as_slice() {
                [] => "No role is listed: none gives a replica to another.".to_owned(),
                [only] => format!("Only {only} is listed: none gives a replica to another."),
                names => format!(
                    "A role takes one replica from a role of the same pool behind it: {}.",
                    names.join(", then ")
                ),
            }
        }
    });
}

fn step(step: Step) -> String {
    match step {
        Step::Pods(1) => "1 replica".to_owned(),
        Step::Pods(n) => format!("{n} replicas"),
        Step::Percent(p) => format!("{p} % of its count, rounded up,"),
        Step::Larger { replicas, percent } => {
            format!("the larger of {replicas} replicas and {percent} % of its count, rounded up,")
        }
    }
}

/// Seconds as people say them: 90 s, 5 min.
fn seconds(n: u32) -> String {
    if n >= 60 && n.is_multiple_of(60) {
        format!("{} min", n / 60)
    } else {
        format!("{n} s")
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests;
