//! Is it us?
//!
//! When one exit falls silent it is probably that exit. When half of the window falls
//! silent within seconds, it is probably the one thing they share: our own uplink. To
//! judge exits then would be to evict the good ones, and to dial new ones would be to
//! shout into a dead line.
//!
//! ```text
//!           ≥ 2 exits and ≥ half of the window stalled within 10 s
//!   trust ─────────────────────────────────────────────────────────→ doubt{until: + 15 s}
//!     ↑        any inbound packet                                       │
//!     │        a backend's success that began after the stalls          │
//!     └─────── 15 s are over ───────────────────────────────────────────┘
//! ```
//!
//! While in doubt no exit is evicted, and one dial every 10 s is let through as a canary.
//!
//! An inbound packet, on whichever path, proves the uplink at that moment: it ends the
//! doubt and every stall before it is no evidence any more. So while any exit carries
//! packets there is no doubt. A success of the backend proves the same, if the request
//! left after the last stall was noticed; an older one may have been answered before the
//! cut. When 15 s are over the stalls that led to the doubt are used up: only new ones
//! lead to another, so that doubt cannot keep a dead window for ever.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

use super::backoff::after;
use crate::config::UplinkDoubtConfig;

/// Stalls that are remembered. A window is smaller (DESIGN §6: 6); with more exits than
/// this the first half of them is evidence enough.
const STALLS_MAX: usize = 64;

/// Whether a dial may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialAdvice {
    /// Yes: the uplink is not in doubt.
    Go,
    /// Yes, as the one that finds out about the uplink.
    Canary,
    /// Not before this.
    Wait(Instant),
}

/// Why a doubt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtEnd {
    /// A packet came in.
    Inbound,
    /// The backend answered a request that began after the stalls.
    Backend,
    /// It took as long as it may.
    Timeout,
}

/// The doubt for people and programs. Its text is what `status` shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UplinkDoubtStatus {
    /// Whether the uplink is in doubt.
    pub in_doubt: bool,
    /// How long it still may be, in seconds.
    pub ends_in_s: Option<f64>,
    /// Why, in words.
    pub reason: String,
}

impl fmt::Display for UplinkDoubtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[derive(Debug, Clone, Copy)]
struct Stall {
    exit: u64,
    at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Doubt {
    until: Instant,
    /// Exits that led to it, of so many.
    stalled: usize,
    window: usize,
}

/// The doubt of one process about its uplink. Exits are named by numbers of the caller's.
#[derive(Debug, Clone)]
pub struct UplinkDoubt {
    config: UplinkDoubtConfig,
    /// The last stall of each exit since the last proof; at most [`STALLS_MAX`].
    stalls: Vec<Stall>,
    doubt: Option<Doubt>,
    /// Kept from one doubt to the next: an uplink that flaps gets no canary for each.
    next_canary: Option<Instant>,
    last_end: Option<DoubtEnd>,
}

impl UplinkDoubt {
    /// No doubt.
    pub fn new(config: UplinkDoubtConfig) -> Self {
        Self {
            config,
            stalls: Vec::new(),
            doubt: None,
            next_canary: None,
            last_end: None,
        }
    }

    /// The path over `exit` stalled, one of `window` exits in use. Returns whether that
    /// begins a doubt.
    pub fn on_stalled(&mut self, exit: u64, window: usize, now: Instant) -> bool {
        self.settle(now);
        let window_length = self.config.stall_window;
        let recent = |stall: &Stall| now.saturating_duration_since(stall.at) <= window_length;
        self.stalls
            .retain(|stall| stall.exit != exit && recent(stall));
        if self.stalls.len() < STALLS_MAX {
            self.stalls.push(Stall { exit, at: now });
        }
        let stalled = self.stalls.len();
        let many = stalled >= self.config.exits_min.max(2);
        let half = window.min(STALLS_MAX).div_ceil(2);
        if self.doubt.is_some() || !many || stalled < half {
            return false;
        }
        self.doubt = Some(Doubt {
            until: after(now, self.config.doubt_max),
            stalled,
            window,
        });
        true
    }

    /// A packet came in, over whichever path. Cheap when nothing has stalled.
    pub fn on_inbound(&mut self, now: Instant) {
        if self.stalls.is_empty() && self.doubt.is_none() {
            return;
        }
        self.settle(now);
        self.end(DoubtEnd::Inbound);
    }

    /// The backend answered a request that began at `begun`.
    pub fn on_backend_success(&mut self, begun: Instant, now: Instant) {
        self.settle(now);
        let last = self.stalls.iter().map(|stall| stall.at).max();
        if last.is_some_and(|last| begun > last) {
            self.end(DoubtEnd::Backend);
        }
    }

    /// Whether the uplink is in doubt: no exit is to be evicted.
    pub fn is_in_doubt(&self, now: Instant) -> bool {
        self.doubt.is_some_and(|doubt| now < doubt.until)
    }

    /// Asks whether a dial may go at `now`. A canary is spent by the answer.
    pub fn admit_dial(&mut self, now: Instant) -> DialAdvice {
        self.settle(now);
        let Some(doubt) = self.doubt else {
            return DialAdvice::Go;
        };
        match self.next_canary.filter(|at| now < *at) {
            Some(at) => DialAdvice::Wait(at.min(doubt.until)),
            None => {
                self.next_canary = Some(after(now, self.config.canary_interval));
                DialAdvice::Canary
            }
        }
    }

    /// When the doubt ends by itself, and what that is called.
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        self.doubt.map(|doubt| (doubt.until, "uplink doubt"))
    }

    /// Ends a doubt that took as long as it may. Returns whether one did.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let was = self.doubt.is_some();
        self.settle(now);
        was && self.doubt.is_none()
    }

    /// A snapshot in words and numbers.
    pub fn status(&self, now: Instant) -> UplinkDoubtStatus {
        let doubt = self.doubt.filter(|doubt| now < doubt.until);
        let reason = match (doubt, self.last_end) {
            (Some(doubt), _) => format!(
                "in doubt: {} of {} exits stalled together",
                doubt.stalled, doubt.window
            ),
            (None, None) => "trusted".to_owned(),
            (None, Some(DoubtEnd::Inbound)) => "trusted: a packet came in".to_owned(),
            (None, Some(DoubtEnd::Backend)) => "trusted: the backend answered".to_owned(),
            (None, Some(DoubtEnd::Timeout)) => {
                "trusted: nothing came in for the whole of the last doubt".to_owned()
            }
        };
        UplinkDoubtStatus {
            in_doubt: doubt.is_some(),
            ends_in_s: doubt.map(|d| d.until.saturating_duration_since(now).as_secs_f64()),
            reason,
        }
    }

    fn settle(&mut self, now: Instant) {
        if self.doubt.is_some_and(|doubt| now >= doubt.until) {
            self.end(DoubtEnd::Timeout);
        }
    }

    fn end(&mut self, end: DoubtEnd) {
        self.stalls.clear();
        if self.doubt.take().is_some() {
            self.last_end = Some(end);
        }
    }
}

#[cfg(test)]
mod tests;
