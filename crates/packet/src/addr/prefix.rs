//! An address prefix, as configuration and address pools use it.
//!
//! Written `10.0.0.0/8` or `fd00::/8`; an address without a length is that one host. Text with bits behind the length
//! (`10.0.0.1/8`) is refused: its writer meant either a host or a network, and for a list of what is denied the
//! difference matters. The error names the network, so that the fix can be copied from it.
//!
//! A prefix holds addresses of its own family alone. To ask about where an address really ends, ask with
//! [`super::effective`] of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::PacketError;

/// An address whose bits behind the length are 0, and that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Prefix {
    /// The network that `addr` is in: bits behind `len` are cleared.
    ///
    /// # Errors
    /// [`PacketError::PrefixLength`] for a length above 32 or 128.
    pub fn new(addr: IpAddr, len: u8) -> Result<Self, PacketError> {
        let max = bits_max(addr);
        if len > max {
            return Err(PacketError::PrefixLength { max });
        }
        let addr = match addr {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & mask(len, 32) as u32).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & mask(len, 128)).into(),
        };
        Ok(Self { addr, len })
    }

    /// The prefix that holds this address alone.
    #[must_use]
    pub const fn host(addr: IpAddr) -> Self {
        Self {
            addr,
            len: bits_max(addr),
        }
    }

    /// The lowest address.
    #[must_use]
    pub const fn addr(&self) -> IpAddr {
        self.addr
    }

    /// How many leading bits all its addresses share.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length is in bits of the address; a prefix is never empty"
    )]
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Whether the address is in the prefix. Never, for an address of the other family.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.addr, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask(self.len, 32) as u32 == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask(self.len, 128) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// Whether some address is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.addr) || other.contains(self.addr)
    }

    /// How many addresses the prefix holds; `u128::MAX` stands for the 2¹²⁸ of `::/0`.
    #[must_use]
    pub const fn size(&self) -> u128 {
        match 1_u128.checked_shl((bits_max(self.addr) - self.len) as u32) {
            Some(size) => size,
            None => u128::MAX,
        }
    }

    /// The address `index` behind the lowest one; `None` past the end.
    #[must_use]
    pub fn nth(&self, index: u128) -> Option<IpAddr> {
        if index >= self.size() {
            return None;
        }
        match self.addr {
            IpAddr::V4(v4) => {
                Some(Ipv4Addr::from_bits(v4.to_bits() | u32::try_from(index).ok()?).into())
            }
            IpAddr::V6(v6) => Some(Ipv6Addr::from_bits(v6.to_bits() | index).into()),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Prefix {
    type Err = PacketError;

    fn from_str(text: &str) -> Result<Self, PacketError> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| PacketError::PrefixSyntax)?;
        let Some(len) = len else {
            return Ok(Self::host(addr));
        };
        // `u8::from_str` takes a sign, which nobody means.
        if len.is_empty() || !len.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(PacketError::PrefixSyntax);
        }
        let len = len.parse().map_err(|_| PacketError::PrefixLength {
            max: bits_max(addr),
        })?;
        let prefix = Self::new(addr, len)?;
        if prefix.addr != addr {
            return Err(PacketError::PrefixHostBits {
                network: prefix.addr,
                len,
            });
        }
        Ok(prefix)
    }
}

const fn bits_max(addr: IpAddr) -> u8 {
    match addr {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// `len` leading ones of `bits`, at the low end of the number. `len` is at most `bits`.
const fn mask(len: u8, bits: u8) -> u128 {
    let all = u128::MAX >> (128 - bits);
    match all.checked_shr(len as u32) {
        Some(behind) => all & !behind,
        None => all,
    }
}
