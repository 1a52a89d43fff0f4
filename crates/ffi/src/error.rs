//! What can go wrong, in words.
//!
//! A caller in another language can do three things about an error: mend what it gave, start anew, or show the words.

use thiserror::Error;

/// A call failed.
#[derive(Debug, Error, uniffi::Error)]
#[uniffi(flat_error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The configuration, a key or another argument is not allowed: what, and what is.
    #[error("{0}")]
    Invalid(String),
    /// It has ended, or did not answer in time.
    #[error("{0}")]
    Gone(String),
    /// The system, or the far side, refused.
    #[error("{0}")]
    Failed(String),
}

impl TunnelError {
    pub(crate) fn invalid(error: impl std::fmt::Display) -> Self {
        Self::Invalid(error.to_string())
    }

    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<quell::Error> for TunnelError {
    fn from(error: quell::Error) -> Self {
        let words = error.to_string();
        let is_invalid = matches!(
            error,
            quell::Error::Config(_)
                | quell::Error::Key(_)
                | quell::Error::NoKey
                | quell::Error::SignerOverHttp
                | quell::Error::WrongRole { .. }
        );
        let is_gone = matches!(
            error,
            quell::Error::Silent { .. } | quell::Error::Overdue { .. }
        );
        match (is_invalid, is_gone) {
            (true, _) => Self::Invalid(words),
            (false, true) => Self::Gone(words),
            (false, false) => Self::Failed(words),
        }
    }
}
