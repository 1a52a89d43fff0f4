//! What a connection takes, as a baseline sees it: anything, while there is one and its buffer is not full.
//!
//! A congestion window is QUIC's business beneath; a baseline writes until the buffer in front of it is full. The buffer
//! is twice what one sequence may hold, so a sequence that is repeated whole does not meet its end: the real system's
//! writes block and go on, which comes to the same.

use std::collections::VecDeque;

use quell_core::path::CarrierFacts;

use super::send::QUEUE_BYTES_MAX;
use super::unit::Parcel;

/// Bytes that wait in front of the congestion window, at most.
const BUFFER_BYTES_MAX: usize = 2 * QUEUE_BYTES_MAX as usize;
/// The longest pack.
const PACK_LEN_MAX: usize = 1_600;
/// Datagrams that any QUIC connection takes (RFC 9000 §14.1, less what QUIC adds).
const DATAGRAM_LEN_DEFAULT: usize = 1_162;

/// The connection's taking side.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    is_up: bool,
    space_bytes: usize,
    datagram_len_max: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            is_up: false,
            space_bytes: BUFFER_BYTES_MAX,
            datagram_len_max: DATAGRAM_LEN_DEFAULT,
        }
    }
}

impl Writer {
    /// A connection stands.
    pub(crate) fn on_up(&mut self) {
        *self = Self {
            is_up: true,
            ..Self::default()
        };
    }

    /// It is gone.
    pub(crate) fn on_down(&mut self) {
        self.is_up = false;
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(crate) fn on_carrier(&mut self, facts: &CarrierFacts) {
        self.space_bytes = BUFFER_BYTES_MAX.saturating_sub(facts.backlog_bytes);
        if facts.datagram_len_max > 0 {
            self.datagram_len_max = facts.datagram_len_max;
        }
    }

    /// Whether any pack would be taken.
    pub(crate) fn has_space(&self) -> bool {
        self.is_up && self.space_bytes >= PACK_LEN_MAX
    }

    /// Puts `parcel(part, len)` out, in two parts if one datagram does not take `len_bytes`; or nothing, if the connection
    /// takes nothing.
    pub(crate) fn write(
        &mut self,
        len_bytes: u32,
        out: &mut VecDeque<Parcel>,
        parcel: impl Fn(bool, u32) -> Parcel,
    ) {
        if !self.has_space() {
            return;
        }
        self.space_bytes -= PACK_LEN_MAX.min(len_bytes as usize);
        if len_bytes as usize > self.datagram_len_max {
            let part = len_bytes / 2;
            out.push_back(parcel(true, part));
            out.push_back(parcel(false, len_bytes - part));
        } else {
            out.push_back(parcel(false, len_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::node::Causes;
    use crate::policy::baseline::Unit;
    use std::time::Duration;

    fn written(writer: &mut Writer, len_bytes: u32) -> Vec<u32> {
        let mut out = VecDeque::new();
        writer.write(len_bytes, &mut out, |_, ping| Parcel {
            unit: Unit::Part,
            causes: Causes {
                ping,
                ..Causes::default()
            },
        });
        out.iter().map(|parcel| parcel.causes.total()).collect()
    }

    fn facts(backlog_bytes: usize, datagram_len_max: usize) -> CarrierFacts {
        CarrierFacts {
            datagram_len_max,
            backlog_bytes,
            cwnd_bytes: 0,
            rtt: Duration::ZERO,
        }
    }

    #[test]
    fn a_connection_that_is_down_or_full_takes_nothing() {
        let mut writer = Writer::default();
        assert!(written(&mut writer, 100).is_empty());
        writer.on_up();
        assert_eq!(written(&mut writer, 100), [100]);
        writer.on_carrier(&facts(BUFFER_BYTES_MAX - PACK_LEN_MAX, 1_414));
        assert_eq!(written(&mut writer, 1), [1]);
        assert!(written(&mut writer, 1).is_empty());
        writer.on_carrier(&facts(0, 1_414));
        assert_eq!(written(&mut writer, 1), [1]);
        writer.on_down();
        assert!(written(&mut writer, 1).is_empty());
    }

    #[test]
    fn what_one_datagram_does_not_take_goes_in_two() {
        let mut writer = Writer::default();
        writer.on_up();
        writer.on_carrier(&facts(0, 1_200));
        assert_eq!(written(&mut writer, 1_200), [1_200]);
        assert_eq!(written(&mut writer, 1_201), [600, 601]);
    }
}
