//! Our parser and builder against etherparse's: what one writes, the other reads the same way.
//!
//! etherparse is an independent reading of the same RFCs, so a field that both misread would have to be misread twice.
//! Extension headers of every kind that is walked over are drawn (case B54: a header length without them cuts packets).

#![allow(clippy::unwrap_used)]

use etherparse::{
    IpAuthHeader, IpEcn, IpFragOffset, IpHeaders, IpNumber, IpSlice, Ipv4Extensions, Ipv4Header,
    Ipv6Extensions, Ipv6FlowLabel, Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader,
    Ipv6RoutingExtensions, PacketBuilder, SlicedPacket, TcpHeader, TransportSlice, UdpHeader,
};
use proptest::prelude::*;
use quell_packet::build::{Header, Segment};
use quell_packet::{FlowKey, IcmpView, IpPacket, TcpView, UdpView, checksum, fuzz, protocol};

fn v4_headers() -> impl Strategy<Value = IpHeaders> {
    let flags = (
        any::<bool>(),
        any::<bool>(),
        prop_oneof![3 => Just(0_u16), 1 => 0_u16..0x2000],
    );
    let options =
        (0_usize..=10).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4));
    (any::<([u8; 4], [u8; 4], u8, u8, u16)>(), flags, options).prop_map(
        |((source, destination, class, ttl, identification), (df, mf, offset), options)| {
            let header = Ipv4Header {
                dscp: (class >> 2).try_into().unwrap(),
                ecn: IpEcn::try_new(class & 3).unwrap(),
                identification,
                dont_fragment: df,
                more_fragments: mf,
                fragment_offset: IpFragOffset::try_new(offset).unwrap(),
                time_to_live: ttl,
                source,
                destination,
                options: options.as_slice().try_into().unwrap(),
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        },
    )
}

fn raw_extension() -> impl Strategy<Value = Ipv6RawExtHeader> {
    (0_usize..40)
        .prop_flat_map(|units| prop::collection::vec(any::<u8>(), 6 + units * 8))
        .prop_map(|payload| Ipv6RawExtHeader::new_raw(IpNumber::UDP, &payload).unwrap())
}

fn extensions() -> impl Strategy<Value = Ipv6Extensions> {
    let fragment = (
        prop_oneof![Just(0_u16), 0_u16..0x2000],
        any::<bool>(),
        any::<u32>(),
    )
        .prop_map(|(offset, more, id)| {
            Ipv6FragmentHeader::new(
                IpNumber::UDP,
                IpFragOffset::try_new(offset).unwrap(),
                more,
                id,
            )
        });
    let auth = (any::<(u32, u32)>(), 0_usize..8).prop_map(|((spi, sequence), words)| {
        IpAuthHeader::new(IpNumber::UDP, spi, sequence, &vec![7; words * 4]).unwrap()
    });
    let routing = (raw_extension(), prop::option::of(raw_extension()));
    let routing = routing.prop_map(
        |(routing, final_destination_options)| Ipv6RoutingExtensions {
            routing,
            final_destination_options,
        },
    );
    let option = prop::option::of::<BoxedStrategy<Ipv6RawExtHeader>>;
    (
        option(raw_extension().boxed()),
        option(raw_extension().boxed()),
        prop::option::of(routing),
        prop::option::of(fragment),
        prop::option::of(auth),
    )
        .prop_map(
            |(hop_by_hop_options, destination_options, routing, fragment, auth)| Ipv6Extensions {
                hop_by_hop_options,
                destination_options,
                routing,
                fragment,
                auth,
            },
        )
}

fn v6_headers() -> impl Strategy<Value = IpHeaders> {
    (
        any::<([u8; 16], [u8; 16], u8, u8)>(),
        0_u32..1 << 20,
        extensions(),
    )
        .prop_map(
            |((source, destination, traffic_class, hop_limit), label, extensions)| {
                let header = Ipv6Header {
                    traffic_class,
                    flow_label: Ipv6FlowLabel::try_new(label).unwrap(),
                    hop_limit,
                    source,
                    destination,
                    ..Ipv6Header::default()
                };
                IpHeaders::Ipv6(header, extensions)
            },
        )
}

#[derive(Debug, Clone)]
enum Upper {
    Udp(u16, u16),
    Tcp(u16, u16, u32, u32, u16, Vec<u8>),
    Echo(u16, u16),
    Raw(u8),
}

fn upper() -> impl Strategy<Value = Upper> {
    let options =
        (0_usize..=10).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4));
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(s, d)| Upper::Udp(s, d)),
        (any::<(u16, u16, u32, u32, u16)>(), options)
            .prop_map(|((s, d, q, a, w), o)| Upper::Tcp(s, d, q, a, w, o)),
        any::<(u16, u16)>().prop_map(|(i, s)| Upper::Echo(i, s)),
        prop::sample::select(vec![47_u8, 50, 132, 253]).prop_map(Upper::Raw),
    ]
}

/// The packet that etherparse writes.
fn written(ip: &IpHeaders, upper: &Upper, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ip(ip.clone());
    let mut packet = Vec::new();
    match upper {
        Upper::Udp(source, destination) => builder
            .udp(*source, *destination)
            .write(&mut packet, payload)
            .unwrap(),
        Upper::Tcp(source, destination, sequence, acknowledgement, window, options) => {
            let mut tcp = TcpHeader::new(*source, *destination, *sequence, *window);
            tcp.acknowledgment_number = *acknowledgement;
            (tcp.syn, tcp.ack, tcp.fin) = (window & 1 != 0, window & 2 != 0, window & 4 != 0);
            tcp.set_options_raw(options).unwrap();
            builder.tcp_header(tcp).write(&mut packet, payload).unwrap();
        }
        Upper::Echo(identifier, sequence) => match ip {
            IpHeaders::Ipv4(..) => builder
                .icmpv4_echo_request(*identifier, *sequence)
                .write(&mut packet, payload)
                .unwrap(),
            IpHeaders::Ipv6(..) => builder
                .icmpv6_echo_request(*identifier, *sequence)
                .write(&mut packet, payload)
                .unwrap(),
        },
        Upper::Raw(number) => builder
            .write(&mut packet, IpNumber(*number), payload)
            .unwrap(),
    }
    packet
}

/// (source, destination, DSCP, ECN, TTL, DF, offset in bytes, MF) as etherparse was told.
fn network(packet: &IpPacket<'_>) -> (Vec<u8>, Vec<u8>, u8, u8, u8, bool, u16, bool) {
    let octets = |address| match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    (
        octets(packet.source()),
        octets(packet.destination()),
        packet.dscp(),
        packet.ecn().bits(),
        packet.ttl(),
        packet.dont_fragment(),
        packet.fragment_offset(),
        packet.more_fragments(),
    )
}

fn told(ip: &IpHeaders) -> (Vec<u8>, Vec<u8>, u8, u8, u8, bool, u16, bool) {
    match ip {
        IpHeaders::Ipv4(h, _) => (
            h.source.to_vec(),
            h.destination.to_vec(),
            h.dscp.value(),
            h.ecn.value(),
            h.time_to_live,
            h.dont_fragment,
            h.fragment_offset.value() * 8,
            h.more_fragments,
        ),
        IpHeaders::Ipv6(h, extensions) => {
            let fragment = extensions.fragment.as_ref();
            (
                h.source.to_vec(),
                h.destination.to_vec(),
                h.traffic_class >> 2,
                h.traffic_class & 3,
                h.hop_limit,
                true,
                fragment.map_or(0, |it| it.fragment_offset.value() * 8),
                fragment.is_some_and(|it| it.more_fragments),
            )
        }
    }
}

/// Bytes before the upper layer; behind the fragment header of a later fragment there is only data.
fn header_bytes(ip: &IpHeaders) -> usize {
    match ip {
        IpHeaders::Ipv6(_, e)
            if e.fragment
                .as_ref()
                .is_some_and(|it| it.fragment_offset.value() != 0) =>
        {
            let auth = e.auth.as_ref().map_or(0, IpAuthHeader::header_len);
            let last = e
                .routing
                .as_ref()
                .and_then(|it| it.final_destination_options.as_ref());
            ip.header_len() - auth - last.map_or(0, Ipv6RawExtHeader::header_len)
        }
        IpHeaders::Ipv4(..) | IpHeaders::Ipv6(..) => ip.header_len(),
    }
}

fn agree_on_upper(packet: &IpPacket<'_>, upper: &Upper, payload: &[u8]) {
    let key = FlowKey::of(packet);
    let ports = (key.source_port, key.destination_port);
    match upper {
        Upper::Udp(source, destination) => {
            assert_eq!(
                (packet.protocol(), ports),
                (protocol::UDP, (*source, *destination))
            );
            let udp = UdpView::parse(packet.payload()).unwrap();
            assert_eq!(
                (udp.source_port(), udp.destination_port(), udp.payload()),
                (*source, *destination, payload)
            );
            let oracle = UdpHeader::from_slice(packet.payload()).unwrap().0;
            assert_eq!(
                (udp.length(), udp.checksum()),
                (oracle.length, oracle.checksum)
            );
        }
        Upper::Tcp(source, destination, sequence, acknowledgement, window, options) => {
            assert_eq!(
                (packet.protocol(), ports),
                (protocol::TCP, (*source, *destination))
            );
            let tcp = TcpView::parse(packet.payload()).unwrap();
            assert_eq!(
                (tcp.source_port(), tcp.destination_port()),
                (*source, *destination)
            );
            assert_eq!(
                (tcp.sequence(), tcp.acknowledgement()),
                (*sequence, *acknowledgement)
            );
            assert_eq!(
                (tcp.window(), tcp.urgent_pointer(), tcp.payload()),
                (*window, 0, payload)
            );
            assert_eq!(
                (tcp.is_syn(), tcp.is_ack(), tcp.is_fin()),
                (window & 1 != 0, window & 2 != 0, window & 4 != 0)
            );
            assert_eq!(
                (tcp.header_len(), tcp.is_rst()),
                (20 + options.len(), false)
            );
            let (oracle, _) = TcpHeader::from_slice(packet.payload()).unwrap();
            assert_eq!(tcp.checksum(), oracle.checksum);
        }
        Upper::Echo(identifier, sequence) => {
            assert_eq!(ports, (*identifier, 0));
            let echo = IcmpView::parse(packet.payload()).unwrap();
            assert_eq!(
                (echo.identifier(), echo.sequence(), echo.payload()),
                (*identifier, *sequence, payload)
            );
        }
        Upper::Raw(number) => {
            assert_eq!((packet.protocol(), ports), (*number, (0, 0)));
            assert_eq!(packet.payload(), payload);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Case B54.
    #[test]
    fn we_read_what_etherparse_writes(
        ip in prop_oneof![v4_headers(), v6_headers()],
        upper in upper(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = written(&ip, &upper, &payload);
        let packet = IpPacket::parse(&bytes).unwrap();
        prop_assert_eq!(network(&packet), told(&ip));
        prop_assert_eq!(packet.header_len(), header_bytes(&ip));
        if let IpPacket::V4(view) = packet {
            prop_assert!(view.header_checksum_valid());
            prop_assert_eq!(view.header_checksum(), Ipv4Header::from_slice(&bytes).unwrap().0.calc_header_checksum());
        }
        if packet.fragment_offset() == 0 {
            agree_on_upper(&packet, &upper, &payload);
            prop_assert_ne!(checksum::upper_layer_valid(&packet), Some(false));
        }
        if let (IpPacket::V6(view), IpHeaders::Ipv6(header, extensions)) = (packet, &ip) {
            prop_assert_eq!(view.flow_label(), header.flow_label.value());
            prop_assert_eq!(view.has_routing_header(), extensions.routing.is_some());
            let fragment = extensions.fragment.as_ref().map(|it| it.identification);
            prop_assert_eq!(view.fragment().map(|it| it.identification), fragment);
        }
        fuzz::packets(&bytes);
    }

    #[test]
    fn etherparse_reads_what_we_write(
        v6: bool,
        ports in any::<(u16, u16)>(),
        class: u8,
        options in prop::sample::select(vec![&[][..], &[1, 1, 1], &[7, 7, 4, 0, 0, 0, 0]]),
        tcp: bool,
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (source, destination) = if v6 { ("fd00::1", "2001:db8::9") } else { ("10.0.0.1", "192.0.2.9") };
        let header = Header {
            traffic_class: class,
            options,
            extensions: &[(protocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0]), (protocol::AUTHENTICATION, &[3; 22])],
            ..Header::new(source.parse().unwrap(), destination.parse().unwrap())
        };
        let segment = Segment { sequence: 9, flags: 0x12, window: 7, options: &[2, 4, 5, 0xb4, 1], ..Segment::default() };
        let bytes = if tcp { header.tcp(ports.0, ports.1, &segment, &payload) } else { header.udp(ports.0, ports.1, &payload) };
        let oracle = SlicedPacket::from_ip(&bytes).unwrap();
        let ip = IpSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!((ip.source_addr(), ip.destination_addr()), (header.source, header.destination));
        prop_assert_eq!(ip.payload().payload, IpPacket::parse(&bytes).unwrap().payload());
        match oracle.transport.unwrap() {
            TransportSlice::Udp(udp) => {
                prop_assert_eq!((udp.source_port(), udp.destination_port(), udp.payload()), (ports.0, ports.1, &payload[..]));
                let header = udp.to_header();
                let expected = match ip {
                    IpSlice::Ipv4(v4) => header.calc_checksum_ipv4(&v4.header().to_header(), &payload),
                    IpSlice::Ipv6(v6) => header.calc_checksum_ipv6(&v6.header().to_header(), &payload),
                };
                prop_assert_eq!(udp.checksum(), expected.unwrap());
            }
            TransportSlice::Tcp(tcp) => {
                prop_assert_eq!((tcp.source_port(), tcp.destination_port(), tcp.payload()), (ports.0, ports.1, &payload[..]));
                prop_assert_eq!((tcp.sequence_number(), tcp.syn(), tcp.ack(), tcp.window_size()), (9, true, true, 7));
                let expected = match ip {
                    IpSlice::Ipv4(v4) => tcp.calc_checksum_ipv4(v4.header().source(), v4.header().destination()),
                    IpSlice::Ipv6(v6) => tcp.calc_checksum_ipv6(v6.header().source(), v6.header().destination()),
                };
                prop_assert_eq!(tcp.checksum(), expected.unwrap());
            }
            TransportSlice::Icmpv4(_) | TransportSlice::Icmpv6(_) | TransportSlice::Igmp(_) => {
                prop_assert!(false, "another protocol")
            }
        }
    }

    /// Damaged packets: nothing panics, and where both still read a packet they read the same one.
    #[test]
    fn damage_is_read_alike_or_refused(
        ip in prop_oneof![v4_headers(), v6_headers()],
        upper in upper(),
        payload in prop::collection::vec(any::<u8>(), 0..64),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = written(&ip, &upper, &payload);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fuzz::packets(&bytes);
        if let (Ok(ours), Ok(theirs)) = (IpPacket::parse(&bytes), IpSlice::from_slice(&bytes)) {
            prop_assert_eq!((ours.source(), ours.destination()), (theirs.source_addr(), theirs.destination_addr()));
            prop_assert_eq!(ours.is_fragment(), theirs.is_fragmenting_payload());
        }
    }
}
