//! Any bytes as a certificate, whole and as the PEM of a pair: an answer, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mds::serve::tls::{CertificatePem, KeyPem, Pair, not_after};

fuzz_target!(|bytes: &[u8]| {
    let _ = not_after(bytes);
    let (certificate, key) = bytes.split_at(bytes.len() / 2);
    let pair = Pair::new(CertificatePem(certificate.to_vec()), KeyPem(key.to_vec()));
    assert!(pair.certified().is_err(), "no fuzzer signs a key by chance");
});
