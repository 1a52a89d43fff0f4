//! What was refused before a handler saw it, and why: numbers without a word of whom.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters that any thread may raise.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $($(#[$doc])* pub(super) $name: AtomicU64,)*
        }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub(super) struct Counted {
            $(pub(super) $name: u64,)*
        }

        impl Counters {
            pub(super) fn counted(&self) -> Counted {
                Counted { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Connections that were taken.
    connections,
    /// Connections that were closed at once, since there are too many.
    connections_refused_total,
    /// Connections that were closed at once, since their source has too many.
    connections_refused_source,
    /// Connections whose TLS handshake failed or took too long.
    connections_refused_tls,
    /// Requests that came.
    requests,
    /// Requests that were put off by the ramp after the start.
    requests_put_off,
    /// Requests beyond their source's rate.
    requests_refused_source,
    /// Requests beyond their account's rate.
    requests_refused_account,
    /// Requests whose body is too large, late, broken off or none.
    requests_malformed,
    /// Requests without a signature that holds, or signed at another time.
    requests_unsigned,
    /// Requests that the rules refused.
    requests_refused,
    /// Requests that the store had no answer to.
    requests_failed,
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
