//! What the webhook port promises, over real sockets and real TLS, without a cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod loopback;

use bytes::Bytes;
use http::StatusCode;
use loopback::{Choice, Got, Server, connect, http1, http2, post, review, roots};
use mds::serve::connection::Patience;
use mds::serve::listener::Drained;
use mds::serve::review::Limits;
use rustls::version::{TLS12, TLS13};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(5);

fn impatient() -> Choice {
    let short = Duration::from_millis(200);
    let patience = Patience {
        handshake: short,
        first_request: short,
        idle: short,
        farewell: short,
        ..Patience::default()
    };
    Choice {
        patience,
        ..Choice::default()
    }
}

/// Waits until the peer closes, and says how long that took.
async fn closed(mut stream: impl AsyncReadExt + Unpin) -> Duration {
    let started = Instant::now();
    let mut rest = Vec::new();
    // An error is a close, too: TLS without a farewell.
    let _ = timeout(SOON, stream.read_to_end(&mut rest))
        .await
        .expect("the connection stays open");
    started.elapsed()
}

// === TLS ===

#[tokio::test]
async fn both_tls_versions_and_both_http_versions_are_spoken() {
    let server = Server::start(Choice::default()).await;
    let roots = roots(&server.authority);
    for version in [&TLS12, &TLS13] {
        for (alpn, chosen) in [
            (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
            (&["http/1.1"][..], Some(&b"http/1.1"[..])),
            (&[][..], None),
        ] {
            let stream = connect(server.address, &roots, alpn, &[version])
                .await
                .unwrap();
            let (_, session) = stream.get_ref();
            assert_eq!(session.protocol_version(), Some(version.version));
            assert_eq!(session.alpn_protocol(), chosen);
            let request = post("/validate-scaler?timeout=10s", review("u"));
            let got = if chosen == Some(b"h2") {
                Got::from(http2(stream).await.send_request(request).await).await
            } else {
                Got::from(http1(stream).await.send_request(request).await).await
            };
            assert_eq!(got.status, StatusCode::OK);
            assert_eq!(got.headers["content-type"], "application/json");
            assert_eq!(
                got.json()["response"],
                serde_json::json!({"uid": "u", "allowed": true})
            );
        }
    }
}

// === Requests ===

#[tokio::test]
async fn the_four_paths_are_served_and_no_other() {
    let server = Server::start(Choice::default()).await;
    let mut client = server.http1().await;
    for path in [
        "/mutate-scaler",
        "/validate-scaler",
        "/validate-scaler-status",
        "/validate-deployment",
    ] {
        let got = Got::from(client.send_request(post(path, review("u"))).await).await;
        assert_eq!(got.status, StatusCode::OK, "{path}");
        let line = format!(
            r#"mds_admission_requests_total{{webhook="{}",verdict="allowed",reason=""}} 1"#,
            &path[1..]
        );
        assert!(server.metric(&line), "{line}");
    }
    for path in ["/", "/validate-scaler/", "/metrics", "/livez"] {
        let got = Got::from(client.send_request(post(path, review("u"))).await).await;
        assert_eq!(got.status, StatusCode::NOT_FOUND, "{path}");
    }
    let mut request = post("/validate-scaler", "");
    *request.method_mut() = http::Method::GET;
    let got = Got::from(client.send_request(request).await).await;
    assert_eq!(got.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(got.headers["allow"], "POST");
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_its_length_is_announced_or_not() {
    let limits = Limits {
        body: 100_000,
        ..Limits::default()
    };
    let server = Server::start(Choice {
        limits,
        ..Choice::default()
    })
    .await;
    let body = Bytes::from(vec![b' '; 100_001]);

    let mut client = server.http1().await;
    let got = Got::from(
        client
            .send_request(post("/validate-scaler", body.clone()))
            .await,
    )
    .await;
    assert_eq!(got.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(got.body, "the body is larger than 100000 bytes\n");

    let got = Got::from(
        server
            .http2()
            .await
            .send_request(post("/validate-scaler", body))
            .await,
    )
    .await;
    assert_eq!(got.status, StatusCode::PAYLOAD_TOO_LARGE);

    let mut stream = server.tls(&["http/1.1"]).await;
    stream
        .write_all(
            b"POST /validate-scaler HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await
        .unwrap();
    let chunk = [b"8000\r\n", vec![b' '; 0x8000].as_slice(), b"\r\n"].concat();
    for _ in 0..4 {
        stream.write_all(&chunk).await.unwrap();
    }
    let mut answer = vec![0; 64];
    timeout(SOON, stream.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 413 Payload Too Large\r\n"));
    let line = r#"mds_admission_requests_total{webhook="validate-scaler",verdict="refused",reason="BodyTooLarge"} 3"#;
    assert!(server.metric(line));
}

#[tokio::test]
async fn a_large_body_in_many_pieces_arrives_whole() {
    let server = Server::start(Choice::default()).await;
    let mut body = review("large").into_bytes();
    body.resize(1 << 20, b' ');
    let got = Got::from(
        server
            .http1()
            .await
            .send_request(post("/validate-scaler", body.clone()))
            .await,
    )
    .await;
    assert_eq!(got.json()["response"]["uid"], "large");
    let got = Got::from(
        server
            .http2()
            .await
            .send_request(post("/validate-scaler", body))
            .await,
    )
    .await;
    assert_eq!(got.json()["response"]["uid"], "large");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_400_and_one_that_stalls_is_503() {
    let server = Server::start(Choice::default()).await;
    let answer = async |request: &[u8]| {
        let mut stream = server.tls(&["http/1.1"]).await;
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut answer))
            .await
            .expect("the connection stays open");
        String::from_utf8(answer).unwrap()
    };
    let broken = answer(
        b"POST /validate-scaler HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    )
    .await;
    assert!(
        broken.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{broken}"
    );
    let stalled =
        answer(b"POST /validate-scaler?timeout=100ms HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{\"request\"").await;
    assert!(
        stalled.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
        "{stalled}"
    );
    assert!(stalled.contains("retry-after: 1\r\n"), "{stalled}");
}

// === Refusals of a review whose uid is known ===

fn refusal(got: &Got) -> (StatusCode, &str, u64, String, Option<u64>) {
    let json = got.json();
    let status = &json["response"]["status"];
    assert_eq!(json["response"]["allowed"], false);
    let uid = ["panic", "ask", "ask-panic", "ask-for-ever", "late", "next"]
        .into_iter()
        .find(|uid| json["response"]["uid"] == *uid)
        .unwrap();
    let reason = status["reason"].as_str().unwrap().to_owned();
    (
        got.status,
        uid,
        status["code"].as_u64().unwrap(),
        reason,
        status["details"]["retryAfterSeconds"].as_u64(),
    )
}

#[tokio::test]
async fn a_panic_is_a_refusal_with_the_uid_and_the_connection_goes_on() {
    let server = Server::start(Choice {
        lookup: Duration::ZERO,
        ..Choice::default()
    })
    .await;
    let mut client = server.http1().await;
    for uid in ["panic", "ask-panic", "ask-for-ever"] {
        let got = Got::from(
            client
                .send_request(post("/validate-deployment", review(uid)))
                .await,
        )
        .await;
        assert_eq!(
            refusal(&got),
            (StatusCode::OK, uid, 500, "InternalError".to_owned(), None)
        );
    }
    let got = Got::from(
        client
            .send_request(post("/validate-deployment", "panic without a uid"))
            .await,
    )
    .await;
    assert_eq!(got.status, StatusCode::INTERNAL_SERVER_ERROR);
    let got = Got::from(
        client
            .send_request(post("/validate-deployment", review("fine")))
            .await,
    )
    .await;
    assert_eq!(got.json()["response"]["allowed"], true);
    assert!(server.metric("mds_panics_total 3"));
}

#[tokio::test]
async fn a_decision_that_waits_past_the_api_servers_timeout_is_a_refusal_before_it() {
    let server = Server::start(Choice {
        lookup: Duration::from_mins(1),
        ..Choice::default()
    })
    .await;
    let started = Instant::now();
    let got = Got::from(
        server
            .http2()
            .await
            .send_request(post("/validate-scaler?timeout=200ms", review("ask")))
            .await,
    )
    .await;
    assert_eq!(
        refusal(&got),
        (
            StatusCode::OK,
            "ask",
            503,
            "DeadlineExceeded".to_owned(),
            Some(1)
        )
    );
    assert!(started.elapsed() >= Duration::from_millis(180));
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn load_above_the_limit_is_shed_with_the_uid() {
    let limits = Limits {
        in_flight: 1,
        ..Limits::default()
    };
    let server = Server::start(Choice {
        limits,
        lookup: Duration::from_millis(500),
        ..Choice::default()
    })
    .await;
    let client = server.http2().await;
    let ask = |uid: &str| {
        let mut client = client.clone();
        let request = post("/validate-scaler", review(uid));
        tokio::spawn(async move { Got::from(client.send_request(request).await).await })
    };
    let first = ask("ask");
    while !server.metric("mds_admission_in_flight 1") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let shed = ask("next").await.unwrap();
    assert_eq!(
        refusal(&shed),
        (
            StatusCode::OK,
            "next",
            503,
            "Overloaded".to_owned(),
            Some(1)
        )
    );
    assert_eq!(first.await.unwrap().json()["response"]["allowed"], true);
}

#[tokio::test]
async fn bodies_have_a_common_room() {
    let limits = Limits {
        bodies: 1000,
        ..Limits::default()
    };
    let server = Server::start(Choice {
        limits,
        ..Choice::default()
    })
    .await;
    let mut body = review("u").into_bytes();
    body.resize(1001, b' ');
    let got = Got::from(
        server
            .http1()
            .await
            .send_request(post("/validate-scaler", body.clone()))
            .await,
    )
    .await;
    assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE);
    body.truncate(1000);
    for _ in 0..3 {
        let got = Got::from(
            server
                .http1()
                .await
                .send_request(post("/validate-scaler", body.clone()))
                .await,
        )
        .await;
        assert_eq!(got.status, StatusCode::OK, "the room was given back");
    }
}

// === Connections ===

#[tokio::test]
async fn a_peer_that_never_shakes_hands_is_closed() {
    let server = Server::start(impatient()).await;
    closed(TcpStream::connect(server.address).await.unwrap()).await;
    // TLS record header of a ClientHello that never comes.
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    closed(half).await;
    assert!(server.metric("mds_tls_handshake_failures_total 2"));
    assert!(server.metric("mds_connections 0"));
}

#[tokio::test]
async fn a_peer_that_shakes_hands_and_sends_no_request_is_closed() {
    let server = Server::start(impatient()).await;
    closed(server.tls(&["http/1.1"]).await).await;
    closed(server.tls(&["h2"]).await).await;
    closed(server.tls(&[]).await).await;
    for (alpn, half) in [
        ("http/1.1", &b"POST /validate-scaler HTTP/1.1\r\nhost:"[..]),
        ("h2", b"PRI * HTTP/2.0\r\n\r\nSM"),
    ] {
        let mut stream = server.tls(&[alpn]).await;
        stream.write_all(half).await.unwrap();
        closed(stream).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time_and_not_before() {
    let server = Server::start(impatient()).await;
    let mut stream = server.tls(&["http/1.1"]).await;
    let body = review("u");
    let request = format!(
        "POST /validate-scaler HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..4 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 4096];
        let count = timeout(SOON, stream.read(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert!(answer[..count].starts_with(b"HTTP/1.1 200 OK\r\n"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Half of the next request is no life.
    stream
        .write_all(b"POST /validate-scaler HTTP/1.1\r\nhost:")
        .await
        .unwrap();
    closed(stream).await;

    // A preface and settings, then silence: pings stay unanswered.
    let mut stream = server.tls(&["h2"]).await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    closed(stream).await;

    // A live HTTP/2 peer that answers pings and asks nothing.
    let mut client = server.http2().await;
    Got::from(
        client
            .send_request(post("/validate-scaler", review("u")))
            .await,
    )
    .await;
    timeout(SOON, async {
        while !client.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_old_connection_is_closed_between_requests_and_none_is_lost() {
    let patience = Patience {
        age: Duration::from_millis(300),
        ..Patience::default()
    };
    let server = Server::start(Choice {
        patience,
        lookup: Duration::from_millis(20),
        ..Choice::default()
    })
    .await;
    let mut client = server.http1().await;
    let started = Instant::now();
    let mut closed = false;
    while !closed {
        assert!(started.elapsed() < SOON, "the connection does not age");
        let got = Got::from(
            client
                .send_request(post("/validate-scaler", review("ask")))
                .await,
        )
        .await;
        assert_eq!(got.json()["response"]["allowed"], true);
        closed = got
            .headers
            .get("connection")
            .is_some_and(|value| value == "close");
        if !closed {
            client.ready().await.unwrap();
        }
    }
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert!(client.ready().await.is_err());
}

#[tokio::test]
async fn connections_above_the_cap_wait_for_a_place() {
    let server = Server::start(Choice {
        connections: 1,
        ..Choice::default()
    })
    .await;
    let first = server.http1().await;
    let (address, roots) = (server.address, roots(&server.authority));
    let second = tokio::spawn(async move { connect(address, &roots, &[], &[&TLS13]).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!second.is_finished());
    drop(first);
    timeout(SOON, second).await.unwrap().unwrap().unwrap();
}

// === Drain ===

#[tokio::test]
async fn a_drain_answers_what_runs_and_accepts_nothing_more() {
    let server = Server::start(Choice::default()).await;
    let (mut one, mut two) = (server.http1().await, server.http2().await);
    let idle = server.tls(&["http/1.1"]).await;
    let running_one = tokio::spawn(async move {
        Got::from(
            one.send_request(post("/validate-scaler", review("ask")))
                .await,
        )
        .await
    });
    let running_two = tokio::spawn(async move {
        Got::from(
            two.send_request(post("/validate-scaler", review("ask")))
                .await,
        )
        .await
    });
    while !server.metric("mds_admission_in_flight 2") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let address = server.address;
    let started = Instant::now();
    assert_eq!(server.open.drain(SOON).await, Drained::All);
    assert!(
        started.elapsed() >= Duration::from_millis(200),
        "nothing ran"
    );
    for running in [running_one, running_two] {
        let got = running.await.unwrap();
        assert_eq!(got.json()["response"]["allowed"], true);
    }
    closed(idle).await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_drain_that_takes_too_long_says_so() {
    let server = Server::start(Choice {
        lookup: SOON,
        ..Choice::default()
    })
    .await;
    let mut client = server.http1().await;
    tokio::spawn(async move {
        client
            .send_request(post("/validate-scaler", review("ask")))
            .await
    });
    while !server.metric("mds_admission_in_flight 1") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(
        server.open.drain(Duration::from_millis(50)).await,
        Drained::CutOff
    );
}

// === The program ===

/// `mds serve` with a certificate, a known identity, and a cluster that does not answer.
struct Program {
    child: Child,
    health: std::net::SocketAddr,
    _home: tempfile::TempDir,
}

impl Program {
    fn start(flags: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let authority = mds::serve::tls::authority::Authority::generate(loopback::now()).unwrap();
        loopback::write_pair(home.path(), &loopback::issue(&authority));
        let kubeconfig = home.path().join("kubeconfig");
        std::fs::write(
            &kubeconfig,
            "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
             clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}",
        )
        .unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mds"))
            .args([
                "serve",
                "--listen=127.0.0.1:0",
                "--health-listen=127.0.0.1:0",
                "--identity=me",
            ])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--tls-dir")
            .arg(home.path())
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        // Reads on to the end, so that the program never waits for a reader.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let json: serde_json::Value =
                    serde_json::from_str(&line).expect("a log line is JSON");
                if json["message"] == "serving" {
                    let _ = sender.send(json["health"].as_str().unwrap().parse().unwrap());
                }
            }
        });
        let health = receiver.recv_timeout(SOON).expect("it does not serve");
        Self {
            child,
            health,
            _home: home,
        }
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .arg(name)
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(done.success());
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    async fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.health).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn health_says_what_is_missing_and_a_signal_fails_it_before_the_drain() {
    let mut program = Program::start(&["--drain-delay=400ms"]);
    assert_eq!(
        program.get("/livez").await,
        ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned())
    );
    let (status, report) = program.get("/readyz").await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(
        report.starts_with("certificate: ok\nidentity: ok\nlists: discovery of "),
        "{report}"
    );
    assert!(report.ends_with("\nrunning: ok\n"), "{report}");
    let (_, metrics) = program.get("/metrics").await;
    assert!(
        metrics.contains("\nmds_build_info{version=\"0.1.0\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.ends_with("# EOF\n"));

    program.signal("-TERM");
    let asked = Instant::now();
    let report = loop {
        let (_, report) = program.get("/readyz").await;
        if !report.ends_with("running: ok\n") {
            break report;
        }
        assert!(asked.elapsed() < SOON);
    };
    assert!(report.ends_with("running: shutting down\n"), "{report}");
    assert_eq!(program.get("/livez").await.0, "HTTP/1.1 200 OK");
    assert_eq!(program.wait().code(), Some(0));
    assert!(asked.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn a_second_signal_ends_the_drain_and_the_exit_code_says_so() {
    let mut program = Program::start(&["--drain-delay=1h"]);
    program.signal("-INT");
    while !program
        .get("/readyz")
        .await
        .1
        .ends_with("running: shutting down\n")
    {}
    program.signal("-TERM");
    assert_eq!(program.wait().code(), Some(3));
}

#[test]
fn what_cannot_start_says_why_in_one_sentence() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_mds"))
            .args(args)
            .env_clear()
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, error) = run(&[
        "serve",
        "--listen=127.0.0.1:0",
        "--health-listen=127.0.0.1:0",
    ]);
    assert_eq!(code, Some(1));
    assert!(
        error.starts_with("mds: not in a cluster, so set --kubeconfig: "),
        "{error}"
    );
    let (code, error) = run(&["serve", "--tls-poll=0"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("write at least 10ms"), "{error}");
}
