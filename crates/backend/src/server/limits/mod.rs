//! What one source, one account and all of them together may take.
//!
//! ```text
//!  connection    connections_max, connections_per_source           closed, before a byte is read
//!  request       ramp after a start (healthz excepted)             503 and when to come again
//!                source's bucket, before head and body are judged  429 and when
//!                account's bucket, once its signature holds        429 and when
//! ```
//!
//! What costs before anybody is known (reading, checking a signature: about 50 µs) is paid from the source's bucket.
//! There is no bucket over all sources: it is what a flood empties, and then nobody gets in (case B76). The account's
//! comes after the signature, or anyone could empty another's by writing its key.
//!
//! A source is an IPv4 address or an IPv6 /64, which is what one household is given (RFC 6177). Whom it is refused is
//! told when a token will be there, and up to as long again at random, so that those who were refused together do not
//! come together.

mod buckets;
mod config;
mod ramp;

use std::time::{Duration, Instant};

use parking_lot::Mutex;
pub(super) use quell_core::provider::doorman::SourcePrefix as Source;
use quell_wire::key::PublicKey;
use rand::RngExt as _;

use self::buckets::Buckets;
pub use self::config::LimitsConfig;
use self::ramp::Ramp;

/// Longest wait that is asked for, jitter included.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The limits of requests.
#[derive(Debug)]
pub(super) struct Limits {
    ramp: Mutex<Ramp>,
    sources: Mutex<Buckets<Source>>,
    accounts: Mutex<Buckets<PublicKey>>,
}

impl Limits {
    pub(super) fn new(config: &LimitsConfig, start: Instant) -> Self {
        let sources = Buckets::new(
            config.source_requests_per_s,
            config.source_request_burst,
            config.sources_max,
        );
        let accounts = Buckets::new(
            config.account_requests_per_s,
            config.account_request_burst,
            config.accounts_max,
        );
        Self {
            ramp: Mutex::new(Ramp::new(config, start)),
            sources: Mutex::new(sources),
            accounts: Mutex::new(accounts),
        }
    }

    /// Lets a request in after a start, or says when to come again.
    pub(super) fn admit(&self, now: Instant) -> Result<(), Duration> {
        let left = self.ramp.lock().admit(now);
        // Anywhere in what is left of the ramp: whoever was refused first is not served last.
        left.map_err(|left| jittered(Duration::from_secs(1), left))
    }

    /// Takes one request of a source, or says when there is one.
    pub(super) fn take_source(&self, source: Source, now: Instant) -> Result<(), Duration> {
        let taken = self.sources.lock().take(source, now);
        taken.map_err(|wait| jittered(wait, wait))
    }

    /// Takes one request of an account, or says when there is one.
    pub(super) fn take_account(&self, key: PublicKey, now: Instant) -> Result<(), Duration> {
        let taken = self.accounts.lock().take(key, now);
        taken.map_err(|wait| jittered(wait, wait))
    }
}

/// At least `wait` and at least a second, and up to `spread` later.
pub(super) fn jittered(wait: Duration, spread: Duration) -> Duration {
    let second = Duration::from_secs(1);
    let spread = spread.max(second).mul_f64(rand::rng().random::<f64>());
    wait.max(second).saturating_add(spread).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_address_or_a_household() {
        let of = |text: &str| text.parse().map(Source::of);
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::9"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
    }

    #[test]
    fn a_wait_is_jittered_upwards_and_bounded() {
        let s = Duration::from_secs;
        let waits: Vec<_> = (0..200).map(|_| jittered(s(10), s(10))).collect();
        assert!(waits.iter().all(|wait| (s(10)..=s(20)).contains(wait)));
        assert!(waits.iter().any(|wait| *wait > s(15)) && waits.iter().any(|wait| *wait < s(15)));
        assert_eq!(jittered(s(3_600), s(1)), WAIT_MAX);
        assert!(jittered(Duration::ZERO, Duration::ZERO) >= s(1));
    }
}
