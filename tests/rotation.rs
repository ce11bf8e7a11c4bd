//! A certificate that changes under load: nothing fails, and nothing broken is taken up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod loopback;

use loopback::{
    Choice, Got, Server, connect, http1, http2, issue, now, post, review, roots, write_files,
    write_pair,
};
use mds::serve::tls::authority::{Authority, Subject};
use mds::serve::tls::{CertificatePem, KeyPem, Reload};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const ROTATIONS: usize = 20;

/// The leaf that a new connection is shown.
async fn presented(server: &Server) -> CertificateDer<'static> {
    let stream = server.tls(&[]).await;
    stream.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

fn leaf(certificate: &CertificatePem) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(&certificate.0).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_over_twenty_rotations_under_load() {
    let server = Arc::new(Server::start(Choice::default()).await);
    tokio::spawn(Arc::clone(&server.certificate).keep_fresh(Duration::from_millis(5)));
    let stop = Arc::new(AtomicBool::new(false));
    let (kept, fresh) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    // Kept connections of both versions, and one client that shakes hands for each request.
    for alpn in ["http/1.1", "h2"] {
        let (server, stop, kept) = (Arc::clone(&server), Arc::clone(&stop), Arc::clone(&kept));
        clients.push(tokio::spawn(async move {
            let (mut one, mut two) = (None, None);
            match alpn {
                "h2" => two = Some(server.http2().await),
                _ => one = Some(server.http1().await),
            }
            while !stop.load(Ordering::Relaxed) {
                let request = post("/validate-scaler?timeout=10s", review("u"));
                let answer = match (&mut one, &mut two) {
                    (Some(client), _) => client.send_request(request).await,
                    (_, Some(client)) => client.send_request(request).await,
                    _ => unreachable!(),
                };
                assert_eq!(Got::from(answer).await.json()["response"]["allowed"], true);
                kept.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for alpn in ["http/1.1", "h2"] {
        let (server, stop, fresh) = (Arc::clone(&server), Arc::clone(&stop), Arc::clone(&fresh));
        clients.push(tokio::spawn(async move {
            let roots = roots(&server.authority);
            while !stop.load(Ordering::Relaxed) {
                let stream = connect(server.address, &roots, &[alpn], rustls::ALL_VERSIONS)
                    .await
                    .unwrap();
                let request = post("/mutate-scaler", review("u"));
                let answer = match alpn {
                    "h2" => http2(stream).await.send_request(request).await,
                    _ => http1(stream).await.send_request(request).await,
                };
                assert_eq!(Got::from(answer).await.json()["response"]["allowed"], true);
                fresh.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }

    for _ in 0..ROTATIONS {
        let pair = issue(&server.authority);
        let before = (kept.load(Ordering::Relaxed), fresh.load(Ordering::Relaxed));
        write_pair(server.home.path(), &pair);
        while presented(&server).await != leaf(pair.certificate()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Load went on under this certificate before the next one comes.
        while kept.load(Ordering::Relaxed) <= before.0 || fresh.load(Ordering::Relaxed) <= before.1
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a request failed");
    }
    assert!(server.metric("mds_certificate_reload_failures_total 0"));
}

#[tokio::test]
async fn a_broken_pair_is_kept_out_and_the_old_one_stays() {
    let server = Server::start(Choice::default()).await;
    let good = issue(&server.authority);
    write_pair(server.home.path(), &good);
    assert_eq!(server.certificate.reload(), Reload::Swapped);
    assert_eq!(server.certificate.reload(), Reload::Unchanged);

    let other = issue(&server.authority);
    let empty = CertificatePem(Vec::new());
    let garbage =
        CertificatePem(b"-----BEGIN CERTIFICATE-----\nnope\n-----END CERTIFICATE-----\n".to_vec());
    let cut = CertificatePem(other.certificate().0[..200].to_vec());
    let subject = Subject {
        dns_names: vec!["localhost".into()],
        addresses: Vec::new(),
    };
    let yesterday = now().saturating_sub(Duration::from_hours(24));
    let expired = server
        .authority
        .issue(&subject, yesterday, Duration::from_hours(1))
        .unwrap();
    let broken = [
        (expired.certificate(), expired.key().clone()),
        (&empty, other.key().clone()),
        (&garbage, other.key().clone()),
        (&cut, other.key().clone()),
        // The certificate is good, its key is another's, no key, or half a key.
        (other.certificate(), good.key().clone()),
        (other.certificate(), KeyPem(Vec::new())),
        (other.certificate(), KeyPem(other.key().0[..60].to_vec())),
    ];
    for (index, (certificate, key)) in broken.iter().enumerate() {
        write_files(server.home.path(), certificate, key);
        assert_eq!(server.certificate.reload(), Reload::Kept, "{index}");
        assert_eq!(
            server.certificate.reload(),
            Reload::Unchanged,
            "the same fault is reported once"
        );
        assert_eq!(presented(&server).await, leaf(good.certificate()));
        assert!(server.metric(&format!(
            "mds_certificate_reload_failures_total {}",
            index + 1
        )));
    }
    std::fs::remove_file(server.home.path().join("..data")).unwrap();
    assert_eq!(server.certificate.reload(), Reload::Kept);
    assert_eq!(presented(&server).await, leaf(good.certificate()));

    write_pair(server.home.path(), &other);
    assert_eq!(server.certificate.reload(), Reload::Swapped);
    assert_eq!(presented(&server).await, leaf(other.certificate()));
}

#[tokio::test]
async fn a_new_authority_replaces_the_old_one() {
    let server = Server::start(Choice::default()).await;
    let authority = Authority::generate(now()).unwrap();
    write_pair(server.home.path(), &issue(&authority));
    assert_eq!(server.certificate.reload(), Reload::Swapped);
    assert!(
        connect(
            server.address,
            &roots(&server.authority),
            &[],
            rustls::ALL_VERSIONS
        )
        .await
        .is_err()
    );
    connect(
        server.address,
        &roots(&authority),
        &[],
        rustls::ALL_VERSIONS,
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn an_open_connection_outlives_its_certificate() {
    let server = Server::start(Choice::default()).await;
    let mut client = server.http1().await;
    let before = Got::from(
        client
            .send_request(post("/validate-scaler", review("u")))
            .await,
    )
    .await;
    assert_eq!(before.json()["response"]["allowed"], true);
    write_pair(
        server.home.path(),
        &issue(&Authority::generate(now()).unwrap()),
    );
    assert_eq!(server.certificate.reload(), Reload::Swapped);
    let after = Got::from(
        client
            .send_request(post("/validate-scaler", review("u")))
            .await,
    )
    .await;
    assert_eq!(after.json()["response"]["allowed"], true);
}

#[tokio::test]
async fn mds_certs_keeps_its_authority_and_renews_the_leaf_under_a_server() {
    let server = Server::start(Choice::default()).await;
    let directory = server.home.path();
    let certs = |flags: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_mds"))
            .args(["certs", "--dns-name=localhost", "--dir"])
            .arg(directory)
            .args(flags)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(directory.join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    let said = certs(&[]);
    assert!(
        said.ends_with(": tls.crt is valid for 90 days, signed by a new authority\n"),
        "{said}"
    );
    assert_eq!(
        ["ca.crt", "ca.key", "tls.crt", "tls.key"].map(mode),
        [0o644, 0o600, 0o644, 0o600]
    );
    let (authority, leaf) = (read("ca.crt"), read("tls.crt"));
    assert_eq!(server.certificate.reload(), Reload::Swapped);
    let mut trusted = rustls::RootCertStore::empty();
    trusted
        .add(CertificateDer::from_pem_slice(&authority).unwrap())
        .unwrap();
    connect(server.address, &trusted, &[], rustls::ALL_VERSIONS)
        .await
        .unwrap();

    let said = certs(&["--valid-days=30"]);
    assert!(
        said.ends_with(": tls.crt is valid for 30 days, signed by the authority that was there\n"),
        "{said}"
    );
    assert_eq!(read("ca.crt"), authority);
    assert_ne!(read("tls.crt"), leaf);
    assert_eq!(server.certificate.reload(), Reload::Swapped);
    connect(server.address, &trusted, &[], rustls::ALL_VERSIONS)
        .await
        .unwrap();
}
