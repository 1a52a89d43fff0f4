//! How a question to the backend ended, for both who ask about contracts.
//!
//! The driver carries the question and says how it ended; what that means for the health of the backend is said here
//! once. A refusal is an answer of a backend that works.

use std::time::{Duration, Instant};

use crate::health::BackendHealth;
use crate::health::backend::{Admission, Attempt, Wait, Work};

macro_rules! refused_for {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)+) => {
        /// Why a backend refuses, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RefusedFor { $($(#[$doc])* $variant,)+ }

        impl RefusedFor {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The stable name, as the backend's answers have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The reason of a name; [`RefusedFor::Other`] for one that is not known.
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                let known = Self::ALL.into_iter().find(|reason| reason.name() == name);
                known.unwrap_or(Self::Other)
            }
        }
    };
}

refused_for! {
    /// The body or a form in it is none.
    Malformed "malformed";
    /// The request's signature is missing or does not hold.
    Unsigned "unsigned";
    /// One of the clocks is wrong.
    Clock "clock";
    /// The key is not enrolled.
    Unknown "unknown";
    /// The account is banned.
    Banned "banned";
    /// The account is of the other role.
    WrongRole "wrong_role";
    /// The invitation is none.
    Invitation "invitation";
    /// The account's allowance is spent or reserved.
    Quota "quota";
    /// The provider is not one of this backend's, or is banned.
    Provider "provider";
    /// Too much at once.
    Limit "limit";
    /// A signature in a form does not hold.
    Signature "signature";
    /// It is for another provider, client or backend.
    Misdirected "misdirected";
    /// Its time is over, or has not come.
    Expired "expired";
    /// It says more than its contract allows.
    Exceeds "exceeds";
    /// Anything else.
    Other "other";
}

/// How a question ended without the answer that it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskEnd {
    /// Nobody was there, it took too long, or what came could not be read.
    Failed,
    /// It is there and cannot serve (503), perhaps until then.
    Unavailable(Option<Duration>),
    /// One question too many (429), until then.
    Throttled(Duration),
    /// The whole question was refused.
    Refused(RefusedFor),
    /// It was given up on this side.
    Cancelled,
}

/// Asks whether a question about contracts may go.
///
/// # Errors
/// When to come again, and why.
pub(super) fn admit(health: &BackendHealth, now: Instant) -> Result<Attempt, Wait> {
    match health.admit(Work::Contract, now) {
        Admission::Go(attempt) | Admission::Probe(attempt) => Ok(attempt),
        Admission::Wait(wait) => Err(wait),
    }
}

/// Tells the backend's health how it ended.
pub(super) fn report(health: &BackendHealth, attempt: Attempt, end: AskEnd, now: Instant) {
    match end {
        AskEnd::Failed => health.failed(attempt, now),
        AskEnd::Unavailable(after) => health.unavailable(attempt, after, now),
        AskEnd::Throttled(after) => health.throttled(attempt, after, now),
        AskEnd::Refused(_) => health.refused(attempt, now),
        AskEnd::Cancelled => drop(attempt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_of_one_reason_and_an_unknown_one_of_other() {
        for reason in RefusedFor::ALL {
            assert_eq!(RefusedFor::from_name(reason.name()), reason);
        }
        assert_eq!(RefusedFor::from_name("later"), RefusedFor::Other);
    }
}
