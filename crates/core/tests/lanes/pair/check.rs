//! What must hold after every step, and when all is at rest.
//!
//! The ends' own counters are held against the [`Books`](super::Books) and the carriers' ledgers, which saw everything pass
//! and believe neither end.

use quell_core::send::GiveUp;

use super::Pair;

impl Pair {
    pub(crate) fn check(&self) {
        let sender = self.sender.counters();
        if sender.unaccounted() != 0 {
            self.fail(&format!("the sender's books: {sender:?}"));
        }
        let (receiver, drops) = (self.receiver.counters(), self.receiver.drops());
        if receiver.unaccounted(&drops) != 0 {
            self.fail(&format!("the receiver's books: {receiver:?} {drops:?}"));
        }
        let config = &self.setup.receive;
        if receiver.held_bytes > config.window_bytes || receiver.held > config.window_numbers {
            self.fail(&format!("more is held than credit admits: {receiver:?}"));
        }
        if self.sender.window_bytes() > self.setup.send.window_bytes
            || self.sender.allocated_bytes() > self.memory_max
        {
            self.fail(&format!("{} B of rings", self.sender.allocated_bytes()));
        }
        if let Err(what) = self.books.check_holds(self.now)
            && !self.slept
        {
            self.fail(&what);
        }
        self.check_conservation();
    }

    /// Over both ends: handed over = waiting + sent; sent and copied = arrived + lost + under way.
    fn check_conservation(&self) {
        let ledger = self.forward.ledger();
        let handed = self.forward.waiting_packs() + ledger.sent.packs;
        let counters = self.sender.counters();
        let sends = counters.first_sends + counters.evidence_resends + counters.silence_resends;
        if (sends, self.books.hand_overs) != (handed, handed) {
            self.fail(&format!("{handed} packs handed over: {counters:?}"));
        }
        if self.receiver.counters().received != ledger.arrived.packs {
            self.fail(&format!("{ledger:?}: {:?}", self.receiver.counters()));
        }
        if !self.forward.is_conserved() || !self.back.is_conserved() {
            self.fail("a link's ledger does not close");
        }
    }

    /// At rest, everything was delivered, or was given up and said to be.
    pub(crate) fn expect_settled(&mut self) {
        if !self.is_at_rest() {
            self.fail("it is not at rest");
        }
        let (sender, receiver) = (self.sender.counters(), self.receiver.counters());
        let numbers = self.books.numbers();
        let distinct = (0..numbers)
            .filter(|n| self.books.arrived_at(*n).is_some())
            .count() as u64;
        let settled = sender.acked + sender.given_up() + sender.dropped.total();
        if (sender.accepted, settled) != (numbers, numbers) {
            self.fail(&format!("{numbers} accepted: {sender:?} {receiver:?}"));
        }
        let ended = self.sender.exhausted().is_some();
        let known = self.receiver.cumulative() == numbers && distinct + receiver.skipped >= numbers;
        if !ended && (!known || receiver.held > 0) {
            self.fail(&format!("{distinct} of {numbers} arrived: {receiver:?}"));
        }
        let missing = self.books.undelivered().count() as u64;
        if !ended && missing > sender.given_up() {
            self.fail(&format!("{missing} never came out: {sender:?}"));
        }
    }

    /// At rest, everything was delivered.
    pub(crate) fn expect_all_delivered(&mut self) {
        self.expect_settled();
        if let Some(id) = self.books.undelivered().next() {
            self.fail(&format!("packet {id} was not delivered"));
        }
    }

    /// At rest, what was not delivered is the path's fault: a strict lane ended over a pack whose every send was lost, or
    /// every ACK since; of a packet that was skipped a part never arrived.
    pub(crate) fn expect_only_path_to_blame(&mut self) {
        self.expect_settled();
        let Some(exhausted) = self.sender.exhausted() else {
            let arrived = |n: u64| self.books.arrived_at(n).is_some();
            let mut missing = self.books.undelivered();
            if let Some(id) = missing.find(|id| self.books.numbers_of(*id).all(arrived)) {
                self.fail(&format!("packet {id} arrived and was not delivered"));
            }
            return;
        };
        let number = exhausted.number;
        let sends = self.books.sends_of(number);
        // What is heard within the way back may have left before the pack came.
        let link = self.setup.carrier.link;
        let heard = self.heard_at.zip(self.books.arrived_at(number));
        let heard_since = heard.is_some_and(|(heard, at)| heard > at + link.delay + link.jitter);
        // Where silences are long, `ack_timeout` comes before the last resend.
        if exhausted.cause != GiveUp::Expired || exhausted.sends != sends || heard_since {
            self.fail(&format!(
                "it ended over {exhausted:?}, handed over {sends} times"
            ));
        }
    }

    /// Resends so far.
    pub(crate) fn resends(&self) -> u64 {
        let counters = self.sender.counters();
        counters.evidence_resends + counters.silence_resends
    }
}
