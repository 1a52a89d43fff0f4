//! Amounts of the last seconds.
//!
//! A ring of whole seconds. A sum over the last `n` seconds that has to stay *under* a bound takes `n` full slots and is
//! never more than what came in the last `n` seconds; one that a bound is made *of* takes a slot more, and is never less.

use super::SECOND_NS;

/// A ring of `N` seconds.
#[derive(Debug, Clone)]
pub(super) struct Window<const N: usize> {
    slots: [(u64, u64); N],
}

impl<const N: usize> Default for Window<N> {
    fn default() -> Self {
        Self { slots: [(0, 0); N] }
    }
}

impl<const N: usize> Window<N> {
    pub(super) fn add(&mut self, amount: u64, now_ns: u64) {
        let tick = now_ns / SECOND_NS;
        let slot = &mut self.slots[(tick % N as u64) as usize];
        if slot.0 != tick {
            *slot = (tick, 0);
        }
        slot.1 += amount;
    }

    /// What came in the last `count` slots, the one that runs included; at most N.
    pub(super) fn sum(&self, count: u64, now_ns: u64) -> u64 {
        let tick = now_ns / SECOND_NS;
        let from = (tick + 1).saturating_sub(count);
        let slots = self.slots.iter();
        let counted = slots.filter(|(of, _)| (from..=tick).contains(of));
        counted.map(|(_, amount)| amount).sum()
    }

    pub(super) fn clear(&mut self) {
        self.slots = [(0, 0); N];
    }
}
