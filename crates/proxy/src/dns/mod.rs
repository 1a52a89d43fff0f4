//! Names to addresses, asked for through the tunnel.
//!
//! The host's resolver is never asked: it would tell the local network, in clear, where the application goes. Questions are
//! datagrams of our own to the servers of the configuration, from a random port with a random number; what answers must
//! come from the server that was asked and repeat both and the question (RFC 5452 §9.1). An answer cut short is asked for
//! again over TCP. Each try goes to the next server.
//!
//! | module | its job |
//! |---|---|
//! | [`quell_underlay::dns`] | a question to bytes, bytes to an answer |
//! | `ask` | one question to one server, over UDP, and over TCP |
//! | `cache` | answers for as long as they say |
//!
//! Only families that the tunnel carries are asked for, both at once.

mod ask;
mod cache;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use crate::books::{Event, Refusal};
use crate::common::Common;
use crate::tunnel::Tunnel;
use cache::Cache;
use quell_underlay::dns::{Answer, Family, Question};

/// The servers, and what they said.
pub(crate) struct Names {
    servers: Vec<SocketAddr>,
    cache: RefCell<Cache>,
}

impl Names {
    pub(crate) fn new(servers: Vec<SocketAddr>, cache_max: usize) -> Self {
        Self {
            servers,
            cache: RefCell::new(Cache::new(cache_max)),
        }
    }
}

/// The addresses of a name, at least one, through a tunnel that is up.
///
/// # Errors
/// [`Refusal::NameNotFound`] when there are none, or it is no name; [`Refusal::NameUnanswered`] when no server said so.
pub(crate) async fn resolve(common: &Rc<Common>, name: &str) -> Result<Vec<IpAddr>, Refusal> {
    let tunnel = *common.tunnel.borrow();
    let (v4, v6) = tokio::join!(
        addresses(common, &tunnel, name, Family::V4),
        addresses(common, &tunnel, name, Family::V6),
    );
    match (v4, v6) {
        (Ok(mut v4), Ok(v6)) => {
            v4.extend(v6);
            if v4.is_empty() {
                return Err(Refusal::NameNotFound);
            }
            Ok(v4)
        }
        // One family's answer will do.
        (Ok(some), Err(_)) | (Err(_), Ok(some)) if !some.is_empty() => Ok(some),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

const fn carries(tunnel: &Tunnel, family: Family) -> bool {
    match family {
        Family::V4 => tunnel.ipv4.is_some(),
        Family::V6 => tunnel.ipv6.is_some(),
    }
}

async fn addresses(
    common: &Rc<Common>,
    tunnel: &Tunnel,
    name: &str,
    family: Family,
) -> Result<Vec<IpAddr>, Refusal> {
    if !carries(tunnel, family) {
        return Ok(Vec::new());
    }
    let question = Question::new(name, family).ok_or(Refusal::NameNotFound)?;
    let now = Instant::now();
    if let Some(known) = common.names.cache.borrow_mut().recall(&question, now) {
        common.books.note(Event::NameRemembered);
        return Ok(known);
    }
    let of_tunnel = |server: &&SocketAddr| tunnel.own(server.ip()).is_ok();
    let servers = common.names.servers.iter().filter(of_tunnel);
    let servers = servers.cycle().take(common.limits.dns_tries);
    for server in servers {
        common.books.note(Event::NameAsked);
        let asked = ask::ask(common, *server, &question);
        match tokio::time::timeout(common.limits.dns_timeout, asked).await {
            Ok(Some(Answer::Addresses(addresses, ttl))) => {
                let until = Instant::now() + ttl;
                let mut cache = common.names.cache.borrow_mut();
                cache.keep(question, addresses.clone(), until);
                return Ok(addresses);
            }
            Ok(Some(Answer::NoSuchName)) => return Err(Refusal::NameNotFound),
            Ok(Some(Answer::Truncated | Answer::ServerFailed) | None) | Err(_) => {}
        }
    }
    Err(Refusal::NameUnanswered)
}
