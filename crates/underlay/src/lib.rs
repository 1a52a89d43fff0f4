//! The way of quell's own packets. Where the whole machine's traffic goes through the tunnel, the tunnel itself must not.
//!
//! ```text
//! a user's packet ─────────> rule: not marked ─> table of the tunnel ─> TUN
//! quell's own, SO_MARK ────> rule: marked ─────> the host's routes ───> the network
//! ```
//!
//! An [`Underlay`] says how own sockets are made fit for that. By default it does nothing, and names are asked of the
//! system. With a mark, each socket has it before its first byte (SO_MARK, socket(7): needs CAP_NET_ADMIN), and names are
//! asked by sockets of our own, of the servers that the host had before the tunnel: the system's resolver asks unmarked,
//! so its questions would end in the tunnel that the answer is needed for (case B72).
//!
//! Who sets the mark installs the rules, and the other way round; neither is done here.

#![warn(missing_docs)]

#[cfg(feature = "http")]
mod connector;
pub mod dns;
mod resolve;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use socket2::Socket;

#[cfg(feature = "http")]
pub use connector::Connector;

/// Says which servers are asked for names, each time anew: the host may have moved to another network.
pub type Resolvers = Arc<dyn Fn() -> Vec<SocketAddr> + Send + Sync>;

/// How own sockets stay outside of the tunnel. Cheap to clone.
#[derive(Clone, Default)]
pub struct Underlay(Option<Marked>);

#[derive(Clone)]
struct Marked {
    mark: NonZeroU32,
    resolvers: Resolvers,
}

impl fmt::Debug for Underlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = self.0.as_ref().map(|marked| marked.mark);
        f.debug_struct("Underlay").field("mark", &mark).finish()
    }
}

impl Underlay {
    /// Sockets carry `mark`; names are asked of `resolvers`.
    #[must_use]
    pub fn marked(mark: NonZeroU32, resolvers: Resolvers) -> Self {
        Self(Some(Marked { mark, resolvers }))
    }

    /// Whether own sockets are as any other's.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.0.is_none()
    }

    /// Makes a socket fit, before its first byte.
    ///
    /// # Errors
    /// The system refused: without CAP_NET_ADMIN there is no mark.
    pub fn prepare(&self, socket: &Socket) -> io::Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(marked) => set_mark(socket, marked.mark),
        }
    }

    /// The addresses of `host`, which is a name or an address, with `port`.
    ///
    /// # Errors
    /// It has none, or nobody answers.
    pub async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Some(marked) = &self.0
            && host.parse::<std::net::IpAddr>().is_err()
        {
            let servers = (marked.resolvers)();
            let found = resolve::ask(self, &servers, host).await;
            if !found.is_empty() {
                return Ok(found.into_iter().map(|ip| (ip, port).into()).collect());
            }
        }
        // Names of the host's own files, and all names where nothing is marked.
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

#[cfg(target_os = "linux")]
fn set_mark(socket: &Socket, mark: NonZeroU32) -> io::Result<()> {
    socket.set_mark(mark.get())
}

#[cfg(not(target_os = "linux"))]
fn set_mark(_socket: &Socket, _mark: NonZeroU32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
