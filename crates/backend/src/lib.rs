//! quell's control plane: who may connect, which exits there are, who was allowed how much and who had it.
//!
//! | module | what |
//! |---|---|
//! | [`api`] | the bodies of HTTP requests and answers, shared by both sides |
//! | [`ask`] | [`ask::Backend`]: what a client or a provider asks of a control plane; embedders implement it |
//! | [`signed`] | who asks: signatures in the headers of requests, both sides |
//! | `http` | the HTTP client (feature `client`) |
//! | `server` | the reference server (feature `server`), with its `config`, its `catalog` and its `probe` |
//! | `service` | the rules of the reference server: who may what, and why not (feature `server`) |
//! | [`store`] | [`store::Store`]: what the reference server keeps, and what one transaction of it is |
//!
//! Only these know HTTP and databases. What a contract is, whether it holds, when to ask and how often, is the core's.

#![warn(missing_docs)]

pub mod api;
pub mod ask;
#[cfg(feature = "server")]
pub mod catalog;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "client")]
pub mod http;
#[cfg(feature = "server")]
pub mod probe;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod service;
pub mod signed;
pub mod store;

/// This host's clock, in seconds since 1970 UTC; 0 for one that stands before.
#[cfg(any(feature = "client", feature = "server"))]
pub(crate) fn wall_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
