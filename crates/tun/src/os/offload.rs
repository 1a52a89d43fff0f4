//! The TUN file with virtio-net headers: super-packets in and out.
//!
//! # Reading
//!
//! One `readv` puts the virtio header aside, the first [`NEAR_BYTES`] of the packet into the slab, where a packet of the
//! usual size stays, and the rest into the *far* buffer. So a plain packet is not copied. A super-packet is put together
//! in the far buffer (its first [`NEAR_BYTES`] are moved there), and each `read` takes one segment from it until it is
//! used up: its payload is copied once. No batch, slab or queue grows by it, whatever the number of segments (case B53).
//!
//! What makes no sense is dropped and counted, and `read` says 0 bytes: the reader lives.
//!
//! # Writing
//!
//! One `writev` a packet, behind a header of zeros, or one for a whole run behind the header that
//! [`MergedHeader`](quell_packet::offload::MergedHeader) wrote.

#![allow(unsafe_code)]

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::libc;
use quell_packet::offload::{Allowed, Gso, Split, VirtioHeader, split, virtio};
use quell_packet::{PacketError, ipv6};

use super::file::TunFile;
use crate::classify::END_OF_FILE;
use crate::device::PACKET_BYTES_MAX;
use crate::offload::Offload;
use crate::raw::{Interest, RawDevice, Wakeup};

/// What of a packet is read into the slab: more than the usual MTUs, and little to move from the front of a super-packet.
const NEAR_BYTES: usize = 2_048;

/// The longest packet that can be described: an IPv6 packet's length leaves its header out.
const FAR_BYTES: usize = PACKET_BYTES_MAX + ipv6::HEADER_BYTES;

/// A TUN file whose packets have virtio-net headers.
#[derive(Debug)]
pub(super) struct OffloadFile {
    file: TunFile,
    offload: Offload,
    /// The super-packet that is being split, or the end of a long packet. Made at the first read: a half that only writes
    /// has none.
    far: Box<[u8]>,
    far_len: usize,
    split: Option<Split>,
}

impl OffloadFile {
    pub(super) fn new(file: TunFile, offload: Offload) -> Self {
        Self {
            file,
            offload,
            far: Box::default(),
            far_len: 0,
            split: None,
        }
    }

    /// Appends the next segment of the super-packet in the far buffer.
    fn next_segment(&mut self, buffer: &mut BytesMut) -> Option<usize> {
        let packet = self.far.get_mut(..self.far_len)?;
        let (header, payload) = self.split.as_mut()?.next(packet)?;
        buffer.extend_from_slice(header);
        buffer.extend_from_slice(payload);
        Some(header.len() + payload.len())
    }

    /// Reads one packet: its virtio header, and its length. Up to [`NEAR_BYTES`] of it are appended to `buffer`.
    fn read_parts(
        &mut self,
        buffer: &mut BytesMut,
    ) -> Result<([u8; virtio::HEADER_BYTES], usize), i32> {
        if self.far.is_empty() {
            self.far = vec![0; FAR_BYTES].into_boxed_slice();
        }
        let mut header = VirtioHeader::PLAIN;
        buffer.reserve(PACKET_BYTES_MAX);
        let before = buffer.len();
        let near = buffer.spare_capacity_mut();
        let near_len = near.len().min(NEAR_BYTES);
        let parts = [
            libc::iovec {
                iov_base: header.as_mut_ptr().cast(),
                iov_len: header.len(),
            },
            libc::iovec {
                iov_base: near.as_mut_ptr().cast(),
                iov_len: near_len,
            },
            libc::iovec {
                iov_base: self.far.as_mut_ptr().wrapping_add(near_len).cast(),
                iov_len: self.far.len().saturating_sub(near_len),
            },
        ];
        // SAFETY: the three parts are writable memory of the lengths given (of `far`, what is behind its first `near_len`
        // bytes, and `near_len` is below its length), exclusively borrowed during the call; the kernel writes at most
        // that many bytes and reads none.
        let read = unsafe {
            libc::readv(
                self.file.as_fd().as_raw_fd(),
                parts.as_ptr(),
                parts.len() as libc::c_int,
            )
        };
        let read = usize::try_from(read).map_err(|_| Errno::last_raw())?;
        if read == 0 {
            return Err(END_OF_FILE);
        }
        let length = read.saturating_sub(header.len());
        // SAFETY: the kernel has filled the parts from the front: of `near` the first `length` bytes or all `near_len`,
        // which is at most the spare capacity.
        unsafe { buffer.set_len(before + length.min(near_len)) };
        self.far_len = length;
        Ok((header, length))
    }

    /// Makes packets of what was read. On an error the buffer is as it was before the read, if the caller truncates it.
    fn take(
        &mut self,
        header: [u8; virtio::HEADER_BYTES],
        length: usize,
        buffer: &mut BytesMut,
        before: usize,
    ) -> Result<usize, PacketError> {
        let virtio = VirtioHeader::decode(&header)?;
        let near_len = buffer.len() - before;
        if virtio.gso != Gso::None {
            let near = buffer.get(before..).unwrap_or_default();
            let packet = self
                .far
                .get_mut(..length)
                .ok_or(PacketError::LengthMismatch)?;
            if let Some(front) = packet.get_mut(..near_len) {
                front.copy_from_slice(near);
            }
            let split = Split::new(&virtio, packet)?;
            buffer.truncate(before);
            self.offload.note_split(split.segments());
            self.split = Some(split);
            return self.next_segment(buffer).ok_or(PacketError::Empty);
        }
        match length {
            0 => return Err(PacketError::Empty),
            1..=PACKET_BYTES_MAX => {}
            _ => return Err(PacketError::LengthMismatch),
        }
        buffer.extend_from_slice(self.far.get(near_len..length).unwrap_or_default());
        split::complete(&virtio, buffer.get_mut(before..).unwrap_or_default())?;
        Ok(length)
    }
}

impl RawDevice for OffloadFile {
    fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, i32> {
        if let Some(bytes) = self.next_segment(buffer) {
            return Ok(bytes);
        }
        self.split = None;
        let before = buffer.len();
        let (header, length) = self.read_parts(buffer)?;
        let taken = self.take(header, length, buffer, before);
        Ok(taken.unwrap_or_else(|_| {
            self.offload.note_refused();
            buffer.truncate(before);
            0
        }))
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), i32> {
        self.write_parts(&[IoSlice::new(&VirtioHeader::PLAIN), IoSlice::new(packet)])
    }

    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> Result<(), i32> {
        match nix::sys::uio::writev(self.file.as_fd(), parts) {
            Ok(0) => Err(END_OF_FILE),
            // A TUN device takes a packet whole or not at all.
            Ok(_) => Ok(()),
            Err(errno) => Err(errno as i32),
        }
    }

    fn wait(&mut self, interest: Interest, limit: Option<Duration>) -> Result<Wakeup, i32> {
        self.file.wait(interest, limit)
    }
}

/// Asks the kernel for super-packets, and says what may be written. A kernel that takes none of it leaves the device as
/// it is: each packet then has a virtio header of zeros.
pub(super) fn switch_on(file: BorrowedFd<'_>, offload: &Offload) {
    let header_bytes: libc::c_int = virtio::HEADER_BYTES as libc::c_int;
    // SAFETY: the ioctl reads one `int`, which lives during the call.
    let sized = unsafe { ioctl::tun_set_vnet_hdr_sz(file.as_raw_fd(), &raw const header_bytes) };
    let set = |mask| {
        // SAFETY: the ioctl takes a plain number and touches no memory of ours.
        unsafe { ioctl::tun_set_offload(file.as_raw_fd(), mask) }.is_ok()
    };
    let tcp = sized.is_ok() && set(ioctl::TCP);
    let udp = tcp && set(ioctl::TCP | ioctl::UDP);
    offload.switch_on(tcp, Allowed { tcp, udp });
}

/// The numbers of `linux/if_tun.h`.
mod ioctl {
    use nix::libc::{c_int, c_ulong};

    /// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`, `TUN_F_TSO_ECN`.
    pub(super) const TCP: c_ulong = 0x01 | 0x02 | 0x04 | 0x08;
    /// `TUN_F_USO4`, `TUN_F_USO6` (Linux 6.2).
    pub(super) const UDP: c_ulong = 0x20 | 0x40;

    nix::ioctl_write_int!(tun_set_offload, b'T', 208);
    nix::ioctl_write_ptr!(tun_set_vnet_hdr_sz, b'T', 216, c_int);
}

#[cfg(test)]
mod tests;
