//! quell's control plane: who may connect, which exits there are, who was allowed how much and who had it.
//!
//! | module | what |
//! |---|---|
//! | [`api`] | the bodies of HTTP requests and answers, shared by both sides |
//! | [`ask`] | [`ask::Backend`]: what a client or a provider asks of a control plane; embedders implement it |
//! | `service` | the rules of the reference server: who may what, and why not (feature `server`) |
//! | [`store`] | [`store::Store`]: what the reference server keeps, and what one transaction of it is |
//!
//! Only these know HTTP and databases. What a contract is, whether it holds, when to ask and how often, is the core's.

#![warn(missing_docs)]

pub mod api;
pub mod ask;
#[cfg(feature = "server")]
pub mod service;
pub mod store;
