//! The swarm: random small worlds, every checker on (R-21, and the rows that [`quell_sim::check`] names).
//!
//! `QUELL_SEEDS=first..end` runs other seeds than the first two hundred. A seed that fails is shrunk, and printed with the
//! command that runs it again.

use quell_sim::swarm;

/// Of the default run.
const SEEDS: std::ops::Range<u64> = 0..200;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("QUELL_SEEDS") else {
        return SEEDS;
    };
    let ends = text.split_once("..").and_then(|(first, end)| {
        let first = first.parse().ok()?;
        Some(first..end.parse().ok()?)
    });
    ends.unwrap_or_else(|| panic!("QUELL_SEEDS={text}: a range such as 0..200"))
}

#[test]
fn no_seed_makes_a_checker_complain() {
    let seeds = seeds();
    let count = seeds.end.saturating_sub(seeds.start);
    let outcome = swarm::run(seeds.start, count, &mut |_, _| {});
    assert_eq!(outcome.seeds, count);
    let (median, slowest) = (outcome.median(), outcome.slowest());
    let seed = outcome.slowest_seed();
    eprintln!("{count} seeds, median {median:?}, slowest {slowest:?} ({seed:?})");
    let words: Vec<_> = outcome.failures.iter().map(|f| f.in_words()).collect();
    assert!(words.is_empty(), "{}", words.join("\n"));
}
