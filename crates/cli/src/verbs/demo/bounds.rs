//! Figures and the most that they may be, for people and for programs.
//!
//! A figure is a whole number: milliseconds are rounded up, so that a bound that
//! was missed by a hair was missed. What never came has no figure, and no bound
//! holds for it.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use quell_sim::report::grouped;

/// A figure and the most that it may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    pub(super) figure: Option<u64>,
    pub(super) max: u64,
}

/// A bound called `name` by programs, and by people in `words`.
pub(super) fn bound(
    name: &'static str,
    words: &'static str,
    figure: Option<u64>,
    max: u64,
) -> Bound {
    Bound {
        name,
        words,
        figure,
        max,
    }
}

impl Bound {
    pub(super) fn holds(&self) -> bool {
        self.figure.is_some_and(|figure| figure <= self.max)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "figure": self.figure,
            "limit": self.max,
            "ok": self.holds(),
        })
    }
}

/// The names of those that broke.
pub(super) fn broken(bounds: &[Bound]) -> Vec<&'static str> {
    let broken = bounds.iter().filter(|bound| !bound.holds());
    broken.map(|bound| bound.name).collect()
}

/// A table of them, with its head.
pub(super) struct Table<'a>(pub(super) &'a [Bound]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<46}{:>10}{:>10}", "bound", "figure", "at most")?;
        for bound in self.0 {
            let figure = bound.figure.map_or("none".to_owned(), grouped);
            let ok = if bound.holds() { "ok" } else { "BROKEN" };
            let max = grouped(bound.max);
            writeln!(f, "{:<46}{figure:>10}{max:>10}  {ok}", bound.words)?;
        }
        Ok(())
    }
}

/// Whole milliseconds, rounded up.
pub(super) fn ms(time: Duration) -> u64 {
    let ms = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).unwrap_or(u64::MAX)
}
