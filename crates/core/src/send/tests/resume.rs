//! A lane whose connection is replaced, again and again.

use quell_wire::control::ResumeLane;

use super::*;

/// Another connection stands; the peer holds what stands below `cumulative`.
fn replace_connection(lab: &mut Lab, cumulative: u64) {
    let holds = ResumeLane {
        lane: Lane::FLOW,
        cumulative,
        ranges: Vec::new(),
        credit: Credit::FIRST,
    };
    lab.lane.resume_after_loss(&holds, lab.now).unwrap();
    lab.check();
}

#[test]
fn connections_that_change_for_ever_give_no_pack_more_sends_than_its_cap() {
    // evidence of a dead connection is evidence, and spends a resend like any other.
    let mut lab = Lab::warm();
    let head = lab.accept(100).unwrap();
    lab.drain();
    for replaced in 1..=100 {
        lab.now += 100 * MS;
        replace_connection(&mut lab, head);
        lab.drain();
        let sends = lab.sends.borrow()[&head];
        assert_eq!(sends, lab.sends_max.min(replaced + 1));
    }
}
