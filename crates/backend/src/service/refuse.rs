//! How the service says no, and how it says that it cannot.
//!
//! A refusal is an answer: it has a code for programs and words for people, and asking again at once gives the same. A
//! store that fails is none, and who asked may ask again.

use crate::api::{Refusal, RefusalCode};
use crate::store::StoreError;

/// Why an operation gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// It was understood, and is refused.
    #[error("refused: {}", .0.words)]
    Refused(Refusal),
    /// The store gave no answer; nothing is known of what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A refusal of these words.
pub(super) fn refusal(code: RefusalCode, words: impl Into<String>) -> Refusal {
    Refusal {
        code,
        words: words.into(),
    }
}
