//! Fragments: cut and put together, in any order, within bounds.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;

const AGE: Duration = Duration::from_secs(1);

fn packet(len: usize) -> Bytes {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn put(
    reassembly: &mut Reassembly,
    piece: &Piece,
    now: Instant,
) -> Result<Option<Complete>, DropReason> {
    reassembly.insert(&piece.frame(), piece.data.clone(), now)
}

proptest! {
    #[test]
    fn any_packet_in_any_order_comes_out_whole(len in 1_usize..=1_280, frame in 200_usize..1_500, seed: u64) {
        let now = Instant::now();
        let whole = packet(len);
        let mut pieces: Vec<_> = Fragmenter::default().cut(&whole, frame).unwrap().into();
        prop_assert!(pieces.iter().all(|p| p.frame().encoded_len() <= frame));
        pieces.shuffle(&mut SmallRng::seed_from_u64(seed));
        let mut reassembly = Reassembly::new(64 * 1024, AGE);
        let (last, others) = pieces.split_last().unwrap();
        for piece in others {
            prop_assert_eq!(put(&mut reassembly, piece, now), Ok(None));
        }
        let complete = put(&mut reassembly, last, now).unwrap().unwrap();
        prop_assert_eq!(complete.packet, whole);
        prop_assert_eq!(complete.pieces as usize, pieces.len());
        prop_assert_eq!((reassembly.len(), reassembly.bytes), (0, 0));
        prop_assert_eq!(reassembly.expire(now), 0);
        prop_assert_eq!(reassembly.poll_timeout(), None, "a wake-up for nothing");
    }
}

#[test]
fn pieces_are_equal_but_for_the_last_byte() {
    let pieces = Fragmenter::default().cut(&packet(1_280), 1_162).unwrap();
    let lens: Vec<_> = pieces.iter().map(|piece| piece.data.len()).collect();
    assert_eq!(lens, [640, 640]);
    assert!(pieces[0].first && !pieces[0].last && pieces[1].last && !pieces[1].first);
}

#[test]
fn eight_pieces_pass_and_nine_do_not() {
    let header = Fragmenter::default().header_len_max();
    assert_eq!(
        Fragmenter::default()
            .cut(&packet(1_280), 160 + header)
            .unwrap()
            .len(),
        8
    );
    assert_eq!(
        Fragmenter::default().cut(&packet(1_280), 159 + header),
        None
    );
    assert_eq!(Fragmenter::default().cut(&packet(1), header), None);
}

#[test]
fn two_packets_side_by_side_do_not_mix() {
    let now = Instant::now();
    let mut fragmenter = Fragmenter::default();
    let (a, b) = (packet(1_000), packet(1_200));
    let a_pieces = fragmenter.cut(&a, 700).unwrap();
    let b_pieces = fragmenter.cut(&b, 700).unwrap();
    let mut reassembly = Reassembly::new(64 * 1024, AGE);
    assert_eq!(put(&mut reassembly, &a_pieces[1], now), Ok(None));
    assert_eq!(put(&mut reassembly, &b_pieces[0], now), Ok(None));
    assert_eq!(
        put(&mut reassembly, &a_pieces[0], now)
            .unwrap()
            .unwrap()
            .packet,
        a
    );
    assert_eq!(
        put(&mut reassembly, &b_pieces[1], now)
            .unwrap()
            .unwrap()
            .packet,
        b
    );
}

#[test]
fn a_piece_waits_its_age_and_no_longer() {
    let t0 = Instant::now();
    let pieces = Fragmenter::default().cut(&packet(1_280), 700).unwrap();
    let mut reassembly = Reassembly::new(64 * 1024, AGE);
    put(&mut reassembly, &pieces[0], t0).unwrap();
    assert_eq!(reassembly.poll_timeout(), Some(t0 + AGE));
    assert_eq!(reassembly.expire(t0 + AGE - Duration::from_nanos(1)), 0);
    assert_eq!(reassembly.expire(t0 + AGE), 1);
    assert_eq!(
        (
            reassembly.len(),
            reassembly.bytes,
            reassembly.poll_timeout()
        ),
        (0, 0, None)
    );
}

#[test]
fn what_a_liar_sends_is_bounded_and_counted() {
    let now = Instant::now();
    let mut reassembly = Reassembly::new(4_096, AGE);
    let lie = |number, data: &[u8]| Piece {
        number,
        first: false,
        last: false,
        data: Bytes::copy_from_slice(data),
    };
    assert_eq!(
        put(&mut reassembly, &lie(0, &[]), now),
        Err(DropReason::FragmentInvalid)
    );
    assert_eq!(put(&mut reassembly, &lie(5, &[0; 1_024]), now), Ok(None));
    assert_eq!(
        put(&mut reassembly, &lie(5, &[0; 1_024]), now),
        Err(DropReason::FragmentDuplicate)
    );
    for number in [7, 9, 11] {
        assert_eq!(
            put(&mut reassembly, &lie(number, &[0; 1_024]), now),
            Ok(None)
        );
    }
    assert_eq!(
        put(&mut reassembly, &lie(13, &[0; 1]), now),
        Err(DropReason::FragmentOverflow)
    );
    assert_eq!(reassembly.bytes, 4_096);
}

#[test]
fn tiny_pieces_are_bounded_by_count() {
    let now = Instant::now();
    let mut reassembly = Reassembly::new(4_096, AGE);
    let held = (0..1_000_u64)
        .filter(|n| {
            let piece = Piece {
                number: n * 2,
                first: false,
                last: false,
                data: Bytes::from_static(b"x"),
            };
            put(&mut reassembly, &piece, now).is_ok()
        })
        .count();
    assert_eq!(held, 64);
}

#[test]
fn one_lost_piece_does_not_fill_the_books_of_all_that_follow() {
    let now = Instant::now();
    let mut fragmenter = Fragmenter::default();
    let mut reassembly = Reassembly::new(64 * 1024, AGE);
    let lost = fragmenter.cut(&packet(1_280), 700).unwrap();
    put(&mut reassembly, &lost[0], now).unwrap();
    for _ in 0..10_000 {
        let pieces = fragmenter.cut(&packet(1_280), 700).unwrap();
        assert_eq!(put(&mut reassembly, &pieces[0], now), Ok(None));
        assert!(put(&mut reassembly, &pieces[1], now).unwrap().is_some());
    }
    assert!(reassembly.arrivals.len() < 100);
}
