//! Runs over many seeds, each of which can be repeated alone.
//!
//! A run that fails says the command that repeats it, as the last thing it says: whoever meets a failure in a log of a
//! thousand lines should not have to think about how to see it again.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The variable that picks one seed.
const VARIABLE: &str = "QUELL_SEED";

/// Runs `body` with the seeds 0 to `seeds` − 1, or with the one in `QUELL_SEED` alone.
///
/// `test` is the file and the function, `file::function`, of an integration test of quell-core.
///
/// # Panics
/// When a seed fails, with its reason and the command that repeats it.
pub fn for_seeds(test: &str, seeds: u64, body: impl Fn(u64)) {
    let only = std::env::var(VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
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
}
