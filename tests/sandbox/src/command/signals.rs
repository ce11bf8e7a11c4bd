//! The signals that ask a program to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Who was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// This process and every child that shares its terminal.
    ByTerminal,
    /// This process alone.
    Alone,
}

/// Ctrl-C, and what a supervisor or a closed terminal sends.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on: none of them ends the process by itself any more.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::ByTerminal,
            _ = self.terminate.recv() => Asked::Alone,
            _ = self.hangup.recv() => Asked::Alone,
        }
    }
}
