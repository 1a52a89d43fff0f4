//! What lies around the host: families, the path's size, ports, names, control planes.
//!
//! Nothing is sent but what a name, a connection to a control plane and its answer take. A route and its MTU are asked of the
//! kernel by a UDP socket that is connected, which sends nothing.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket,
};
use std::time::{Duration, SystemTime};

use nix::sys::socket::{getsockopt, sockopt};
use quell::control::{self, Command, Request};

use super::needs::{Listener, Peer};
use super::{Finding, Level, Need, Needs};

/// Addresses of the world, whose routes are looked up.
const WORLD_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1));
const WORLD_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2606, 0x4700, 0x4700, 0, 0, 0, 0, 0x1111));
/// What QUIC needs at least: 1,200 bytes of UDP (RFC 9000 §14) under IPv4 and UDP headers.
const MTU_MIN: i32 = 1_228;
/// From here on the least packet of IPv6 (1,280) crosses whole.
const MTU_WHOLE: i32 = 1_400;
/// How far the clock may be from a control plane's: contracts are refused beyond five minutes.
const SKEW_MAX: Duration = Duration::from_secs(60);
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Most bytes of a head that are read.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Whether there is a way to the world, by family.
pub(super) fn family(needs: &Needs) -> Vec<Finding> {
    let seen = [WORLD_V4, WORLD_V6].map(|world| route_to(world).is_ok());
    vec![judge_family(seen, needs)]
}

fn judge_family([ipv4, ipv6]: [bool; 2], needs: &Needs) -> Finding {
    let seen = match (ipv4, ipv6) {
        (true, true) => "IPv4 and IPv6 lead to the world",
        (true, false) => "IPv4 leads to the world, IPv6 does not",
        (false, true) => "IPv6 leads to the world, IPv4 does not",
        (false, false) => {
            let todo = "give the host a default route";
            let seen = "nothing leads to the world: no route for IPv4 or IPv6";
            return Finding::bad("family", Level::Problem, seen, todo);
        }
    };
    let lacks = |is: bool, need: Need| !is && need == Need::Must;
    if lacks(ipv4, needs.ipv4) || lacks(ipv6, needs.ipv6) {
        let todo = "give the host the other family too, or leave its pool out of [addresses]: clients would be refused there";
        return Finding::bad("family", Level::Warning, seen, todo);
    }
    Finding::ok("family", seen)
}

/// A socket whose way leads to `to`.
fn route_to(to: IpAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((to, 443))?;
    Ok(socket)
}

/// How large packets may be on the way to the servers.
pub(super) fn mtu(needs: &Needs) -> Vec<Finding> {
    let addresses = needs
        .servers
        .iter()
        .filter_map(|server| resolve(server).ok());
    let mut to: Vec<IpAddr> = addresses.flatten().map(|address| address.ip()).collect();
    if to.is_empty() {
        to.push(WORLD_V4);
    }
    let sizes = to.into_iter().filter(IpAddr::is_ipv4).filter_map(|to| {
        let socket = route_to(to).ok()?;
        getsockopt(&socket, sockopt::IpMtu).ok()
    });
    vec![judge_mtu(sizes.min())]
}

fn judge_mtu(least: Option<i32>) -> Finding {
    let Some(least) = least else {
        return Finding::ok("mtu", "not known: no way over IPv4");
    };
    let seen = format!("packets of {least} bytes leave whole, as far as this host knows");
    if least < MTU_MIN {
        let todo = format!("QUIC needs {MTU_MIN} bytes: raise the MTU of the interface");
        return Finding::bad("mtu", Level::Problem, seen, todo);
    }
    if least < MTU_WHOLE {
        let todo = format!(
            "packets of 1,280 bytes cross in pieces below {MTU_WHOLE}: raise the interface's MTU if you can"
        );
        return Finding::bad("mtu", Level::Warning, seen, todo);
    }
    Finding::ok("mtu", seen)
}

/// Whether what is to be listened on is free, or ours.
pub(super) fn ports(needs: &Needs) -> Vec<Finding> {
    if needs.listeners.is_empty() {
        return vec![Finding::ok("ports", "nothing listens")];
    }
    let runs = needs.socket.as_deref().is_some_and(|socket| {
        let command = Command::Status;
        control::request(socket, Request { command }, CONNECT_TIME).is_ok()
    });
    let all = needs.listeners.iter();
    all.map(|listener| {
        let tried = match listener.is_udp {
            true => UdpSocket::bind(listener.address).map(drop),
            false => TcpListener::bind(listener.address).map(drop),
        };
        judge_port(listener, tried.err().map(|error| error.kind()), runs)
    })
    .collect()
}

fn judge_port(listener: &Listener, refused: Option<ErrorKind>, runs: bool) -> Finding {
    let protocol = if listener.is_udp { "UDP" } else { "TCP" };
    let what = format!("{} {protocol} {}", listener.key, listener.address);
    match refused {
        None => Finding::ok("ports", format!("{what} is free")),
        Some(ErrorKind::AddrInUse) if runs => {
            Finding::ok("ports", format!("{what} is in use, and this quell runs"))
        }
        Some(ErrorKind::AddrInUse) => {
            let todo = format!(
                "see who has it: ss -lpn | grep :{}",
                listener.address.port()
            );
            Finding::bad("ports", Level::Problem, format!("{what} is in use"), todo)
        }
        Some(ErrorKind::PermissionDenied) => {
            let todo = "choose a port above 1,023, or give CAP_NET_BIND_SERVICE";
            Finding::bad("ports", Level::Problem, format!("{what} is refused"), todo)
        }
        Some(kind) => {
            let todo = "choose an address that this host has";
            Finding::bad("ports", Level::Problem, format!("{what}: {kind}"), todo)
        }
    }
}

fn resolve(peer: &Peer) -> io::Result<Vec<SocketAddr>> {
    let found = (peer.host.as_str(), peer.port).to_socket_addrs()?;
    Ok(found.collect())
}

/// Whether the names of servers are known.
pub(super) fn dns(needs: &Needs) -> Vec<Finding> {
    let is_name = |peer: &&Peer| peer.host.parse::<IpAddr>().is_err();
    let names = needs.servers.iter().chain(&needs.backends).filter(is_name);
    let mut findings: Vec<_> = names.map(|peer| judge_name(peer, resolve(peer))).collect();
    if findings.is_empty() {
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = text.lines().filter(|line| line.starts_with("nameserver"));
        findings.push(match servers.count() {
            0 => Finding::bad(
                "dns",
                Level::Warning,
                "/etc/resolv.conf names no server",
                "write servers as addresses, or set a resolver up",
            ),
            count => Finding::ok(
                "dns",
                format!("{count} resolvers are set up; no name is needed"),
            ),
        });
    }
    findings
}

fn judge_name(peer: &Peer, found: io::Result<Vec<SocketAddr>>) -> Finding {
    let (key, host) = (peer.key, &peer.host);
    match found {
        Ok(found) if !found.is_empty() => {
            Finding::ok("dns", format!("{key} {host} has {} addresses", found.len()))
        }
        Ok(_) | Err(_) => {
            let why = found
                .err()
                .map_or_else(String::new, |error| format!(": {error}"));
            let todo = "see `getent hosts` for the name; an address in its place needs no resolver";
            let seen = format!("{key} {host} has no address{why}");
            Finding::bad("dns", Level::Problem, seen, todo)
        }
    }
}

/// Whether the control planes answer, and have the same time.
pub(super) fn backends(needs: &Needs) -> Vec<Finding> {
    if needs.backends.is_empty() {
        return vec![Finding::ok("backend", "none is configured")];
    }
    let all = needs.backends.iter();
    all.map(|peer| judge_backend(peer, ask(peer), SystemTime::now()))
        .collect()
}

/// What a control plane said: nothing where only a connection was tried.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    status: Option<u16>,
    date: Option<SystemTime>,
}

fn ask(peer: &Peer) -> io::Result<Said> {
    let addresses = resolve(peer)?;
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses.iter().take(2) {
        match TcpStream::connect_timeout(address, CONNECT_TIME / 2) {
            Ok(stream) => return converse(stream, peer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn converse(mut stream: TcpStream, peer: &Peer) -> io::Result<Said> {
    let Some(path) = &peer.path else {
        return Ok(Said::default());
    };
    stream.set_read_timeout(Some(CONNECT_TIME / 2))?;
    stream.set_write_timeout(Some(CONNECT_TIME / 2))?;
    let host = &peer.host;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk)? {
            0 => break,
            count => head.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(read_head(&String::from_utf8_lossy(&head)))
}

fn read_head(head: &str) -> Said {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let date = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim())
    });
    Said {
        status,
        date: date.and_then(|date| httpdate::parse_http_date(date).ok()),
    }
}

fn judge_backend(peer: &Peer, said: io::Result<Said>, now: SystemTime) -> Finding {
    let what = format!("{} {}:{}", peer.key, peer.host, peer.port);
    let said = match said {
        Ok(said) => said,
        Err(error) => {
            let todo = "what flows goes on without it; start it, or let its port through";
            return Finding::bad("backend", Level::Problem, format!("{what}: {error}"), todo);
        }
    };
    let apart = said.date.map(|date| match now.duration_since(date) {
        Ok(ahead) => ahead,
        Err(behind) => behind.duration(),
    });
    if let Some(apart) = apart.filter(|apart| *apart > SKEW_MAX) {
        let seen = format!(
            "{what}: its clock and this one are {} s apart",
            apart.as_secs()
        );
        let todo = "set the clock that is wrong: contracts and receipts are refused for it";
        return Finding::bad("backend", Level::Problem, seen, todo);
    }
    match said.status {
        Some(status @ 200..=399) => Finding::ok("backend", format!("{what} says {status}")),
        Some(status) => {
            let todo = "ask whoever runs it; what flows goes on without it";
            Finding::bad(
                "backend",
                Level::Warning,
                format!("{what} says {status}"),
                todo,
            )
        }
        None => Finding::ok(
            "backend",
            format!("{what} takes connections; TLS was not tried"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn peer() -> Peer {
        Peer {
            key: "backend.url",
            host: "a".to_owned(),
            port: 80,
            path: None,
        }
    }

    #[test]
    fn a_path_is_large_enough_or_a_byte_too_small() {
        for (least, level) in [
            (MTU_MIN - 1, Level::Problem),
            (MTU_MIN, Level::Warning),
            (MTU_WHOLE - 1, Level::Warning),
            (MTU_WHOLE, Level::Ok),
        ] {
            assert_eq!(judge_mtu(Some(least)).level, level, "{least}");
        }
        assert_eq!(judge_mtu(None).level, Level::Ok);
    }

    #[test]
    fn a_family_that_clients_get_has_to_lead_somewhere() {
        let needs = Needs {
            ipv6: Need::Must,
            ..Needs::of_nobody()
        };
        let level = |seen| judge_family(seen, &needs).level;
        assert_eq!(level([true, true]), Level::Ok);
        assert_eq!(level([true, false]), Level::Warning);
        assert_eq!(level([false, false]), Level::Problem);
        assert_eq!(
            judge_family([true, false], &Needs::of_nobody()).level,
            Level::Ok
        );
    }

    #[test]
    fn a_port_that_this_quell_has_is_no_problem() {
        let listener = Listener {
            key: "listen",
            address: SocketAddr::from(([0, 0, 0, 0], 6610)),
            is_udp: true,
        };
        let level = |refused, runs| judge_port(&listener, refused, runs).level;
        assert_eq!(level(None, false), Level::Ok);
        assert_eq!(level(Some(ErrorKind::AddrInUse), true), Level::Ok);
        assert_eq!(level(Some(ErrorKind::AddrInUse), false), Level::Problem);
        assert_eq!(
            level(Some(ErrorKind::PermissionDenied), true),
            Level::Problem
        );
    }

    #[test]
    fn two_clocks_may_be_a_minute_apart() {
        let date = UNIX_EPOCH + Duration::from_secs(1_790_000_000);
        let said = || Said {
            status: Some(200),
            date: Some(date),
        };
        for (apart_s, level) in [(60, Level::Ok), (61, Level::Problem)] {
            let apart = Duration::from_secs(apart_s);
            for now in [date + apart, date - apart] {
                assert_eq!(judge_backend(&peer(), Ok(said()), now).level, level);
            }
        }
    }

    #[test]
    fn what_a_control_plane_says_is_read() {
        let head =
            "HTTP/1.1 503 Service Unavailable\r\ndate: Tue, 15 Nov 1994 08:12:31 GMT\r\n\r\n";
        let said = read_head(head);
        assert_eq!(said.status, Some(503));
        assert_eq!(
            said.date,
            Some(UNIX_EPOCH + Duration::from_secs(784_887_151))
        );
        assert_eq!(read_head("what"), Said::default());
        let refused = judge_backend(
            &peer(),
            Err(ErrorKind::ConnectionRefused.into()),
            UNIX_EPOCH,
        );
        assert_eq!(refused.level, Level::Problem);
    }
}
