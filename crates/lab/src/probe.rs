//! Small questions to a network, and the small servers that answer them.
//!
//! - [`ping`]: ICMP and ICMPv6 echo, with the payload compared; [`udp_ping`]: the same by datagrams through a proxy.
//! - [`udp_round_trip`] against [`UdpEcho`]; [`udp_refused`]: does an ICMP error find its way back?
//! - [`dns_query`] against [`DnsServer`].
//!
//! A payload is a part of [`content`](crate::content) that no other packet of the run carries, so an answer to something
//! else, a stale one or a changed one is not taken for the right one. Nothing is sent twice: a probe that retried would hide
//! the loss it is there to see.

mod dns;
mod echo;
mod ping;
#[cfg(test)]
mod tests;
mod udp;

pub(crate) use echo::EchoSocket;

pub use dns::{DnsServer, dns_query};
pub use ping::{PingReport, ping, udp_ping};
pub use udp::{UdpEcho, udp_echo_server, udp_refused, udp_round_trip};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::error::{Context, LabError, Result};
use crate::stop::{Stop, wait_readable};

/// The longest payload of a UDP datagram or an echo request over IPv4: 65,535 − 20 − 8 (RFC 791, RFC 768, RFC 792).
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65_507;

/// How many datagrams a server takes in a row before it looks whether to stop.
const BATCH: usize = 64;

/// The address to speak to `peer` from: the loopback's stays on the loopback, whatever else the host has.
pub(crate) fn local_towards(peer: IpAddr) -> IpAddr {
    match (peer, peer.is_loopback()) {
        (IpAddr::V4(_), true) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        (IpAddr::V4(_), false) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (IpAddr::V6(_), true) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        (IpAddr::V6(_), false) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// A socket on any port that talks to `peer` alone: answers from elsewhere do not reach it.
pub(crate) fn connected(peer: SocketAddr) -> Result<UdpSocket> {
    let what = || format!("UDP socket towards {peer}");
    let socket = UdpSocket::bind((local_towards(peer.ip()), 0)).context(what)?;
    socket.connect(peer).context(what)?;
    Ok(socket)
}

fn payload(offset: u64, len: usize) -> Result<Vec<u8>> {
    if len > PAYLOAD_BYTES_MAX {
        return Err(LabError::Invalid(format!(
            "a payload of {len} bytes exceeds {PAYLOAD_BYTES_MAX}"
        )));
    }
    let mut bytes = vec![0; len];
    crate::content::fill(offset, &mut bytes);
    Ok(bytes)
}

/// A thread that answers datagrams until it is dropped.
#[derive(Debug)]
struct UdpService {
    address: SocketAddr,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl UdpService {
    /// Listens on `address`; what `answer` makes of a datagram goes back to its sender.
    fn start<A>(name: &str, address: SocketAddr, mut answer: A) -> Result<Self>
    where
        A: for<'a> FnMut(&'a mut [u8]) -> Option<std::borrow::Cow<'a, [u8]>> + Send + 'static,
    {
        let socket = UdpSocket::bind(address).context(|| format!("{name} on {address}"))?;
        socket.set_nonblocking(true).context(|| name.into())?;
        let address = socket.local_addr().context(|| name.into())?;
        let stop = Arc::new(Stop::new()?);
        let stopped = Arc::clone(&stop);
        let work = move || {
            let mut buffer = vec![0; PAYLOAD_BYTES_MAX + 1];
            while !stopped.is_asked() {
                use std::os::fd::AsFd;
                if let Err(error) = wait_readable(&[socket.as_fd(), stopped.fd()], None) {
                    tracing::warn!(%error, "a UDP server ends");
                    return;
                }
                for _ in 0..BATCH {
                    let Ok((len, peer)) = socket.recv_from(&mut buffer) else {
                        break;
                    };
                    if let Some(reply) = answer(&mut buffer[..len]) {
                        // A reply that cannot be sent is one that was lost, which is what the asker is there to see.
                        let _lost = socket.send_to(&reply, peer);
                    }
                }
            }
        };
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(work)
            .context(|| name.into())?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for UdpService {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
