//! The command line, nothing else.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    mds::command::Cli::parse().run()
}
