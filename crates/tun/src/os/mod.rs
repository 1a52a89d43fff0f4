//! The kernel's TUN device (Linux).
//!
//! The device is made by the crate `tun` without packet information; a virtio-net header is stripped and added here, so
//! what callers see is bare IP packets (case B55). It lives as long as its file: reader and writer share it, and when the last of
//! them is dropped, by a return, a panic or `kill -9`, the kernel removes the interface with its addresses and routes.
//!
//! # Names
//!
//! One name, one device: the kernel refuses a second attachment (`EBUSY`) and a name of another kind of interface
//! (`EINVAL`); both are [`TunError::NameInUse`]. A *persistent* TUN of that name without a user (made by an administrator
//! with `ip tuntap add`, or left behind by another program) is adopted: [`TunDevice::is_adopted`] says so, offloads that
//! its last user switched on are cleared, for they outlive a file, and it stays persistent, for quell did not make it.
//! The caller should then clear old addresses ([`Link::flush_addresses`](crate::link::Link::flush_addresses)).
//!
//! # Seams
//!
//! `file` is the plain device: one system call a packet. `offload` is the one with virtio-net headers, where a system
//! call moves up to 64 KiB; both implement the private trait `RawDevice`. [`TunDevice::from_fd`] takes a device that somebody else opened: a privileged helper, or a
//! mobile system's VPN service.

mod any;
mod file;
mod offload;
mod turns;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::net::if_::if_nametoindex;
use parking_lot::Mutex;

use crate::device::{
    MTU_MIN, PacketIn, PromptReader, QUIET_AFTER, ReadOutcome, TunReader, TunWriter, WriteReport,
};
use crate::error::TunError;
use crate::offload::{Offload, OffloadMode};
use crate::os::any::AnyFile;
use crate::os::file::{SharedFile, TunFile};
use crate::os::turns::{OsPrompt, Turns};
use crate::raw::fatal;
use crate::reader::Reader;
use crate::stop::StopHandle;
use crate::writer::Writer;

/// The longest interface name, in bytes: the kernel's `IFNAMSIZ` less its closing zero.
pub const NAME_BYTES_MAX: usize = 15;

/// What a TUN device is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunConfig {
    /// The interface's name, 1 to [`NAME_BYTES_MAX`] bytes. `None`: the kernel picks `tun0`, `tun1`, …
    pub name: Option<String>,
    /// The largest packet, in bytes, at least [`MTU_MIN`].
    pub mtu: u16,
    /// Whether the kernel's offloads are used; a kernel that has none makes a plain device either way.
    pub offload: OffloadMode,
}

impl Default for TunConfig {
    /// A name by the kernel, an MTU of [`MTU_MIN`], which every path carries, and what offloads there are.
    fn default() -> Self {
        Self {
            name: None,
            mtu: MTU_MIN,
            offload: OffloadMode::Auto,
        }
    }
}

/// A TUN device that is not being read or written yet.
#[derive(Debug)]
pub struct TunDevice {
    file: SharedFile,
    stop: StopHandle,
    name: String,
    index: u32,
    adopted: bool,
    /// Packets have a virtio-net header.
    has_headers: bool,
    offload: Offload,
    turns: Turns,
}

impl TunDevice {
    /// Creates the interface, down and without addresses (see [`crate::link`]), in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`TunError::InvalidName`], [`TunError::InvalidMtu`], [`TunError::NameInUse`], [`TunError::NotPermitted`],
    /// [`TunError::NoDriver`], else [`TunError::Create`]. On an error no interface stays behind.
    pub fn create(config: TunConfig) -> Result<Self, TunError> {
        let TunConfig { name, mtu, offload } = config;
        if let Some(name) = &name {
            check_name(name)?;
        }
        if mtu < MTU_MIN {
            return Err(TunError::InvalidMtu { mtu });
        }
        let name = name.as_deref();
        match offload {
            OffloadMode::Off => Self::open(name, mtu, false),
            // What is refused for another reason is refused again, with its reason.
            OffloadMode::Auto => {
                Self::open(name, mtu, true).or_else(|_| Self::open(name, mtu, false))
            }
        }
    }

    fn open(name: Option<&str>, mtu: u16, has_headers: bool) -> Result<Self, TunError> {
        let mut configuration = tun::Configuration::default();
        configuration.mtu(mtu).platform_config(|platform| {
            platform.vnet_hdr(has_headers);
        });
        if let Some(name) = name {
            configuration.tun_name(name);
        }
        let device = tun::create(&configuration).map_err(|error| explain(error, name))?;
        let made = tun::AbstractDevice::tun_name(&device).map_err(|error| explain(error, name))?;
        #[allow(unsafe_code)]
        // SAFETY: `into_raw_fd` gives up ownership of an open file, which nothing else owns.
        let file = unsafe { OwnedFd::from_raw_fd(device.into_raw_fd()) };
        let mut device = Self::from_fd(file, made)?;
        device.adopted = device.clear_inheritance()?;
        if has_headers {
            offload::switch_on(device.file.as_fd(), &device.offload);
            device.has_headers = true;
            device.file.has_offloads = device.offload.stats().reads_super;
        }
        Ok(device)
    }

    /// Takes a TUN file that somebody else opened, without packet information or virtio-net headers. `name` is its
    /// interface in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`TunError::NoSuchInterface`] when there is none of that name, [`TunError::Create`] when the file cannot be made
    /// non-blocking, or no file is left for the stop signal.
    pub fn from_fd(file: OwnedFd, name: String) -> Result<Self, TunError> {
        let index = if_nametoindex(name.as_str())
            .map_err(|_| TunError::NoSuchInterface { name: name.clone() })?;
        Ok(Self {
            name,
            index,
            ..Self::from_any_fd(file)?
        })
    }

    /// As [`TunDevice::from_fd`], of a file whose interface nobody needs to know: it has no name here, and the index 0.
    ///
    /// # Errors
    ///
    /// [`TunError::Create`], as above.
    pub fn from_any_fd(file: OwnedFd) -> Result<Self, TunError> {
        set_nonblocking(file.as_fd())
            .map_err(|errno| create_error("make the file non-blocking", errno))?;
        let stop = StopHandle::with_event()
            .map_err(|errno| create_error("make the stop signal", errno))?;
        let turns =
            Turns::new().map_err(|errno| create_error("make the readers' signal", errno))?;
        Ok(Self {
            file: SharedFile {
                fd: file,
                has_offloads: false,
            },
            stop,
            name: String::new(),
            index: 0,
            adopted: false,
            has_headers: false,
            offload: Offload::default(),
            turns,
        })
    }

    /// The interface's name at the time of creation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's index in its network namespace, which survives renaming.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Whether the device is an existing persistent one, which may have old addresses, and stays when this one is dropped.
    #[must_use]
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// The kernel's offloads that are on, and what they do; stays of use after the device was split, and dropped.
    #[must_use]
    pub fn offload(&self) -> Offload {
        self.offload.clone()
    }

    /// The halves for the two TUN threads, and what ends a blocked read. The device goes when both halves are dropped.
    #[must_use]
    pub fn split(self) -> (OsReader, OsWriter, StopHandle) {
        let Self {
            file,
            stop,
            has_headers,
            offload,
            turns,
            ..
        } = self;
        let file = Arc::new(file);
        let half = || {
            let file = TunFile::new(Arc::clone(&file), stop.clone());
            AnyFile::new(file, has_headers, &offload)
        };
        let reader = OsReader {
            inner: Arc::new(Mutex::new(Reader::new(half(), stop.clone()))),
            turns: Arc::new(turns),
            file: Arc::clone(&file),
            stop: stop.clone(),
        };
        let writer = OsWriter {
            inner: Writer::new(half(), offload.clone()),
            prompt: Some(Writer::prompt(half(), offload.clone())),
        };
        (reader, writer, stop)
    }

    /// Switches off what an earlier user of a persistent device left on. Returns whether the device is persistent.
    fn clear_inheritance(&self) -> Result<bool, TunError> {
        file::clear_offloads(self.file.as_fd())
            .map_err(|errno| create_error("clear offloads", errno))?;
        file::is_persistent(self.file.as_fd())
            .map_err(|errno| create_error("read its flags", errno))
    }
}

impl AsFd for TunDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads from the kernel's device.
#[derive(Debug)]
pub struct OsReader {
    inner: Arc<Mutex<Reader<AnyFile>>>,
    turns: Arc<Turns>,
    file: Arc<SharedFile>,
    stop: StopHandle,
}

impl TunReader for OsReader {
    fn read_batch(&mut self, batch: &mut Vec<PacketIn>) -> Result<ReadOutcome, TunError> {
        self.turns
            .await_thread(&self.stop)
            .map_err(|errno| fatal(errno, "its readers cannot take turns"))?;
        loop {
            let limit = (!self.turns.is_alone()).then_some(QUIET_AFTER);
            let outcome = self.inner.lock().read(batch, limit)?;
            if outcome != ReadOutcome::Quiet || self.turns.give_prompt() {
                return Ok(outcome);
            }
        }
    }

    fn prompt(&mut self) -> Option<Box<dyn PromptReader>> {
        let prompt = OsPrompt::join(&self.inner, &self.turns, &self.file)?;
        Some(Box::new(prompt))
    }
}

/// Writes to the kernel's device.
#[derive(Debug)]
pub struct OsWriter {
    inner: Writer<AnyFile>,
    /// Of the thread that has the packets.
    prompt: Option<Writer<AnyFile>>,
}

impl TunWriter for OsWriter {
    fn write_batch(&mut self, packets: &[Bytes]) -> Result<WriteReport, TunError> {
        self.inner.write_batch(packets)
    }

    fn prompt(&mut self) -> Option<Box<dyn TunWriter>> {
        let inner = self.prompt.take()?;
        Some(Box::new(Self {
            inner,
            prompt: None,
        }))
    }
}

/// The kernel's rules for names (`dev_valid_name`), and no `%`, which it would read as a pattern.
fn check_name(name: &str) -> Result<(), TunError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_BYTES_MAX {
        "it is longer than 15 bytes"
    } else if name == "." || name == ".." {
        "it is a directory's name"
    } else if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        "it holds white space or a control character"
    } else if name.contains(['/', ':', '%']) {
        "it holds one of / : %"
    } else {
        return Ok(());
    };
    Err(TunError::InvalidName {
        name: name.to_owned(),
        reason,
    })
}

fn set_nonblocking(file: BorrowedFd<'_>) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    fcntl(file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}

fn create_error(operation: &'static str, errno: Errno) -> TunError {
    TunError::Create {
        operation,
        source: errno.into(),
    }
}

/// Turns what the creation said into what a person can do about it.
fn explain(error: tun::Error, name: Option<&str>) -> TunError {
    use nix::libc::{EACCES, EBUSY, EINVAL, ENODEV, ENOENT, ENXIO, EPERM};

    let source = io::Error::from(error);
    let in_use = |holder| TunError::NameInUse {
        name: name.unwrap_or_default().to_owned(),
        holder,
    };
    match source.raw_os_error() {
        Some(EPERM | EACCES) => TunError::NotPermitted {
            operation: "create a TUN device",
        },
        Some(EBUSY) => in_use("a TUN device that a process is using"),
        Some(EINVAL) if name.is_some_and(|name| if_nametoindex(name).is_ok()) => {
            in_use("an interface of another kind")
        }
        Some(ENOENT | ENODEV | ENXIO) => TunError::NoDriver { source },
        Some(_) | None => TunError::Create {
            operation: "open and configure it",
            source,
        },
    }
}

#[cfg(test)]
mod tests;
