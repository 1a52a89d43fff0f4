//! Names, asked for through the tunnel.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::base::iana::{Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Ttl};
use domain::rdata::{A, Aaaa};
use quell_egress::userspace::AllowAll;
use quell_packet::{IpPacket, UdpView, build, protocol};
use quell_proxy::{Event, ProxyConfig, Refusal};

use crate::http::exchange;
use crate::rig::{Rig, config, session};
use crate::socks::{CONNECT, ask, named};
use crate::world::{echo, serve};

/// A DNS server for `.test`, over UDP and TCP on one port.
pub(crate) struct Zone {
    pub(crate) at: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Zone {
    /// Starts one whose answers live for `ttl` seconds.
    pub(crate) fn start(ttl: u32) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let at = udp.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while let Ok((len, from)) = udp.recv_from(&mut buffer) {
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(answer) = answer(&buffer[..len], ttl, true) {
                    let _ = udp.send_to(&answer, from);
                }
            }
        });
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                let _ = over_tcp(stream.unwrap(), ttl);
            }
        });
        Self { at, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn over_tcp(mut stream: TcpStream, ttl: u32) -> std::io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut question)?;
    let answer = answer(&question, ttl, false).unwrap();
    stream.write_all(&(answer.len() as u16).to_be_bytes())?;
    stream.write_all(&answer)
}

fn answer(question: &[u8], ttl: u32, is_udp: bool) -> Option<Vec<u8>> {
    let message = Message::from_octets(question).unwrap();
    let question = message.sole_question().unwrap();
    let (name, wants_v6) = (
        question.qname().to_string(),
        question.qtype() == Rtype::AAAA,
    );
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if name == "mute.test" {
        return None;
    }
    let rcode = match name.as_str() {
        "v4.test" | "v6.test" | "both.test" | "long.test" | "empty.test" | "some.test"
        | "bad.test" => Rcode::NOERROR,
        "fail.test" => Rcode::SERVFAIL,
        _ => Rcode::NXDOMAIN,
    };
    let mut builder = MessageBuilder::new_vec()
        .start_answer(&message, rcode)
        .unwrap();
    if name == "long.test" && is_udp {
        builder.header_mut().set_tc(true);
        return Some(builder.finish());
    }
    let ttl = Ttl::from_secs(ttl);
    if wants_v6 && matches!(name.as_str(), "v6.test" | "both.test") {
        let address = Aaaa::new(Ipv6Addr::LOCALHOST);
        builder.push((question.qname(), ttl, address)).unwrap();
    }
    if !wants_v6 && matches!(name.as_str(), "v4.test" | "both.test" | "long.test") {
        let address = A::new(Ipv4Addr::LOCALHOST);
        builder.push((question.qname(), ttl, address)).unwrap();
    }
    if wants_v6 && matches!(name.as_str(), "some.test" | "bad.test") {
        let nobody = Aaaa::new(Ipv6Addr::UNSPECIFIED);
        builder.push((question.qname(), ttl, nobody)).unwrap();
    }
    if !wants_v6 && name == "some.test" {
        for address in [Ipv4Addr::BROADCAST, Ipv4Addr::LOCALHOST] {
            builder
                .push((question.qname(), ttl, A::new(address)))
                .unwrap();
        }
    }
    Some(builder.finish())
}

pub(crate) fn config_with(zone: &Zone) -> ProxyConfig {
    ProxyConfig {
        dns_servers: vec![zone.at],
        ..config()
    }
}

fn rig(zone: &Zone) -> Rig {
    Rig::with(config_with(zone), Box::new(AllowAll), session())
}

/// Where a connection to a name went.
#[track_caller]
fn reach(rig: &Rig, name: &str, port: u16) -> IpAddr {
    let mut stream = rig.socks5();
    let (code, bound) = ask(&mut stream, &named(CONNECT, name, port));
    assert_eq!(code, 0, "{name}");
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut [0; 5]).unwrap();
    bound.ip()
}

#[test]
fn names_of_either_family_are_found() {
    let zone = Zone::start(60);
    let rig = rig(&zone);
    let (v4, thread) = serve("127.0.0.1:0", 3, echo);
    assert!(reach(&rig, "v4.test", v4.port()).is_ipv4());
    let head = format!(
        "CONNECT v4.test:{} HTTP/1.1\r\nHost: v4.test\r\n\r\n",
        v4.port()
    );
    assert_eq!(exchange(&mut rig.http(), &head).0, 200);
    // Nobody listens there over IPv6, so that IPv4 is next, at once.
    assert!(reach(&rig, "both.test", v4.port()).is_ipv4());
    thread.join().unwrap();
    let (v6, thread) = serve("[::1]:0", 2, echo);
    assert!(reach(&rig, "V6.test.", v6.port()).is_ipv6());
    assert!(reach(&rig, "both.test", v6.port()).is_ipv6());
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn an_answer_is_remembered_for_as_long_as_it_says() {
    let zone = Zone::start(1);
    let rig = rig(&zone);
    let (server, thread) = serve("127.0.0.1:0", 3, echo);
    reach(&rig, "v4.test", server.port());
    let asked = zone.asked();
    assert_eq!(asked, 2, "one of each family");
    reach(&rig, "v4.test", server.port());
    assert_eq!(rig.counts().count(Event::NameRemembered), 1);
    std::thread::sleep(Duration::from_millis(1_100));
    reach(&rig, "v4.test", server.port());
    assert_eq!(rig.counts().count(Event::NameRemembered), 1);
    thread.join().unwrap();
}

#[test]
fn a_long_answer_is_asked_for_again_over_tcp() {
    let zone = Zone::start(60);
    let rig = rig(&zone);
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    reach(&rig, "long.test", server.port());
    assert_eq!(rig.counts().count(Event::NameTruncated), 2);
    thread.join().unwrap();
    rig.until_quiet();
}

#[test]
fn what_is_no_name_and_who_is_mute_are_told_apart() {
    let zone = Zone::start(60);
    let rig = rig(&zone);
    let code = |name: &str| ask(&mut rig.socks5(), &named(CONNECT, name, 80)).0;
    for name in ["none.test", "empty.test", "localhost", "a..test"] {
        assert_eq!(code(name), 4, "{name}");
    }
    assert_eq!(rig.counts().refused(Refusal::NameNotFound), 4);
    let start = Instant::now();
    assert_eq!(code("mute.test"), 4);
    let took = start.elapsed();
    assert!(
        took >= Duration::from_secs(1),
        "two tries of 500 ms: {took:?}"
    );
    assert_eq!(code("fail.test"), 4);
    assert_eq!(rig.counts().refused(Refusal::NameUnanswered), 2);
    let head = "GET http://mute.test/ HTTP/1.1\r\nHost: mute.test\r\n\r\n";
    assert_eq!(exchange(&mut rig.http(), head).0, 504);
    rig.until_quiet();
}

#[test]
fn the_next_server_is_asked_when_the_first_is_silent() {
    let zone = Zone::start(60);
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = ProxyConfig {
        dns_servers: vec![mute.local_addr().unwrap(), zone.at],
        ..config()
    };
    let rig = Rig::with(config, Box::new(AllowAll), session());
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    reach(&rig, "v4.test", server.port());
    assert_eq!(rig.counts().count(Event::NameAsked), 4);
    thread.join().unwrap();
}

/// Forged answers before each true one: a wrong number, another question, another port, another address. Each of them
/// says 127.0.0.2, where nobody listens.
#[test]
fn liars_are_not_believed() {
    let zone = Zone::start(60);
    let rig = rig(&zone);
    let at = zone.at;
    rig.meddle(Box::new(move |packet| {
        let ip = IpPacket::parse(&packet).unwrap();
        if ip.protocol() != protocol::UDP {
            return vec![packet.freeze()];
        }
        let udp = UdpView::parse(ip.payload()).unwrap();
        let to = SocketAddr::new(ip.destination(), udp.destination_port());
        let mut lie = udp.payload().to_vec();
        if let Some(place) = lie.windows(4).rposition(|four| four == [127, 0, 0, 1]) {
            lie[place + 3] = 2;
        }
        let (mut number, mut name) = (lie.clone(), lie.clone());
        number[0] ^= 1;
        name[13] ^= 1;
        let other_port = SocketAddr::new(at.ip(), at.port() ^ 1);
        let other_host = SocketAddr::new([127, 0, 0, 9].into(), at.port());
        let forged = [
            (at, &number),
            (at, &name),
            (other_port, &lie),
            (other_host, &lie),
        ];
        let mut packets: Vec<Bytes> = forged
            .into_iter()
            .map(|(from, lie)| build::udp(from, to, lie).into())
            .collect();
        packets.push(packet.freeze());
        packets
    }));
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    reach(&rig, "v4.test", server.port());
    assert_eq!(rig.counts().count(Event::NameLie), 8);
    thread.join().unwrap();
}

#[test]
fn a_silent_family_costs_a_head_start_alone() {
    let zone = Zone::start(60);
    let rig = rig(&zone);
    rig.meddle(Box::new(|packet| {
        let ip = IpPacket::parse(&packet).unwrap();
        let is_v6_tcp = ip.source().is_ipv6() && ip.protocol() == protocol::TCP;
        (!is_v6_tcp).then(|| packet.freeze()).into_iter().collect()
    }));
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    let start = Instant::now();
    assert!(reach(&rig, "both.test", server.port()).is_ipv4());
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(250), "{took:?}");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    thread.join().unwrap();
    rig.until_quiet();
    assert_eq!(rig.counts().count(Event::TcpNotEstablished), 1);
}

#[test]
fn an_address_that_is_no_hosts_is_passed_over() {
    let zone = Zone::start(1);
    let (server, thread) = serve("127.0.0.1:0", 1, echo);
    let rig = rig(&zone);
    assert!(reach(&rig, "some.test", server.port()).is_ipv4());
    let (code, _) = ask(&mut rig.socks5(), &named(CONNECT, "bad.test", 9));
    assert_eq!(code, 2);
    assert_eq!(rig.counts().refused(Refusal::BadDestination), 1);
    thread.join().unwrap();
}
