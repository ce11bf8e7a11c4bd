//! What the command line offers, one file a command.
//!
//! A new command is a file with `Args` and `Args::run`, and one line in each of the two lists below.

mod certs;
mod cluster;
mod crd;
mod document;
mod explain;
mod feasible;
mod judged;
pub mod observe;
mod output;
mod serve;
mod validate;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// What every command returns: an exit code of its own, or an error, which is printed and exits with 1.
type Outcome = anyhow::Result<ExitCode>;

/// Scales LLM inference deployments on Kubernetes, safely.
///
/// mds is an admission webhook server with a companion reconciler. It defaults and checks ModelDeploymentScalers, and
/// guards the replica counts of the ModelDeployments that a scaler owns.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage; a command may have more.
#[expect(clippy::doc_markdown, reason = "a help text has no markup")]
#[derive(Debug, Parser)]
#[command(name = "mds", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Certs(certs::Args),
    Crd(crd::Args),
    Observe(observe::ObserveArgs),
    Validate(validate::Args),
    Explain(explain::Args),
    Feasible(feasible::Args),
}

impl Cli {
    /// Runs the command and says how it ended.
    pub fn run(self) -> ExitCode {
        // Both rustls and the Kubernetes client look for the process's provider; with none, they panic. Installing fails
        // only when there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let outcome = match self.command {
            Command::Serve(args) => args.run(),
            Command::Certs(args) => args.run(),
            Command::Crd(args) => args.run(),
            Command::Observe(args) => args.run(),
            Command::Validate(args) => args.run(),
            Command::Explain(args) => args.run(),
            Command::Feasible(args) => args.run(),
        };
        outcome.unwrap_or_else(|error| {
            eprintln!("mds: {error:#}");
            ExitCode::FAILURE
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_serve_has_an_environment_variable() {
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        for flag in serve
            .get_arguments()
            .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
        {
            assert!(flag.get_env().is_some(), "{}", flag.get_id());
            assert!(flag.get_help().is_some(), "{}", flag.get_id());
        }
    }
}
