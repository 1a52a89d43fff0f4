//! What is offered to a lane: packets of flows, or messages, with contents that name them.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The flow of packets that belong to none: they wait for nobody.
pub(crate) const UNORDERED: u16 = u16::MAX;

/// Shortest part: it has its name in it.
pub(crate) const LEN_MIN: usize = 12;

/// A packet or message that somebody wants to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Since the beginning.
    pub(crate) at: Duration,
    pub(crate) flow: u16,
    /// Bytes of each part.
    pub(crate) len: usize,
    /// Packs that it takes.
    pub(crate) parts: u64,
}

/// The bytes of a part.
pub(crate) fn content(id: u64, flow: u16, part: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&flow.to_be_bytes());
    bytes.extend_from_slice(&(part as u16).to_be_bytes());
    let filler = |at: usize| (id as usize).wrapping_mul(31).wrapping_add(at) as u8;
    bytes.extend((LEN_MIN..len).map(filler));
    bytes
}

/// `count` packets of `flows` flows, one in ten in pieces and one in twenty of no flow, a millisecond apart on average.
pub(crate) fn mixed(count: usize, flows: u16, seed: u64) -> Vec<Offer> {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0x7a);
    let mut at = Duration::ZERO;
    let offer = |_| {
        at += Duration::from_micros(rng.random_range(0..2_000));
        let unordered = rng.random_range(0..20) == 0;
        Offer {
            at,
            flow: if unordered {
                UNORDERED
            } else {
                rng.random_range(0..flows)
            },
            len: rng.random_range(LEN_MIN..1_100),
            parts: if rng.random_range(0..10) == 0 {
                rng.random_range(2..5)
            } else {
                1
            },
        }
    };
    (0..count).map(offer).collect()
}

/// `count` packets of one flow in one pack each, `gap` apart, from `from` on.
pub(crate) fn steady(
    count: u32,
    flow: u16,
    len: usize,
    from: Duration,
    gap: Duration,
) -> impl Iterator<Item = Offer> {
    (0..count).map(move |n| Offer {
        at: from + gap * n,
        flow,
        len,
        parts: 1,
    })
}
