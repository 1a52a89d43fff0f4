//! An egress that is told which of the host's addresses clients leave from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use quell_egress::userspace::{AllowAll, UserspaceConfig};
use quell_packet::build;

use crate::client::{Client, PATIENCE, V4};
use crate::server::serve;

/// All of 127.0.0.0/8 is this host's, and no route chooses this one.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 3, 2, 1);

fn client() -> Client {
    let config = UserspaceConfig {
        source_ipv4: Some(SOURCE),
        ..UserspaceConfig::default()
    };
    Client::with(config, Box::new(AllowAll))
}

#[test]
fn a_connection_comes_from_it_and_the_other_familys_does_not() {
    let peer = |address| {
        let (server, thread) = serve(address, 1, |stream| stream.peer_addr().unwrap().ip());
        let mut client = client();
        let flow = client.connect(server, 65_536);
        client.until("the handshake", |client| client.tcp(flow).may_send());
        thread.join().unwrap()
    };
    assert_eq!(peer("127.0.0.1:0"), [IpAddr::V4(SOURCE)]);
    assert_eq!(peer("[::1]:0"), [IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]);
}

#[test]
fn a_datagram_comes_from_it() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = client();
    let to = server.local_addr().unwrap();
    client.send_raw(build::udp(SocketAddr::from((V4, 5_353)), to, b"question"));
    let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
    assert_eq!(from.ip(), IpAddr::V4(SOURCE));
}
