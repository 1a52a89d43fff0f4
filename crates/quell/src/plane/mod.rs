//! The control plane's driver: what client and provider ask of a backend, and what they keep of its answers.
//!
//! | file | what |
//! |---|---|
//! | `kept` | a client's catalog and contracts, for a start without the backend |
//! | `receipts` | a provider's receipts, durable before they give credit |
//!
//! It decides nothing: when something is asked, how often, and what an answer means is said by
//! [`quell_core::contract`] and [`quell_core::health`].

mod kept;
pub mod receipts;
