//! Runs over many seeds, each of which can be repeated alone.
//!
//! A run that fails says the command that repeats it, as the last thing it says: whoever meets a failure in a log of a
//! thousand lines should not have to think about how to see it again.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that picks one seed.
const VARIABLE: &str = "QUELL_SEED";
/// The variable that picks a range (`0..200`) in place of each test's own: the gate's range, or that of a long run.
const RANGE_VARIABLE: &str = "QUELL_SEEDS";

/// Runs `body` with the seeds 0 to `seeds` − 1, with those of `QUELL_SEEDS`, or with the one in `QUELL_SEED` alone.
///
/// `test` is the file and the function, `file::function`, of an integration test of quell-core.
///
/// # Panics
/// When a seed fails, with its reason and the command that repeats it. When a variable is set to something else: a run
/// that looked at other seeds than it was asked to would pass for nothing.
pub fn for_seeds(test: &str, seeds: u64, body: impl Fn(u64)) {
    let one = std::env::var(VARIABLE).ok();
    let range = std::env::var(RANGE_VARIABLE).ok();
    for seed in chosen(one.as_deref(), range.as_deref(), seeds) {
        let Err(cause) = catch_unwind(AssertUnwindSafe(|| body(seed))) else {
            continue;
        };
        let why = cause
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| cause.downcast_ref::<&str>().copied())
            .unwrap_or("it panicked");
        panic!("{why}\nrepeat it: {}", command(test, seed));
    }
}

fn chosen(one: Option<&str>, range: Option<&str>, seeds: u64) -> Range<u64> {
    let wrong = |variable, text| panic!("{variable}={text} names no seeds");
    if let Some(text) = one {
        let seed: Option<u64> = text.parse().ok();
        let next = seed.and_then(|seed| Some(seed..seed.checked_add(1)?));
        return next.unwrap_or_else(|| wrong(VARIABLE, text));
    }
    let Some(text) = range else {
        return 0..seeds;
    };
    text.split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?))
        .filter(|range| !range.is_empty())
        .unwrap_or_else(|| wrong(RANGE_VARIABLE, text))
}

fn command(test: &str, seed: u64) -> String {
    let (file, function) = test.split_once("::").unwrap_or((test, ""));
    format!("{VARIABLE}={seed} cargo test -p quell-core --test {file} -- {function}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_failing_seed_says_how_to_repeat_it() {
        let run = catch_unwind(|| for_seeds("lossy::all", 9, |seed| assert!(seed < 7, "seven")));
        let said = run.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            *said,
            "seven\nrepeat it: QUELL_SEED=7 cargo test -p quell-core --test lossy -- all"
        );
    }

    #[test]
    fn one_seed_beats_a_range_and_a_range_beats_the_tests_own() {
        assert_eq!(chosen(None, None, 9), 0..9);
        assert_eq!(chosen(None, Some("5..200"), 9), 5..200);
        assert_eq!(chosen(Some("7"), Some("5..200"), 9), 7..8);
    }

    #[test]
    fn what_names_no_seeds_is_refused() {
        let end = u64::MAX.to_string();
        let refused = |one, range| catch_unwind(|| chosen(one, range, 9)).is_err();
        for one in ["", "a", "-1", "0..2", &end] {
            assert!(refused(Some(one), None), "{one}");
        }
        for range in ["", "a", "5", "5..5", "6..5", "0..", "..5", "0..=5"] {
            assert!(refused(None, Some(range)), "{range}");
        }
    }
}
