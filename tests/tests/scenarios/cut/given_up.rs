//! A cut that outlives the session: 60 s without an acknowledgement end it.
//!
//! What ends is the session and nothing else: both processes, the TUN with its addresses and routes, and the books stay, and
//! a new session comes up by itself when the path is back.

use std::thread;
use std::time::{Duration, Instant};

use super::WALL_CLOCK_SLACK;
use super::loaded::{Loaded, WARM_UP, count, link};
use crate::fixture::{Outcome, trials, within};

trials![a_cut_that_outlives_the_session_ends_it_cleanly_and_the_next_comes_by_itself];

const RTT: Duration = Duration::from_millis(50);
/// 10 s longer than a session lives without an acknowledgement.
const LENGTH: Duration = Duration::from_secs(70);
/// The longest wait for the next session: a dial's backoff is in it.
const BACK_MAX: Duration = Duration::from_secs(20);

//
fn a_cut_that_outlives_the_session_ends_it_cleanly_and_the_next_comes_by_itself() -> Outcome {
    let loaded = Loaded::start(link(RTT))?;
    thread::sleep(WARM_UP);
    let tun = loaded.world.net.client.iface("quell0")?.index();
    let address = loaded.world.client_address("ipv4")?;
    loaded.relay.cut();
    let start = Instant::now();
    let out = |loaded: &Loaded| -> Result<u64, libtest_mimic::Failed> {
        Ok(count(&loaded.world.client.status()?, &["udp", "bytes_out"]))
    };
    let before = out(&loaded)?;
    thread::sleep(LENGTH.saturating_sub(start.elapsed()));
    println!(
        "RTT 50 ms, cut of 70 s: {} B out meanwhile, state {} at its end",
        out(&loaded)? - before,
        loaded.world.client.status()?["state"],
    );
    loaded.relay.heal();
    let healed = Instant::now();
    let pings = loaded.pings();
    let first = within(WALL_CLOCK_SLACK * BACK_MAX, "pings pass again", || {
        pings.first_after(healed)
    })?;
    let status = loaded.world.client.status()?;
    println!(
        "pings pass {:?} after the heal (bound {BACK_MAX:?}); {} dials, {} sessions",
        first - healed,
        status["dials"],
        status["sessions"],
    );
    assert_eq!(count(&status, &["sessions"]), 2, "sessions");
    // What the old path had taken and not brought over is in the books by reason.
    let send = &status["ended"]["flow"]["send"];
    let dropped = send["dropped"].as_object().into_iter().flatten();
    let dropped: u64 = dropped.filter_map(|(_, packs)| packs.as_u64()).sum();
    assert!(dropped + count(send, &["expired"]) > 0, "{send}");
    assert_eq!(
        loaded.world.net.client.iface("quell0")?.index(),
        tun,
        "the TUN stays"
    );
    assert_eq!(loaded.world.client_address("ipv4")?, address);
    loaded.abandon()
}
