//! The swarm: random small worlds, every checker on (R-21, and the rows that [`quell_sim::check`] names).
//!
//! `quell sim swarm` runs other seeds than these. A seed that fails is shrunk, and printed with the command that runs it
//! again.

use quell_sim::swarm;

const SEEDS: u64 = 200;

#[test]
fn no_seed_makes_a_checker_complain() {
    //
    let outcome = swarm::run(0, SEEDS, &mut |_, _| {});
    assert_eq!(outcome.seeds, SEEDS);
    let words: Vec<_> = outcome.failures.iter().map(|f| f.in_words()).collect();
    assert!(words.is_empty(), "{}", words.join("\n"));
}

#[test]
fn a_seed_gives_the_same_twice() {
    let run = |_| {
        let scenario = swarm::draw::scenario(11);
        let options = quell_sim::fleet::Options {
            seed: 11,
            ..Default::default()
        };
        quell_sim::fleet::run(&scenario, "quell", &options, &mut |_| {})
    };
    assert_eq!(run(0), run(1));
}
