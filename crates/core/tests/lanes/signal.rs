//! The one signal of a process at work: failures that a caller reports widen what a lane
//! resends into silence, a success narrows it. Nothing stands in for the health here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_core::config::{BackendHealthConfig, LaneConfig};
use quell_core::health::{BackendHealth, Backends, Signal};
use quell_core::send::{Delivery, SendSequence, Unlimited};
use quell_wire::frame::{Credit, Lane, PackFlags};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

/// Resends of one pack that is never acknowledged, within `time`; before each look at the
/// clock `tell` may tell the health something.
fn resends(time: Duration, tell: impl Fn(&BackendHealth, Instant, u32)) -> usize {
    let start = Instant::now();
    let mut rng = SmallRng::seed_from_u64(1);
    let health = BackendHealth::new(BackendHealthConfig::default(), start, &mut rng);
    let health = Arc::new(health);
    let signal = Signal::new(Arc::new(Backends::new([Arc::clone(&health)])));
    let mut lane = SendSequence::new(
        Lane::FLOW,
        Delivery::Skipping,
        LaneConfig::default().try_new().unwrap(),
        Credit::FIRST,
        (Unlimited, signal),
        1,
    );
    lane.accept(PackFlags::WHOLE, 0, &[7; 100], start).unwrap();
    let (mut now, mut sends, mut tick) = (start, 0, 0);
    while now < start + time {
        tell(&health, now, tick);
        lane.handle_timeout(now);
        while let Some(transmit) = lane.poll_transmit(1_200, now) {
            let tx = transmit.pack.tx;
            sends += 1;
            lane.on_departed(tx, now);
        }
        now += Duration::from_millis(10);
        tick += 1;
    }
    sends - 1
}

/// The n-th failure half a second after the one before it.
fn fail(times: u32) -> impl Fn(&BackendHealth, Instant, u32) {
    move |health, now, tick| {
        if tick % 50 == 0 && tick / 50 < times {
            health.note_failure(now);
        }
    }
}

#[test]
fn three_failures_widen_a_lanes_silence_two_do_not_and_a_success_ends_it() {
    //
    let time = Duration::from_secs(55);
    let healthy = resends(time, |_, _, _| {});
    assert_eq!(resends(time, fail(2)), healthy);
    let short = Duration::from_secs(8);
    let degraded = resends(short, fail(3));
    assert!(
        degraded < resends(short, |_, _, _| {}),
        "{degraded} within 8 s"
    );
    // No time ends it: to the end of the pack's life they are spread evenly.
    let spread = resends(time, fail(3));
    assert!(
        spread > healthy && spread <= 16,
        "{spread}, healthy {healthy}"
    );
    let healed = resends(time, |health, now, tick| {
        fail(3)(health, now, tick);
        if tick == 160 {
            health.note_success(now);
        }
    });
    assert_eq!(healed, healthy);
}
