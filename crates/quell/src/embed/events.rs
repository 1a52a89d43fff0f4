//! A client's events as bounded streams: a reader that is slow, or asleep, holds nothing up and costs no memory.
//!
//! ```text
//! engine ─ tell ─> Hub ─┬─> queue of a reader (64 at most) ─> Events::next
//!                       └─> queue of another
//! ```
//!
//! What waits in a queue and says no more than its successor gives way to it, in its own place: usage, parameters, the
//! control plane's state, the next attempt of one stall. So parameters that changed since still come before the first
//! [`Event::Up`]. What is more than [`EVENTS_MAX`] then loses the oldest, and is counted
//! ([`Events::missed`]). Readers see events in their order.
//!
//! A reader that comes late begins with what holds: the tunnel's parameters, and whether packets are carried. One that comes
//! after the end hears of that.
//!
//! [`EVENTS_MAX`] is 64: what a flapping network brings in a minute, in some kilobytes.

use std::collections::VecDeque;
use std::mem::discriminant;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quell_net::engine::Event;
use tokio::sync::Notify;

/// Events that wait for one reader, at most.
pub const EVENTS_MAX: usize = 64;

/// Where a client's events come in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    readers: Vec<Weak<Queue>>,
    tunnel: Option<Event>,
    carried: Option<Event>,
    down: Option<Event>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    for_threads: Condvar,
    for_tasks: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    missed: u64,
    is_over: bool,
}

impl Hub {
    /// Tells all readers; after [`Event::Down`] nothing more.
    pub(crate) fn tell(&self, event: Event) {
        let mut inner = self.0.lock();
        if inner.down.is_some() {
            return;
        }
        inner.readers.retain(|reader| match reader.upgrade() {
            Some(queue) => {
                queue.push(event.clone());
                true
            }
            None => false,
        });
        match event {
            Event::Tunnel { .. } => inner.tunnel = Some(event),
            Event::Up { .. } | Event::Stalled { .. } | Event::Held => inner.carried = Some(event),
            Event::Down { .. } => inner.down = Some(event),
            Event::Outage { .. } | Event::Moved { .. } | Event::Usage { .. } | _ => {}
        }
    }

    /// One more reader.
    pub(crate) fn subscribe(&self) -> Events {
        let queue = Arc::new(Queue::default());
        let mut inner = self.0.lock();
        let begins = [&inner.tunnel, &inner.carried, &inner.down];
        for event in begins.into_iter().flatten() {
            queue.push(event.clone());
        }
        inner.readers.push(Arc::downgrade(&queue));
        Events(queue)
    }
}

/// Whether `newer` says all that `older` does.
fn replaces(newer: &Event, older: &Event) -> bool {
    let is_state = matches!(
        newer,
        Event::Tunnel { .. } | Event::Outage { .. } | Event::Usage { .. }
    );
    match (newer, older) {
        (Event::Stalled { since, .. }, Event::Stalled { since: before, .. }) => since == before,
        _ => is_state && discriminant(newer) == discriminant(older),
    }
}

impl Waiting {
    fn append(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
            self.missed += 1;
        }
        self.events.push_back(event);
    }
}

impl Queue {
    fn push(&self, event: Event) {
        let mut waiting = self.waiting.lock();
        waiting.is_over |= matches!(event, Event::Down { .. });
        let older = waiting.events.iter_mut();
        match { older }.find(|older| replaces(&event, older)) {
            Some(older) => *older = event,
            None => waiting.append(event),
        }
        drop(waiting);
        self.for_threads.notify_all();
        self.for_tasks.notify_one();
    }
}

/// A client's events, bounded and in order; see the module for what gives way when nobody reads.
#[derive(Debug)]
pub struct Events(Arc<Queue>);

impl Events {
    /// The next event; `None`: [`Event::Down`] was the last. Runs on any executor; cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if self.is_over() {
                return None;
            }
            self.0.for_tasks.notified().await;
        }
    }

    /// The next event, if one waits.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.waiting.lock().events.pop_front()
    }

    /// The next event, waiting for it with this thread, `limit` at most; `None`: none came, or none will
    /// ([`Events::is_over`]).
    pub fn next_within(&mut self, limit: Duration) -> Option<Event> {
        let until = Instant::now() + limit;
        let mut waiting = self.0.waiting.lock();
        loop {
            if let Some(event) = waiting.events.pop_front() {
                return Some(event);
            }
            if waiting.is_over
                || self
                    .0
                    .for_threads
                    .wait_until(&mut waiting, until)
                    .timed_out()
            {
                return waiting.events.pop_front();
            }
        }
    }

    /// Whether [`Event::Down`] was read.
    pub fn is_over(&self) -> bool {
        let waiting = self.0.waiting.lock();
        waiting.is_over && waiting.events.is_empty()
    }

    /// Events that were lost because this reader was too slow, so far.
    pub fn missed(&self) -> u64 {
        self.0.waiting.lock().missed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn usage(bytes_out: u64) -> Event {
        Event::Usage {
            bytes_out,
            bytes_in: 0,
        }
    }

    fn down() -> Event {
        Event::Down {
            reason: "told to".to_owned(),
            asked: true,
        }
    }

    fn moved(n: u64) -> Event {
        Event::Moved {
            from: None,
            to: quell_net::engine::ExitName {
                name: n.to_string(),
                public_key: String::new(),
            },
        }
    }

    fn all(events: &mut Events) -> Vec<Event> {
        std::iter::from_fn(|| events.try_next()).collect()
    }

    #[test]
    fn a_reader_that_sleeps_costs_the_bound_and_is_told_what_it_missed() {
        let hub = Hub::default();
        let mut events = hub.subscribe();
        let most = EVENTS_MAX as u64;
        (0..most).for_each(|n| hub.tell(moved(n)));
        assert_eq!(events.missed(), 0);
        (most..most + 9).for_each(|n| hub.tell(moved(n)));
        assert_eq!(events.missed(), 9);
        let left = all(&mut events);
        assert_eq!((left.len(), &left[0]), (EVENTS_MAX, &moved(9)));
    }

    #[test]
    fn what_says_no_more_than_its_successor_gives_way() {
        let hub = Hub::default();
        let mut events = hub.subscribe();
        let stalled = |since, words: &str| Event::Stalled {
            since,
            next_attempt: None,
            reason: words.to_owned(),
        };
        let (t0, t1) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        for event in [
            usage(1),
            stalled(t0, "first"),
            usage(2),
            stalled(t0, "second"),
            stalled(t1, "another stall"),
            usage(3),
        ] {
            hub.tell(event);
        }
        // Each in the place of the first that it stands for: what came before something still does.
        let want = [
            usage(3),
            stalled(t0, "second"),
            stalled(t1, "another stall"),
        ];
        assert_eq!(all(&mut events), want);
        assert_eq!(events.missed(), 0);
    }

    #[test]
    fn who_comes_late_begins_with_what_holds_and_after_the_end_with_that() {
        let hub = Hub::default();
        hub.tell(usage(1));
        hub.tell(Event::Held);
        assert_eq!(all(&mut hub.subscribe()), [Event::Held]);
        hub.tell(down());
        hub.tell(usage(2));
        let mut events = hub.subscribe();
        assert_eq!(all(&mut events), [Event::Held, down()]);
        assert!(events.is_over());
        assert_eq!(events.next_within(Duration::from_secs(60)), None);
    }

    #[test]
    fn a_thread_waits_until_something_comes() {
        let hub = Hub::default();
        let mut events = hub.subscribe();
        assert_eq!(events.next_within(Duration::from_millis(5)), None);
        assert!(!events.is_over());
        let waiting = std::thread::spawn(move || events.next_within(Duration::from_secs(60)));
        hub.tell(usage(7));
        assert_eq!(waiting.join().unwrap(), Some(usage(7)));
    }

    #[test]
    fn a_reader_that_is_gone_is_forgotten() {
        let hub = Hub::default();
        drop(hub.subscribe());
        hub.tell(usage(1));
        assert!(hub.0.lock().readers.is_empty());
    }
}
