//! Checked views and builders of the IP packets that a tunnel carries.
//!
//! A packet from a TUN or from a peer is bytes that nobody has vouched for. [`IpPacket::parse`] checks it once and as a
//! whole; what it returns holds only lengths that were compared with the buffer, so every accessor is total and no later
//! stage has to check again. Nothing is copied on the way in.
//!
//! | module | its job |
//! |---|---|
//! | [`ip`], [`ipv4`], [`ipv6`] | the network header, IPv6 extension headers included |
//! | [`tcp`], [`udp`], [`icmp`] | what follows it, and the ICMP errors that a tunnel has to send |
//! | [`reset`] | the TCP resets that a tunnel has to send |
//! | [`flow`] | the 5-tuple |
//! | [`checksum`] | RFC 1071 sums, pseudo headers, RFC 1624 updates |
//! | [`ecn`], [`mss`], [`fragment`], [`translate`] | the four ways in which a packet is changed |
//! | [`offload`] | super-packets: many segments of one flow as one, split and merged |
//! | [`reassembly`] | fragments put together |
//! | [`addr`] | which addresses are what, and prefixes |
//! | [`build`] | valid packets for tests and demonstrations |
//! | [`fuzz`] | the bodies of the fuzz targets |
//!
//! Invariants: no input panics; no loop or allocation grows by a length field that was not compared with the buffer;
//! every refusal is a [`PacketError`] whose [`reason`](PacketError::reason) labels the drop counter, one label a cause.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod addr;
pub mod build;
pub mod checksum;
pub mod ecn;
mod error;
pub mod flow;
pub mod fragment;
pub mod fuzz;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod mss;
pub mod offload;
pub mod options;
pub mod protocol;
pub mod reassembly;
pub mod reset;
pub mod tcp;
pub mod translate;
pub mod udp;

pub use addr::Prefix;
pub use ecn::Ecn;
pub use error::PacketError;
pub use flow::FlowKey;
pub use icmp::IcmpView;
pub use ip::IpPacket;
pub use ipv4::Ipv4View;
pub use ipv6::Ipv6View;
pub use tcp::TcpView;
pub use udp::UdpView;

/// The largest packet either family can describe without a jumbogram, in bytes; an IPv6 packet may hold 40 more.
pub const PACKET_BYTES_MAX: usize = 65_535;
