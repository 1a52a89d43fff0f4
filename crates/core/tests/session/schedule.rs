//! Whatever happens, in whatever order: the books close at every step, and all is well again afterwards.

use proptest::prelude::*;
use quell_sim::pair::{Op, World, WorldConfig};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..64)
}

/// Malformed for the most part; the frames of a liar are built from the numbers of the protocol.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let begins = prop::sample::select(vec![
        vec![],
        vec![4],
        vec![1, 1, 5, 6, 4, 0],
        vec![1, 1, 5, 6, 5, 0, 3],
        vec![5, 0, 0, 0, 0, 0, 0, 0, 9, 0],
        vec![6, 0, 0, 0, 0, 0, 0, 0, 9],
        vec![3, 1, 0, 0],
        vec![2, 1, 0, 9, 9, 0, 9, 9, 0],
    ]);
    (begins, bytes()).prop_map(|(begin, rest)| [begin, rest].concat())
}

fn op() -> impl Strategy<Value = Op> {
    let packet = (any::<bool>(), 0..3_u8, any::<u8>(), any::<u8>());
    let lie = || (any::<bool>(), 0..3_u8);
    prop_oneof![
        6 => (0..4_u8, 0..16_u8).prop_map(|(scale, steps)| Op::Wait { scale, steps }),
        12 => packet.prop_map(|(inwards, client, kind, size)| Op::Packet { inwards, client, kind, size }),
        1 => (any::<bool>(), bytes()).prop_map(|(inwards, bytes)| Op::Garbage { inwards, bytes }),
        1 => (lie(), datagram()).prop_map(|((to_provider, client), bytes)| Op::Datagram { to_provider, client, bytes }),
        1 => (lie(), bytes()).prop_map(|((to_provider, client), bytes)| Op::Control { to_provider, client, bytes }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(kind, strength)| Op::Weather { kind, strength }),
        2 => any::<u8>().prop_map(Op::DatagramLen),
        1 => (0..2_u8).prop_map(Op::Hold),
        1 => (0..4_u8).prop_map(Op::Blackhole),
        1 => (0..3_u8).prop_map(Op::Reach),
        1 => (0..2_u8).prop_map(Op::Restart),
        1 => (0..3_u8).prop_map(Op::Break),
        3 => (any::<bool>(), 0..3_u8, any::<u8>()).prop_map(|(inwards, client, size)| Op::Message { inwards, client, size }),
        1 => any::<u8>().prop_map(Op::Take),
        1 => (0..3_u8).prop_map(Op::Stale),
        1 => Just(Op::Nudge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    // case B86; a failing case is printed in its smallest form, and kept in proptest-regressions.
    #[test]
    fn any_schedule_keeps_the_books_and_ends_well(seed: u64, ops in prop::collection::vec(op(), 1..60)) {
        World::new(WorldConfig { seed, ..WorldConfig::default() }).survive(&ops);
    }
}
