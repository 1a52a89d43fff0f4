//! Who may be spoken to: the question that is asked before a host socket is opened or used.
//!
//! The rules themselves are not here. A provider's rules (DESIGN §8: private ranges, metadata services, per-client
//! rates) are decided in the core for both of its egresses; this egress asks, and answers the client for whoever
//! denied: with a reset where the flow is TCP, and "administratively prohibited" where it is anything else.
//!
//! Asked once for each TCP flow, and for each remote of an association when it is first spoken to. What was allowed
//! stays allowed for as long as the flow or the remote is remembered.

use std::net::{IpAddr, SocketAddr};

/// What a flow is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP or ICMPv6 echo; the destination's port is 0.
    Echo,
}

/// The question: may this client speak to this destination?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The client, by its address inside the tunnel.
    pub client: IpAddr,
    /// Whom it wants to speak to.
    pub destination: SocketAddr,
    /// How.
    pub protocol: Protocol,
}

/// The answer "no".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied;

/// The rules.
pub trait Policy: Send {
    /// Whether the destination may be spoken to. Must not block: it is asked on the packet path.
    ///
    /// # Errors
    /// [`Denied`], which the client is told.
    fn admit(&mut self, asked: &Asked) -> Result<(), Denied>;
}

impl<F> Policy for F
where
    F: FnMut(&Asked) -> Result<(), Denied> + Send,
{
    fn admit(&mut self, asked: &Asked) -> Result<(), Denied> {
        self(asked)
    }
}

/// Denies nothing: for tests, and for an engine that has judged every packet before it gets here.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn admit(&mut self, _: &Asked) -> Result<(), Denied> {
        Ok(())
    }
}
