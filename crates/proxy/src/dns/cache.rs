//! What servers said, for as long as they said it holds.
//!
//! Bounded; what expires first makes room. Finding that is a walk over the table, made only when it is full and beside a
//! round trip through the tunnel.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use quell_underlay::dns::Question;

/// Answers.
pub(super) struct Cache {
    known: HashMap<Question, (Vec<IpAddr>, Instant)>,
    max: usize,
}

impl Cache {
    /// Holds `max` answers at most.
    pub(super) fn new(max: usize) -> Self {
        Self {
            known: HashMap::new(),
            max,
        }
    }

    /// What is known at `now`.
    pub(super) fn recall(&mut self, question: &Question, now: Instant) -> Option<Vec<IpAddr>> {
        let (addresses, until) = self.known.get(question)?;
        if *until <= now {
            self.known.remove(question);
            return None;
        }
        Some(addresses.clone())
    }

    /// Remembers an answer; one that says "nothing" is not kept, since a name may be made at any time.
    pub(super) fn keep(&mut self, question: Question, addresses: Vec<IpAddr>, until: Instant) {
        if self.max == 0 || addresses.is_empty() {
            return;
        }
        if self.known.len() >= self.max && !self.known.contains_key(&question) {
            let first = self.known.iter().min_by_key(|(_, (_, until))| *until);
            if let Some(first) = first.map(|(question, _)| question.clone()) {
                self.known.remove(&first);
            }
        }
        self.known.insert(question, (addresses, until));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use quell_underlay::dns::Family;

    fn question(name: &str) -> Question {
        Question::new(name, Family::V4).unwrap()
    }

    #[test]
    fn an_answer_holds_as_long_as_it_says_and_no_longer() {
        let now = Instant::now();
        let until = now + Duration::from_secs(30);
        let addresses = vec![IpAddr::from([192, 0, 2, 1])];
        let mut cache = Cache::new(2);
        cache.keep(question("a.test"), addresses.clone(), until);
        let before = until - Duration::from_millis(1);
        assert_eq!(cache.recall(&question("A.test"), before), Some(addresses));
        assert_eq!(cache.recall(&question("a.test"), until), None);
        let v6 = Question::new("a.test", Family::V6).unwrap();
        assert_eq!(cache.recall(&v6, now), None);
    }

    #[test]
    fn what_expires_first_makes_room() {
        let now = Instant::now();
        let at = |secs| now + Duration::from_secs(secs);
        let address = vec![IpAddr::from([192, 0, 2, 1])];
        let mut cache = Cache::new(2);
        cache.keep(question("a.test"), address.clone(), at(20));
        cache.keep(question("b.test"), address.clone(), at(10));
        cache.keep(question("c.test"), address.clone(), at(30));
        assert_eq!(cache.known.len(), 2);
        assert!(cache.recall(&question("a.test"), now).is_some());
        assert!(cache.recall(&question("b.test"), now).is_none());
        cache.keep(question("d.test"), Vec::new(), at(30));
        assert_eq!(cache.recall(&question("d.test"), now), None);
        let mut none = Cache::new(0);
        none.keep(question("a.test"), address, at(20));
        assert!(none.known.is_empty());
    }
}
