//! Fake engines: small HTTP servers on loopback addresses that show what vLLM or SGLang would under a load.
//!
//! What is fake is the inference. Requests arrive, share prefixes, queue for a batch slot and for cache blocks, are
//! prefilled and decoded at given speeds; what that leads to is shown in the engine's own names, labels and buckets.
//! A fault spoils one engine's answers on demand. Hundreds fit in one process: an engine moves on only when it is asked.

mod exposition;
mod model;
mod server;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use model::{Load, Model, Stage, Talents};
pub use server::{Authority, Tls};

/// Which engine is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// vLLM, names as of 0.32.
    Vllm,
    /// SGLang, names as of 0.5.23.
    Sglang,
}

/// What an engine does wrong, until told otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It answers this much later.
    Slow(Duration),
    /// It takes the request and says nothing more.
    Hang,
    /// It stops in the middle of the body, and keeps the connection.
    HangInBody,
    /// The connection ends in the middle of the body, before the announced length.
    Truncated,
    /// The connection ends in the middle of a number, and no length was announced: only the missing newline tells.
    CutNumber,
    /// Nobody listens at the address for a while: connections are closed at once.
    Down,
    /// Another status, with a JSON body.
    Status(u16),
    /// An HTML page with status 200.
    Html,
    /// A redirect to a path that works.
    Redirect,
    /// Families whose names end in one of these words are left out.
    Missing(Vec<String>),
    /// A body of 5 MiB.
    Huge,
}

/// What is served.
#[derive(Clone, Debug)]
enum Source {
    /// A model under load.
    Model(Box<Model>, Flavour),
    /// Recorded bodies, one for each scrape, the last one for ever.
    Recorded(Vec<Vec<u8>>, usize),
}

#[derive(Debug)]
struct State {
    source: Source,
    fault: Fault,
    now: Instant,
    scrapes: u64,
}

/// A fake engine that runs until dropped.
#[derive(Debug)]
pub struct Engine {
    address: SocketAddr,
    secure: bool,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Engine {
    /// Plays `flavour` at `address`; port 0 takes any. A given `tls` makes it an https endpoint.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn play(
        address: SocketAddr,
        flavour: Flavour,
        model: Model,
        tls: Option<Tls>,
    ) -> std::io::Result<Self> {
        Self::serve(address, Source::Model(Box::new(model), flavour), tls).await
    }

    /// Serves recorded bodies at `address`: the first one to the first scrape, the last one for ever.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn replay(
        address: SocketAddr,
        bodies: Vec<Vec<u8>>,
        tls: Option<Tls>,
    ) -> std::io::Result<Self> {
        Self::serve(address, Source::Recorded(bodies, 0), tls).await
    }

    async fn serve(address: SocketAddr, source: Source, tls: Option<Tls>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let state = State {
            source,
            fault: Fault::None,
            now: Instant::now(),
            scrapes: 0,
        };
        let state = Arc::new(Mutex::new(state));
        let secure = tls.is_some();
        let server = tokio::spawn(server::accept(listener, Arc::clone(&state), tls));
        Ok(Self {
            address,
            secure,
            state,
            server,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its metrics.
    pub fn url(&self) -> String {
        format!(
            "{}://{}/metrics",
            if self.secure { "https" } else { "http" },
            self.address
        )
    }

    /// Changes the load. A recorded engine has none.
    pub fn load(&self, load: Load) {
        let mut state = lock(&self.state);
        state.advance();
        if let Source::Model(model, _) = &mut state.source {
            model.load = load;
        }
    }

    /// Spoils the answers from now on; [`Fault::None`] mends them.
    pub fn fault(&self, fault: Fault) {
        lock(&self.state).fault = fault;
    }

    /// Begins anew as another process: counters at zero, another start time, requests lost.
    pub fn restart(&self) {
        self.with_model(Model::restart);
    }

    /// Sets the counters to zero and nothing else: a reset that only their values tell.
    pub fn reset_counters(&self) {
        self.with_model(Model::reset_counters);
    }

    /// How many scrapes it saw.
    pub fn scrapes(&self) -> u64 {
        lock(&self.state).scrapes
    }

    fn with_model(&self, change: impl FnOnce(&mut Model)) {
        let mut state = lock(&self.state);
        state.advance();
        if let Source::Model(model, _) = &mut state.source {
            change(model);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl State {
    /// Lets the time pass that has passed.
    fn advance(&mut self) {
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(self.now);
        self.now = now;
        if let Source::Model(model, _) = &mut self.source {
            model.advance(elapsed);
        }
    }

    /// The body of the next scrape, whole and sound.
    fn body(&mut self) -> Vec<u8> {
        self.advance();
        self.scrapes += 1;
        match &mut self.source {
            Source::Model(model, flavour) => exposition::write(model, *flavour).into_bytes(),
            Source::Recorded(bodies, next) => {
                let body = bodies
                    .get(*next)
                    .or(bodies.last())
                    .cloned()
                    .unwrap_or_default();
                *next = next.saturating_add(1);
                body
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
