//! Why a packet, or the text of a prefix, was refused.
//!
//! The variants are causes, not places: a drop counter is labelled with [`PacketError::reason`], so two causes that an
//! operator would act on differently must not share one, and one cause must not have two names. Variants that concern
//! packets carry no data: the error is made on the packet path, from bytes chosen by somebody else, and what it would
//! repeat belongs in no log (addresses of flows are never logged).

use std::net::IpAddr;

/// A refusal. `Display` is for people, [`reason`](PacketError::reason) for counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The buffer holds no byte.
    #[error("the packet is empty")]
    Empty,
    /// The version field is neither 4 nor 6, or not that of the view asked for.
    #[error("the IP version is not known")]
    UnknownVersion,
    /// The buffer ends inside a fixed header.
    #[error("the packet ends inside its header")]
    Truncated,
    /// A header's own length field is below its minimum or beyond the buffer.
    #[error("a header's length field is impossible")]
    BadHeaderLength,
    /// The packet's length field disagrees with the number of bytes there; jumbograms (RFC 2675) count here too.
    #[error("the length field and the packet's size differ")]
    LengthMismatch,
    /// More than [`EXTENSIONS_MAX`](crate::ipv6::EXTENSIONS_MAX) IPv6 extension headers.
    #[error("too many IPv6 extension headers")]
    ExtensionChainTooLong,
    /// An IPv6 extension header runs off the end of the packet.
    #[error("an IPv6 extension header runs off the end of the packet")]
    ExtensionChainTruncated,
    /// A hop-by-hop header that is not the first (RFC 8200 §4.1), or a second fragment header.
    #[error("IPv6 extension headers in a forbidden order")]
    ExtensionChainOrder,
    /// An option whose length is below 2 or beyond the header.
    #[error("an option's length is impossible")]
    BadOption,
    /// Fragmentation was asked of a packet that forbids it: IPv4 with DF, or IPv6 (RFC 8200 §5).
    #[error("the packet must not be fragmented")]
    DontFragment,
    /// An MTU below the 68 bytes every IPv4 link must carry (RFC 791).
    #[error("the MTU is below 68 bytes")]
    MtuTooSmall,
    /// A fragment that reaches past byte 65,535 of its datagram.
    #[error("the fragment reaches past the largest datagram")]
    FragmentBeyondDatagram,
    /// A virtio-net header that asks for an offload nobody switched on (see [`crate::offload`]).
    #[error("the virtio-net header asks for an unknown offload")]
    UnknownOffload,
    /// A virtio-net header that disagrees with the packet behind it.
    #[error("the virtio-net header and the packet disagree")]
    OffloadMismatch,
    /// Text that is not `address/length`.
    #[error("expected an address and a prefix length, such as 10.0.0.0/8 or fd00::/8")]
    PrefixSyntax,
    /// A prefix length beyond the family's.
    #[error("the prefix length is at most {max}")]
    PrefixLength {
        /// 32 or 128.
        max: u8,
    },
    /// Bits are set behind the prefix length, so the writer meant either another address or another length.
    #[error("bits are set behind the prefix length: the network is {network}/{len}")]
    PrefixHostBits {
        /// The address with those bits cleared.
        network: IpAddr,
        /// The prefix length as written.
        len: u8,
    },
}

impl PacketError {
    /// A stable label for the drop counter: lower case, words joined by `_`, one a variant.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::UnknownVersion => "unknown_version",
            Self::Truncated => "truncated",
            Self::BadHeaderLength => "bad_header_length",
            Self::LengthMismatch => "length_mismatch",
            Self::ExtensionChainTooLong => "extension_chain_too_long",
            Self::ExtensionChainTruncated => "extension_chain_truncated",
            Self::ExtensionChainOrder => "extension_chain_order",
            Self::BadOption => "bad_option",
            Self::DontFragment => "dont_fragment",
            Self::MtuTooSmall => "mtu_too_small",
            Self::FragmentBeyondDatagram => "fragment_beyond_datagram",
            Self::UnknownOffload => "unknown_offload",
            Self::OffloadMismatch => "offload_mismatch",
            Self::PrefixSyntax => "prefix_syntax",
            Self::PrefixLength { .. } => "prefix_length",
            Self::PrefixHostBits { .. } => "prefix_host_bits",
        }
    }
}
