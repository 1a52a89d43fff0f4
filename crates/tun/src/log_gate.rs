//! At most one log line a minute for each class of event (DESIGN §11, cases B81 and B84).
//!
//! A broken device fails as fast as it is asked, and an outage repeats itself for as long as it lasts. The line that is
//! written stands for all that were held back, and says how many they are. One gate is one class: who has several kinds of
//! news holds a gate for each. A gate decides about lines alone, nothing ever reads from it how things stand.

use std::time::{Duration, Instant};

/// The least time between two lines.
pub const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Decides which of many equal events is written.
#[derive(Debug, Default)]
pub struct LogGate {
    written_at: Option<Instant>,
    held_back: u64,
}

impl LogGate {
    /// `Some(n)`: write a line, it stands for `n` events. `None`: hold this one back.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        self.held_back = self.held_back.saturating_add(1);
        self.release(now)
    }

    /// `Some(n)`: `n` events were held back, and a line that stands for them is due.
    pub fn release(&mut self, now: Instant) -> Option<u64> {
        let due = self
            .written_at
            .is_none_or(|at| now.saturating_duration_since(at) >= LINE_INTERVAL);
        (due && self.held_back > 0).then(|| {
            self.written_at = Some(now);
            std::mem::take(&mut self.held_back)
        })
    }
}

/// Counts the lines that a test's code writes.
#[cfg(test)]
pub(crate) mod counting {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    struct Counter(Arc<AtomicUsize>);

    impl Subscriber for Counter {
        fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _span: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _span: &Id, _values: &Record<'_>) {}
        fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
        fn event(&self, _event: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _span: &Id) {}
        fn exit(&self, _span: &Id) {}
    }

    /// The lines that this thread writes meanwhile.
    pub(crate) fn lines(code: impl FnOnce()) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        tracing::subscriber::with_default(Counter(Arc::clone(&count)), code);
        count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // case B81
    #[test]
    fn one_line_a_minute_stands_for_all() {
        let start = Instant::now();
        let mut gate = LogGate::default();
        assert_eq!(gate.admit(start), Some(1));
        for _ in 0..999 {
            assert_eq!(gate.admit(start), None);
        }
        let just_before = start + LINE_INTERVAL - Duration::from_nanos(1);
        assert_eq!(gate.admit(just_before), None);
        assert_eq!(gate.release(just_before), None);
        assert_eq!(gate.admit(start + LINE_INTERVAL), Some(1_001));
        assert_eq!(gate.admit(start + LINE_INTERVAL), None);
        // What was held back comes without another event; nothing comes of nothing.
        assert_eq!(gate.release(start + 2 * LINE_INTERVAL), Some(1));
        assert_eq!(gate.release(start + 4 * LINE_INTERVAL), None);
    }
}
