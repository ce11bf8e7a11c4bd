//! `mds validate`: the webhook's verdict, without a cluster.

use std::process::ExitCode;

use super::Outcome;
use super::judged::{Files, Judged};
use super::output::{Output, print};

/// Judges scalers in files as the webhook would, and names every fault
///
/// With the ModelDeployment of each, in the same files or by --target, the rules about the target's roles, kinds and names are judged too. Nothing is sent anywhere.
///
/// Exit codes: 0 every scaler is sound, 1 one is not or a file cannot be read, 2 wrong usage.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    files: Files,

    /// How verdicts are printed: text for people, json for scripts (one object a line)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

impl Args {
    pub(super) fn run(self) -> Outcome {
        let judged = self.files.judge()?;
        for scaler in &judged {
            print(&match self.output {
                Output::Text => scaler.text(),
                Output::Json => format!("{}\n", scaler.json()),
            })?;
        }
        Ok(verdict(&judged))
    }
}

/// Success where no scaler has a fault.
pub(super) fn verdict(judged: &[Judged]) -> ExitCode {
    if judged.iter().all(|scaler| scaler.faults.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
