//! A client: [`quell::Client`] and its builder.

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quell::{Client, ClientBuilder, Config, Device, Events, Network};

use crate::error::TunnelError;
use crate::event::TunnelEvent;
use crate::hooks::{Holder, TunnelHooks, protecting};
use crate::packets::Packets;

/// What a tunnel is started with.
#[derive(Debug, Clone, uniffi::Record)]
pub struct TunnelOptions {
    /// The configuration, as a client's file has it; `private_key_file` may be left out.
    pub config: String,
    /// The secret key, in text form; empty where the configuration names its file, or a key holder signs.
    pub secret_key: String,
    /// The memory that it is to live with, in bytes; none: as the configuration says.
    pub memory_bytes_max: Option<u64>,
}

/// A running client.
#[derive(uniffi::Object)]
pub struct Tunnel {
    client: Client,
    events: Mutex<Events>,
}

#[uniffi::export]
impl Tunnel {
    /// Starts a tunnel whose packets are `packets`'; without, the TUN or the proxy of the configuration.
    ///
    /// # Errors
    /// An argument is not allowed, `packets` belongs to another tunnel, or the system refuses.
    #[uniffi::constructor]
    pub fn start(
        options: TunnelOptions,
        packets: Option<Arc<Packets>>,
        hooks: TunnelHooks,
    ) -> Result<Arc<Self>, TunnelError> {
        let mut builder = builder(options, hooks)?;
        if let Some(packets) = packets {
            let device = packets.take_device();
            let taken = || TunnelError::invalid("packets belong to another tunnel: make new ones");
            builder = builder.device(device.ok_or_else(taken)?);
        }
        Self::run(builder)
    }

    /// Starts a tunnel over a TUN file that the system opened, such as what Android's `establish()` gives after
    /// `detachFd()`. The file is the tunnel's from here on, also when this fails, and closed at its end.
    ///
    /// # Errors
    /// An argument is not allowed, or the system refuses.
    #[uniffi::constructor]
    pub fn start_with_fd(
        options: TunnelOptions,
        fd: i32,
        hooks: TunnelHooks,
    ) -> Result<Arc<Self>, TunnelError> {
        if fd < 0 {
            return Err(TunnelError::invalid(format!("{fd} is no open file")));
        }
        #[allow(unsafe_code)]
        // SAFETY: the caller gives the file up by calling this, which is the contract above.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let device = Device::from_fd(file).map_err(TunnelError::failed)?;
        Self::run(builder(options, hooks)?.device(device))
    }

    /// The next event, waiting for it so many milliseconds at most; none: nothing came, or nothing will after
    /// [`TunnelEvent::Down`]. One reader at a time.
    pub fn next_event(&self, limit_ms: u32) -> Option<TunnelEvent> {
        let limit = Duration::from_millis(limit_ms.into());
        let event = self.events.lock().next_within(limit)?;
        Some(TunnelEvent::of(event, Instant::now()))
    }

    /// Events that were lost because nobody read them in time.
    pub fn missed_events(&self) -> u64 {
        self.events.lock().missed()
    }

    /// Everything it is doing, as JSON: what `quell status --json` has of a client.
    ///
    /// # Errors
    /// It has stopped, or did not answer in time.
    pub fn status_json(&self, limit_ms: u32) -> Result<String, TunnelError> {
        let limit = Duration::from_millis(limit_ms.into());
        let report = self.client.status_within(limit);
        let report = report.map_err(|error| TunnelError::Gone(error.to_string()))?;
        serde_json::to_string(&report).map_err(TunnelError::failed)
    }

    /// The network beneath is another, or what the system knows of it is: see [`Client::network_changed`].
    pub fn network_changed(&self, validated: bool, metered: bool) {
        self.client.network_changed(Network { validated, metered });
    }

    /// The system may stop the process at any moment: see [`Client::suspended`].
    pub fn suspended(&self) {
        self.client.suspended();
    }

    /// It will not: see [`Client::resumed`].
    pub fn resumed(&self) {
        self.client.resumed();
    }

    /// Begins or ends the person's pause: see [`Client::hold`].
    pub fn hold(&self, held: bool) {
        self.client.hold(held);
    }

    /// Lets the exit of this public key carry new flows whenever it can; none: whichever is best.
    ///
    /// # Errors
    /// The text is no public key.
    pub fn select(&self, exit: Option<String>) -> Result<(), TunnelError> {
        let key = exit.map(|text| text.parse()).transpose();
        self.client.select(key.map_err(TunnelError::invalid)?);
        Ok(())
    }

    /// A call of the program's own to its control plane succeeded or failed: see [`Client::note_backend_failure`].
    pub fn note_backend(&self, succeeded: bool) {
        if succeeded {
            self.client.note_backend_success();
        } else {
            self.client.note_backend_failure();
        }
    }

    /// Ends it, waiting so many milliseconds at most.
    ///
    /// # Errors
    /// Why it had ended before, or that it did not in time.
    pub fn shutdown(&self, limit_ms: u32) -> Result<(), TunnelError> {
        Ok(self
            .client
            .shutdown(Duration::from_millis(limit_ms.into()))?)
    }
}

impl Tunnel {
    fn run(builder: ClientBuilder) -> Result<Arc<Self>, TunnelError> {
        let client = builder.start()?;
        let events = Mutex::new(client.events());
        Ok(Arc::new(Self { client, events }))
    }
}

fn builder(options: TunnelOptions, hooks: TunnelHooks) -> Result<ClientBuilder, TunnelError> {
    let config = Config::from_text(&options.config).map_err(TunnelError::invalid)?;
    let mut builder = Client::builder().config(config);
    if !options.secret_key.is_empty() {
        let key = options.secret_key.parse();
        builder = builder.key(key.map_err(TunnelError::invalid)?);
    }
    if let Some(bytes) = options.memory_bytes_max {
        builder = builder.memory_max(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(protector) = hooks.protector {
        builder = builder.protect(protecting(protector));
    }
    if let Some(holder) = hooks.key_holder {
        builder = builder.signer(Arc::new(Holder::try_new(holder)?));
    }
    Ok(builder)
}
