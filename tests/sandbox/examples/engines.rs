//! Fake engines to look at: prints their URLs, as flags of `mds observe`, and serves until stopped.
//!
//! ```text
//! cargo run -p sandbox --example engines -- --count 64 --requests 20 > urls &
//! mds observe $(cat urls)
//! cargo run -p sandbox --example engines -- --replay before.prom --replay after.prom
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use sandbox::engine::{Engine, Flavour, Load, Model, Stage, Talents};

#[derive(Debug, Parser)]
struct Args {
    /// How many engines, on 127.0.10.1 and up
    #[arg(long, default_value_t = 1)]
    count: u16,
    /// Play SGLang; without it, vLLM
    #[arg(long)]
    sglang: bool,
    /// Requests per second that each engine gets
    #[arg(long, default_value_t = 5.0)]
    requests: f64,
    /// Mean tokens of a prompt
    #[arg(long, default_value_t = 500.0)]
    prompt: f64,
    /// Mean tokens of an answer
    #[arg(long, default_value_t = 100.0)]
    output: f64,
    /// Part of a prompt that the prefix cache answers, 0 to 1
    #[arg(long, default_value_t = 0.3)]
    prefix_hits: f64,
    /// Serve these bodies instead, one for each scrape, the last one for ever
    #[arg(long, value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// Stop after so many seconds
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let flavour = if args.sglang {
        Flavour::Sglang
    } else {
        Flavour::Vllm
    };
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| path.display().to_string());
    let bodies: Vec<Vec<u8>> = args
        .replay
        .iter()
        .map(read)
        .collect::<anyhow::Result<_>>()?;
    let mut engines = Vec::new();
    for host in 0..args.count {
        let [x, y] = (host + 0x0a01).to_be_bytes();
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, x, y), 8000));
        let engine = if bodies.is_empty() {
            let model = Model::new(Stage::Server, Talents::default(), "fake", u64::from(host));
            Engine::play(address, flavour, model, None).await
        } else {
            Engine::replay(address, bodies.clone(), None).await
        };
        let engine = engine.with_context(|| format!("cannot listen on {address}"))?;
        engine.load(Load {
            requests: args.requests,
            prompt: args.prompt,
            output: args.output,
            prefix_hits: args.prefix_hits,
        });
        println!("--url {}", engine.url());
        engines.push(engine);
    }
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    Ok(())
}
