//! The webhook server: TLS, health, metrics, drain.
