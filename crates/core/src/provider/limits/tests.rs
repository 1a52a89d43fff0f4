//! Boundary pairs of each limit, what flows end by, what clients hear, and months.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use quell_packet::build::{self, Header, Segment};
use quell_packet::tcp::flags;
use quell_packet::{TcpView, protocol};

use super::*;

const S: Duration = Duration::from_secs(1);
const NS: Duration = Duration::from_nanos(1);
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 85, 0, 2));
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 85, 0, 1);

fn world(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xc633_0000 + n).into()
}

fn udp(destination: IpAddr, port: u16) -> Vec<u8> {
    Header::new(OWN, destination).udp(port, 53, b"x")
}

fn tcp(destination: IpAddr, port: u16, flags: u8) -> Vec<u8> {
    let segment = Segment {
        sequence: 7,
        flags,
        ..Segment::default()
    };
    build::tcp((OWN, port).into(), (destination, 443).into(), &segment, &[])
}

fn tcp_back(source: IpAddr, port: u16, flags: u8) -> Vec<u8> {
    let segment = Segment {
        flags,
        ..Segment::default()
    };
    build::tcp((source, 443).into(), (OWN, port).into(), &segment, &[])
}

fn limits(flows: u32, (rate, burst): (u32, u32), destinations: u32) -> ClientLimits {
    let config = ClientLimitsConfig {
        client_flows_max: flows,
        client_new_destinations_per_s: rate,
        client_new_destination_burst: burst,
        client_destinations_max: destinations,
        refusals_per_s: 1,
        refusal_burst: 2,
        ..ClientLimitsConfig::default()
    };
    ClientLimits::new(&config, 7)
}

/// Only the number of flows counts.
fn flows(most: u32) -> ClientLimits {
    limits(most, (1_000_000, 1_000_000), 65_536)
}

fn judge(limits: &mut ClientLimits, packet: &[u8], now: Instant) -> Result<(), DropReason> {
    limits.judge(&IpPacket::parse(packet).unwrap(), now)
}

#[test]
fn the_last_flow_passes_one_more_does_not_and_those_that_are_held_go_on() {
    let now = Instant::now();
    let mut limits = flows(16);
    for port in 0..16 {
        assert_eq!(judge(&mut limits, &udp(world(1), port), now), Ok(()));
    }
    let refused = Err(DropReason::FlowLimit);
    assert_eq!(judge(&mut limits, &udp(world(1), 16), now), refused);
    assert_eq!(
        judge(&mut limits, &tcp(world(1), 1, flags::SYN), now),
        refused
    );
    for port in (0..16).rev() {
        assert_eq!(judge(&mut limits, &udp(world(1), port), now), Ok(()));
    }
    assert_eq!(limits.status().flows, 16);
}

#[test]
fn an_idle_flow_gives_its_place_back_at_its_time_and_not_before() {
    let now = Instant::now();
    let mut limits = flows(1);
    judge(&mut limits, &udp(world(1), 1), now).unwrap();
    // Used within the last second, which a run of packets does not look up.
    let used = now + 5 * S;
    judge(&mut limits, &udp(world(1), 1), used).unwrap();
    let idle = used + 120 * S;
    let refused = Err(DropReason::FlowLimit);
    assert_eq!(judge(&mut limits, &udp(world(1), 2), idle - NS), refused);
    assert_eq!(judge(&mut limits, &udp(world(1), 2), idle), Ok(()));
}

#[test]
fn packets_of_the_world_keep_a_flow_and_a_reset_or_two_fins_end_it() {
    let start = Instant::now();
    let mut limits = flows(1);
    judge(&mut limits, &udp(world(1), 1), start).unwrap();
    let answer = Header::new(world(1), OWN).udp(53, 1, b"y");
    limits.note_inward(&answer, start + 100 * S);
    let refused = Err(DropReason::FlowLimit);
    assert_eq!(
        judge(&mut limits, &udp(world(1), 2), start + 200 * S),
        refused
    );
    let now = start + 300 * S;

    type End = fn(&mut ClientLimits, Instant);
    let ends: [End; 3] = [
        |limits, now| judge(limits, &tcp(world(1), 9, flags::RST), now).unwrap(),
        |limits, now| limits.note_inward(&tcp_back(world(1), 9, flags::RST), now),
        |limits, now| {
            judge(limits, &tcp(world(1), 9, flags::FIN | flags::ACK), now).unwrap();
            limits.note_inward(&tcp_back(world(1), 9, flags::FIN | flags::ACK), now);
        },
    ];
    for end in ends {
        let mut limits = flows(1);
        judge(&mut limits, &tcp(world(1), 9, flags::SYN), now).unwrap();
        limits.note_inward(&tcp_back(world(1), 9, flags::SYN | flags::ACK), now);
        for _ in 0..3 {
            judge(&mut limits, &tcp(world(1), 9, flags::ACK), now).unwrap();
            limits.note_inward(&tcp_back(world(1), 9, flags::ACK), now);
        }
        end(&mut limits, now);
        // What is still under way passes; then its place is free.
        limits.note_inward(&tcp_back(world(1), 9, flags::ACK), now);
        let over = now + 10 * S;
        assert_eq!(judge(&mut limits, &udp(world(1), 2), over - NS), refused);
        assert_eq!(judge(&mut limits, &udp(world(1), 2), over), Ok(()));
    }
}

#[test]
fn the_burst_of_new_destinations_passes_one_more_does_not_and_known_ones_are_free() {
    let now = Instant::now();
    let mut limits = limits(1_000, (10, 20), 65_536);
    for n in 0..20 {
        assert_eq!(judge(&mut limits, &udp(world(n), 1), now), Ok(()));
    }
    let refused = Err(DropReason::DestinationLimit);
    assert_eq!(judge(&mut limits, &udp(world(20), 1), now), refused);
    // Another flow to one that is known.
    assert_eq!(judge(&mut limits, &udp(world(19), 2), now), Ok(()));
    let next = now + Duration::from_millis(100);
    assert_eq!(judge(&mut limits, &udp(world(20), 1), next - NS), refused);
    assert_eq!(judge(&mut limits, &udp(world(20), 1), next), Ok(()));
    assert_eq!(judge(&mut limits, &udp(world(21), 1), next), refused);
    let status = limits.status();
    assert_eq!((status.destinations, status.flows), (21, 22));
}

#[test]
fn the_destination_used_longest_ago_is_forgotten_and_costs_again() {
    let now = Instant::now();
    let mut limits = limits(1_000, (1, 4), 3);
    for n in [1, 2, 3] {
        judge(&mut limits, &udp(world(n), 1), now).unwrap();
    }
    // 1 is used again, so 2 is the one that a fourth takes the place of.
    judge(&mut limits, &udp(world(1), 2), now).unwrap();
    judge(&mut limits, &udp(world(4), 1), now).unwrap();
    assert_eq!(judge(&mut limits, &udp(world(1), 3), now), Ok(()));
    let refused = Err(DropReason::DestinationLimit);
    assert_eq!(judge(&mut limits, &udp(world(2), 9), now), refused);
    assert_eq!(limits.status().destinations, 3);
}

#[test]
fn what_is_of_no_flow_takes_no_place_and_is_no_way_around() {
    let now = Instant::now();
    let mut limits = limits(1, (1, 1), 16);
    judge(&mut limits, &udp(world(1), 1), now).unwrap();
    let fragment = |n| {
        let header = Header {
            fragment_offset: 8,
            dont_fragment: false,
            ..Header::new(OWN, world(n))
        };
        header.udp(1, 53, b"later")
    };
    assert_eq!(judge(&mut limits, &fragment(1), now), Ok(()));
    let refused = Err(DropReason::DestinationLimit);
    assert_eq!(judge(&mut limits, &fragment(2), now), refused);
    assert_eq!(limits.status().flows, 1);
}

#[test]
fn a_flow_that_finds_no_place_spends_no_token() {
    let now = Instant::now();
    let mut limits = limits(1, (1, 2), 16);
    judge(&mut limits, &udp(world(1), 1), now).unwrap();
    for n in 2..9 {
        let refused = Err(DropReason::FlowLimit);
        assert_eq!(judge(&mut limits, &udp(world(n), 1), now), refused);
    }
    assert_eq!(limits.destinations.admit(world(2), now), Ok(()));
}

#[test]
fn what_was_spent_stays_spent_in_the_next_session() {
    let now = Instant::now();
    let mut first = limits(1_000, (1, 4), 16);
    for n in 0..4 {
        judge(&mut first, &udp(world(n), 1), now).unwrap();
    }
    let mut next = limits(1_000, (1, 4), 16);
    next.set_tokens(first.tokens());
    let refused = Err(DropReason::DestinationLimit);
    assert_eq!(judge(&mut next, &udp(world(0), 1), now), refused);
    assert_eq!(judge(&mut next, &udp(world(0), 1), now + S), Ok(()));
}

#[test]
fn a_refused_syn_hears_a_reset_anything_else_prohibited_and_a_flood_silence() {
    let now = Instant::now();
    let addresses = TunnelAddresses {
        ipv4: Some((Ipv4Addr::new(10, 85, 0, 2), 16)),
        gateway_ipv4: Some(GATEWAY),
        ..TunnelAddresses::default()
    };
    let mut limits = flows(1);
    let reset = limits.refuse(&tcp(world(1), 9, flags::SYN), &addresses, now);
    let reset = reset.unwrap();
    let view = IpPacket::parse(&reset).unwrap();
    let segment = TcpView::parse(view.payload()).unwrap();
    assert!(segment.is_rst() && segment.acknowledgement() == 8);
    assert_eq!((view.source(), view.destination()), (world(1), OWN));

    let error = limits.refuse(&udp(world(1), 1), &addresses, now).unwrap();
    let view = IpPacket::parse(&error).unwrap();
    assert_eq!(
        (view.source(), view.protocol()),
        (GATEWAY.into(), protocol::ICMP)
    );
    assert_eq!(&view.payload()[..2], [3, 13]);

    assert_eq!(limits.refuse(&udp(world(1), 1), &addresses, now), None);
    let later = now + S;
    // A reset is not answered, and does not cost a token.
    assert_eq!(limits.refuse(&error, &addresses, later), None);
    assert!(
        limits
            .refuse(&udp(world(1), 1), &addresses, later)
            .is_some()
    );
    let refusals = limits.status().refusals;
    assert_eq!((refusals.told, refusals.silent), (3, 2));
}

fn month(text: &str) -> Month {
    text.parse().unwrap()
}

/// Seconds of days since 1970.
const fn days(days: u64) -> u64 {
    days * 86_400
}

#[test]
fn months_begin_and_end_where_the_calendar_says() {
    for (unix_s, text) in [
        (0, "1970-01"),
        (days(31) - 1, "1970-01"),
        (days(31), "1970-02"),
        (days(59), "1970-03"),
        // 2000 and 2024 have a leap day, 2100 has none.
        (951_782_399, "2000-02"),
        (951_868_799, "2000-02"),
        (951_868_800, "2000-03"),
        (1_709_251_199, "2024-02"),
        (1_709_251_200, "2024-03"),
        (4_107_542_399, "2100-02"),
        (4_107_542_400, "2100-03"),
        (1_796_083_199, "2026-11"),
        (1_796_083_200, "2026-12"),
        (1_798_761_599, "2026-12"),
        (1_798_761_600, "2027-01"),
        (253_402_300_799, "9999-12"),
    ] {
        assert_eq!(Month::of_unix(unix_s).to_string(), text, "{unix_s}");
    }
    assert_eq!(Month::of_unix(u64::MAX).to_string().len(), 7);
    assert_eq!(month("2026-12").next(), month("2027-01"));
    assert!(month("2026-12") < month("2027-01") && month("2026-01") < month("2026-02"));
    for wrong in [
        "", "2026", "2026-00", "2026-13", "1969-12", "+026-01", "2026-1", "2026-011",
    ] {
        assert!(wrong.parse::<Month>().is_err(), "{wrong}");
    }
}

const NOVEMBER: u64 = 1_796_083_199;
const DECEMBER: u64 = NOVEMBER + 1;

fn ceiling(bytes_max: u64, used: u64) -> Ceiling {
    let used = MonthUse {
        month: month("2026-11"),
        bytes: used,
    };
    let mut ceiling = Ceiling::new(Some(bytes_max), used);
    ceiling.on_wall_clock(NOVEMBER);
    ceiling
}

#[test]
fn the_byte_before_the_ceiling_passes_and_the_one_that_reaches_it_ends_the_month() {
    let now = Instant::now();
    let mut ceiling = ceiling(1_000, 0);
    ceiling.count(999, now);
    assert!(!ceiling.is_used_up() && ceiling.poll_timeout().is_none());
    ceiling.count(1, now);
    assert!(ceiling.is_used_up());
    assert_eq!(ceiling.poll_timeout(), Some(now));
    let drain = 5 * S;
    assert_eq!(ceiling.step(drain, now), Some(Step::Leave));
    ceiling.count(500, now);
    assert_eq!(ceiling.poll_timeout(), Some(now + drain));
    assert_eq!(ceiling.step(drain, now + drain - NS), None);
    assert_eq!(ceiling.step(drain, now + drain), Some(Step::Shut));
    assert_eq!(ceiling.step(drain, now + 9 * drain), None);
    assert_eq!(
        (ceiling.poll_timeout(), ceiling.used().bytes),
        (None, 1_500)
    );
    assert!(ceiling.words().contains("2026-12"), "{}", ceiling.words());
}

#[test]
fn another_ceiling_opens_the_month_again_or_ends_it() {
    let now = Instant::now();
    let mut ceiling = ceiling(1_000, 1_000);
    assert!(ceiling.is_used_up());
    ceiling.on_bytes_max(Some(1_001), now);
    assert!(!ceiling.is_used_up() && ceiling.poll_timeout().is_none());
    ceiling.on_bytes_max(Some(1_000), now);
    assert!(ceiling.is_used_up());
    assert_eq!(ceiling.poll_timeout(), Some(now));
    assert_eq!(ceiling.step(S, now), Some(Step::Leave));
    // The same again tells nobody twice.
    ceiling.on_bytes_max(Some(999), now);
    assert_eq!(ceiling.step(S, now), None);
}

#[test]
fn a_later_month_opens_again_and_an_earlier_one_changes_nothing() {
    let now = Instant::now();
    let mut ceiling = ceiling(1_000, 0);
    ceiling.count(400, now);
    ceiling.on_wall_clock(NOVEMBER - days(200));
    assert_eq!(ceiling.used().bytes, 400);
    ceiling.count(600, now);
    assert!(ceiling.is_used_up());
    ceiling.on_wall_clock(0);
    assert!(ceiling.is_used_up());
    ceiling.on_wall_clock(DECEMBER);
    assert!(!ceiling.is_used_up() && ceiling.poll_timeout().is_none());
    assert_eq!(ceiling.used().bytes, 0);
    // The clock was wrong: December it stays, with its count.
    ceiling.count(7, now);
    ceiling.on_wall_clock(NOVEMBER);
    assert_eq!(
        (ceiling.used().month, ceiling.used().bytes),
        (month("2026-12"), 7)
    );
    ceiling.on_wall_clock(DECEMBER);
    assert_eq!(ceiling.used().bytes, 7);
}

#[test]
fn a_restart_goes_on_where_it_was() {
    let now = Instant::now();
    let mut before = ceiling(1_000, 999);
    assert!(!before.is_used_up());
    before.count(1, now);
    let mut after = ceiling(1_000, before.used().bytes);
    assert!(after.is_used_up());
    assert_eq!((after.step(S, now), after.status().state), (None, "shut"));
    after.on_wall_clock(DECEMBER);
    assert!(!after.is_used_up());
}
