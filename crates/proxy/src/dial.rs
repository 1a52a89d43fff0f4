//! From a destination as an application writes it to a flow that stands.
//!
//! ```text
//! wait for the session ─> name to addresses ─> the preferred one, and 250 ms later the next, too ─> the first that stands
//! ```
//!
//! A name with addresses of both families is tried over both, IPv6 first, in turns (RFC 8305, without its history): a
//! failure starts the next at once, silence after a head start. At most [`ATTEMPTS_MAX`] addresses of a name are tried;
//! those that are no single host's are passed over.
//! What is reported is the failure that says most: a refusal is news of the destination, silence is not.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use quell_packet::addr;

use crate::books::Refusal;
use crate::common::Common;
use crate::dns;
use crate::flows::{self, Open};

/// Most addresses of a name that are tried.
const ATTEMPTS_MAX: usize = 4;

/// Where an application wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An address.
    Address(SocketAddr),
    /// A name, and a port.
    Name(String, u16),
}

impl Target {
    /// Of a host as people write it: an address, with or without brackets, or a name.
    pub(crate) fn of(host: &str, port: u16) -> Self {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host).parse::<IpAddr>() {
            Ok(address) => Self::Address(SocketAddr::new(address, port)),
            Err(_) => Self::Name(host.to_owned(), port),
        }
    }
}

/// Opens a flow to `target`. Dropped before, it leaves nothing behind.
///
/// # Errors
/// Why there is none.
pub(crate) async fn dial(common: &Rc<Common>, target: &Target) -> Result<Open, Refusal> {
    common.session().await?;
    let (addresses, port) = match target {
        Target::Address(address) => (vec![address.ip()], address.port()),
        Target::Name(name, port) => (dns::resolve(common, name).await?, *port),
    };
    let all = in_turns(&addresses).map(|address| checked(SocketAddr::new(address, port)));
    let remotes: Vec<_> = all.filter_map(Result::ok).take(ATTEMPTS_MAX).collect();
    if remotes.is_empty() {
        return Err(Refusal::BadDestination);
    }
    race(common, remotes).await
}

/// A destination that can be one.
///
/// # Errors
/// [`Refusal::BadDestination`].
pub(crate) fn checked(remote: SocketAddr) -> Result<SocketAddr, Refusal> {
    // What is IPv4 in the clothes of IPv6 goes as IPv4.
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    if remote.port() == 0 || !addr::is_host(remote.ip()) {
        return Err(Refusal::BadDestination);
    }
    Ok(remote)
}

/// The addresses of both families in turns, IPv6 first.
fn in_turns(addresses: &[IpAddr]) -> impl Iterator<Item = IpAddr> {
    let of = |is_v6: bool| {
        let family = addresses.iter().copied();
        family.filter(move |address| address.is_ipv6() == is_v6)
    };
    let (mut v6, mut v4) = (of(true), of(false));
    let mut turn = false;
    std::iter::from_fn(move || {
        turn = !turn;
        let next = if turn { v6.next() } else { v4.next() };
        next.or_else(|| if turn { v4.next() } else { v6.next() })
    })
}

async fn race(common: &Rc<Common>, remotes: Vec<SocketAddr>) -> Result<Open, Refusal> {
    let mut rest = remotes.into_iter();
    let mut running = FuturesUnordered::new();
    let mut worst: Option<Refusal> = None;
    loop {
        if let Some(remote) = rest.next() {
            running.push(flows::open(common, remote));
        }
        if running.is_empty() {
            return Err(worst.unwrap_or(Refusal::NameNotFound));
        }
        let is_last = rest.len() == 0;
        tokio::select! {
            opened = running.next() => match opened {
                Some(Ok(open)) => return Ok(open),
                Some(Err(why)) => worst = Some(telling(worst, why)),
                None => {}
            },
            () = tokio::time::sleep(common.limits.connect_head_start), if !is_last => {}
        }
    }
}

/// Of two failures, the one that says more.
fn telling(before: Option<Refusal>, now: Refusal) -> Refusal {
    let says_little = |why| matches!(why, Refusal::NoRoute | Refusal::TimedOut);
    match before {
        Some(before) if says_little(now) && !says_little(before) => before,
        Some(_) | None => now,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn families_take_turns() {
        let all = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let given = all(&["1.0.0.1", "1.0.0.2", "1.0.0.3", "::1", "::2"]);
        let turns: Vec<_> = in_turns(&given).collect();
        assert_eq!(turns, all(&["::1", "1.0.0.1", "::2", "1.0.0.2", "1.0.0.3"]));
        let only = all(&["1.0.0.1", "1.0.0.2"]);
        assert_eq!(in_turns(&only).collect::<Vec<_>>(), only);
    }

    #[test]
    fn a_host_is_an_address_or_a_name() {
        let address = |text: &str| Target::Address(text.parse().unwrap());
        assert_eq!(Target::of("192.0.2.1", 80), address("192.0.2.1:80"));
        assert_eq!(Target::of("[2001:db8::1]", 80), address("[2001:db8::1]:80"));
        assert_eq!(Target::of("2001:db8::1", 80), address("[2001:db8::1]:80"));
        let name = Target::Name("[a]".into(), 80);
        assert_eq!(Target::of("[a]", 80), name);
    }

    #[test]
    fn who_cannot_be_spoken_to_is_refused() {
        let refused = |text: &str| checked(text.parse().unwrap()).is_err();
        for text in [
            "192.0.2.1:0",
            "224.0.0.1:80",
            "0.0.0.0:80",
            "[::]:80",
            "[ff02::1]:80",
        ] {
            assert!(refused(text), "{text}");
        }
        assert_eq!(
            checked("[::ffff:192.0.2.1]:80".parse().unwrap()),
            Ok("192.0.2.1:80".parse().unwrap())
        );
    }

    #[test]
    fn a_refusal_says_more_than_silence() {
        use Refusal::{NoRoute, Refused, TimedOut, Unreachable};
        assert_eq!(telling(None, NoRoute), NoRoute);
        assert_eq!(telling(Some(Refused), TimedOut), Refused);
        assert_eq!(telling(Some(NoRoute), Refused), Refused);
        assert_eq!(telling(Some(Refused), Unreachable), Unreachable);
    }
}
