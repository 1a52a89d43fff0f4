//! A session that outlives its connection (DESIGN §4, RESUME).
//!
//! ```text
//! carried --connection lost--> suspended --new connection, both say what they hold--> carried
//!                                  '--------- no progress for ack_timeout --> gone
//! ```
//!
//! Suspended, a path takes what it would take while stalled and hands nothing over:
//! packets that nobody acknowledges are dropped, what the lanes hold waits. What
//! stood in the dead connection's queue counts as having left with it. The next
//! connection's round trip, stalls and questions are its own.

use std::time::Instant;

use quell_wire::control::ResumeLane;
use quell_wire::frame::{Credit, Lane};

use super::{CarrierFacts, Path, Violation};

impl Path {
    /// The connection is gone.
    pub fn suspend(&mut self, now: Instant) {
        self.now = now;
        self.rest.wake();
        self.look_at_departures(0, now);
        self.carrier.suspend();
        self.liveness.suspend(now);
        self.health.suspend(now);
        self.lanes.pause(now);
        self.blocked = false;
    }

    /// Whether no connection carries the path.
    pub fn is_suspended(&self) -> bool {
        self.health.is_suspended()
    }

    /// What this end holds, for the peer's senders.
    pub fn resume_lanes(&mut self) -> Vec<ResumeLane> {
        self.rest.forget();
        let receive = &mut self.lanes.receive;
        receive.iter_mut().map(|lane| lane.resume_lane()).collect()
    }

    /// Another connection, of which `facts` are known, carries the path, and the
    /// peer says what it `holds`.
    ///
    /// # Errors
    /// The peer holds what was never sent: the connection is to be closed with it.
    pub fn resume(
        &mut self,
        holds: &[ResumeLane],
        facts: Option<CarrierFacts>,
        now: Instant,
    ) -> Result<(), Violation> {
        self.now = now;
        self.rest.wake();
        for lane in Lane::ALL {
            let nothing = nothing_held(lane);
            let held = holds.iter().find(|held| held.lane == lane);
            let send = &mut self.lanes.send[lane.index()];
            send.resume_after_loss(held.unwrap_or(&nothing), now)?;
            self.lanes.on_acked(lane);
        }
        self.health.end_suspension();
        self.liveness.want_ping();
        if let Some(facts) = facts {
            self.on_carrier(facts, now);
        }
        Ok(())
    }
}

fn nothing_held(lane: Lane) -> ResumeLane {
    ResumeLane {
        lane,
        cumulative: 0,
        ranges: Vec::new(),
        credit: Credit {
            max_bytes: 0,
            max_number: 0,
        },
    }
}
