//! How much may be spent on what may be in vain.
//!
//! *Intuition.* While answers come, they pay for what is sent next. What is sent
//! into a silence is a bet: a resend that may not be needed, a second copy of a
//! SYN, a dial of a server that may be down. Each kind of bet has a purse of its
//! own, so that one cannot starve another, and all of them together have a ceiling
//! for the time in which no bet has won.
//!
//! | type | bets | bound |
//! |---|---|---|
//! | [`SilenceBudget`], of a [`ProcessBudget`] | resends into a silence | 20 % of first-sent bytes over 10 s and 2 packs/s a path; 20 % and 10 packs/s a process |
//! | [`RaceBudget`] | extra copies of what is raced | a share of what is raced, and a few a second |
//! | [`DialBudget`] | dials, whomever | a token bucket for the process |
//! | [`QuietCeiling`] | everything, while nothing makes progress | 16 KiB a minute after the first minute |
//!
//! What is reserved is taken out at once, when the bet is planned and not when it
//! is sent: else a thousand plans would each find the purse full (case B10). What
//! turns out not to be needed is given back to where it came from.
//!
//! The shares are counted in ticks of a second over a fixed ring: nothing is
//! allocated, and nothing is walked but the ring. All sums saturate.

mod dial;
mod ledger;
mod quiet;
mod race;
mod silence;

pub use dial::{DialBudget, DialStatus};
pub use ledger::Spending;
pub use quiet::{DIAL_TIME_MAX, DialReservation, QuietCeiling, QuietStatus};
pub use race::{CopyReservation, RaceBudget};
pub use silence::{ProcessBudget, SilenceBudget};
