//! Evidence of loss: RFC 8985, by the order of transmissions.
//!
//! A pack is lost when a later `tx` was acknowledged and its own answer is
//! overdue: its departure + max(srtt, latest RTT) + the reorder window is past.
//! There is no count of packs: a batch that comes reversed is no loss (case B03).
//! Through the srtt in that sum a pack is judged at most once in each.
//!
//! The window is max(srtt/4, 2 ms), and max(srtt/8, 2 ms) on a path that carried
//! 256 transmissions and was never seen to reorder: no pack that was sent once was
//! acknowledged after a later `tx`. RFC 8985 §6.2 has a quarter and 0; 0 would take
//! each jitter for a loss. Whatever waits for a repair waits for the window too: at
//! 1 and 5 % loss a shorter one shows in the round trips of the user's TCP.
//!
//! Each round trip in which a `dup` shows that a resend of ours was needless adds
//! srtt/4, up to a whole srtt (or the floor, where that is more); 16 round trips
//! without one take a step back, as long as RFC 8985 §6.2 keeps its own. A duplicate
//! that the network made, of a pack that was sent once, says nothing about our
//! patience and widens nothing.

use std::time::Duration;

/// Round trips without a needless resend until the window narrows by a step.
const CALM_ROUNDS: u8 = 16;

/// Most steps on top of the first quarter: one srtt in all.
const STEPS_MAX: u32 = 3;

/// Such part of the srtt is the window of a path that keeps the order.
const IN_ORDER_PART: u32 = 8;

/// Transmissions after which a path that was never seen to reorder keeps the order.
///
/// 256: a path that lets one in a hundred be overtaken has shown it by then with a
/// probability of 92 %. One that shows it later costs a few needless resends, once.
const IN_ORDER_TXS: u64 = 256;

/// Such part of the srtt is a step, and the least window of a path that reorders.
const STEP_PART: u32 = 4;

#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// The largest `tx` acknowledged.
    largest: u64,
    /// The same before the ACK that is being handled.
    before: u64,
    steps: u32,
    /// Something was overtaken once.
    reorders: bool,
    /// A `tx` from here on, acknowledged, ends the current round trip.
    round_end: u64,
    widened_this_round: bool,
    calm_rounds: u8,
    window_min: Duration,
}

impl Rack {
    pub(crate) fn new(window_min: Duration) -> Self {
        Self {
            largest: 0,
            before: 0,
            steps: 0,
            reorders: false,
            round_end: 1,
            widened_this_round: false,
            calm_rounds: 0,
            window_min,
        }
    }

    /// The largest `tx` acknowledged so far; 0 for none.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    /// Takes note that `tx` was acknowledged while `next_tx` is the next to be
    /// sent; whether it is the largest so far.
    pub(crate) fn on_acked(&mut self, tx: u64, next_tx: u64) -> bool {
        self.before = self.largest;
        if tx <= self.largest {
            return false;
        }
        self.largest = tx;
        if tx >= self.round_end {
            self.round_end = next_tx;
            self.end_round();
        }
        true
    }

    /// The pack whose only transmission was `tx` was acknowledged by the ACK that
    /// [`on_acked`](Self::on_acked) saw.
    pub(crate) fn on_sent_once_acked(&mut self, tx: u64) {
        self.reorders |= tx < self.before;
    }

    fn end_round(&mut self) {
        if self.widened_this_round {
            self.widened_this_round = false;
            return;
        }
        self.calm_rounds += 1;
        if self.calm_rounds >= CALM_ROUNDS {
            self.calm_rounds = 0;
            self.steps = self.steps.saturating_sub(1);
        }
    }

    /// A resend of ours was needless.
    pub(crate) fn on_needless_resend(&mut self) {
        self.calm_rounds = 0;
        self.reorders = true;
        if !self.widened_this_round {
            self.widened_this_round = true;
            self.steps = (self.steps + 1).min(STEPS_MAX);
        }
    }

    /// The reorder window on a path of `smoothed` RTT.
    pub(crate) fn window(&self, smoothed: Duration) -> Duration {
        let step = smoothed / STEP_PART;
        let keeps_order = !self.reorders && self.largest >= IN_ORDER_TXS;
        let part = if keeps_order {
            IN_ORDER_PART
        } else {
            STEP_PART
        };
        let least = smoothed / part;
        let window = least.max(self.window_min) + step * self.steps;
        window.min(smoothed.max(self.window_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_window_is_a_quarter_of_the_rtt_and_at_least_two_milliseconds() {
        let rack = Rack::new(2 * MS);
        assert_eq!(rack.window(50 * MS), 12_500 * MS / 1_000);
        assert_eq!(rack.window(8 * MS), 2 * MS);
        assert_eq!(rack.window(MS), 2 * MS);
    }

    #[test]
    fn it_is_an_eighth_when_the_path_has_shown_that_it_keeps_the_order() {
        let mut rack = Rack::new(2 * MS);
        let ack = |rack: &mut Rack, tx| {
            rack.on_acked(tx, tx + 1);
            rack.on_sent_once_acked(tx);
            rack.window(64 * MS).as_millis()
        };
        (1..IN_ORDER_TXS).for_each(|tx| assert_eq!(ack(&mut rack, tx), 16));
        assert_eq!(ack(&mut rack, IN_ORDER_TXS), 8);
        assert_eq!(ack(&mut rack, IN_ORDER_TXS + 9), 8);
        assert_eq!(rack.window(10 * MS), 2 * MS);
        // One ACK that covers two of them says nothing of their order; two do.
        rack.on_sent_once_acked(IN_ORDER_TXS + 8);
        assert_eq!(rack.window(64 * MS), 8 * MS);
        assert_eq!(ack(&mut rack, IN_ORDER_TXS + 7), 16);
        (300..600).for_each(|tx| assert_eq!(ack(&mut rack, tx), 16, "for good"));
    }

    #[test]
    fn a_needless_resend_shows_a_path_that_reorders() {
        let mut rack = Rack::new(2 * MS);
        rack.on_needless_resend();
        (1..=400).for_each(|tx| assert!(rack.on_acked(tx, tx + 1)));
        assert_eq!((rack.steps, rack.window(64 * MS)), (0, 16 * MS));
    }

    #[test]
    fn it_widens_once_a_round_trip_up_to_the_rtt_and_narrows_after_sixteen() {
        let mut rack = Rack::new(2 * MS);
        let mut tx = 0;
        let mut round = |rack: &mut Rack, needless: u32| {
            tx += 1;
            assert!(rack.on_acked(tx, tx + 1));
            (0..needless).for_each(|_| rack.on_needless_resend());
            rack.window(40 * MS).as_millis()
        };
        let widening = [(1, 20), (5, 30), (1, 40), (1, 40)];
        for (needless, window) in widening {
            assert_eq!(round(&mut rack, needless), window);
        }
        // The round that ends next still saw one; sixteen calm ones follow it.
        for _ in 0..16 {
            assert_eq!(round(&mut rack, 0), 40);
        }
        assert_eq!(round(&mut rack, 0), 30);
        for _ in 0..15 {
            assert_eq!(round(&mut rack, 0), 30);
        }
        assert_eq!(round(&mut rack, 0), 20);
    }

    #[test]
    fn an_old_tx_moves_nothing() {
        let mut rack = Rack::new(2 * MS);
        assert!(rack.on_acked(5, 9));
        assert!(!rack.on_acked(5, 9) && !rack.on_acked(4, 9));
        assert_eq!(rack.largest(), 5);
    }
}
