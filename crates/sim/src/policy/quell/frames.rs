//! What a datagram of quell's is for, read off its frames.
//!
//! A pack's number tells a first send from a resend: numbers of a lane rise, so one that is not above all before it was
//! sent already. A lane that begins anew begins at 0.

use bytes::{Bytes, BytesMut};
use quell_packet::{FlowKey, IpPacket, TcpView, UdpView, protocol};
use quell_wire::frame::{Frame, Frames, Lane};

use crate::fleet::NO_ITEM;
use crate::fleet::node::Causes;

/// Set in the acknowledgement number of segments that carry an item; the rest of it is the flow.
pub(super) const ITEM_MARK: u32 = 0x5EED_0000;

/// What the lanes of one path sent so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    /// The number that each lane sends next.
    next: [u64; Lane::COUNT],
}

/// A TCP segment within a pack, as far as it concerns a user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The user's port.
    pub(super) port: u16,
    pub(super) is_opening: bool,
}

impl Sent {
    /// The causes of a datagram's bytes. `is_race` says whether a SYN of this port that is sent here for the first time is
    /// a copy.
    pub(super) fn causes(
        &mut self,
        datagram: &[u8],
        mut is_race: impl FnMut(u16) -> bool,
    ) -> Causes {
        let mut causes = Causes::default();
        let mut frames = Frames::new(datagram);
        let mut left = frames.remaining();
        while let Some(Ok(frame)) = frames.next() {
            let len = u32::try_from(left - frames.remaining()).unwrap_or(0);
            left = frames.remaining();
            let cause = match frame {
                Frame::Pack(pack) => {
                    let next = &mut self.next[pack.lane.index()];
                    if pack.number == 0 && pack.tx == 1 {
                        *next = 0;
                    }
                    if pack.number < *next {
                        &mut causes.resend
                    } else {
                        *next = pack.number + 1;
                        let seen = seen(pack.data).filter(|seen| seen.is_opening);
                        if seen.is_some_and(|seen| is_race(seen.port)) {
                            &mut causes.race
                        } else {
                            &mut causes.first_send
                        }
                    }
                }
                Frame::Dgram(_) => &mut causes.first_send,
                Frame::Ack(_) => &mut causes.ack,
                Frame::Ping(_) | Frame::Pong(_) => &mut causes.ping,
                Frame::Skip(_) => &mut causes.control,
            };
            *cause += len;
        }
        // What cannot be read is not the core's.
        causes.control += u32::try_from(left).unwrap_or(0);
        causes
    }
}

/// A packet's ports and whether it opens a connection.
fn seen(packet: &[u8]) -> Option<Seen> {
    let view = IpPacket::parse(packet).ok()?;
    let is_tcp = view.protocol() == protocol::TCP;
    let tcp = is_tcp
        .then(|| TcpView::parse(view.payload()).ok())
        .flatten();
    Some(Seen {
        port: FlowKey::of(&view).source_port,
        is_opening: tcp.is_some_and(|tcp| tcp.is_opening()),
    })
}

/// The item in a packet: its number and its flow.
pub(super) fn item_of(packet: &[u8]) -> Option<(u32, u16)> {
    let view = IpPacket::parse(packet).ok()?;
    if view.protocol() == protocol::UDP {
        let payload = UdpView::parse(view.payload()).ok()?;
        let bytes = payload.payload().first_chunk::<6>()?;
        let [a, b, c, d, e, f] = *bytes;
        return Some((u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f])));
    }
    let tcp = TcpView::parse(view.payload()).ok()?;
    let mark = tcp.acknowledgement();
    let is_item = mark & 0xFFFF_0000 == ITEM_MARK && !tcp.is_syn() && !tcp.is_rst();
    let flow = u16::try_from(mark & 0xFFFF).unwrap_or(0);
    is_item.then(|| (tcp.sequence(), flow))
}

/// The packs of a datagram: the number on the path (the lane in its lowest bit), and the user's item.
pub(super) fn packs(datagram: &[u8], packs: &mut Vec<(u64, u32)>) {
    for frame in Frames::new(datagram).flatten() {
        if let Frame::Pack(pack) = frame {
            let item = item_of(pack.data).map_or(NO_ITEM, |(number, _)| number);
            packs.push((pack.number << 1 | u64::from(pack.lane.number()), item));
        }
    }
}

/// The datagram without what acknowledges or answers.
pub(super) fn without_acks(datagram: &Bytes) -> Option<Bytes> {
    let is_answer = |frame: &Frame<'_>| matches!(frame, Frame::Ack(_) | Frame::Pong(_));
    if !Frames::new(datagram)
        .flatten()
        .any(|frame| is_answer(&frame))
    {
        return Some(datagram.clone());
    }
    let mut rest = BytesMut::with_capacity(datagram.len());
    for frame in Frames::new(datagram).flatten() {
        if !is_answer(&frame) {
            frame.write(&mut rest);
        }
    }
    (!rest.is_empty()).then(|| rest.freeze())
}
