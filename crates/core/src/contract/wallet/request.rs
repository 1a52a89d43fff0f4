//! The one request for contracts that is in flight, or waits to be repeated.
//!
//! A request is made of all that is wanted at that moment, what has nothing in hand first, and stays as it is until an
//! answer came: under its id the backend gives the same again. Its answer is per want; a refusal of one says nothing of
//! another. What the whole was refused for (a clock, a ban) holds for each want of it.

use std::time::Instant;

use quell_wire::contract::{CONTRACT_LEN, SignedContract};
use rand::RngExt as _;

use super::super::asked::{self, AskEnd, RefusedFor};
use super::{Party, Purse, Wallet};
use crate::health::BackendHealth;
use crate::health::backend::Attempt;

/// Most wants of one request.
pub const WANTS_MAX: usize = 16;

/// One contract that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// For whom. The driver adds the binding of its client key.
    pub party: Party,
    /// How many bytes would be welcome.
    pub bytes: u64,
}

/// A request for contracts, to be sent as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractsAsked {
    /// Names this sending of it: how it ended is said with this.
    pub number: u64,
    /// Names the request to the backend; a repeat has the same.
    pub request_id: [u8; 16],
    /// 1 to [`WANTS_MAX`].
    pub wants: Vec<Want>,
}

/// What became of one want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantOutcome {
    /// A contract's signed form.
    Signed(Vec<u8>),
    /// None, and why.
    Refused(RefusedFor),
}

#[derive(Debug)]
pub(super) struct Request {
    id: [u8; 16],
    wants: Vec<Want>,
    in_flight: Option<(u64, Attempt)>,
}

impl Wallet {
    /// The request that is to go at `now`, if one is. Its end is to be told with its number.
    pub fn poll_request(
        &mut self,
        health: &BackendHealth,
        wall_s: u64,
        now: Instant,
    ) -> Option<ContractsAsked> {
        if self.request_at(wall_s, now).is_none_or(|at| at > now) {
            return None;
        }
        let attempt = match asked::admit(health, now) {
            Ok(attempt) => attempt,
            Err(wait) => {
                self.not_before = Some(wait.until.max(now));
                return None;
            }
        };
        self.not_before = None;
        if self.request.is_none() {
            let wants = self.wants(wall_s, now);
            let id = self.rng.random();
            self.request = Some(Request {
                id,
                wants,
                in_flight: None,
            });
        }
        let request = self.request.as_mut()?;
        let number = self.requests;
        self.requests += 1;
        request.in_flight = Some((number, attempt));
        Some(ContractsAsked {
            number,
            request_id: request.id,
            wants: request.wants.clone(),
        })
    }

    /// When a request is to go, if none is in flight.
    pub(super) fn request_at(&self, wall_s: u64, now: Instant) -> Option<Instant> {
        let not_before = self.not_before.unwrap_or(now);
        match &self.request {
            Some(request) if request.in_flight.is_some() => None,
            Some(_) => Some(not_before),
            None => {
                let wanted = self.wanted.iter();
                let at = wanted.filter_map(|party| self.want_at(party, wall_s, now));
                at.min().map(|at| at.max(not_before))
            }
        }
    }

    fn want_at(&self, party: &Party, wall_s: u64, now: Instant) -> Option<Instant> {
        let purse = self.purses.get(party);
        purse.map_or(Some(now), |purse| purse.want_at(&self.config, wall_s, now))
    }

    /// All that is due, what has nothing in hand first.
    fn wants(&self, wall_s: u64, now: Instant) -> Vec<Want> {
        let due = |party: &&Party| self.want_at(party, wall_s, now).is_some_and(|at| at <= now);
        let bare = |party: &Party| {
            self.purses
                .get(party)
                .is_none_or(|purse| purse.is_empty(wall_s))
        };
        let mut parties: Vec<Party> = self.wanted.iter().filter(due).copied().collect();
        parties.sort_by_key(|party| !bare(party));
        parties.truncate(WANTS_MAX);
        let want = |party: Party| {
            let bytes = self
                .purses
                .get(&party)
                .map(|purse| purse.bytes_wanted(&self.config, now));
            Want {
                party,
                bytes: bytes.unwrap_or(self.config.contract_bytes),
            }
        };
        parties.into_iter().map(want).collect()
    }

    /// The backend answered: an outcome for each want, in their order. Another number of outcomes, or a form that is no
    /// contract of its want, is no answer. What is new, for the sessions of these parties.
    pub fn on_answer(
        &mut self,
        number: u64,
        outcomes: &[WantOutcome],
        health: &BackendHealth,
        wall_s: u64,
        now: Instant,
    ) -> Vec<(Party, [u8; CONTRACT_LEN])> {
        let Some(request) = self.request.take_if(|request| request.is_sent_as(number)) else {
            return Vec::new();
        };
        let Some((_, attempt)) = request.in_flight else {
            return Vec::new();
        };
        let pairs = request.wants.iter().zip(outcomes);
        let read: Option<Vec<_>> = pairs.map(|(want, outcome)| read(want, outcome)).collect();
        let Some(read) = read.filter(|_| outcomes.len() == request.wants.len()) else {
            // The same again: perhaps the answer was mangled on its way.
            asked::report(health, attempt, AskEnd::Failed, now);
            self.request = Some(Request {
                in_flight: None,
                ..request
            });
            return Vec::new();
        };
        health.succeeded(attempt, now);
        let mut new = Vec::new();
        for (party, outcome) in read {
            match outcome {
                Ok(contract) => self.take(party, &contract, wall_s, &mut new),
                Err(_) => self.rest(party, wall_s, now),
            }
        }
        new
    }

    fn take(
        &mut self,
        party: Party,
        contract: &SignedContract,
        wall_s: u64,
        new: &mut Vec<(Party, [u8; CONTRACT_LEN])>,
    ) {
        let purse = self.purse(party, wall_s);
        if purse.is_some_and(|purse| purse.take(contract, wall_s)) {
            self.granted = self.granted.saturating_add(1);
            self.changed = true;
            new.push((party, contract.encode()));
        }
    }

    fn rest(&mut self, party: Party, wall_s: u64, now: Instant) {
        self.refused = self.refused.saturating_add(1);
        let mut rng = self.rng.clone();
        if let Some(purse) = self.purse(party, wall_s) {
            Purse::rest(purse, &mut rng, now);
        }
        self.rng = rng;
    }

    /// The request ended without such an answer. Refused as a whole, its wants rest; else the same goes again.
    pub fn on_ended(
        &mut self,
        number: u64,
        end: AskEnd,
        health: &BackendHealth,
        wall_s: u64,
        now: Instant,
    ) {
        let Some(mut request) = self.request.take_if(|request| request.is_sent_as(number)) else {
            return;
        };
        if let Some((_, attempt)) = request.in_flight.take() {
            asked::report(health, attempt, end, now);
        }
        match end {
            AskEnd::Refused(_) => {
                let parties = request.wants.into_iter().map(|want| want.party);
                parties.for_each(|party| self.rest(party, wall_s, now));
            }
            AskEnd::Failed | AskEnd::Unavailable(_) | AskEnd::Throttled(_) | AskEnd::Cancelled => {
                self.request = Some(request)
            }
        }
    }
}

impl Request {
    fn is_sent_as(&self, number: u64) -> bool {
        self.in_flight
            .as_ref()
            .is_some_and(|(sent, _)| *sent == number)
    }
}

/// A contract of this want, or why there is none; `None` for what is neither.
fn read(want: &Want, outcome: &WantOutcome) -> Option<(Party, Result<SignedContract, RefusedFor>)> {
    let party = want.party;
    match outcome {
        WantOutcome::Refused(reason) => Some((party, Err(*reason))),
        WantOutcome::Signed(form) => {
            let contract = SignedContract::decode(form).ok()?;
            let terms = &contract.terms;
            let of = (terms.provider_key, terms.client_key);
            (of == (party.provider_key, party.client_key)).then_some((party, Ok(contract)))
        }
    }
}
