//! One random thing that may happen to a world, and its form in bytes.
//!
//! A schedule is a list of operations. The property test draws them, the fuzzer finds them in bytes; both go through
//! [`Op::read`], so that any failure of one is a corpus file of the other. Every sequence of bytes is a schedule.

use std::time::Duration;

use bytes::Bytes;
use quell_packet::build;

use super::{CarrierConfig, End, Reach, Way, World};
use crate::link::GilbertElliott;

/// Clients of a random world; the last two have one key, so that they fence each other.
const CLIENTS: usize = 3;
const KEY_TAGS: [u8; CLIENTS] = [1, 2, 2];

/// Bytes of an operation at most, besides the bytes of a lie.
const ARGUMENTS: usize = 3;
/// Bytes of a lie at most.
const LIE_BYTES_MAX: usize = 64;

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Time passes: `steps` of a size that `scale` picks, from 1 ms to 10 s.
    Wait {
        /// 0 to 3: a millisecond, 20 ms, a second, 10 s.
        scale: u8,
        /// How many.
        steps: u8,
    },
    /// An end's device has a packet of a kind (bits of `kind`: family, DF, destination, SYN) and about this size.
    Packet {
        /// From the provider rather than from a client.
        inwards: bool,
        /// Which client, modulo their number.
        client: u8,
        /// See [`Op::Packet`].
        kind: u8,
        /// Bytes, in steps of 16.
        size: u8,
    },
    /// A device has bytes that are no packet.
    Garbage {
        /// From the provider rather than from a client.
        inwards: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A peer lies with a datagram.
    Datagram {
        /// Towards the provider rather than a client.
        to_provider: bool,
        /// Which client's connection.
        client: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A peer lies on the control stream.
    Control {
        /// Towards the provider rather than a client.
        to_provider: bool,
        /// Which client's connection.
        client: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The weather changes: loss, bursts, copies, reordering, delay.
    Weather {
        /// Which of them, as bits.
        kind: u8,
        /// How much.
        strength: u8,
    },
    /// The largest datagram changes, in steps of 8 bytes.
    DatagramLen(u8),
    /// Congestion control holds everything (odd), or lets it go.
    Hold(u8),
    /// Ways are cut: bit 0 to the provider, bit 1 to the clients.
    Blackhole(u8),
    /// What dials meet.
    Reach(u8),
    /// The provider restarts in an orderly way, or crashes (odd).
    Restart(u8),
    /// A client's connection breaks.
    Break(u8),
    /// Facts of a dial long gone.
    Stale(u8),
    /// A spurious wake-up of all.
    Nudge,
    /// A message of about this size, in steps of 512 bytes.
    Message {
        /// From the provider rather than from a client.
        inwards: bool,
        /// Which client's session.
        client: u8,
        /// Its size.
        size: u8,
    },
    /// The embedders take what came: the provider's (odd) or a client's.
    Take(u8),
}

impl Op {
    /// Takes the next operation off `bytes`; `None` at their end.
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let taken = rest.len().min(ARGUMENTS);
        let argument = |index: usize| rest[..taken].get(index).copied().unwrap_or(0);
        let (a, b, c) = (argument(0), argument(1), argument(2));
        *bytes = &rest[taken..];
        Some(match kind % 18 {
            0..=2 => Self::Wait {
                scale: a % 4,
                steps: b,
            },
            3..=6 => Self::Packet {
                inwards: kind & 0x80 != 0,
                client: a,
                kind: b,
                size: c,
            },
            7 => Self::Garbage {
                inwards: a & 1 != 0,
                bytes: lie(bytes, b),
            },
            8 => Self::Datagram {
                to_provider: a & 1 != 0,
                client: a >> 1,
                bytes: lie(bytes, b),
            },
            9 => Self::Control {
                to_provider: a & 1 != 0,
                client: a >> 1,
                bytes: lie(bytes, b),
            },
            10 => Self::Weather {
                kind: a,
                strength: b,
            },
            11 => Self::DatagramLen(a),
            12 => Self::Hold(a),
            13 => Self::Blackhole(a),
            14 => Self::Reach(a),
            15 => Self::Restart(a),
            16 => Self::Break(a),
            _ => match a % 4 {
                0 => Self::Stale(b),
                1 => Self::Nudge,
                2 => Self::Message {
                    inwards: b & 1 != 0,
                    client: b >> 1,
                    size: c,
                },
                _ => Self::Take(b),
            },
        })
    }

    /// Does it.
    pub fn apply(&self, world: &mut World) {
        match self {
            Self::Wait { scale, steps } => {
                let unit = [1, 20, 1_000, 10_000][usize::from(*scale % 4)];
                world.run_for(Duration::from_millis(unit * (u64::from(*steps) % 16 + 1)));
            }
            Self::Packet { .. }
            | Self::Garbage { .. }
            | Self::Datagram { .. }
            | Self::Control { .. }
            | Self::Message { .. }
            | Self::Take(_) => self.carry(world),
            Self::Weather { kind, strength } => {
                world.set_carrier(Way::Both, |carrier| weather(carrier, *kind, *strength))
            }
            Self::DatagramLen(len) => world.set_datagram_len_max(usize::from(*len) * 8),
            Self::Hold(held) => {
                world.set_carrier(Way::Both, |carrier| carrier.held = held & 1 != 0)
            }
            Self::Blackhole(ways) => {
                world.set_blackhole(Way::ToProvider, ways & 1 != 0);
                world.set_blackhole(Way::ToClient, ways & 2 != 0);
            }
            Self::Reach(reach) => world
                .set_reach([Reach::Up, Reach::Refusing, Reach::Silent][usize::from(*reach) % 3]),
            Self::Restart(how) if how & 1 != 0 => world.crash_provider(),
            Self::Restart(_) => world.restart_provider(),
            Self::Break(client) => world.break_connection(usize::from(*client) % CLIENTS),
            Self::Stale(client) => {
                let client = usize::from(*client) % CLIENTS;
                let dials = world.client_status(client).dials;
                world.tell_stale(client, dials.wrapping_sub(1), &Bytes::from_static(&[4, 0]));
            }
            Self::Nudge => world.nudge(),
        }
    }

    /// Does it, where it brings something that is to be carried.
    fn carry(&self, world: &mut World) {
        match self {
            Self::Packet {
                inwards,
                client,
                kind,
                size,
            } => {
                let client = usize::from(*client) % CLIENTS;
                let end = if *inwards {
                    End::Provider
                } else {
                    End::Client(client)
                };
                world.inject(end, packet(world, *inwards, client, *kind, *size));
            }
            Self::Garbage { inwards, bytes } => {
                let end = if *inwards {
                    End::Provider
                } else {
                    End::Client(0)
                };
                world.inject(end, bytes.clone());
            }
            Self::Datagram {
                to_provider,
                client,
                bytes,
            } => {
                let (client, at) = addressee(*to_provider, *client);
                world.inject_datagram(client, at, bytes.clone());
            }
            Self::Control {
                to_provider,
                client,
                bytes,
            } => {
                let (client, at) = addressee(*to_provider, *client);
                world.inject_control(client, at, bytes);
            }
            Self::Message {
                inwards,
                client,
                size,
            } => {
                let (client, from) = addressee(*inwards, *client);
                let message = vec![*size; usize::from(*size) * 512];
                // A refusal is an answer like any other.
                let _ = world.send_message(client, from, &message);
            }
            Self::Take(who) => {
                let (client, at) = addressee(who & 1 != 0, who >> 1);
                world.take_messages(client, at);
            }
            Self::Wait { .. }
            | Self::Weather { .. }
            | Self::DatagramLen(_)
            | Self::Hold(_)
            | Self::Blackhole(_)
            | Self::Reach(_)
            | Self::Restart(_)
            | Self::Break(_)
            | Self::Stale(_)
            | Self::Nudge => {}
        }
    }
}

impl World {
    /// Lets a schedule happen to three clients, then makes all well again and demands that they come up and carry.
    ///
    /// # Panics
    /// When anything that must hold does not.
    pub fn survive(mut self, ops: &[Op]) {
        for tag in KEY_TAGS {
            self.add_client(tag);
        }
        for op in ops {
            op.apply(&mut self);
        }
        self.heal();
        self.expect_service(0);
        self.expect_service(1);
    }

    fn heal(&mut self) {
        self.set_reach(Reach::Up);
        self.set_carrier(Way::Both, |carrier| *carrier = CarrierConfig::default());
        // A silent end is noticed after the idle timeout; two clients of one key fence each other at ever longer intervals.
        self.run_for(self.config.idle_timeout + Duration::from_secs(150));
    }

    /// Fails unless the client, or the one that fenced it, is up and its packet arrives.
    fn expect_service(&mut self, client: usize) {
        let same_key = |other: usize| KEY_TAGS[other] == KEY_TAGS[client];
        for _ in 0..200 {
            let up = (0..CLIENTS)
                .find(|&other| same_key(other) && self.client_status(other).state == "up");
            if let Some(up) = up {
                self.take_events();
                let packet = Bytes::from(packet(self, false, up, 0, 8));
                self.inject(End::Client(up), packet.clone());
                self.run_for(Duration::from_millis(50));
                if self.take_delivered(End::Provider).contains(&packet) {
                    return;
                }
            }
            self.run_for(Duration::from_secs(1));
        }
        self.fail(&format!(
            "client {client} is not served although all is well again"
        ));
    }
}

fn lie(bytes: &mut &[u8], len: u8) -> Vec<u8> {
    let (lie, rest) = bytes.split_at(bytes.len().min(usize::from(len) % LIE_BYTES_MAX));
    *bytes = rest;
    lie.to_vec()
}

fn addressee(to_provider: bool, client: u8) -> (usize, End) {
    let client = usize::from(client) % CLIENTS;
    (
        client,
        if to_provider {
            End::Provider
        } else {
            End::Client(client)
        },
    )
}

/// A packet between the client and the world: bit 0 IPv6, bit 1 may be fragmented, bit 2 SYN, bits 3 and 4 a wrong source or
/// destination, bit 6 TCP, of one flow or another by bit 7.
fn packet(world: &World, inwards: bool, client: usize, kind: u8, size: u8) -> Vec<u8> {
    let own = world.addresses(client);
    let v6 = kind & 1 != 0;
    let (inner, outer, wrong) = if v6 {
        (
            own.ipv6.map_or("fd71:75e1::9".parse(), |a| Ok(a.0.into())),
            "2001:db8::7".parse(),
            "ff02::1".parse(),
        )
    } else {
        (
            own.ipv4.map_or("10.85.0.9".parse(), |a| Ok(a.0.into())),
            "192.0.2.7".parse(),
            "224.0.0.1".parse(),
        )
    };
    let (Ok(inner), Ok(outer), Ok(wrong)) = (inner, outer, wrong) else {
        return Vec::new();
    };
    let (mut source, mut destination) = if inwards {
        (outer, inner)
    } else {
        (inner, outer)
    };
    if kind & 8 != 0 {
        source = wrong;
    }
    if kind & 16 != 0 {
        destination = if kind & 32 != 0 { inner } else { wrong };
    }
    let header = build::Header {
        dont_fragment: kind & 2 == 0,
        ..build::Header::new(source, destination)
    };
    if kind & 4 != 0 {
        return build::tcp_syn((source, 40_000).into(), (destination, 443).into(), 8_960);
    }
    let payload = vec![size; usize::from(size) * 16];
    if kind & 64 != 0 {
        let flow = 40_000 + u16::from(kind >> 7);
        let segment = build::Segment {
            sequence: size.into(),
            ..build::Segment::default()
        };
        return header.tcp(flow, 443, &segment, &payload);
    }
    header.udp(40_000, 443, &payload)
}

fn weather(carrier: &mut CarrierConfig, kind: u8, strength: u8) {
    let share = f64::from(strength) / 255.0;
    let on = |bit: u8| if kind & bit != 0 { share } else { 0.0 };
    let link = &mut carrier.link;
    link.loss = on(1);
    link.duplicate = on(2);
    link.reorder = on(4);
    link.burst = (kind & 8 != 0).then_some(GilbertElliott {
        p_good_to_bad: 0.05,
        p_bad_to_good: 0.3,
        loss_in_bad: share,
    });
    link.delay = Duration::from_millis(u64::from(kind >> 4) * 30);
    link.jitter = link.delay / 4;
    link.rate_bytes_per_s = (kind & 0x80 != 0).then_some(2_000 + u64::from(strength) * 1_000);
}
