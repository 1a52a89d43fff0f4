//! Credit: how far the peer may go, as a promise that is never taken back.
//!
//! A lane's memory is what was received and not yet taken by the application. The promise is made so that this can
//! never exceed the window, whatever the peer does with it:
//!
//! ```text
//! bytes    0 ─────── released ─────────── seen ──────────────── promised = released + window
//!                    └── held, our memory ──┘└── may be sent ──┘
//! numbers  the same, and never beyond the bitmap: promised ≤ base + 8,192
//! ```
//!
//! *Seen* counts the payload of each distinct number once, and of skipped ones by `bytes_up_to`, so that both ends count
//! alike. *Released* is what left our memory: taken by the application, dropped with a reason, or skipped without ever
//! having come. Both only grow, hence the promise does; it is absolute, so a lost or late one does no harm.
//!
//! What is promised is kept: a pack within it is never refused or evicted, and one beyond it ends the connection. It is
//! judged by what was *announced*, which is all that the peer can know.
//!
//! The peer learns of new credit with every ACK. When none is due and the promise has grown by a quarter of the window, one
//! is sent for it: a sender that waits for credit sends nothing that would draw an ACK. A quarter keeps that rare, and
//! leaves half of the window to a message of the largest size (half a window) whatever the rounding.

use quell_wire::frame::Credit;
use quell_wire::registry::{BITMAP_NUMBERS, ErrorCode};
use quell_wire::varint;

use super::violation;
use crate::config::receive::ReceiveConfig;
use crate::path::Violation;

/// The share of the window by which credit grows before an ACK is sent for it alone.
const UPDATE_SHARE: u64 = 4;

#[derive(Debug)]
pub(super) struct CreditBook {
    window: Credit,
    announced: Credit,
    seen_bytes: u64,
    released_bytes: u64,
    released_numbers: u64,
}

impl CreditBook {
    /// Begins with what HELLO or WELCOME grants.
    pub(super) fn new(config: &ReceiveConfig) -> Self {
        Self {
            window: config.first_credit(),
            announced: config.first_credit(),
            seen_bytes: 0,
            released_bytes: 0,
            released_numbers: 0,
        }
    }

    /// Whether the promise covers a number.
    pub(super) fn check_number(&self, number: u64) -> Result<(), Violation> {
        let max = self.announced.max_number;
        if number < max {
            return Ok(());
        }
        let words = format!("number {number}, granted are those below {max}");
        Err(violation(ErrorCode::CreditExceeded, words))
    }

    /// Takes `bytes` of a number that had not been seen.
    pub(super) fn admit_bytes(&mut self, bytes: u64) -> Result<(), Violation> {
        let seen = self.seen_bytes.saturating_add(bytes);
        let max = self.announced.max_bytes;
        if seen > max {
            let words = format!("{seen} bytes of payload, granted are {max}");
            return Err(violation(ErrorCode::CreditExceeded, words));
        }
        self.seen_bytes = seen;
        Ok(())
    }

    /// `numbers` with `bytes` of payload left our memory, or never were in it.
    pub(super) fn release(&mut self, numbers: u64, bytes: u64) {
        self.released_numbers += numbers;
        self.released_bytes += bytes;
        debug_assert!(self.released_bytes <= self.seen_bytes);
    }

    /// The promise as it could be made, with all numbers below `base` known.
    pub(super) fn grown(&self, base: u64) -> Credit {
        let numbers = self.released_numbers + self.window.max_number;
        let bytes = self.released_bytes + self.window.max_bytes;
        Credit {
            max_bytes: bytes.min(varint::MAX),
            max_number: numbers.min(base + BITMAP_NUMBERS).min(varint::MAX),
        }
    }

    /// Makes the promise; from here on the peer may use it.
    pub(super) fn announce(&mut self, credit: Credit) {
        self.announced = credit;
    }

    /// Whether the peer should hear of new credit without another reason.
    pub(super) fn wants_update(&self, base: u64) -> bool {
        let grown = self.grown(base);
        let quarter = |new: u64, old: u64, window: u64| new - old >= window / UPDATE_SHARE;
        let (old, window) = (self.announced, self.window);
        quarter(grown.max_bytes, old.max_bytes, window.max_bytes)
            || quarter(grown.max_number, old.max_number, window.max_number)
    }

    /// Payload that lies in our memory.
    pub(super) const fn held_bytes(&self) -> u64 {
        self.seen_bytes - self.released_bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn book() -> CreditBook {
        let config = ReceiveConfig {
            window_bytes: 65_536,
            window_numbers: 64,
            ..ReceiveConfig::default()
        };
        CreditBook::new(&config.try_new().unwrap())
    }

    fn announce(book: &mut CreditBook, base: u64) -> Credit {
        let credit = book.grown(base);
        book.announce(credit);
        credit
    }

    fn code(result: Result<(), Violation>) -> Option<ErrorCode> {
        result.err().map(|violation| violation.code)
    }

    #[test]
    fn the_last_byte_and_the_last_number_pass_and_one_more_does_not() {
        let mut book = book();
        assert_eq!(code(book.admit_bytes(65_535)), None);
        let exceeded = Some(ErrorCode::CreditExceeded);
        assert_eq!(code(book.admit_bytes(2)), exceeded);
        assert_eq!(code(book.admit_bytes(1)), None);
        assert_eq!(code(book.admit_bytes(1)), exceeded);
        assert_eq!(code(book.check_number(63)), None);
        assert_eq!(code(book.check_number(64)), exceeded);
    }

    #[test]
    fn credit_grows_by_what_is_released_once_it_is_announced() {
        let mut book = book();
        book.admit_bytes(65_536).unwrap();
        book.release(5, 1_000);
        assert_eq!(
            code(book.admit_bytes(1)),
            Some(ErrorCode::CreditExceeded),
            "used before it was granted"
        );
        let credit = announce(&mut book, 5);
        assert_eq!((credit.max_bytes, credit.max_number), (66_536, 69));
        assert_eq!(code(book.admit_bytes(1_000)), None);
        assert_eq!(book.held_bytes(), 65_536);
    }

    #[test]
    fn numbers_never_go_beyond_the_bitmap() {
        let mut book = CreditBook::new(&ReceiveConfig::default());
        // All but number 0 came and were taken.
        book.release(8_191, 0);
        assert_eq!(announce(&mut book, 0).max_number, 8_192);
        assert_eq!(announce(&mut book, 8_192).max_number, 8_191 + 8_192);
    }

    #[test]
    fn a_quarter_of_the_window_is_worth_an_ack_and_less_is_not() {
        let mut book = book();
        book.admit_bytes(65_536).unwrap();
        book.release(15, 16_383);
        assert!(!book.wants_update(64));
        book.release(0, 1);
        assert!(book.wants_update(64));
        announce(&mut book, 64);
        assert!(!book.wants_update(64));
        book.release(16, 0);
        assert!(book.wants_update(64));
    }
}
