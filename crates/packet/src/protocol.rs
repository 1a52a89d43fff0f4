//! Protocol numbers of the IPv4 Protocol and IPv6 Next Header fields (IANA "Assigned Internet Protocol Numbers").
//!
//! Plain `u8` constants, not an enum: the field has 256 values, a tunnel carries all of them, and only these few are
//! looked at. The same number space holds IPv6 extension headers; [`is_extension`] tells the ones that are walked
//! over. ESP (50) is not among them: what follows it is encrypted, so for a tunnel it is the upper layer.

/// IPv6 hop-by-hop options (RFC 8200 §4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4 (RFC 792).
pub const ICMP: u8 = 1;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340).
pub const DCCP: u8 = 33;
/// IPv6 routing header (RFC 8200 §4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 §4.5).
pub const FRAGMENT: u8 = 44;
/// Authentication header (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// ICMPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// IPv6: nothing follows (RFC 8200 §4.7).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200 §4.6).
pub const DESTINATION_OPTIONS: u8 = 60;

/// UDP-Lite (RFC 3828).
pub const UDP_LITE: u8 = 136;

/// Whether the number names an IPv6 extension header that a view walks over to find the upper layer.
#[must_use]
pub const fn is_extension(number: u8) -> bool {
    matches!(
        number,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}
