//! The yardstick: hyper and rustls with their defaults, which reads the body and answers a constant.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

static CONSTANT: [u8; 1 << 20] = [b'x'; 1 << 20];

pub async fn serve(home: &Path) -> Result<(), super::Failure> {
    let chain =
        CertificateDer::pem_file_iter(home.join("tls.crt"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(home.join("tls.key"))?;
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let (io, service) = (TokioIo::new(stream), service_fn(answer));
                // A peer that goes away is no failure of the server.
                let _ = if h2 {
                    http2::Builder::new(TokioExecutor::new())
                        .serve_connection(io, service)
                        .await
                } else {
                    http1::Builder::new().serve_connection(io, service).await
                };
            });
        }
    });
    super::until_parent_ends();
    Ok(())
}

/// The path says how many bytes.
async fn answer(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    let length = request.uri().path()[1..].parse().unwrap_or(0);
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(Response::new(Full::new(Bytes::from_static(
        &CONSTANT[..length],
    ))))
}
