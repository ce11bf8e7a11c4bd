//! How a command prints.

use std::io::{self, Write};

use anyhow::Context;

/// The form of what a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// Prints a text.
///
/// # Errors
/// Standard output that cannot be written; who has read enough is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
