//! Grace in a session: what a provider that cannot reach its backend carries beyond a contract, and how soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quell_core::contract::{Pause, seal};
use quell_core::health::Signal;
use quell_core::send::Degraded;
use quell_wire::contract::{ContractTerms, SignedContract};

use super::common::*;
use super::contracts::*;

#[derive(Debug, Default)]
struct Backend(AtomicBool);

impl Degraded for Backend {
    fn is_degraded(&self, _now: Instant) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn with_grace(id: u8) -> SignedContract {
    let terms = ContractTerms {
        grace_bytes: 50_000,
        grace_s: 600,
        ..contract(id, 100_000).terms
    };
    seal::sign_contract(&secret(BACKEND), terms)
}

#[test]
fn grace_begins_within_a_second_of_the_signal_and_is_had_once() {
    // R-14, case B30
    let (now, backend) = (Instant::now(), Arc::new(Backend::default()));
    let signal = Signal::new(Arc::clone(&backend) as Arc<dyn Degraded + Send + Sync>);
    let provider = billing_provider(now).with_signal(signal);
    let mut pair = Pair::over(provider, public(CLIENT), true, now);
    pair.contract(&with_grace(1));
    pair.up(120);
    assert_eq!(pair.pause(), Some(Pause::UsedUp), "the backend is well");
    let carried = pair.to_world;
    backend.0.store(true, Ordering::SeqCst);
    // Nothing but the session's own timer: no contract, no receipt, no reading of the clock.
    pair.now += S;
    let id = pair.id.unwrap();
    pair.provider.handle_timeout(id, pair.now);
    assert_eq!(pair.pause(), None);
    pair.up(120);
    let grace = pair.to_world - carried;
    assert!((50..=52).contains(&grace), "{grace}");
    assert_eq!(pair.pause(), Some(Pause::UsedUp));
    for degraded in [false, true] {
        backend.0.store(degraded, Ordering::SeqCst);
        pair.pass(2);
    }
    assert_eq!(pair.pause(), Some(Pause::UsedUp), "of the same contract");
    let books = pair.provider.status().contracts.unwrap();
    assert_eq!(books.outages, 2);
}
