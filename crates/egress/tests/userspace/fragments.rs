//! Datagrams longer than the way: put together from the client, cut for the client.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quell_egress::userspace::{AllowAll, DropReason, UserspaceConfig};
use quell_packet::build::Header;
use quell_packet::{IpPacket, build, fragment, icmp, protocol};

use crate::client::{Client, PATIENCE, V4, V6};
use crate::server::pattern;

fn server(address: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

fn v4_pieces(to: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
    let header = Header {
        dont_fragment: false,
        identification: 77,
        ..Header::new(V4.into(), to.ip())
    };
    let whole = header.udp(5_000, to.port(), bytes);
    fragment::ipv4(&whole, 1_280).unwrap().collect()
}

fn v6_pieces(to: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
    let whole = build::udp((V6, 5_000).into(), to, bytes);
    let upper = &whole[40..];
    let count = upper.len().div_ceil(1_232);
    let piece = |(index, data): (usize, &[u8])| {
        let more = u16::from(index + 1 < count);
        let at = ((index * 1_232) as u16 | more).to_be_bytes();
        let body = [at[0], at[1], 0, 0, 0, 9];
        let extensions = [(protocol::FRAGMENT, &body[..])];
        let header = Header {
            extensions: &extensions,
            ..Header::new(V6.into(), to.ip())
        };
        header.packet(protocol::UDP, data)
    };
    upper.chunks(1_232).enumerate().map(piece).collect()
}

#[test]
fn a_clients_fragments_leave_as_one_datagram() {
    let question = pattern(8_000);
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (server, at) = server(address);
        let mut client = Client::new();
        let mut pieces = match at {
            SocketAddr::V4(_) => v4_pieces(at, &question),
            SocketAddr::V6(_) => v6_pieces(at, &question),
        };
        pieces.reverse();
        let last = pieces.pop().unwrap();
        let count = pieces.len() as u64 + 1;
        for piece in pieces {
            client.send_raw(piece);
        }
        client.until("all that came", |client| {
            client.status().offered == count - 1
        });
        client.for_a_while(Duration::from_millis(50));
        let status = client.status();
        assert_eq!((status.consumed, status.waiting), (0, count - 1));
        client.send_raw(last);
        let mut buffer = vec![0; 65_535];
        let (len, _) = server.recv_from(&mut buffer).unwrap();
        assert!(buffer[..len] == question);
        client.until_quiet();
        assert_eq!(client.status().consumed, count);
    }
}

#[test]
fn pieces_that_overlap_are_dropped_together() {
    let (_server, at) = server("127.0.0.1:0");
    let mut client = Client::new();
    let mut pieces = v4_pieces(at, &pattern(4_000));
    let mut shifted = Header {
        dont_fragment: false,
        identification: 77,
        more_fragments: true,
        fragment_offset: 1_248,
        ..Header::new(V4.into(), at.ip())
    }
    .packet(protocol::UDP, &[0; 64]);
    std::mem::swap(&mut pieces[1], &mut shifted);
    client.send_raw(pieces[0].clone());
    client.send_raw(pieces[1].clone());
    client.until("both dropped", |client| {
        client.status().dropped(DropReason::Fragment) == 2
    });
    client.until_quiet();
}

#[test]
fn an_answer_fits_the_path_that_was_told() {
    // Over IPv4 the tunnel cuts what does not fit, and tells nobody.
    let (server, at) = server("[::1]:0");
    let config = UserspaceConfig {
        mtu: 1_500,
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    client.send_raw(build::udp((V6, 5_000).into(), at, b"question"));
    let mut buffer = [0; 16];
    let (_, from) = server.recv_from(&mut buffer).unwrap();
    server.send_to(&pattern(1_400), from).unwrap();
    client.until("a whole answer", |client| client.others.len() == 1);
    let answer = client.others.pop_front().unwrap();
    assert!(answer.len() > 1_400);

    let header = Header::new(V6.into(), at.ip());
    let mtu = 1_300_u32.to_be_bytes();
    client.send_raw(header.icmp(icmp::V6_PACKET_TOO_BIG, 0, mtu, &answer[..1_200]));
    client.until("it was heard", |client| client.status().consumed == 2);
    server.send_to(&pattern(1_400), from).unwrap();
    client.until("two pieces", |client| client.others.len() == 2);
    for piece in client.others.drain(..) {
        assert!(piece.len() <= 1_300);
        assert!(IpPacket::parse(&piece).unwrap().is_fragment());
    }

    // What one of the client's ports was told, all of them know.
    client.send_raw(build::udp((V6, 5_001).into(), at, b"question"));
    let (_, from) = server.recv_from(&mut buffer).unwrap();
    server.send_to(&pattern(1_400), from).unwrap();
    client.until("two pieces", |client| client.others.len() == 2);
}
