//! What a client or a provider asks of its control plane.
//!
//! [`Backend`] is what embedders implement when they have a control plane already, and what the HTTP client
//! implements for the reference server. It carries one question and its answer; when a question may be asked, how
//! many at once and what an answer means is decided by `quell_core` (DESIGN §5, §7), so an implementation neither
//! retries nor waits, and answers within its own timeout.
//!
//! The difference that matters is between [`AskError::Refused`] and the rest: a refusal is an answer of a backend that
//! works and never marks it degraded; the rest does.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::api::{
    CatalogAnswer, ContractsAnswer, ContractsRequest, EnrolAnswer, EnrolRequest, HeartbeatAnswer,
    HeartbeatRequest, ReceiptsAnswer, ReceiptsRequest, Refusal,
};

/// Why there is no answer that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody was there, or the connection broke.
    #[error("the backend cannot be reached: {0}")]
    Unreachable(String),
    /// The answer took too long.
    #[error("the backend gave no answer within {0:?}")]
    Timeout(Duration),
    /// It is there and cannot serve (5xx, or 429), perhaps until then.
    #[error("the backend cannot serve at present: {words}")]
    Unavailable {
        /// What it asked us to wait, when it did.
        retry_after: Option<Duration>,
        /// What it said.
        words: String,
    },
    /// It understood, and refuses.
    #[error("the backend refuses: {}", .0.words)]
    Refused(Refusal),
    /// What came is no answer to the question.
    #[error("the backend's answer cannot be read: {0}")]
    Garbled(String),
}

/// An answer to come.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AskError>> + Send + 'a>>;

/// A control plane. Dropping an answer's future cancels the question.
pub trait Backend: Send + Sync + 'static {
    /// Redeems an invitation for the key of this handle.
    fn enrol<'a>(&'a self, request: &'a EnrolRequest) -> Answer<'a, EnrolAnswer>;

    /// The catalog, as soon as its version is another than `after`; `None` when it was still the same after `wait`.
    fn catalog<'a>(
        &'a self,
        after: Option<&'a str>,
        wait: Duration,
    ) -> Answer<'a, Option<CatalogAnswer>>;

    /// Contracts for this client.
    fn contracts<'a>(&'a self, request: &'a ContractsRequest) -> Answer<'a, ContractsAnswer>;

    /// Files receipts of this provider.
    fn receipts<'a>(&'a self, request: &'a ReceiptsRequest) -> Answer<'a, ReceiptsAnswer>;

    /// Says that this provider lives.
    fn heartbeat<'a>(&'a self, request: &'a HeartbeatRequest) -> Answer<'a, HeartbeatAnswer>;
}
