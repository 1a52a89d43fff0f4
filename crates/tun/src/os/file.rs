//! The plain TUN file: one bare IP packet a system call. With `offload` it has the only `unsafe` of the
//! data path.
//!
//! The file is non-blocking, so a call never waits; [`wait`](RawDevice::wait) polls it together with the stop signal. The
//! poll's answer is only "try again": whatever state the device is in, the next read or write tells it by its errno, and
//! that is what `classify` knows about. `POLLNVAL` alone is answered at once, since no later call on such a file is safe
//! to make.

#![allow(unsafe_code)]

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::classify::END_OF_FILE;
use crate::device::PACKET_BYTES_MAX;
use crate::raw::{Interest, RawDevice, Wakeup};
use crate::stop::StopHandle;

/// The open file of a device, which its halves share. The offload mask of a persistent device outlives its file: what was
/// switched on is switched off before the file is closed, so that the next user finds the device as it is made.
#[derive(Debug)]
pub(super) struct SharedFile {
    pub(super) fd: OwnedFd,
    pub(super) has_offloads: bool,
}

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if self.has_offloads {
            // A device that is gone has no mask.
            let _ = clear_offloads(self.fd.as_fd());
        }
    }
}

/// A TUN file and the stop signal of its device.
#[derive(Debug)]
pub(super) struct TunFile {
    file: Arc<SharedFile>,
    stop: StopHandle,
}

impl TunFile {
    pub(super) fn new(file: Arc<SharedFile>, stop: StopHandle) -> Self {
        Self { file, stop }
    }
}

impl AsFd for TunFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl RawDevice for TunFile {
    fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, i32> {
        buffer.reserve(PACKET_BYTES_MAX);
        let length = buffer.len();
        let spare = buffer.spare_capacity_mut();
        // SAFETY: `spare` is writable memory of `spare.len()` bytes, exclusively borrowed during the call; the kernel
        // writes at most that many bytes and reads none.
        let read = unsafe {
            libc::read(
                self.file.fd.as_raw_fd(),
                spare.as_mut_ptr().cast(),
                spare.len(),
            )
        };
        let read = match usize::try_from(read) {
            Ok(0) => return Err(END_OF_FILE),
            Ok(read) => read,
            Err(_) => return Err(Errno::last_raw()),
        };
        // SAFETY: the kernel has written the first `read` bytes of the spare capacity, and `read` is at most its length.
        unsafe { buffer.set_len(length + read) };
        Ok(read)
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), i32> {
        match nix::unistd::write(self.file.as_fd(), packet) {
            Ok(0) => Err(END_OF_FILE),
            // A TUN device takes a packet whole or not at all.
            Ok(_) => Ok(()),
            Err(errno) => Err(errno as i32),
        }
    }

    fn write_parts(&mut self, _parts: &[IoSlice<'_>]) -> Result<(), i32> {
        Err(libc::EINVAL)
    }

    fn wait(&mut self, interest: Interest, limit: Option<Duration>) -> Result<Wakeup, i32> {
        let Some(stop) = self.stop.event() else {
            return Err(libc::EBADF);
        };
        let (flags, count) = match interest {
            Interest::Readable => (PollFlags::POLLIN, 2),
            Interest::Writable => (PollFlags::POLLOUT, 2),
            Interest::Pause => (PollFlags::empty(), 1),
        };
        let mut files = [
            PollFd::new(stop, PollFlags::POLLIN),
            PollFd::new(self.file.as_fd(), flags),
        ];
        let files = &mut files[..count];
        if poll(files, timeout(limit)).map_err(|errno| errno as i32)? == 0 {
            return Ok(Wakeup::TimedOut);
        }
        if self.stop.is_stopped() {
            return Ok(Wakeup::Stopped);
        }
        let invalid = |file: &PollFd<'_>| {
            file.revents()
                .is_some_and(|flags| flags.contains(PollFlags::POLLNVAL))
        };
        if files.iter().any(invalid) {
            return Err(libc::EBADF);
        }
        Ok(Wakeup::Ready)
    }
}

/// Rounded up to whole milliseconds, so that a pause is never no pause; too long a time is the longest that poll knows.
fn timeout(limit: Option<Duration>) -> PollTimeout {
    limit.map_or(PollTimeout::NONE, |limit| {
        let ms = limit.as_micros().div_ceil(1_000);
        PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
    })
}

/// `TUNSETOFFLOAD` with no offload.
pub(super) fn clear_offloads(file: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: the ioctl takes a plain number and touches no memory of ours.
    unsafe { ioctl::tun_set_offload(file.as_raw_fd(), 0) }.map(drop)
}

/// Whether the interface stays when its last file is closed.
pub(super) fn is_persistent(file: BorrowedFd<'_>) -> nix::Result<bool> {
    let mut request = IfReq {
        name: [0; 16],
        flags: 0,
        rest: [0; 22],
    };
    // SAFETY: `request` has the size and layout of the kernel's `struct ifreq` (40 bytes, name first, flags after it), is
    // exclusively borrowed during the call, and every bit pattern that the kernel may write is valid for its fields.
    unsafe { ioctl::tun_get_iff(file.as_raw_fd(), (&raw mut request).cast()) }?;
    Ok(i32::from(request.flags) & libc::IFF_PERSIST != 0)
}

/// The kernel's `struct ifreq`, as far as `TUNGETIFF` fills it.
#[repr(C, align(8))]
struct IfReq {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<IfReq>() == size_of::<libc::ifreq>());

/// The numbers of `linux/if_tun.h`.
mod ioctl {
    nix::ioctl_write_int!(tun_set_offload, b'T', 208);
    nix::ioctl_read!(tun_get_iff, b'T', 210, nix::libc::c_uint);
}
