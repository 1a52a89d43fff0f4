//! One rule a test: intake, cap, deadline, refusals, budget, SKIP, liars, memory.

use super::*;

fn part(first: bool, last: bool) -> PackFlags {
    PackFlags {
        first,
        last,
        unordered: false,
    }
}

#[test]
fn each_bound_takes_its_last_pack_and_refuses_one_more_unchanged() {
    //
    let small = |numbers, credit| {
        let config = LaneConfig {
            window_numbers: numbers,
            window_bytes: 64 * 1024,
            ..config(false)
        };
        Lab::with(config, Delivery::Skipping, credit)
    };
    let mut lab = small(16, PLENTY);
    assert!((0..16).all(|n| lab.accept(1) == Ok(n)));
    assert_eq!(lab.accept(1), Err(Backpressure::Count));

    let mut lab = small(100, PLENTY);
    assert_eq!(lab.accept(65_535), Ok(0));
    assert_eq!(lab.accept(1), Ok(1));
    assert_eq!(lab.accept(1), Err(Backpressure::Bytes));
    assert_eq!(lab.accept(0), Ok(2));
    assert_eq!(lab.accept(65_536), Err(Backpressure::TooLong));

    let credit = Credit {
        max_bytes: 100,
        max_number: 3,
    };
    let mut lab = small(100, credit);
    assert_eq!(lab.accept(100), Ok(0));
    assert_eq!(lab.accept(1), Err(Backpressure::Credit));
    assert_eq!((lab.accept(0), lab.accept(0)), (Ok(1), Ok(2)));
    assert_eq!(lab.accept(0), Err(Backpressure::Credit));
    let counters = lab.counters();
    assert_eq!((counters.accepted, counters.refusals.credit), (3, 2));
}

#[test]
fn a_resend_count_of_15_gives_16_sends_and_16_gives_17() {
    //
    for (max_resend_count, sends) in [(15, 16), (16, 17), (0, 1)] {
        let mut lab = Lab::warmed(LaneConfig {
            max_resend_count,
            ..config(false)
        });
        let head = lab.accept(10).unwrap();
        lab.run_until(59_999);
        assert_eq!(lab.sends.borrow()[&head], sends);
        // Out of resends it is still there to be acknowledged.
        lab.ack(head + 1, &[], 0).unwrap();
        assert_eq!((lab.counters().acked, lab.counters().given_up()), (21, 0));
    }
}

#[test]
fn evidence_and_silence_share_one_cap() {
    // evidence every 70 ms for 60 s would be 850 resends
    let mut lab = Lab::warm();
    let head = lab.accept(10).unwrap();
    let mut tx = 0;
    for step in 0..2_000_u32 {
        lab.at(f64::from(step) * 20.0);
        let fresh = lab.accept(10).unwrap();
        tx = lab.drain().last().map_or(tx, |out| out.tx);
        lab.ack(head, &[(head + 1, fresh)], tx).unwrap();
    }
    assert_eq!(lab.sends.borrow()[&head], 17);
    assert!(lab.counters().evidence_resends >= 16);
}

#[test]
fn the_deadline_beats_every_rule() {
    // case B13
    let mut lab = Lab::warmed(LaneConfig {
        ack_timeout: 5 * S,
        ..config(false)
    });
    let head = lab.accept(10).unwrap();
    let left = lab.run_until(4_999);
    assert_eq!(resends_of(head, &left).len(), 6);
    assert_eq!(lab.counters().in_flight, 1);
    assert_eq!(
        lab.lane
            .poll_timeout()
            .map(|(at, why)| (at - lab.start, why)),
        Some((5 * S, "ack timeout"))
    );
    let later = lab.run_until(600_000);
    assert_eq!(later, []);
    assert_eq!((lab.counters().expired, lab.counters().in_flight), (1, 0));
}

#[test]
fn at_its_deadline_a_resend_that_waits_for_room_is_not_sent() {
    // case B13
    let mut lab = Lab::warm();
    lab.accept(10).unwrap();
    lab.drain();
    lab.at(61.0);
    assert_eq!(
        lab.lane.next_transmit(lab.now).map(|(kind, _)| kind),
        Some(Kind::Silence)
    );
    lab.now = lab.start + 60 * S;
    assert_eq!(lab.hand_over(), None);
    assert_eq!(lab.counters().expired, 1);
    assert_eq!(lab.purse.reserved.get(), 0);
}

#[test]
fn what_could_not_be_sent_for_sixty_seconds_is_given_up() {
    // case B13: the deadline beats every other rule
    let mut lab = Lab::warm();
    lab.accept(10).unwrap();
    lab.lane.pause(lab.now);
    lab.at(1_000.0);
    lab.accept(10).unwrap();
    lab.at(60_000.0 - 1e-6);
    assert_eq!(lab.counters().in_flight, 2);
    lab.at(60_000.0);
    assert_eq!((lab.counters().in_flight, lab.counters().expired), (1, 1));
    lab.at(61_000.0);
    assert_eq!((lab.counters().in_flight, lab.counters().expired), (0, 2));
    assert_eq!(lab.counters().first_sends, 20, "those of the warm-up");
}

#[test]
fn waiting_for_the_carrier_is_not_silence_and_time_runs_from_departure() {
    let mut lab = Lab::warm();
    let head = lab.accept(10).unwrap();
    let out = lab.hand_over().unwrap();
    let life = (lab.start + 60 * S, "ack timeout");
    assert_eq!(lab.lane.poll_timeout(), Some(life));
    lab.at(55_000.0);
    assert_eq!(lab.drain(), []);
    lab.lane.on_departed(out.tx, lab.now);
    assert_eq!(
        lab.lane.poll_timeout().map(|(at, _)| at - lab.now),
        Some(61 * MS)
    );
    let left = lab.run_until(114_999);
    assert_eq!(resends_of(head, &left).len(), 16);
    assert_eq!(lab.counters().expired, 0);
    lab.run_until(115_000);
    assert_eq!(lab.counters().expired, 1);
}

#[test]
fn a_resend_in_our_own_queue_is_cancelled_and_refunded_by_the_ack() {
    let mut lab = Lab::warm();
    let head = lab.accept(700).unwrap();
    let out = lab.transmit().unwrap();
    lab.at(61.0);
    assert_eq!(lab.purse.reserved.get(), 700);
    assert_eq!(
        lab.lane.poll_timeout().unwrap().1,
        "ack timeout",
        "one guess at a time"
    );
    lab.ack(head + 1, &[], out.tx).unwrap();
    assert_eq!(lab.purse.reserved.get(), 0);
    assert_eq!(lab.drain(), []);
    assert_eq!(
        (lab.counters().cancelled, lab.counters().silence_resends),
        (1, 0)
    );
}

#[test]
fn a_pause_takes_a_waiting_guess_back() {
    let mut lab = Lab::warm();
    lab.accept(700).unwrap();
    lab.transmit().unwrap();
    lab.at(61.0);
    lab.lane.pause(lab.now);
    assert_eq!(lab.purse.reserved.get(), 0);
    lab.lane.resume(lab.now);
    assert_eq!(lab.drain(), []);
}

#[test]
fn a_refusal_spends_nothing_and_sets_no_timer() {
    let mut lab = Lab::warm();
    let head = lab.accept(700).unwrap();
    for _ in 0..100 {
        let out = lab.lane.poll_transmit(usize::MAX, lab.now).unwrap();
        assert_eq!((out.pack.number, out.kind), (head, Kind::First));
        let tx = out.pack.tx;
        lab.lane.on_refused(tx);
        let life = (lab.start + 60 * S, "ack timeout");
        assert_eq!(lab.lane.poll_timeout(), Some(life));
        assert!(lab.lane.probe().is_none(), "nothing was sent");
        assert!(
            lab.ack(head, &[], tx).is_err(),
            "nor can it be acknowledged"
        );
        assert!(lab.ack(head + 1, &[], 0).is_err());
    }
    assert_eq!(
        (lab.counters().refused, lab.counters().first_sends),
        (100, 20)
    );
    lab.transmit().unwrap();
    lab.at(61.0);
    for _ in 0..100 {
        let out = lab.lane.poll_transmit(usize::MAX, lab.now).unwrap();
        assert_eq!(out.kind, Kind::Silence);
        let tx = out.pack.tx;
        lab.lane.on_refused(tx);
    }
    assert_eq!(lab.counters().silence_resends, 0);
    assert_eq!(lab.purse.reserved.get(), 700);
    assert_eq!(resends_of(head, &lab.run_until(59_999)).len(), 16);
}

#[test]
fn a_first_send_refused_before_others_went_is_watched_once_it_goes() {
    let mut lab = Lab::warm();
    let head = lab.accept(10).unwrap();
    lab.accept(10).unwrap();
    let (refused, next) = (lab.hand_over().unwrap(), lab.hand_over().unwrap());
    lab.lane.on_refused(refused.tx);
    lab.lane.on_departed(next.tx, lab.now);
    let lie = lab.ack(head, &[(head, head)], 0);
    assert!(lie.is_err(), "the hole was never sent");
    let again = lab.lane.poll_transmit(usize::MAX, lab.now).unwrap();
    assert_eq!((again.pack.number, again.kind), (head, Kind::First));
    let tx = again.pack.tx;
    lab.lane.on_departed(tx, lab.now);
    assert_eq!(resends_of(head, &lab.run_until(100)), [61.0]);
}

#[test]
fn a_refusal_is_taken_back_also_when_the_lane_has_ended_in_between() {
    // Two packs into one datagram: the second is too large for the path and ends the lane, then the first is refused.
    let mut lab = Lab::with(config(false), Delivery::Strict, PLENTY);
    lab.accept(300).unwrap();
    lab.accept(1_300).unwrap();
    lab.lane.on_frame_len_max(1_200);
    let out = lab.hand_over().unwrap();
    assert_eq!(lab.hand_over(), None);
    assert_eq!(lab.lane.exhausted().unwrap().number, 1);
    lab.lane.on_refused(out.tx);
    let counters = lab.counters();
    assert_eq!(
        (counters.refused, counters.first_sends, counters.first_bytes),
        (1, 0, 0)
    );
    lab.check();
}

#[test]
fn a_ping_names_a_lane_that_is_short_of_credit_though_nothing_is_unacknowledged() {
    // Half of the credit is used, or a byte more.
    for (bytes, named) in [(500, false), (501, true)] {
        let credit = Credit {
            max_bytes: 1_000,
            max_number: 64,
        };
        let mut lab = Lab::with(config(false), Delivery::Skipping, credit);
        assert!(lab.lane.probe().is_none(), "nothing was ever sent");
        lab.accept(bytes).unwrap();
        let out = lab.transmit().unwrap();
        let ack = Ack {
            lane: Lane::FLOW,
            cumulative: 1,
            ranges: AckRanges::EMPTY,
            largest_tx: out.tx,
            delay_us: 0,
            dup_tx: None,
            credit,
        };
        lab.lane.handle_ack(&ack, lab.now).unwrap();
        assert_eq!(lab.lane.probe().is_some(), named, "{bytes}");
        lab.lane.close(lab.now);
        assert!(lab.lane.probe().is_none());
    }
}

#[test]
fn a_resend_in_the_carriers_queue_is_not_silence_either() {
    let mut lab = Lab::warm();
    lab.accept(10).unwrap();
    lab.transmit().unwrap();
    lab.at(61.0);
    let resend = lab.hand_over().unwrap();
    assert_eq!(lab.lane.poll_timeout().unwrap().1, "ack timeout");
    lab.at(500.0);
    lab.lane.on_departed(resend.tx, lab.now);
    assert_eq!(
        lab.lane.poll_timeout().map(|(at, _)| at - lab.now),
        Some(122 * MS)
    );
}

#[test]
fn a_refused_resend_makes_no_duplicate_ours() {
    // case B60
    let mut lab = Lab::warm();
    let head = lab.accept(10).unwrap();
    let first = lab.transmit().unwrap();
    lab.at(61.0);
    let resend = lab.hand_over().unwrap();
    lab.lane.on_refused(resend.tx);
    *lab.sends.borrow_mut().get_mut(&head).unwrap() -= 1;
    lab.ack_with(head + 1, &[], first.tx, Some(first.tx))
        .unwrap();
    assert_eq!(lab.counters().network_duplicates, 1);
}

#[test]
fn a_denied_silence_is_a_silence_and_waits_its_full_turn() {
    let mut lab = Lab::warm();
    lab.purse.open.set(false);
    let head = lab.accept(700).unwrap();
    assert_eq!(resends_of(head, &lab.run_until(1_000)), []);
    assert_eq!(lab.counters().denied, 4);
    lab.purse.open.set(true);
    assert_eq!(resends_of(head, &lab.run_until(2_000)), [1_891.0]);
}

#[test]
fn evidence_costs_the_budget_of_guesses_nothing() {
    let mut lab = Lab::warm();
    let head = lab.accept(700).unwrap();
    lab.transmit().unwrap();
    let next = lab.accept(700).unwrap();
    let out = lab.transmit().unwrap();
    lab.at(62.5);
    assert_eq!(lab.purse.reserved.get(), 700);
    lab.ack(head, &[(next, next)], out.tx).unwrap();
    assert_eq!(
        lab.purse.reserved.get(),
        700,
        "62.5 ms of RTT and a quarter are not over"
    );
    lab.at(76.0);
    assert_eq!(lab.purse.reserved.get(), 0, "the guess became knowledge");
    assert_eq!(
        lab.drain().iter().map(|out| out.kind).collect::<Vec<_>>(),
        [Kind::Evidence]
    );
}

#[test]
fn a_skip_passes_only_what_is_settled_and_is_repeated_until_it_is_heard() {
    let mut lab = Lab::warm();
    let head = lab.accept(300).unwrap();
    lab.drain();
    lab.at(10.0);
    lab.accept(40).unwrap();
    lab.drain();
    lab.lane.handle_timeout(lab.start + 60 * S);
    lab.now = lab.start + 60 * S;
    let skip = lab.lane.poll_skip(1_200, lab.now).unwrap();
    assert_eq!((skip.up_to, skip.bytes_up_to), (head, 20 * 100 + 300));
    assert_eq!(lab.lane.poll_skip(1_200, lab.now), None);
    let skips = |lab: &mut Lab, ms: f64| {
        lab.at(ms);
        lab.drain();
        lab.lane.poll_skip(1_200, lab.now).map(|skip| skip.up_to)
    };
    // The other pack is given up at 60.010 s and rides with the repetition.
    assert_eq!(skips(&mut lab, 60_010.0), None);
    assert_eq!(skips(&mut lab, 60_060.9), None);
    assert_eq!(skips(&mut lab, 60_061.0), Some(head + 1));
    assert_eq!(skips(&mut lab, 60_182.9), None);
    assert_eq!(skips(&mut lab, 60_183.0), Some(head + 1));
    assert!(lab.lane.probe().is_none(), "nothing is unacknowledged");
    assert!(
        lab.lane.poll_skip(1_200, lab.now).is_some(),
        "but a PING repeats it"
    );
    lab.ack(head + 2, &[], 0).unwrap();
    assert_eq!(lab.lane.poll_timeout(), None);
    assert_eq!(lab.lane.poll_skip(1_200, lab.now), None);
}

#[test]
fn a_skip_that_nobody_hears_widens_to_its_ceiling() {
    let mut lab = Lab::warm();
    lab.accept(300).unwrap();
    lab.run_until(60_000);
    let before = lab.counters().skips;
    lab.run_until(3_660_000);
    let skips = lab.counters().skips - before;
    assert!((715..=730).contains(&skips), "{skips} in an hour");
}

#[test]
fn a_skip_is_soon_repeated_once_the_peer_moves_and_never_while_paused() {
    let mut lab = Lab::warm();
    lab.accept(300).unwrap();
    lab.accept(300).unwrap();
    lab.run_until(70_000);
    assert!(lab.lane.poll_timeout().unwrap().0 > lab.now + 61 * MS);
    lab.lane.pause(lab.now);
    assert_eq!(lab.lane.poll_timeout(), None);
    lab.lane.resume(lab.now);
    // The first of the two was there after all, and says so late.
    lab.ack(21, &[], 0).unwrap();
    assert!(lab.lane.poll_timeout().unwrap().0 <= lab.now + 61 * MS);
}

#[test]
fn giving_up_a_fragment_gives_up_its_message() {
    let mut lab = Lab::warm();
    for flags in [
        part(true, true),
        part(true, false),
        part(false, false),
        part(false, true),
        part(true, true),
    ] {
        lab.lane.accept(flags, 0, &[0; 500], lab.now).unwrap();
    }
    lab.drain();
    lab.ack(22, &[], 0).unwrap();
    lab.lane.give_up(22, GiveUp::Expired, lab.now);
    lab.check();
    let counters = lab.counters();
    assert_eq!(
        (counters.expired, counters.with_message, counters.in_flight),
        (1, 1, 1)
    );
    assert_eq!(lab.lane.poll_skip(99, lab.now).unwrap().up_to, 23);
}

#[test]
fn a_pack_that_outgrows_the_path_is_given_up_and_blocks_nobody() {
    let mut lab = Lab::warm();
    lab.accept(1_300).unwrap();
    lab.accept(100).unwrap();
    let (kind, frame_len) = lab.lane.next_transmit(lab.now).unwrap();
    assert_eq!(kind, Kind::First);
    assert_eq!(
        lab.lane.poll_transmit(frame_len - 1, lab.now),
        None,
        "no room in this datagram"
    );
    lab.lane.on_frame_len_max(frame_len);
    assert_eq!(lab.lane.next_transmit(lab.now), Some((kind, frame_len)));
    lab.lane.on_frame_len_max(frame_len - 1);
    assert_eq!(lab.drain()[0].number, 21);
    assert_eq!(lab.counters().too_large, 1);
    assert_eq!(lab.lane.poll_skip(99, lab.now).unwrap().up_to, 20);
    lab.ack(22, &[], 21).unwrap();
}

#[test]
fn what_outgrows_the_path_is_taken_back_whole_unless_a_part_of_it_arrived() {
    let part = |first, last| PackFlags {
        first,
        last,
        unordered: false,
    };
    for acked in [None, Some(1), Some(2)] {
        let mut lab = Lab::with(config(false), Delivery::Skipping, PLENTY);
        lab.accept(50).unwrap();
        for (n, flags) in [(1, part(true, false)), (2, part(false, true))] {
            lab.lane.accept(flags, 0, &[n; 800], lab.now).unwrap();
        }
        lab.accept(60).unwrap();
        let tx = lab.drain().last().unwrap().tx;
        if let Some(number) = acked {
            lab.ack(0, &[(number, number)], tx).unwrap();
        }
        lab.lane.on_frame_len_max(700);
        let taken = lab.lane.take_back_oversize(lab.now);
        lab.check();
        let packets: Vec<_> = taken.iter().map(|taken| taken.packet.to_vec()).collect();
        if acked.is_some() {
            assert_eq!(packets, Vec::<Vec<u8>>::new());
            continue;
        }
        assert_eq!(packets, [[[1; 800], [2; 800]].concat()]);
        let counters = lab.counters();
        assert_eq!((counters.cut_anew, counters.in_flight), (2, 2));
        assert_eq!(lab.lane.take_back_oversize(lab.now), [], "once");
    }
    let mut lab = Lab::with(config(false), Delivery::Strict, PLENTY);
    lab.accept(800).unwrap();
    lab.lane.on_frame_len_max(700);
    assert_eq!(lab.lane.take_back_oversize(lab.now), [], "no message");
}

#[test]
fn a_strict_lane_ends_with_the_pack_that_it_could_not_deliver() {
    let mut lab = Lab::with(config(false), Delivery::Strict, PLENTY);
    for _ in 0..3 {
        lab.accept(10).unwrap();
    }
    lab.run_until(100_000);
    let exhausted = lab.lane.exhausted().unwrap();
    assert_eq!((exhausted.number, exhausted.cause), (0, GiveUp::Expired));
    assert_eq!(u32::from(exhausted.sends), lab.sends.borrow()[&0]);
    assert_eq!(
        (lab.counters().expired, lab.counters().dropped.total()),
        (1, 2)
    );
    assert_eq!(lab.accept(1), Err(Backpressure::Ended));
    assert_eq!((lab.lane.poll_timeout(), lab.hand_over()), (None, None));
    assert_eq!(lab.lane.poll_skip(99, lab.now), None);
}

#[test]
fn a_peer_that_acknowledges_what_was_never_sent_is_named() {
    type Lie = (u64, &'static [(u64, u64)], u64, Option<u64>);
    let lies: [(Lie, &str); 7] = [
        ((20, &[(25, 25)], 0, None), "number 25 was never sent"),
        ((22, &[], 0, None), "number 21 was never sent"),
        ((20, &[(21, 21)], 0, None), "number 21 was never sent"),
        ((21, &[], 23, None), "tx 23 was never sent"),
        ((21, &[], 0, Some(0)), "tx 0 was never sent"),
        ((21, &[], 0, Some(23)), "tx 23 was never sent"),
        (
            (21, &[], 0, Some(22)),
            "tx 22 was a PING and cannot be a duplicate",
        ),
    ];
    for ((cumulative, ranges, tx, dup), words) in lies {
        let mut lab = Lab::warm();
        lab.accept(10).unwrap();
        lab.drain();
        lab.accept(10).unwrap();
        assert_eq!(lab.lane.probe().unwrap().tx, 22);
        let violation = lab.ack_with(cumulative, ranges, tx, dup).unwrap_err();
        assert_eq!(violation.code, quell_wire::registry::ErrorCode::AckedUnsent);
        assert_eq!(violation.words, words);
        assert_eq!(lab.counters().acked, 20, "nothing was believed");
        lab.ack(21, &[], 22).unwrap();
    }
}

#[test]
fn at_steady_state_nothing_grows() {
    let mut lab = Lab::warm();
    let mut sizes = None;
    for round in 0..3_000_u32 {
        lab.now += MS;
        lab.lane.handle_timeout(lab.now);
        lab.accept(1_200).unwrap();
        let out = lab.transmit().unwrap();
        if out.number >= 70 {
            lab.ack(out.number - 49, &[], out.tx - 49).unwrap();
        }
        let seen = lab.lane.allocated_bytes();
        if round >= 600 {
            assert_eq!(*sizes.get_or_insert(seen), seen, "round {round}");
        }
    }
}

#[test]
fn a_day_of_blackhole_with_traffic_offered_holds_a_flat_amount() {
    // case B01: and heals at its end
    let mut lab = Lab::warmed(LaneConfig {
        window_bytes: 64 * 1024,
        ..config(true)
    });
    let mut peak = 0;
    for minute in 1..=1_440_u64 {
        while lab.accept(1_200).is_ok() {}
        lab.run_until(minute * 60_000);
        peak = peak.max(lab.lane.window_bytes());
    }
    assert!(peak <= 64 * 1024);
    let end = lab.lane.next_number();
    let left = lab.run_until(1_441 * 60_000);
    assert!(left.len() < 40, "{}", left.len());
    lab.ack(end, &[], 0).unwrap();
    assert_eq!(
        (lab.counters().in_flight, lab.lane.poll_timeout()),
        (0, None)
    );
}
