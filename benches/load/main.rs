//! The server under load, against a bare hyper and rustls server that reads the body and answers a constant.
//!
//! `cargo bench --profile dist --bench load [-- FILTER]`. Both servers run as processes of their own; the load is a closed
//! loop of 16 kept connections that costs little itself (requests are bytes made beforehand, answers are not parsed). Rounds
//! are interleaved, because a shared machine drifts. Besides requests a second, which depend on what else runs, there
//! is the processor time of the server per request, which hardly does.

#![allow(unreachable_pub, reason = "a program, not a library")]

mod bare;
mod client;
mod reviews;
mod table;

use client::Protocol;
use mds::serve::connection::Patience;
use mds::serve::decide::Decide;
use mds::serve::listener::{Port, Transport};
use mds::serve::metrics::Metrics;
use mds::serve::review::{Limits, Reviews};
use mds::serve::tls::authority::{Authority, Subject};
use mds::serve::tls::revision::{self, File, Readers};
use mds::serve::tls::{Certificate, Directory};
use prometheus_client::registry::Registry;
use reviews::Case;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use table::{Row, Side};

const CONNECTIONS: usize = 16;
const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 6;

/// Names the role of a process that the benchmark starts.
const ROLE: &str = "MDS_LOAD_ROLE";
/// Names the directory with the certificate.
const HOME: &str = "MDS_LOAD_HOME";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    match std::env::var(ROLE).as_deref() {
        Ok("mds") => runtime()?.block_on(serve_mds(reviews::judge())),
        Ok("shell") => runtime()?.block_on(serve_mds(reviews::Constant)),
        Ok("bare") => runtime()?.block_on(bare::serve(&home()?)),
        _ => measure(),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}

fn home() -> Result<std::path::PathBuf, Failure> {
    Ok(std::env::var_os(HOME).ok_or("no home")?.into())
}

// === The servers ===

async fn serve_mds(judge: impl Decide) -> Result<(), Failure> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let certificate = Certificate::load(Directory::new(home()?), metrics.clone());
    let reviews = Arc::new(Reviews::new(
        judge,
        reviews::Facts,
        Limits::default(),
        metrics.clone(),
    ));
    let port = Port::bind(([127, 0, 0, 1], 0).into()).await?;
    println!("{}", port.address());
    let transport = Transport::Tls(certificate.server_config()?, metrics);
    let _open = port.open(transport, reviews, Patience::default(), 1024);
    until_parent_ends();
    Ok(())
}

/// The parent holds the other end of standard input.
pub fn until_parent_ends() {
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
}

/// A server process, ended with this value.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(role: &str, home: &Path) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(ROLE, role)
            .env(HOME, home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Self {
            child,
            address: line.trim().parse()?,
        })
    }

    /// Processor time that it has used, in ticks of 10 ms (Linux, `proc(5)`).
    fn ticks(&self) -> Result<u64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The fields after the name, which is in parentheses and may hold anything: utime and stime are 14 and 15.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === The measurement ===

fn measure() -> Result<(), Failure> {
    // Cargo passes `--bench`; what is left selects cases.
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    // Cargo says `--bench` when it is about numbers; `cargo test --benches` only wants to see it run.
    let quick = !std::env::args().any(|arg| arg == "--bench")
        || std::env::args().any(|arg| arg == "--quick");
    let (rounds, length) = if quick {
        (2, ROUND / 4)
    } else {
        (ROUNDS, ROUND)
    };

    let home = tempfile::tempdir()?;
    let authority = certificate(home.path())?;
    let bench = Bench {
        runtime: runtime()?,
        client: client::Client::new(&authority)?,
        mds: Server::start("mds", home.path())?,
        shell: Server::start("shell", home.path())?,
        bare: Server::start("bare", home.path())?,
        rounds,
        length,
    };
    println!("{}", table::header(CONNECTIONS, rounds, length));
    for case in reviews::cases() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let name = format!("{} {}", case.name, protocol.name());
            if filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())) {
                println!("{}", bench.compare(&case, protocol)?.line(&name));
            }
        }
    }
    Ok(())
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    client: client::Client,
    mds: Server,
    /// mds with a decision that is a constant: what the server costs without `admission`.
    shell: Server,
    bare: Server,
    rounds: usize,
    length: Duration,
}

impl Bench {
    fn compare(&self, case: &Case, protocol: Protocol) -> Result<Row, Failure> {
        let once = self
            .client
            .once(self.mds.address, protocol, case.path, &case.body);
        let answer = self.runtime.block_on(once)?;
        if memchr::memmem::find(&answer, case.expected.as_bytes()).is_none() {
            return Err(format!("{}: {}", case.name, String::from_utf8_lossy(&answer)).into());
        }
        // What mds answers decides how much the bare server sends.
        let constant = format!("/{}", answer.len());
        let mut row = Row::default();
        for round in 0..=self.rounds {
            let mut order = [Side::Mds, Side::Shell, Side::Bare];
            // Which one goes first changes.
            order.rotate_left(round % 3);
            for side in order {
                let (server, path) = match side {
                    Side::Mds => (&self.mds, case.path),
                    Side::Shell => (&self.shell, case.path),
                    Side::Bare => (&self.bare, constant.as_str()),
                };
                let before = server.ticks()?;
                let load = self.client.round(
                    server.address,
                    protocol,
                    path,
                    &case.body,
                    CONNECTIONS,
                    self.length,
                );
                let done = self.runtime.block_on(load)?;
                let ticks = server.ticks()? - before;
                // The first round warms up.
                if round > 0 {
                    row.add(side, &done, ticks);
                }
            }
        }
        Ok(row)
    }
}

fn certificate(home: &Path) -> Result<Authority, Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let authority = Authority::generate(now)?;
    let subject = Subject {
        dns_names: vec!["localhost".into()],
        addresses: Vec::new(),
    };
    let pair = authority.issue(&subject, now, Duration::from_hours(24))?;
    let files = [
        File {
            name: "tls.crt",
            content: &pair.certificate().0,
            readers: Readers::All,
        },
        File {
            name: "tls.key",
            content: &pair.key().0,
            readers: Readers::Owner,
        },
    ];
    revision::write(home, 1, &files)?;
    Ok(authority)
}
