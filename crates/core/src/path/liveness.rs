//! PING and PONG: is the other end there, how far is it, keep the way open.
//!
//! The client keeps the address mappings of routers on the way alive: when it
//! has sent nothing for `keepalive_interval`, it sends a PING. A provider never
//! starts one on an idle path, so that a sleeping phone stays asleep. When else
//! to ask is the business of `crate::health::path`. At most one PING stands in
//! the carrier's queue; an answer is known by the nonce of the last, and an answer
//! to nothing is ignored. A peer that floods PINGs breaks the protocol.
//!
//! ```text
//! client   idle --keepalive_interval without sending--> PING due --sent--> waiting --PONG--> idle
//!                                                        ^-- asked for (session just up, health)
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quell_wire::registry::ErrorCode;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::bucket::TokenBucket;
use crate::config::PathConfig;

/// Which end of a path this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Has the user's packets; keeps the path alive.
    Client,
    /// The exit; answers.
    Provider,
}

#[derive(Debug)]
struct Outstanding {
    nonce: u64,
    departed: Option<Instant>,
}

/// The answer to the last PING came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The round trip, where it is known when the PING left.
    pub(crate) rtt: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Liveness {
    keepalive_interval: Option<Duration>,
    last_sent: Instant,
    wanted: bool,
    outstanding: Option<Outstanding>,
    owed: VecDeque<u64>,
    allowance: TokenBucket,
    rtt: Option<Duration>,
    rng: SmallRng,
    pings_sent: u64,
    pings_answered: u64,
}

impl Liveness {
    pub(crate) fn new(config: &PathConfig, role: Role, seed: u64, now: Instant) -> Self {
        Self {
            keepalive_interval: (role == Role::Client).then_some(config.keepalive_interval),
            last_sent: now,
            wanted: false,
            outstanding: None,
            owed: VecDeque::new(),
            allowance: TokenBucket::new(config.pings_per_s_max, config.ping_burst_max),
            rtt: None,
            rng: SmallRng::seed_from_u64(seed),
            pings_sent: 0,
            pings_answered: 0,
        }
    }

    /// Asks for a PING at the next opportunity.
    pub(crate) fn want_ping(&mut self) {
        self.wanted = true;
    }

    /// The connection is gone, and with it what was asked and owed on it.
    pub(crate) fn suspend(&mut self, now: Instant) {
        (self.wanted, self.outstanding, self.last_sent) = (false, None, now);
        self.owed.clear();
    }

    /// Owes an answer to `nonce`.
    ///
    /// The debt is bounded by the allowance's burst: what the allowance lets
    /// through faster than the carrier takes it would pile up otherwise.
    pub(crate) fn handle_ping(
        &mut self,
        nonce: u64,
        owed_max: usize,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        if !self.allowance.take(now) {
            return Err(ErrorCode::PingFlood);
        }
        if self.owed.len() >= owed_max {
            self.owed.pop_front();
        }
        self.owed.push_back(nonce);
        Ok(())
    }

    /// Takes a PONG; `None` when it answers nothing that is asked.
    pub(crate) fn handle_pong(&mut self, nonce: u64, now: Instant) -> Option<Answer> {
        let ping = self.outstanding.take_if(|ping| ping.nonce == nonce)?;
        self.pings_answered += 1;
        let rtt = ping.departed.map(|at| now.saturating_duration_since(at));
        self.rtt = rtt.or(self.rtt);
        Some(Answer { rtt })
    }

    /// Whether an answer is owed.
    pub(crate) fn owes_pong(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The next answer to send.
    pub(crate) fn poll_pong(&mut self) -> Option<u64> {
        self.owed.pop_front()
    }

    /// Whether a PING is to leave: one is wanted, and none waits in the carrier.
    pub(crate) fn wants_ping(&self) -> bool {
        let queued = |ping: &Outstanding| ping.departed.is_none();
        self.wanted && !self.outstanding.as_ref().is_some_and(queued)
    }

    /// The nonce of a PING that is due, which counts as sent by this call.
    pub(crate) fn poll_ping(&mut self) -> Option<u64> {
        if !self.wants_ping() {
            return None;
        }
        self.wanted = false;
        let nonce = self.rng.random();
        self.outstanding = Some(Outstanding {
            nonce,
            departed: None,
        });
        self.pings_sent += 1;
        Some(nonce)
    }

    /// The last PING has left the carrier; whether it is unanswered.
    pub(crate) fn on_departed(&mut self, now: Instant) -> bool {
        match &mut self.outstanding {
            Some(ping) => {
                ping.departed.get_or_insert(now);
                true
            }
            None => false,
        }
    }

    /// The carrier refused the last PING: it never happened.
    pub(crate) fn on_refused(&mut self) {
        if self.outstanding.take().is_some() {
            self.wanted = true;
            self.pings_sent -= 1;
        }
    }

    /// A datagram left for the carrier: mappings on the way are fresh.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        self.last_sent = now;
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.wanted {
            return None;
        }
        self.last_sent.checked_add(self.keepalive_interval?)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.wanted = true;
        }
    }

    /// The last round trip that a PING measured.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    pub(crate) fn pings_sent(&self) -> u64 {
        self.pings_sent
    }

    pub(crate) fn pings_answered(&self) -> u64 {
        self.pings_answered
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn client(now: Instant) -> Liveness {
        Liveness::new(&PathConfig::default(), Role::Client, 1, now)
    }

    fn ping(client: &mut Liveness, now: Instant) -> Option<u64> {
        client.handle_timeout(now);
        client.poll_ping()
    }

    #[test]
    fn a_silent_client_pings_exactly_at_its_interval_and_once() {
        let t0 = Instant::now();
        let mut client = client(t0);
        let due = t0 + Duration::from_secs(20);
        assert_eq!(client.poll_timeout(), Some(due));
        assert_eq!(ping(&mut client, due - Duration::from_nanos(1)), None);
        let nonce = ping(&mut client, due).unwrap();
        client.on_sent(due);
        client.on_departed(due);
        assert_eq!(ping(&mut client, due), None);
        let answer = client.handle_pong(nonce, due + 40 * MS);
        assert_eq!(answer, Some(Answer { rtt: Some(40 * MS) }));
        assert_eq!(client.rtt(), Some(40 * MS));
    }

    #[test]
    fn sending_postpones_the_keepalive_and_a_provider_has_none() {
        let t0 = Instant::now();
        let mut client = client(t0);
        client.on_sent(t0 + Duration::from_secs(19));
        assert_eq!(client.poll_timeout(), Some(t0 + Duration::from_secs(39)));
        let provider = Liveness::new(&PathConfig::default(), Role::Provider, 1, t0);
        assert_eq!(provider.poll_timeout(), None);
    }

    #[test]
    fn the_round_trip_counts_from_the_departure_and_is_unknown_before() {
        let t0 = Instant::now();
        let mut client = client(t0);
        client.want_ping();
        let nonce = client.poll_ping().unwrap();
        client.on_departed(t0 + 30 * MS);
        client.on_departed(t0 + 35 * MS);
        let answer = client.handle_pong(nonce, t0 + 50 * MS);
        assert_eq!(answer, Some(Answer { rtt: Some(20 * MS) }));
        client.want_ping();
        let nonce = client.poll_ping().unwrap();
        let answer = client.handle_pong(nonce, t0 + 60 * MS);
        assert_eq!(answer, Some(Answer { rtt: None }));
    }

    #[test]
    fn a_ping_in_the_carriers_queue_is_followed_by_none() {
        let t0 = Instant::now();
        let mut client = client(t0);
        client.want_ping();
        client.poll_ping().unwrap();
        client.want_ping();
        assert_eq!(client.poll_ping(), None);
        client.on_departed(t0);
        assert!(client.poll_ping().is_some());
    }

    #[test]
    fn a_refused_ping_is_wanted_again() {
        let mut client = client(Instant::now());
        client.want_ping();
        client.poll_ping().unwrap();
        client.on_refused();
        assert_eq!(client.pings_sent(), 0);
        assert!(client.poll_ping().is_some());
    }

    #[test]
    fn an_answer_to_nothing_is_ignored() {
        let t0 = Instant::now();
        let mut client = client(t0);
        client.want_ping();
        let nonce = client.poll_ping().unwrap();
        client.on_departed(t0);
        assert_eq!(client.handle_pong(nonce ^ 1, t0), None);
        assert!(client.handle_pong(nonce, t0 + 3 * MS).is_some());
        assert_eq!(client.handle_pong(nonce, t0 + 9 * MS), None);
        assert_eq!(client.rtt(), Some(3 * MS));
    }

    #[test]
    fn a_hundred_pings_at_once_pass_and_one_more_is_a_flood() {
        let t0 = Instant::now();
        let mut provider = Liveness::new(&PathConfig::default(), Role::Provider, 1, t0);
        for nonce in 0..100 {
            provider.handle_ping(nonce, 100, t0).unwrap();
        }
        assert_eq!(
            provider.handle_ping(100, 100, t0),
            Err(ErrorCode::PingFlood)
        );
        assert_eq!(std::iter::from_fn(|| provider.poll_pong()).count(), 100);
    }

    #[test]
    fn answers_owed_are_bounded_and_the_oldest_is_forgotten() {
        let t0 = Instant::now();
        let mut provider = Liveness::new(&PathConfig::default(), Role::Provider, 1, t0);
        for nonce in 0..4 {
            provider.handle_ping(nonce, 3, t0).unwrap();
        }
        let owed: Vec<_> = std::iter::from_fn(|| provider.poll_pong()).collect();
        assert_eq!(owed, [1, 2, 3]);
    }
}
