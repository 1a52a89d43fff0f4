//! The IPv4 addresses inside an IPv6 destination.
//!
//! A translator or a tunnel on the way turns some IPv6 destinations into IPv4 ones: `::ffff:10.0.0.1`, `64:ff9b::a00:1`
//! and `2002:a00:1::` all may end at `10.0.0.1`. A rule that looks at the spelling alone is passed by another one. So each
//! address inside is judged as if it were the destination; what [`addr::embedded_v4`](quell_packet::addr::embedded_v4)
//! knows, and further:
//!
//! | form | where the IPv4 address stands |
//! |---|---|
//! | `::ffff:0:a.b.c.d` (IPv4-translated, RFC 2765) | the last 32 bits |
//! | `64:ff9b:1::/48` (local NAT64, RFC 8215) | the last 32 bits, and bits 72 to 103, where a /64 in it has them (RFC 6052) |
//! | `2001::/32` (Teredo, RFC 4380) | the server in bits 32 to 63, the client, inverted, in the last 32 |
//! | any prefix, then `0:5efe` or `200:5efe` (ISATAP, RFC 5214) | the last 32 bits |
//!
//! A /48 or /56 inside of the local NAT64 prefix leaves the last 32 bits 0, which is no host's address: it is denied by that.
//! Two addresses are the most that any form holds.

use std::net::{Ipv4Addr, Ipv6Addr};

use quell_packet::addr;

/// The IPv4 addresses at which a packet to `address` may end.
pub(super) fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let last = v4(g, h);
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0xffff, 0] => [Some(last), None],
        [0x64, 0xff9b, 1, ..] => {
            let in_64 = Ipv4Addr::from_bits(((address.to_bits() >> 24) & 0xffff_ffff) as u32);
            // The octet before it is 0 where it is one, and so are the bits behind it (RFC 6052 §2.2).
            let is_in_64 = e >> 8 == 0 && address.to_bits().trailing_zeros() >= 24;
            [Some(last), is_in_64.then_some(in_64)]
        }
        [0x2001, 0, ..] => [Some(v4(c, d)), Some(v4(!g, !h))],
        [_, _, _, _, 0 | 0x200, 0x5efe] => [Some(last), None],
        _ => [addr::embedded_v4(address), None],
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn inside(text: &str) -> Vec<String> {
        let found = embedded(text.parse().unwrap());
        found
            .into_iter()
            .flatten()
            .map(|v4| v4.to_string())
            .collect()
    }

    #[test]
    fn every_form_gives_what_is_inside() {
        for (text, expected) in [
            ("::ffff:10.1.2.3", &["10.1.2.3"][..]),
            ("::10.1.2.3", &["10.1.2.3"]),
            ("::ffff:0:10.1.2.3", &["10.1.2.3"]),
            ("64:ff9b::10.1.2.3", &["10.1.2.3"]),
            ("64:ff9b:1::10.1.2.3", &["10.1.2.3"]),
            ("64:ff9b:1:7:a:102:300:0", &["3.0.0.0", "10.1.2.3"]),
            ("2002:a01:203::1", &["10.1.2.3"]),
            (
                "2001:0:c000:201:8000:f227:f5fe:fdfc",
                &["192.0.2.1", "10.1.2.3"],
            ),
            ("2001:db8:1:2:0:5efe:10.1.2.3", &["10.1.2.3"]),
            ("2001:db8:1:2:200:5efe:10.1.2.3", &["10.1.2.3"]),
        ] {
            assert_eq!(inside(text), expected, "{text}");
        }
    }

    #[test]
    fn a_neighbour_of_a_form_holds_nothing() {
        for text in [
            "::",
            "::1",
            "::fffe:10.1.2.3",
            "::1:ffff:10.1.2.3",
            "64:ff9a::10.1.2.3",
            "64:ff9b::1:10.1.2.3",
            "64:ff9b:2::10.1.2.3",
            "2003:a01:203::1",
            "2001:1:c000:201::a01:203",
            "2001:db8:1:2:0:5eff:10.1.2.3",
            "2001:db8:1:2:100:5efe:10.1.2.3",
            "2606:4700::1111",
        ] {
            assert_eq!(inside(text), [""; 0], "{text}");
        }
        // Bits where a /64 has none: the last 32 are the address, and no others.
        assert_eq!(inside("64:ff9b:1:7:100:0:a01:203"), ["10.1.2.3"]);
        assert_eq!(inside("64:ff9b:1:7:a:102:300:1"), ["3.0.0.1"]);
        assert_eq!(inside("64:ff9b:1:7:10a:102:300:0"), ["3.0.0.0"]);
    }
}
