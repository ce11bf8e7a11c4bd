//! `mds feasible`: which counts a set of bounds and ratios leaves, or why none.

mod flags;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json, value::to_raw_value};

use super::Outcome;
use super::document;
use super::output::{Output, print};
use crate::admission::{Target, sentence, warnings};
use crate::api::Replicas;
use crate::api::scaler::KIND;
use crate::policy::{Policy, check, read};
use crate::ratio::Intervals;
use flags::{RatioFlag, RoleFlag, StepFlag};

/// Says which counts bounds and ratios leave, or proves that they leave none
///
/// Give a file with scalers, of which only roles, ratios and behavior are read, or the bounds and ratios themselves:
///
///   mds feasible --role prefill=1..8 --role decode=..16 --ratio prefill/decode=0.5..2
///
/// Both ends shown for a role occur in some vector; not every count between them need occur. What is possible and will still disappoint is said too: ends that nothing reaches, roles that cannot move, ways that stop half-way.
///
/// Exit codes: 0 possible, 1 impossible or a file cannot be read, 2 wrong usage.
#[derive(Debug, clap::Args)]
#[group(id = "question", required = true, multiple = true)]
pub(super) struct Args {
    /// A file with scalers, as YAML or JSON; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with_all = ["roles", "ratios", "step_up", "step_down"])]
    file: Option<PathBuf>,

    /// A role and its bounds: a=1..8, a=..8 (from 1), a=3 (always 3); repeatable
    #[arg(long = "role", value_name = "NAME=MIN..MAX")]
    roles: Vec<RoleFlag>,

    /// The count of one role divided by that of another: a/b=0.5..2, a/b=0.5.., a/b=..2, a/b=2 (always); repeatable
    #[arg(long = "ratio", value_name = "A/B=MIN..MAX", requires = "roles")]
    ratios: Vec<RatioFlag>,

    /// How far one pass may grow a role: 2 (replicas) or 50%; default: the larger of 4 replicas and 100%
    #[arg(long, value_name = "STEP", requires = "roles")]
    step_up: Option<StepFlag>,

    /// How far one pass may shrink a role: 2 (replicas) or 50%; default: 1 replica
    #[arg(long, value_name = "STEP", requires = "roles")]
    step_down: Option<StepFlag>,

    /// How the answer is printed: text for people, json for scripts (one object a line)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Outcome {
        let mut code = ExitCode::SUCCESS;
        for (source, spec) in self.questions()? {
            let answer = answer(source, &spec)?;
            if answer.outcome.is_err() {
                code = ExitCode::FAILURE;
            }
            print(&match self.output {
                Output::Text => answer.text(),
                Output::Json => format!("{}\n", answer.json()),
            })?;
        }
        Ok(code)
    }

    /// What is asked, as parts of specs, each with where it is from.
    fn questions(&self) -> anyhow::Result<Vec<(String, Value)>> {
        let Some(path) = &self.file else {
            let behavior = json!({
                "scaleUp": {"stepPolicy": self.step_up.as_ref().map(StepFlag::policy)},
                "scaleDown": {"stepPolicy": self.step_down.as_ref().map(StepFlag::policy)},
            });
            let spec = json!({
                "roles": self.roles.iter().map(RoleFlag::bounds).collect::<Vec<_>>(),
                "ratios": self.ratios.iter().map(RatioFlag::ratio).collect::<Vec<_>>(),
                "behavior": behavior,
            });
            return Ok(vec![(String::new(), spec)]);
        };
        let asked: Vec<_> = document::read(path)?
            .into_iter()
            .filter(document::Document::is_scaler)
            .map(|scaler| {
                let source = format!("{}: {KIND} {}", scaler.source, scaler.meta("name"));
                (source, scaler.object["spec"].clone())
            })
            .collect();
        if asked.is_empty() {
            bail!("{}: there is no {KIND} in it", path.display());
        }
        Ok(asked)
    }
}

/// What a set of bounds and ratios leaves.
#[derive(Debug)]
struct Answer {
    /// Where it is from; empty for the command line.
    source: String,
    outcome: Result<Room, Vec<String>>,
}

/// The counts that there are.
#[derive(Debug)]
struct Room {
    policy: Policy,
    tight: Intervals,
    advice: Vec<String>,
}

/// Decides the roles, ratios and steps of a spec; the rest of it is replaced by something sound.
fn answer(source: String, spec: &Value) -> anyhow::Result<Answer> {
    let whole = json!({
        "targetRef": {"name": "any"},
        "roles": spec["roles"],
        "ratios": spec["ratios"],
        "behavior": spec["behavior"],
        "algorithm": {"tokenThroughput": {"serverTargetTokensPerSecond": 1}},
    });
    let reading = read(&to_raw_value(&whole).context("a spec that is no JSON")?);
    let outcome = match check(&reading) {
        Err(faults) => Err(faults
            .iter()
            .map(|fault| format!("{}: {}", fault.path, sentence(fault)))
            .collect()),
        Ok(policy) => {
            let tight = policy
                .system()
                .and_then(|system| system.tight().ok())
                .context("a checked policy has a vector")?;
            let advice = warnings(&policy, &reading.spec, &Target::Unknown, &[]);
            Ok(Room {
                policy,
                tight,
                advice,
            })
        }
    };
    Ok(Answer { source, outcome })
}

impl Answer {
    fn text(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        if !self.source.is_empty() {
            let _ = writeln!(text, "{}", self.source);
        }
        match &self.outcome {
            Err(faults) => {
                text.push_str("impossible\n");
                for fault in faults {
                    let _ = writeln!(text, "  {fault}");
                }
            }
            Ok(room) => {
                text.push_str("possible\n");
                room.table(&mut text);
                for advice in &room.advice {
                    let _ = writeln!(text, "  advice: {advice}");
                }
            }
        }
        text
    }

    fn json(&self) -> Value {
        match &self.outcome {
            Err(faults) => json!({"source": self.source, "feasible": false, "faults": faults}),
            Ok(room) => {
                let roles: Vec<Value> = room
                    .rows()
                    .map(|(name, given, least, most)| {
                        json!({"name": name, "minReplicas": given.0, "maxReplicas": given.1, "least": least, "most": most})
                    })
                    .collect();
                json!({"source": self.source, "feasible": true, "roles": roles, "advice": room.advice})
            }
        }
    }
}

impl Room {
    /// Name, given bounds, and the least and the most that occur.
    fn rows(&self) -> impl Iterator<Item = (&str, (Replicas, Replicas), Replicas, Replicas)> {
        let ends = self.tight.lo.iter().zip(&self.tight.hi);
        self.policy
            .roles
            .iter()
            .zip(ends)
            .map(|(role, (&lo, &hi))| (role.name.as_str(), (role.min, role.max), lo, hi))
    }

    fn table(&self, text: &mut String) {
        use std::fmt::Write as _;
        let widest = self.rows().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let width = widest.max("role".len());
        let _ = writeln!(
            text,
            "  {:width$}  {:>10}  {:>10}",
            "role", "bounds", "reached"
        );
        for (name, (min, max), lo, hi) in self.rows() {
            let (given, reached) = (format!("{min}..{max}"), format!("{lo}..{hi}"));
            let _ = writeln!(text, "  {name:width$}  {given:>10}  {reached:>10}");
        }
    }
}

#[cfg(test)]
mod tests;
