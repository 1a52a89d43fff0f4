//! What the bytes of a path were for.
//!
//! What an outage cost is a claim about bytes on the wire, and a total alone does
//! not say which rule spent them. Each frame that is written belongs to one cause;
//! its bytes count when its datagram has left the carrier's queue, so that what
//! waits there, or was refused, is not taken for sent.
//!
//! Frames are what this end decides. Beneath them QUIC adds headers, seals,
//! acknowledgements and probes of its own, and dials: [`UdpCauses`] puts both
//! together, from the exact total that the driver's socket counted.

use serde::Serialize;

use crate::counters::counters;

/// What a frame is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Packets and messages for the first time, those without acknowledgement too.
    FirstSend,
    /// Packs once more.
    Resend,
    /// ACK and SKIP: what became of numbers.
    Ack,
    /// PING and PONG.
    Ping,
}

counters! {
    /// Bytes of frames that left the carrier's queue, by cause.
    pub struct FrameBytes {
        /// Packets and messages for the first time, those without acknowledgement too.
        pub first_send: u64,
        /// Packs once more.
        pub resend: u64,
        /// Copies of a race over several exits.
        pub race: u64,
        /// ACK and SKIP: what became of numbers.
        pub ack: u64,
        /// PING and PONG.
        pub ping: u64,
    }
}

impl FrameBytes {
    pub(crate) fn add(&mut self, cause: Cause, bytes: u64) {
        match cause {
            Cause::FirstSend => self.first_send += bytes,
            Cause::Resend => self.resend += bytes,
            Cause::Ack => self.ack += bytes,
            Cause::Ping => self.ping += bytes,
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.first_send + self.resend + self.race + self.ack + self.ping
    }
}

/// UDP payload bytes sent, by cause: they add up to the socket's total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UdpCauses {
    /// Frames.
    #[serde(flatten)]
    pub frames: FrameBytes,
    /// Datagrams of handshakes, known by QUIC's long header.
    pub dial: u64,
    /// The remainder: what QUIC needs to carry frames, and its own acknowledgements
    /// and probes. Below 0 only while a datagram that the system refuses waits to
    /// be sent: its frames are counted, and its bytes are not.
    pub quic: i64,
}

impl UdpCauses {
    /// Sorts `total` bytes, of which `dial` were datagrams of handshakes, where
    /// `frames` were in the rest.
    pub fn of(total: u64, dial: u64, frames: FrameBytes) -> Self {
        let known = dial.wrapping_add(frames.total());
        let quic = total.cast_signed().wrapping_sub(known.cast_signed());
        Self { frames, dial, quic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_part_of_the_total() {
        let mut frames = FrameBytes::default();
        let causes = [Cause::FirstSend, Cause::Resend, Cause::Ack, Cause::Ping];
        for (cause, bytes) in causes.into_iter().zip([1, 10, 100, 1_000]) {
            frames.add(cause, bytes);
        }
        frames.race = 10_000;
        assert_eq!(frames.total(), 11_111);
        assert_eq!((frames.first_send, frames.resend), (1, 10));
        assert_eq!((frames.ack, frames.ping), (100, 1_000));
    }

    //
    #[test]
    fn causes_add_up_to_the_total_whatever_quic_took() {
        let frames = FrameBytes {
            first_send: 1_000,
            ack: 20,
            ..FrameBytes::default()
        };
        for (total, quic) in [(3_500, 80), (3_420, 0), (3_400, -20)] {
            let causes = UdpCauses::of(total, 2_400, frames);
            assert_eq!((causes.dial, causes.quic), (2_400, quic));
        }
    }
}
