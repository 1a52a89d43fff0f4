//! Seeds of a lane's receiver: lane and window, the peer's packets, then four bytes an operation.

use std::time::Instant;

use quell_core::recv::fuzz;

use super::{Seeds, replay};

type Op = [u8; 4];

const fn send(ahead: u8) -> Op {
    [0, ahead, 0, 0]
}
const fn resend(back: u8) -> Op {
    [7, back, 0, 0]
}
const fn skip(ahead: u8) -> Op {
    [8, ahead, 0, 0]
}
const fn skip_again(back: u8) -> Op {
    [9, back, 0, 0]
}
const fn ms(time: u8) -> Op {
    [10, time, 1, 0]
}
const fn far(steps: u8) -> Op {
    [15, steps, 0, 0]
}
const fn changed(back: u8) -> Op {
    [15, back, 1, 0]
}
const fn other_marks(ahead: u8, marks_dep: u8) -> Op {
    [15, ahead, 2 | marks_dep & !3, 0]
}
const fn false_skip(ahead: u8, bytes: u8) -> Op {
    [15, ahead, 3 | bytes & !3, 0]
}
const DRAIN: Op = [11, 0, 0, 0];
const ACK: Op = [12, 0, 0, 0];
const SMALL_ACK: Op = [12, 30, 1, 0];
const PING: Op = [13, 2, 0, 0];
const RTT_50_MS: Op = [14, 50, 0, 0];

fn courses() -> Vec<(&'static str, Vec<Op>)> {
    let in_order: Vec<_> = (0..40).map(|_| send(0)).collect();
    let gaps: Vec<_> = (1..15).rev().map(send).chain([send(0)]).collect();
    let acked: Vec<_> = in_order
        .chunks(8)
        .flat_map(|c| [c, &[ACK]].concat())
        .collect();
    vec![
        ("in-order", acked),
        ("backwards", gaps.clone()),
        ("out-of-credit", [in_order.clone(), in_order].concat()),
        (
            "held",
            vec![
                RTT_50_MS,
                send(3),
                ms(40),
                send(2),
                ms(33),
                send(1),
                ms(80),
                send(0),
                DRAIN,
            ],
        ),
        (
            "resent",
            vec![
                send(0),
                send(2),
                resend(0),
                send(2),
                ms(1),
                ACK,
                resend(0),
                SMALL_ACK,
            ],
        ),
        (
            "skipped",
            [
                &gaps[..9],
                &[
                    skip(2),
                    resend(1),
                    skip_again(3),
                    ACK,
                    send(1),
                    skip(4),
                    DRAIN,
                    PING,
                ],
            ]
            .concat(),
        ),
        ("pings", vec![send(0), PING, send(2), ms(200), PING, ACK]),
        (
            "far",
            vec![far(1), far(200), send(0), ACK, far(248), far(249)],
        ),
        (
            "changed",
            vec![send(0), send(0), send(0), DRAIN, changed(2)],
        ),
        (
            "marks",
            vec![
                other_marks(0, 0x20),
                other_marks(1, 0x44),
                other_marks(0, 0x80),
                send(0),
                ms(255),
                other_marks(2, 0x68),
            ],
        ),
        (
            "false-skip",
            vec![
                send(0),
                send(2),
                false_skip(1, 0),
                send(1),
                ACK,
                false_skip(4, 8),
                PING,
            ],
        ),
        (
            "not-drained",
            vec![send(1), send(0), send(0), ACK, send(0), DRAIN, ACK],
        ),
    ]
}

/// Each course on both lanes; every other one with the small window, every third not drained at once.
fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    for (at, (name, ops)) in (0_u8..).zip(courses()) {
        for lane in [0, 1] {
            let small = if at % 2 == 0 { 0b1100 } else { 0 };
            let lazy = if at % 3 == 2 { 0b10 } else { 0 };
            let head = [lane | lazy | small, at];
            let bytes = [&head[..], ops.as_flattened()].concat();
            seeds.insert(format!("seed-{name}-lane-{lane}"), bytes);
        }
    }
    seeds
}

#[test]
fn recv() {
    replay("recv", &seeds(), |bytes| fuzz::recv(bytes, Instant::now()));
}
