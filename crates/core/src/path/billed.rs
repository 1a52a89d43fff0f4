//! What of a path's packets counts for contracts (DESIGN §7), in bytes of whole inner packets.
//!
//! Counted are packets, once: resends and headers are nobody's bill. A provider counts what it takes in for a client, a
//! client what its provider acknowledged; of what nobody acknowledges both count what was handed to QUIC.

use quell_wire::frame::Lane;

use super::Path;

impl Path {
    /// Bytes that were taken into the flow lane.
    pub(crate) fn laned_bytes(&self) -> u64 {
        self.counters.laned_bytes
    }

    /// Bytes that nobody acknowledges: handed to QUIC, or waiting for it.
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        let waiting = self.queue.bytes() as u64;
        self.counters.sent_bytes.saturating_add(waiting)
    }

    /// Bytes that left this end for good: acknowledged or given up in the flow lane, or handed to QUIC.
    pub(crate) fn settled_bytes(&self) -> u64 {
        let window = self.lanes.send[Lane::FLOW.index()].window_bytes() as u64;
        let settled = self.counters.laned_bytes.saturating_sub(window);
        settled.saturating_add(self.counters.sent_bytes)
    }
}
