//! Rates of counters between two looks, by JSON pointer.
//!
//! A counter that went back belongs to another process, or to another session under the same name: its rate is 0, not what a
//! subtraction would say.

use std::time::Duration;

use serde_json::Value;

use super::Look;

/// Shortest time between two looks that rates are made of.
const APART_MIN: Duration = Duration::from_millis(1);

/// Rates between two looks.
pub(super) struct Rates<'a> {
    before: Option<&'a Value>,
    after: &'a Value,
    apart: Duration,
}

impl<'a> Rates<'a> {
    pub(super) fn of(look: &Look<'a>) -> Self {
        Self {
            before: look.before,
            after: look.after,
            apart: look.apart,
        }
    }

    /// Rates of a part that was found in both looks.
    pub(super) fn part(&self, before: Option<&'a Value>, after: &'a Value) -> Self {
        Self {
            before,
            after,
            apart: self.apart,
        }
    }

    /// What this look's status was the time before.
    pub(super) fn before(&self) -> Option<&'a Value> {
        self.before
    }

    /// How much the counter grows in a second.
    pub(super) fn of_path(&self, path: &str) -> f64 {
        let Some(before) = self.before.filter(|_| self.apart >= APART_MIN) else {
            return 0.0;
        };
        let grown = count(self.after, path).saturating_sub(count(before, path));
        grown as f64 / self.apart.as_secs_f64()
    }

    /// The same for all counters of an object.
    pub(super) fn sum(&self, path: &str) -> f64 {
        let Some(before) = self.before.filter(|_| self.apart >= APART_MIN) else {
            return 0.0;
        };
        let grown = total(self.after, path).saturating_sub(total(before, path));
        grown as f64 / self.apart.as_secs_f64()
    }
}

fn total(of: &Value, path: &str) -> u64 {
    let counts = of.pointer(path).and_then(Value::as_object);
    let counts = counts.into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

/// The number at a pointer, 0 where there is none.
pub(super) fn count(of: &Value, path: &str) -> u64 {
    of.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// The text at a pointer, empty where there is none.
pub(super) fn text<'a>(of: &'a Value, path: &str) -> &'a str {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_counter_that_went_back_has_no_rate() {
        let (before, after) = (json!({"a": 10}), json!({"a": 4}));
        let rates = Rates::of(&Look {
            before: Some(&before),
            after: &after,
            apart: Duration::from_secs(1),
        });
        assert_eq!(rates.of_path("/a"), 0.0);
        assert_eq!(rates.part(Some(&after), &before).of_path("/a"), 6.0);
    }
}
