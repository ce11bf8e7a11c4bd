//! `mds crd`: the definition of `ModelDeploymentScaler`.

use super::Outcome;
use crate::api::crd;
use anyhow::Context;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints the CustomResourceDefinition of ModelDeploymentScaler as YAML
///
/// The committed manifest is this output. Install it with: mds crd | kubectl apply --server-side -f -
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub(super) fn run(self) -> Outcome {
        let Self {} = self;
        let yaml =
            serde_saphyr::to_string(&crd()).context("the definition cannot be written as YAML")?;
        match io::stdout().write_all(yaml.as_bytes()) {
            // Who reads has enough: `mds crd | head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.context("cannot write to standard output")?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
