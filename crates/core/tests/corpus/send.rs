//! Seeds of a lane's sender: lane and windows, cap, jitter, then three bytes an operation.

use std::time::Instant;

use quell_core::send::fuzz;

use super::{Seeds, replay};

type Op = [u8; 3];

const fn accept(len: u8) -> Op {
    [0, len, 0]
}
const fn piece(len: u8, marks: u8) -> Op {
    [0, len, marks]
}
/// Handed over, left and arrived.
const SEND: Op = [4, 0, 6];
const LOSE: Op = [4, 0, 7];
const REFUSE: Op = [4, 0, 0];
const QUEUE: Op = [4, 0, 2];
const SMALL_ROOM: Op = [4, 30, 0x86];
const DEPART: Op = [9, 0, 0];
const ACK: Op = [10, 0, 0];
const ACK_DUP: Op = [10, 0, 1];
const OLD_ACK: Op = [13, 0, 0];
const TIMER: Op = [16, 0, 0];
const PROBE: Op = [18, 0, 0];
const LOST_PROBE: Op = [18, 1, 0];
const SKIP: Op = [19, 0, 0];
const LOST_SKIP: Op = [19, 1, 0];
const PAUSE: Op = [20, 0, 0];
const RESUME: Op = [20, 0, 1];
const DEGRADED: Op = [21, 0, 0];
const NO_BUDGET: Op = [21, 0, 1];
const BUDGET: Op = [21, 1, 1];
const CLOSE: Op = [22, 0, 255];
const SHRINK: Op = [22, 5, 0];
const GROW: Op = [22, 255, 0];

const fn us50(times: u8) -> Op {
    [14, times, 0]
}
const fn ms20(times: u8) -> Op {
    [15, times, 0]
}
const fn lie(ahead: u8, kind: u8) -> Op {
    [23, ahead, kind]
}

fn repeated(times: usize, ops: &[Op]) -> Vec<Op> {
    ops.repeat(times)
}

fn courses() -> Vec<(&'static str, Vec<Op>)> {
    let flowing = repeated(30, &[accept(100), SEND, us50(20), ACK]);
    let silence = [vec![accept(100), LOSE], repeated(40, &[TIMER, LOSE])].concat();
    vec![
        ("flowing", flowing.clone()),
        ("silence", silence.clone()),
        ("degraded", [&[DEGRADED][..], &flowing, &silence].concat()),
        (
            "evidence",
            repeated(
                12,
                &[
                    accept(50),
                    LOSE,
                    accept(50),
                    SEND,
                    ms20(2),
                    ACK,
                    TIMER,
                    SEND,
                    ACK_DUP,
                ],
            ),
        ),
        (
            "refused",
            repeated(20, &[accept(9), REFUSE, REFUSE, SEND, TIMER, REFUSE, ACK]),
        ),
        (
            "carrier",
            repeated(
                10,
                &[
                    accept(80),
                    QUEUE,
                    accept(80),
                    QUEUE,
                    ms20(20),
                    DEPART,
                    ACK,
                    TIMER,
                    DEPART,
                ],
            ),
        ),
        (
            "skipped",
            [
                vec![accept(20), LOSE, accept(20), SEND, ACK],
                repeated(30, &[TIMER, LOSE]),
                vec![LOST_SKIP, TIMER, SKIP, OLD_ACK, ACK, accept(9), SEND, ACK],
            ]
            .concat(),
        ),
        (
            "pieces",
            vec![
                piece(90, 2),
                piece(90, 3),
                piece(90, 1),
                LOSE,
                SEND,
                SHRINK,
                TIMER,
                LOSE,
                SKIP,
                GROW,
                ACK,
                SEND,
                ACK,
            ],
        ),
        (
            "too-large",
            repeated(6, &[accept(255), accept(20), SHRINK, SEND, SKIP, ACK, GROW]),
        ),
        (
            "probes",
            [
                vec![accept(10), LOSE],
                repeated(25, &[TIMER, LOSE, LOST_PROBE, TIMER, PROBE]),
                vec![ACK, SEND, ACK],
            ]
            .concat(),
        ),
        (
            "paused",
            vec![
                accept(10),
                SEND,
                TIMER,
                PAUSE,
                SEND,
                accept(10),
                ms20(255),
                PROBE,
                ACK,
                RESUME,
                SEND,
                TIMER,
                ACK,
            ],
        ),
        (
            "no-budget",
            [
                vec![accept(10), LOSE, NO_BUDGET],
                repeated(8, &[TIMER, SEND]),
                vec![BUDGET, TIMER, SEND, ACK],
            ]
            .concat(),
        ),
        (
            "out-of-credit",
            [
                repeated(60, &[accept(250)]),
                repeated(60, &[SEND]),
                vec![ACK, accept(250), SEND],
            ]
            .concat(),
        ),
        (
            "small-room",
            repeated(8, &[accept(60), accept(3), SMALL_ROOM, SEND, ACK]),
        ),
        (
            "closed",
            vec![
                accept(10),
                SEND,
                accept(10),
                QUEUE,
                CLOSE,
                accept(10),
                DEPART,
                TIMER,
                SEND,
                PROBE,
                SKIP,
            ],
        ),
        (
            "lies",
            [
                vec![accept(10), SEND, accept(10), PROBE],
                (0..5).map(|kind| lie(0, kind)).collect(),
                (0..5).map(|kind| lie(250, kind)).collect(),
                vec![ACK, SEND, ACK],
            ]
            .concat(),
        ),
    ]
}

/// Each course on both lanes; caps of 16, 0 and 1 in turn, windows and lives large and small.
fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    for (at, (name, ops)) in (0_u8..).zip(courses()) {
        for lane in [0, 1] {
            let kind = lane | (at % 2) << 1 | (at % 3 / 2) << 2;
            // Credit that ends is for the course that shows it.
            let kind = kind | u8::from(name == "out-of-credit") << 3;
            let cap = [16, 16, 0, 1][usize::from(at % 4)];
            let bytes = [&[kind, cap, at][..], ops.as_flattened()].concat();
            seeds.insert(format!("seed-{name}-lane-{lane}"), bytes);
        }
    }
    seeds
}

#[test]
fn send() {
    replay("send", &seeds(), |bytes| fuzz::send(bytes, Instant::now()));
}
