//! The ways to a client's providers: dials and connections, and what happens on them.
//!
//! Each dial finds its provider anew and leaves through a socket of its own. Which way
//! is to be dialled, and when, is the core's word.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::future::{LocalBoxFuture, select_all};
use quell_core::multi::{Client, ExitId, Loss};
use quell_underlay::Underlay;
use tracing::debug;

use super::client::Server;
use super::link::{Link, LinkEvent};
use crate::identity::Identity;
use crate::quic::{self, Endpoint};
use crate::socket::SocketWatch;
use crate::transport::TransportSettings;
use crate::words;

pub(super) type Dialled = Result<Connected, Loss>;

/// A connection that stands.
pub(super) struct Connected {
    pub(super) link: Link,
    pub(super) endpoint: Endpoint,
    pub(super) remote: SocketAddr,
}

/// What there is with a provider at the moment.
pub(super) enum Connection {
    Idle,
    Dialling(LocalBoxFuture<'static, Dialled>),
    Up(Connected),
}

/// The way to one provider.
pub(super) struct Way {
    pub(super) exit: ExitId,
    pub(super) attempt: u64,
    pub(super) connection: Connection,
    pub(super) datagrams: Vec<Bytes>,
    /// Something was handed to QUIC and has not been let go yet.
    pub(super) has_sent: bool,
    /// Where the provider was found last.
    pub(super) address: Option<SocketAddr>,
}

impl Way {
    pub(super) fn new(exit: ExitId) -> Self {
        Self {
            exit,
            attempt: 0,
            connection: Connection::Idle,
            datagrams: Vec::new(),
            has_sent: false,
            address: None,
        }
    }

    fn is_idle(&self) -> bool {
        matches!(self.connection, Connection::Idle)
    }

    async fn event(&mut self, departures: bool) -> (ExitId, WayEvent) {
        let event = match &mut self.connection {
            Connection::Idle => std::future::pending().await,
            Connection::Dialling(dial) => WayEvent::Dialled(dial.await),
            Connection::Up(connected) => {
                WayEvent::Link(connected.link.event(&mut self.datagrams, departures).await)
            }
        };
        (self.exit, event)
    }

    pub(super) fn link(&self) -> Option<&Link> {
        match &self.connection {
            Connection::Up(connected) => Some(&connected.link),
            Connection::Idle | Connection::Dialling(_) => None,
        }
    }
}

/// The next event of any way. `turn` says whose is looked at first: one that always has
/// something would else be the only one that is heard.
pub(super) async fn next_event(ways: &mut [Way], core: &Client, turn: usize) -> (ExitId, WayEvent) {
    let mut busy: Vec<_> = ways.iter_mut().filter(|way| !way.is_idle()).collect();
    match busy.len() {
        0 => std::future::pending().await,
        1 => {
            let way = busy.swap_remove(0);
            let departures = core.awaits_departure(way.exit);
            way.event(departures).await
        }
        count => {
            busy.rotate_left(turn % count);
            let events = busy.into_iter().map(|way| {
                let departures = core.awaits_departure(way.exit);
                Box::pin(way.event(departures))
            });
            select_all(events).await.0
        }
    }
}

/// What happened on one way.
pub(super) enum WayEvent {
    Dialled(Dialled),
    Link(LinkEvent),
}

/// What every dial needs.
pub(super) struct Caller {
    pub(super) identity: Identity,
    pub(super) transport: TransportSettings,
    pub(super) watch: SocketWatch,
    pub(super) underlay: Underlay,
}

/// Finds the provider, connects, and opens the control stream.
pub(super) async fn dial(caller: Caller, server: Server, attempt: u64) -> Dialled {
    let Caller {
        identity,
        transport,
        watch,
        underlay,
    } = caller;
    let look_up = |remote| look_up(&underlay, remote);
    let remote = resolve(&server.remote, attempt, look_up).await?;
    let books = watch.clone();
    let begun = quic::connect(&identity, remote, server.key, &transport, books, &underlay);
    let (endpoint, connection) = begun.map_err(|error| error.to_string())?;
    let connected = connection.connected().await;
    connected.map_err(|error| words::failure(&error))?;
    let control = connection
        .open_bi()
        .await
        .map_err(|error| words::failure(&error))?;
    debug!(%remote, "connected");
    Ok(Connected {
        link: Link::new(connection, control, watch),
        endpoint,
        remote,
    })
}

/// The address to dial. Names are resolved anew for each dial by `look_up`, and one
/// with several addresses is tried address by address (case B72).
async fn resolve<F>(
    remote: &str,
    attempt: u64,
    look_up: impl FnOnce(String) -> F,
) -> Result<SocketAddr, String>
where
    F: Future<Output = io::Result<Vec<SocketAddr>>>,
{
    let found = look_up(remote.to_owned()).await;
    let found = found.map_err(|error| format!("cannot find {remote}: {error}"))?;
    turn(found, attempt).ok_or_else(|| format!("{remote} has no address"))
}

/// Asks for `host:port`, by the underlay's way.
async fn look_up(underlay: &Underlay, remote: String) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = remote.parse() {
        return Ok(vec![address]);
    }
    let parts = remote.rsplit_once(':');
    let (host, port) = parts.ok_or(io::ErrorKind::InvalidInput)?;
    let port = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    underlay.resolve(host, port).await
}

/// The address whose turn it is. A resolver may turn its answer by one for each
/// question, which would undo our own turning: so the order is ours, after the
/// family that the system prefers.
fn turn(mut found: Vec<SocketAddr>, attempt: u64) -> Option<SocketAddr> {
    let preferred = found.first()?.is_ipv4();
    found.sort_unstable_by_key(|address| (address.is_ipv4() != preferred, *address));
    found.dedup();
    let turn = attempt.saturating_sub(1) % found.len() as u64;
    found.get(usize::try_from(turn).ok()?).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Whom dials meet, by what the resolver answers each.
    async fn dialled(answers: &[&[&str]]) -> Vec<String> {
        let mut dialled = Vec::new();
        for (attempt, answer) in (1..).zip(answers) {
            let look_up = async |name| {
                assert_eq!(name, "provider.test:1");
                Ok(addresses(answer))
            };
            let address = resolve("provider.test:1", attempt, look_up).await;
            let address = address.map(|address| address.to_string());
            dialled.push(address.unwrap_or_else(|words| words));
        }
        dialled
    }

    #[tokio::test]
    async fn each_dial_asks_anew_and_goes_to_the_next_address() {
        // case B72
        const ONE: &str = "192.0.2.1:1";
        const TWO: &str = "192.0.2.2:1";
        const SIX: &str = "[2001:db8::1]:1";
        assert_eq!(dialled(&[&[ONE], &[TWO]]).await, [ONE, TWO]);
        assert_eq!(dialled(&[&[ONE, TWO], &[ONE, TWO]]).await, [ONE, TWO]);
        // The resolver turns its answer as we turn ours.
        assert_eq!(dialled(&[&[ONE, TWO], &[TWO, ONE]]).await, [ONE, TWO]);
        // The family that the system prefers has the first turn.
        let both: &[_] = &[SIX, ONE, SIX];
        assert_eq!(dialled(&[both, both, both]).await, [SIX, ONE, SIX]);
        let none = "provider.test:1 has no address";
        assert_eq!(dialled(&[&[ONE], &[], &[TWO]]).await, [ONE, none, TWO]);
    }
}
