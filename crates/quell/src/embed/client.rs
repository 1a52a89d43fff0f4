//! A client of an embedder's, piece by piece.
//!
//! ```text
//! Client::builder().config(…)  what a person or a server decides: exits, limits
//!                  .key(…)     who this client is, if no file says it
//!                  .device(…)  where packets come from; else the TUN or the proxy of the configuration
//!                  .protect(…) sees each socket first
//!                  .backend(…) the control plane, if it is one's own
//!                  .start()?
//! ```
//!
//! With a device of one's own nothing of the host is touched: no address, no route, no DNS, no firewall, no file but those
//! in `state_dir` where a control plane has something to be kept.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use quell_backend::ask::Backend;
use quell_net::Protect;
use quell_net::engine::client::Device;
use quell_net::identity::Identity;
use quell_net::signer::Signer;
use quell_underlay::Underlay;
use quell_wire::key::SecretKey;

use super::key_of;
use crate::client::{Client, Parts};
use crate::config::{ClientFile, Config, RoleFile as _, refuse_own_key};
use crate::error::Error;
use crate::plane;

/// Gathers what a client is started with: see [`Client::builder`].
#[derive(Default)]
#[must_use]
pub struct ClientBuilder {
    config: Option<Config>,
    key: Option<SecretKey>,
    signer: Option<Arc<dyn Signer>>,
    device: Option<Device>,
    protect: Option<Protect>,
    backend: Option<Arc<dyn Backend>>,
    memory_bytes_max: Option<usize>,
    is_controlled: bool,
}

impl ClientBuilder {
    /// Its settings, from a text, a file or code. There are none by default.
    pub fn config(mut self, config: impl Into<Config>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Its private key, in the place of the file that the configuration names.
    pub fn key(mut self, key: SecretKey) -> Self {
        self.key = Some(key);
        self
    }

    /// A private key that is held elsewhere, such as in a keystore: it signs each handshake and is never seen. A control
    /// plane over HTTP signs each question with the key itself: with a signer it is to be a
    /// [`backend`](ClientBuilder::backend) of one's own.
    pub fn signer(mut self, signer: Arc<dyn Signer>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Where its packets come from and go to, in the place of the configuration's TUN or proxy. Addresses and MTU come as
    /// [`Event::Tunnel`](crate::Event::Tunnel); to give the device what they say is the embedder's.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }

    /// Shows each UDP socket towards a provider to `hook` before its first byte, such as for Android's
    /// `VpnService.protect`. An error ends that dial, and the next one asks again. Called on the engine's thread.
    ///
    /// Names are resolved by the system's resolver, and a control plane over HTTP is asked over the system's routes: both
    /// are not shown. An application that is itself outside of its tunnel needs nothing for them; another gives addresses
    /// and a [`Backend`] of its own.
    pub fn protect(
        mut self,
        hook: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.protect = Some(Protect::new(hook));
        self
    }

    /// A control plane of one's own, in the place of `backend.url`.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// The memory that all of it is to live with, in bytes, in the place of `budget.memory`: 16 MiB to 1 GiB.
    pub fn memory_max(mut self, bytes: usize) -> Self {
        self.memory_bytes_max = Some(bytes);
        self
    }

    /// Lets it answer on the control socket of the configuration, which `quell status` asks. By default there is none.
    pub fn control_socket(mut self) -> Self {
        self.is_controlled = true;
        self
    }

    /// Starts it, on a thread of its own; it dials at once.
    ///
    /// # Errors
    /// A piece is missing or not allowed ([`Error::NoConfig`], [`Error::NoKey`], [`Error::Config`],
    /// [`Error::SignerOverHttp`]), or the device, a
    /// listener, the control socket or what is kept is not to be had.
    pub fn start(self) -> Result<Client, Error> {
        let mut file = client_file(self.config)?;
        if self.memory_bytes_max.is_some() {
            file.budget.memory_bytes_max = self.memory_bytes_max;
        }
        let file = file.try_new()?;
        let (identity, key) = match self.signer {
            Some(signer) => (Identity::from_signer(signer)?, None),
            None => {
                let key = key_of(self.key, &file.private_key_file)?;
                (Identity::from_secret(&key)?, Some(key))
            }
        };
        refuse_own_key(identity.public_key(), &file.peers())?;
        let backend = match (self.backend, &file.backend.url, key) {
            (Some(backend), _, _) => Some(backend),
            (None, Some(url), Some(key)) => {
                let timeout = file.backend.attempt_timeout;
                Some(plane::over_http(url, key, timeout, Underlay::default())?)
            }
            (None, Some(_), None) => return Err(Error::SignerOverHttp),
            (None, None, _) => None,
        };
        let parts = Parts {
            identity,
            plane: backend,
            device: self.device,
            protect: self.protect,
            is_controlled: self.is_controlled,
            // Whoever embeds it leads the traffic, and keeps its sockets outside by `protect`.
            underlay: Underlay::default(),
            is_led: true,
        };
        Client::launch(&file, parts)
    }
}

fn client_file(config: Option<Config>) -> Result<ClientFile, Error> {
    match config.ok_or(Error::NoConfig)? {
        Config::Client(file) => Ok(*file),
        #[cfg(feature = "provider")]
        Config::Provider(_) => Err(Error::WrongRole {
            wanted: "client",
            found: "provider",
        }),
    }
}
