//! Does a known amount of the core's work and ends: what an instrument that counts instructions runs.
//!
//! `counts PART TURNS` sets up the part's tunnel and does so many turns of 10 packets. Run twice with different counts, the
//! difference is what the turns cost, and what it took to set up falls out; `benches/counts/run` does that. Instructions do
//! not depend on who else uses the machine, so they tell a change of a percent, which times do not.

use std::process::ExitCode;

use quell_benches::tunnel::{FULL_BYTES, Tunnel, Way};

/// Packets of a turn.
const TURN: usize = 10;
/// Bytes of an acknowledgement of the user's TCP.
const SMALL_BYTES: usize = 52;
/// Sessions of the part that has many: each turn is another one's.
const SESSIONS: u32 = 100;

/// A part's sessions, bytes of a packet and direction.
fn part(name: &str) -> Option<(u32, usize, Way)> {
    match name {
        "outward-full" => Some((1, FULL_BYTES, Way::Outward)),
        "inward-full" => Some((1, FULL_BYTES, Way::Inward)),
        "outward-small" => Some((1, SMALL_BYTES, Way::Outward)),
        "outward-full-100-sessions" => Some((SESSIONS, FULL_BYTES, Way::Outward)),
        _ => None,
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let of = arguments.next().as_deref().and_then(part);
    let turns = arguments.next().and_then(|turns| turns.parse().ok());
    let (Some((sessions, bytes, way)), Some(turns)) = (of, turns) else {
        return ExitCode::from(2);
    };
    let mut tunnel = Tunnel::new(sessions, bytes);
    let mut delivered = 0;
    for index in (0..sessions as usize).cycle().take(turns) {
        delivered += tunnel.turn(index, way, TURN);
    }
    match delivered == (turns * TURN) as u64 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
