//! ICMP echo, where the host allows it and where it does not.

use std::net::IpAddr;
use std::time::Duration;

use quell_egress::userspace::{DropReason, EchoState};
use quell_packet::{FlowKey, IcmpView, IpPacket, build};

use crate::client::{Client, V4, V6};
use crate::namespace::in_namespace;

const TARGETS: [(&str, IpAddr); 2] = [("127.0.0.1", IpAddr::V4(V4)), ("::1", IpAddr::V6(V6))];

#[test]
fn an_echo_comes_back_with_the_clients_identifier() {
    in_namespace("0 0", || {
        let mut client = Client::new();
        for (target, own) in TARGETS {
            let target: IpAddr = target.parse().unwrap();
            for sequence in 1..=3 {
                client.send_raw(build::icmp_echo(own, target, 0x1234, sequence, b"payload"));
                client.until("the reply", |client| !client.others.is_empty());
                let packet = client.others.pop_front().unwrap();
                let ip = IpPacket::parse(&packet).unwrap();
                let reply = IcmpView::parse(ip.payload()).unwrap();
                assert_eq!((ip.source(), ip.destination()), (target, own));
                assert_eq!(FlowKey::of(&ip).destination_port, 0x1234, "an echo reply");
                assert_eq!(
                    (reply.sequence(), reply.payload()),
                    (sequence, &b"payload"[..])
                );
            }
        }
        let status = client.status();
        assert_eq!(
            (status.echo, status.associations),
            (EchoState::Available, 2)
        );
        assert_eq!(status.consumed, 6);
    });
}

#[test]
fn a_host_that_forbids_echo_is_seen_to() {
    in_namespace("1 0", || {
        let mut client = Client::new();
        assert_eq!(client.status().echo, EchoState::Untried);
        for (target, own) in TARGETS {
            client.send_raw(build::icmp_echo(own, target.parse().unwrap(), 1, 1, b""));
        }
        client.until("both drops", |client| {
            client.status().dropped(DropReason::EchoUnavailable) == 2
        });
        client.for_a_while(Duration::from_millis(50));
        assert!(client.others.is_empty(), "no answer");
        let status = client.status();
        assert_eq!(
            (status.echo, status.associations),
            (EchoState::Forbidden, 0)
        );
    });
}
