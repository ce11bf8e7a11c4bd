use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::signal::engine::Family;

const INTERVAL: Duration = Duration::from_secs(1);
const RUNNING: &str = "vllm:num_requests_running 7\n";

/// What an endpoint does once it has sent its answer.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Close,
    Hang,
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &[u8],
    then: Then,
) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut chunk = [0; 512];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
    let _ = stream.write_all(answer).await;
    let _ = stream.flush().await;
    if then == Then::Hang {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    let _ = stream.shutdown().await;
    String::from_utf8_lossy(&request).into_owned()
}

async fn scrape_raw(raw: impl Into<Vec<u8>>, then: Then) -> Result<Scraped, Failure> {
    let raw = raw.into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("http://{}/metrics", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answer(stream, &raw, then).await
    });
    let scraped = Scraper::new(Tls::new(None, None).unwrap())
        .scrape(&endpoint, None, INTERVAL)
        .await;
    server.abort();
    scraped
}

fn ok(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn running(scraped: &Scraped) -> f64 {
    scraped.sample.gauge(Family::Running).unwrap().sum
}

async fn failure(raw: impl Into<Vec<u8>>, then: Then) -> Failure {
    scrape_raw(raw, then).await.unwrap_err()
}

#[tokio::test]
async fn a_text_is_a_sample() {
    for kind in [
        "text/plain; version=0.0.4",
        "text/plain; version=1.0.0; charset=utf-8",
        "application/openmetrics-text",
    ] {
        let scraped = scrape_raw(ok(kind, RUNNING), Then::Close).await.unwrap();
        assert!((running(&scraped) - 7.0).abs() < 1e-9);
    }
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1c\r\nvllm:num_requests_running 7\n\r\n0\r\n\r\n";
    assert!(scrape_raw(chunked, Then::Hang).await.is_ok());
}

#[tokio::test]
async fn the_request_asks_for_plain_text_and_no_compression() {
    let (client, server) = tokio::io::duplex(4096);
    let raw = ok("text/plain", RUNNING).into_bytes();
    let server = tokio::spawn(async move { answer(server, &raw, Then::Close).await });
    let endpoint: Endpoint = "http://10.0.0.7:8000/metrics?x=1".parse().unwrap();
    get(client, &endpoint).await.unwrap();
    let request = server.await.unwrap();
    for line in [
        "GET /metrics?x=1 HTTP/1.1",
        "host: 10.0.0.7:8000",
        "accept: text/plain;version=0.0.4",
        "accept-encoding: identity",
        "connection: close",
    ] {
        assert!(request.contains(&format!("{line}\r\n")), "{request}");
    }
}

/// SGLang without --enable-metrics answers 404 for ever (sparkDash#32, miles#2026).
#[tokio::test]
async fn another_status_is_a_reason_of_its_own_and_is_quoted() {
    let body = "{\"detail\":\"Not Found\"}";
    let raw = ok("application/json", body).replace("200 OK", "404 Not Found");
    let failed = failure(raw, Then::Close).await;
    assert_eq!(
        failed.to_string(),
        r#"status 404: content-type application/json, "{\"detail\":\"Not Found\"}""#
    );
    let raw = "HTTP/1.1 307 Temporary Redirect\r\nlocation: /metrics/\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(
        failure(raw, Then::Close).await.refusal,
        Refusal::Status(307)
    );
}

#[tokio::test]
async fn what_is_no_text_is_refused_even_with_200() {
    for kind in ["application/json", "text/html; charset=utf-8"] {
        assert_eq!(
            failure(ok(kind, RUNNING), Then::Close).await.refusal,
            Refusal::NotText,
            "{kind}"
        );
    }
    let gzip = ok("text/plain\r\ncontent-encoding: gzip", RUNNING);
    assert_eq!(failure(gzip, Then::Close).await.refusal, Refusal::NotText);
    assert_eq!(
        failure("SSH-2.0-OpenSSH_9.2\r\n\r\n", Then::Close)
            .await
            .refusal,
        Refusal::NotText
    );
    let failed = failure(ok("text/plain", "up 1\n"), Then::Close).await;
    assert_eq!(
        failed.to_string(),
        r#"no engine series: 5 bytes that begin "up 1\n" and end "up 1\n""#
    );
}

#[tokio::test]
async fn a_body_that_ends_early_is_truncated() {
    let cut = ok("text/plain", RUNNING).replace("content-length: 28", "content-length: 60");
    assert_eq!(failure(cut, Then::Close).await.refusal, Refusal::Truncated);
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1c\r\nvllm:num_requests_running 7\n\r\n";
    assert_eq!(
        failure(chunks, Then::Close).await.refusal,
        Refusal::Truncated
    );
    // No length and no chunks: only the missing newline tells.
    let open = "HTTP/1.1 200 OK\r\n\r\nvllm:num_requests_running 7";
    assert_eq!(failure(open, Then::Close).await.refusal, Refusal::Truncated);
}

#[tokio::test]
async fn a_body_above_the_cap_is_not_read_to_its_end() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 5242880\r\n\r\n";
    assert_eq!(
        failure(announced, Then::Hang).await.refusal,
        Refusal::TooLarge
    );
    let raw = format!("HTTP/1.1 200 OK\r\n\r\n{}", "\n".repeat(5 << 20));
    assert_eq!(failure(raw, Then::Hang).await.refusal, Refusal::TooLarge);
}

#[tokio::test]
async fn an_endpoint_that_hangs_anywhere_times_out() {
    for raw in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\nvllm:num_requests_running 7\n",
    ] {
        let failed = failure(raw, Then::Hang).await;
        assert_eq!(
            failed.to_string(),
            "timeout: no whole answer within 300 ms",
            "{raw}"
        );
    }
}

#[tokio::test]
async fn nobody_at_home_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    drop(listener);
    let scraper = Scraper::new(Tls::new(None, None).unwrap());
    assert_eq!(
        scraper
            .scrape(&endpoint, None, INTERVAL)
            .await
            .unwrap_err()
            .refusal,
        Refusal::Refused
    );
    assert_eq!(failure("", Then::Close).await.refusal, Refusal::Refused);
}

#[tokio::test]
async fn one_request_is_in_flight_for_an_endpoint() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let scraper = Scraper::new(Tls::new(None, None).unwrap());
    let (first, second) = tokio::join!(
        scraper.scrape(&endpoint, None, INTERVAL),
        scraper.scrape(&endpoint, None, INTERVAL)
    );
    assert_eq!(first.unwrap_err().detail, "no whole answer within 300 ms");
    assert_eq!(
        second.unwrap_err().detail,
        "the scrape before this one has not ended"
    );
    assert!(lock(&scraper.in_flight).is_empty());
}

#[tokio::test]
async fn thirty_two_scrapes_are_in_flight_at_most() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoints: Vec<Endpoint> = (0..40)
        .map(|path| format!("http://{address}/{path}").parse().unwrap())
        .collect();
    // Connections that hang: the first ones are in flight until their deadline, and the others wait for them.
    let server = tokio::spawn(async move {
        let mut open = Vec::new();
        let patience = Scraper::deadline(INTERVAL * 4) / 2;
        while let Ok(Ok((stream, _))) = timeout(patience, listener.accept()).await {
            open.push(stream);
        }
        open.len()
    });
    let scraper = Scraper::new(Tls::new(None, None).unwrap());
    let attempts = endpoints
        .iter()
        .map(|endpoint| scraper.scrape(endpoint, None, INTERVAL * 4));
    let outcomes = futures::future::join_all(attempts).await;
    assert!(outcomes.iter().all(Result::is_err));
    assert_eq!(server.await.unwrap(), CONCURRENCY);
}

#[test]
fn the_deadline_is_two_seconds_and_below_a_third_of_the_interval() {
    assert_eq!(
        Scraper::deadline(Duration::from_secs(5)),
        Duration::from_millis(1500)
    );
    assert_eq!(
        Scraper::deadline(Duration::from_secs(15)),
        Duration::from_secs(2)
    );
    assert_eq!(
        Scraper::deadline(Duration::from_mins(5)),
        Duration::from_secs(2)
    );
}

/// An authority of its own, its PEM, and a server that shows a certificate of it for `name`.
fn authority(name: &str) -> (String, TlsAcceptor) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (issuer.pem(), TlsAcceptor::from(Arc::new(config)))
}

async fn scrape_https(acceptor: TlsAcceptor, tls: Tls) -> Result<Scraped, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("https://{}/metrics", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        if let Ok(stream) = acceptor.accept(stream).await {
            answer(stream, ok("text/plain", RUNNING).as_bytes(), Then::Close).await;
        }
    });
    let scraped = Scraper::new(tls)
        .scrape(&endpoint, None, INTERVAL * 5)
        .await;
    server.abort();
    scraped
}

#[tokio::test]
async fn https_is_verified_for_the_address_or_for_the_name_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = |pem: &str| {
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, pem).unwrap();
        path
    };
    let (pem, acceptor) = authority("127.0.0.1");
    let ours = file(&pem);
    assert!(
        scrape_https(acceptor.clone(), Tls::new(Some(&ours), None).unwrap())
            .await
            .is_ok()
    );
    let of_another = Tls::new(Some(&ours), Some("engine.example")).unwrap();
    assert_eq!(
        scrape_https(acceptor.clone(), of_another)
            .await
            .unwrap_err()
            .refusal,
        Refusal::Certificate
    );
    let of_the_system = Tls::new(None, None).unwrap();
    assert_eq!(
        scrape_https(acceptor, of_the_system)
            .await
            .unwrap_err()
            .refusal,
        Refusal::Certificate
    );

    let (pem, acceptor) = authority("engine.example");
    let ours = file(&pem);
    let named = Tls::new(Some(&ours), Some("engine.example")).unwrap();
    assert!(scrape_https(acceptor.clone(), named).await.is_ok());
    let by_address = Tls::new(Some(&ours), None).unwrap();
    assert_eq!(
        scrape_https(acceptor, by_address)
            .await
            .unwrap_err()
            .refusal,
        Refusal::Certificate
    );
}

#[test]
fn what_cannot_verify_anything_names_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let error = |name: Option<&str>| Tls::new(Some(&path), name).unwrap_err().to_string();
    assert!(error(None).starts_with(&format!("--engine-ca-file {}: ", path.display())));
    std::fs::write(&path, "no certificate\n").unwrap();
    assert_eq!(
        error(None),
        format!(
            "--engine-ca-file {}: no certificate of an authority in it",
            path.display()
        )
    );
    let name = Tls::new(None, Some("not a name")).unwrap_err().to_string();
    assert_eq!(
        name,
        "--engine-server-name not a name: must be a DNS name or an IP address"
    );
}
