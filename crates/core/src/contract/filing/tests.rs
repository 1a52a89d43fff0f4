//! What is filed, when, and what is not filed again.
#![allow(clippy::unwrap_used)]

use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use super::*;
use crate::config::BackendHealthConfig;

const S: Duration = Duration::from_secs(1);

struct Desk {
    filing: Filing,
    health: BackendHealth,
    now: Instant,
}

impl Desk {
    fn new() -> Self {
        let now = Instant::now();
        let mut rng = SmallRng::seed_from_u64(1);
        Self {
            filing: Filing::new(10 * S),
            health: BackendHealth::new(BackendHealthConfig::default(), now, &mut rng),
            now,
        }
    }

    fn durable(&mut self, of: u16, total: u64) {
        let record = Record {
            contract: [0; 192],
            receipt: [0; 132],
            filed_total: 0,
        };
        self.filing.on_durable(id(of), record, total);
    }

    fn request(&mut self) -> Option<FilingRequest> {
        self.filing.poll_request(&self.health, self.now)
    }

    fn answer(&mut self, id: u64, outcomes: &[Filed]) -> Vec<Moved> {
        self.filing.on_answer(id, outcomes, &self.health, self.now)
    }
}

fn id(of: u16) -> ContractId {
    let mut id = [0; 16];
    id[..2].copy_from_slice(&of.to_be_bytes());
    ContractId(id)
}

#[test]
fn one_request_is_in_flight_and_carries_the_latest_total_of_each_contract() {
    let mut desk = Desk::new();
    assert_eq!(desk.request(), None);
    for total in [10, 30, 20] {
        desk.durable(1, total);
    }
    let first = desk.request().unwrap();
    assert_eq!(first.receipts.len(), 1);
    desk.durable(2, 5);
    assert_eq!(desk.request(), None, "one is in flight");
    let moved = desk.answer(first.id, &[Filed::Settled(30)]);
    assert_eq!((moved[0].total, moved[0].record.filed_total), (30, 30));
    assert_eq!(desk.request(), None, "not so soon");
    desk.now += 10 * S;
    let second = desk.request().unwrap();
    assert_eq!(
        desk.answer(first.id, &[Filed::Settled(9)]),
        [],
        "an answer of before"
    );
    assert_eq!(desk.answer(second.id, &[Filed::Settled(5)]).len(), 1);
    desk.now += 10 * S;
    assert_eq!(desk.request(), None, "all is filed");
    assert_eq!(desk.filing.counters(), (0, 2));
}

#[test]
fn what_came_during_a_request_is_filed_by_the_next() {
    let mut desk = Desk::new();
    desk.durable(1, 10);
    let request = desk.request().unwrap();
    desk.durable(1, 25);
    let moved = desk.answer(request.id, &[Filed::Settled(10)]);
    assert_eq!((moved[0].total, moved[0].record.filed_total), (25, 10));
    assert!(!desk.filing.is_filed(&id(1)));
    desk.now += 10 * S;
    let next = desk.request().unwrap();
    // The backend has more, by a request whose answer was lost.
    desk.answer(next.id, &[Filed::Settled(40)]);
    assert!(desk.filing.is_filed(&id(1)));
}

#[test]
fn a_refusal_is_counted_by_its_reason_and_not_filed_again() {
    let mut desk = Desk::new();
    desk.durable(1, 10);
    let request = desk.request().unwrap();
    let moved = desk.answer(request.id, &[Filed::Refused(RefusedFor::Banned)]);
    assert_eq!(moved[0].refused, Some(RefusedFor::Banned));
    desk.now += 60 * S;
    assert_eq!(desk.request(), None);
    assert_eq!(
        desk.filing.refusals().collect::<Vec<_>>(),
        [(RefusedFor::Banned, 1)]
    );
    desk.durable(1, 11);
    assert!(desk.request().is_some(), "a higher one may count");
}

#[test]
fn an_outage_is_asked_by_the_schedule_of_the_backends_health() {
    //
    let mut desk = Desk::new();
    desk.durable(1, 10);
    let (end, mut times) = (desk.now + 3_600 * S, Vec::new());
    while desk.now < end {
        if let Some(request) = desk.request() {
            times.push(desk.now);
            desk.now += S;
            desk.filing
                .on_ended(request.id, AskEnd::Failed, &desk.health, desk.now);
            // Nothing of what clients do meanwhile makes it ask more.
            desk.durable(2, times.len() as u64);
        }
        let due = desk.filing.poll_timeout(desk.now).unwrap();
        assert!(due > desk.now || times.is_empty() || desk.request().is_none());
        desk.now = due.max(desk.now + Duration::from_millis(1));
    }
    assert!((120..=165).contains(&times.len()), "{}", times.len());
    let closest = times
        .windows(2)
        .skip(3)
        .map(|two| two[1] - two[0])
        .min()
        .unwrap();
    assert!(closest >= Duration::from_millis(3_750), "{closest:?}");
}

#[test]
fn an_answer_with_another_number_of_outcomes_is_none() {
    let mut desk = Desk::new();
    desk.durable(1, 10);
    let request = desk.request().unwrap();
    assert_eq!(desk.answer(request.id, &[]), []);
    assert_eq!(
        desk.health
            .record(crate::health::backend::Work::Contract)
            .streak,
        1
    );
    desk.now += 10 * S;
    assert!(desk.request().is_some());
}

#[test]
fn a_request_is_bounded_and_what_does_not_fit_follows_at_once() {
    let mut desk = Desk::new();
    let all = u16::try_from(FILED_MAX).unwrap() + 5;
    (0..all).for_each(|of| desk.durable(of, 1));
    let first = desk.request().unwrap();
    assert_eq!(first.receipts.len(), FILED_MAX);
    desk.answer(first.id, &vec![Filed::Settled(1); FILED_MAX]);
    let rest = desk.request().unwrap();
    assert_eq!(rest.receipts.len(), 5);
    desk.answer(rest.id, &vec![Filed::Settled(1); 5]);
    assert_eq!(desk.filing.counters().0, 0);
}
