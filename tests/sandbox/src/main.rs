//! `sandbox run` and `sandbox test`: what `make run` and `make test` do.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

mod command;

/// A small real cluster on this machine.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(command::run::Args),
    Test(command::test::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => args.run().await,
        Command::Test(args) => args.run().await,
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("sandbox: {error:#}");
        ExitCode::FAILURE
    })
}
