//! A device of either form, plain or with virtio-net headers: the choice is made once, when the device is made.
//!
//! An enum, not a type parameter: [`OsReader`](super::OsReader) and [`OsWriter`](super::OsWriter) are one type each, so
//! that no caller has to know. The price is a branch a call, always the same.

use std::io::IoSlice;
use std::time::Duration;

use bytes::BytesMut;

use super::file::TunFile;
use super::offload::OffloadFile;
use crate::offload::Offload;
use crate::raw::{Interest, RawDevice, Wakeup};

/// One of the two.
#[derive(Debug)]
pub(super) enum AnyFile {
    /// Bare packets.
    Plain(TunFile),
    /// Packets behind virtio-net headers.
    Offload(OffloadFile),
}

impl AnyFile {
    pub(super) fn new(file: TunFile, has_headers: bool, offload: &Offload) -> Self {
        if has_headers {
            Self::Offload(OffloadFile::new(file, offload.clone()))
        } else {
            Self::Plain(file)
        }
    }
}

impl RawDevice for AnyFile {
    fn read(&mut self, buffer: &mut BytesMut) -> Result<usize, i32> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Offload(file) => file.read(buffer),
        }
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), i32> {
        match self {
            Self::Plain(file) => file.write(packet),
            Self::Offload(file) => file.write(packet),
        }
    }

    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> Result<(), i32> {
        match self {
            Self::Plain(file) => file.write_parts(parts),
            Self::Offload(file) => file.write_parts(parts),
        }
    }

    fn wait(&mut self, interest: Interest, limit: Option<Duration>) -> Result<Wakeup, i32> {
        match self {
            Self::Plain(file) => file.wait(interest, limit),
            Self::Offload(file) => file.wait(interest, limit),
        }
    }
}
