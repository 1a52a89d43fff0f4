//! The driver: quinn, tokio and the TUN threads carry what the core decides.
