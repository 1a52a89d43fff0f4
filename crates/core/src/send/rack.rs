//! Evidence of loss: RFC 8985, by the order of transmissions.
//!
//! A pack is lost when a later `tx` was acknowledged and its own answer is
//! overdue: its departure + max(srtt, latest RTT) + the reorder window is past.
//! There is no count of packs: a batch that comes reversed is no loss (case B03).
//! Through the srtt in that sum a pack is judged at most once in each.
//!
//! The window is max(srtt/4, 2 ms). Each round trip in which a `dup` shows that a
//! resend of ours was needless adds srtt/4, up to a whole srtt (or the floor,
//! where that is more); 16 round trips without one take a step back, as long as
//! RFC 8985 §6.2 keeps its own. A duplicate that the network made, of a pack that
//! was sent once, says nothing about our patience and widens nothing.

use std::time::Duration;

/// Round trips without a needless resend until the window narrows by a step.
const CALM_ROUNDS: u8 = 16;

/// Most steps on top of the first quarter: one srtt in all.
const STEPS_MAX: u32 = 3;

#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// The largest `tx` acknowledged.
    largest: u64,
    steps: u32,
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
            steps: 0,
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
        if !self.widened_this_round {
            self.widened_this_round = true;
            self.steps = (self.steps + 1).min(STEPS_MAX);
        }
    }

    /// The reorder window on a path of `smoothed` RTT.
    pub(crate) fn window(&self, smoothed: Duration) -> Duration {
        let quarter = smoothed / 4;
        let window = quarter.max(self.window_min) + quarter * self.steps;
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
