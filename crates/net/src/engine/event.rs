//! What a client's engine tells whoever embeds it.
//!
//! The core says what happened ([`quell_core::multi::Told`], its reasons there); here exits get their names, and what only
//! the driver knows is added: addresses and MTU of the device, how long contracts last, bytes of the socket. The teller is
//! called on the engine's thread, after a turn in which something happened, and must not wait.

use std::time::{Duration, Instant};

use quell_core::multi::{ExitId, Told, UsageMeter};
use quell_core::status::TunnelAddresses;

use super::client::DeviceState;

/// An exit as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitName {
    /// What it is called.
    pub name: String,
    /// Its public key, in text form.
    pub public_key: String,
}

/// What happened to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The tunnel's parameters: what the device is to be given. Before the first [`Event::Up`], and whenever they change.
    Tunnel {
        /// Addresses inside.
        addresses: TunnelAddresses,
        /// Largest packet that crosses whole, in bytes, 1,280 at least.
        mtu: u16,
    },
    /// Packets are carried.
    Up {
        /// Over whose session.
        exit: ExitName,
        /// How long they were not.
        after: Duration,
    },
    /// Packets are not carried, or not yet; told anew with each attempt that came to nothing, once a second at most.
    Stalled {
        /// Since when.
        since: Instant,
        /// When something is tried next; `None`: it is being tried.
        next_attempt: Option<Instant>,
        /// Why, in words.
        reason: String,
    },
    /// The control plane is degraded, or is no longer. Packets go on.
    Outage {
        /// It is.
        degraded: bool,
        /// How long what is in hand lasts without it at the recent rate; `None` where nothing is paid, which lasts for ever.
        contracts_last: Option<Duration>,
    },
    /// New flows go elsewhere: to another exit, or to the same over another connection.
    Moved {
        /// Where they went; `None`: the same exit.
        from: Option<ExitName>,
        /// Where they go.
        to: ExitName,
    },
    /// UDP payload on the network since the start, dials and all; told when there is more, once in 5 s at most.
    Usage {
        /// Bytes sent.
        bytes_out: u64,
        /// Bytes received.
        bytes_in: u64,
    },
    /// The embedder's pause began.
    Held,
    /// It ended, for good: nothing comes after this.
    Down {
        /// Why, in words.
        reason: String,
        /// It was told to.
        asked: bool,
    },
}

/// Takes what is told.
pub type Teller = Box<dyn FnMut(Event) + Send>;

/// What was told, beside what the core remembers of that.
pub(super) struct Telling {
    teller: Teller,
    device: DeviceState,
    usage: UsageMeter,
}

impl Telling {
    pub(super) fn new(teller: Teller) -> Self {
        Self {
            teller,
            device: DeviceState::default(),
            usage: UsageMeter::default(),
        }
    }

    pub(super) fn tell(&mut self, event: Event) {
        (self.teller)(event);
    }

    /// The device is to look like this.
    pub(super) fn look_at_device(&mut self, state: &DeviceState) {
        let same = (state.addresses, state.mtu) == (self.device.addresses, self.device.mtu);
        let Some(addresses) = state.addresses.filter(|_| !same && state.mtu > 0) else {
            return;
        };
        self.device.clone_from(state);
        let mtu = state.mtu;
        self.tell(Event::Tunnel { addresses, mtu });
    }

    /// So many bytes crossed the sockets so far.
    pub(super) fn look_at_usage(&mut self, bytes_out: u64, bytes_in: u64, now: Instant) {
        if self.usage.is_due(bytes_out, bytes_in, now) {
            self.tell(Event::Usage {
                bytes_out,
                bytes_in,
            });
        }
    }
}

/// The core's word with names in it.
pub(super) fn event_of(
    told: Told,
    reason: impl FnOnce() -> String,
    contracts_last: impl FnOnce() -> Option<Duration>,
    name: impl Fn(ExitId) -> ExitName,
) -> Event {
    match told {
        Told::Up { exit, after } => Event::Up {
            exit: name(exit),
            after,
        },
        Told::Stalled {
            since,
            next_attempt,
        } => Event::Stalled {
            since,
            next_attempt,
            reason: reason(),
        },
        Told::Moved { from, to } => Event::Moved {
            from: Some(name(from)),
            to: name(to),
        },
        Told::Rejoined { exit } => Event::Moved {
            from: None,
            to: name(exit),
        },
        Told::Held => Event::Held,
        Told::Outage { degraded } => Event::Outage {
            degraded,
            contracts_last: contracts_last(),
        },
    }
}
