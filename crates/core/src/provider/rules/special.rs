//! The ranges that are denied on every provider, unless its operator allows them.
//!
//! Source: the IANA special-purpose address registries (RFC 6890 and its updates), and the documentation of clouds for
//! their metadata services. Decisions that the registries do not make:
//!
//! - **Documentation** ranges (RFC 5737, RFC 3849, RFC 9637) are allowed. Nothing is behind them, so denying them protects
//!   nobody; tests and laboratories use them as "the world".
//! - **Benchmarking** (`198.18.0.0/15`, `2001:2::/48`) is denied: it is not routed, and inside of networks it serves as one
//!   more private range (fake addresses of proxies, for one).
//! - **Carrier NAT** (`100.64.0.0/10`) counts as private: overlay networks and clouds number their insides with it.
//! - **Local NAT64** (`64:ff9b:1::/48`, RFC 8215) counts as private: who translates there, and to what, is the site's own.
//!   The well-known `64:ff9b::/96` is the world's, and the address inside is judged (see `embedded`).
//! - **Azure's** `168.63.129.16` is a public address by its number, and the host's own agent by what answers there.
//! - All of `fd00:ec2::/32` is Amazon's: metadata (`::254`), Pod Identity (`::23`), DNS (`::253`) and time (`::123`).

use super::class::Class;

/// A prefix, and what its addresses are.
pub(super) type Special = (&'static str, Class);

/// Every range that is denied by default.
pub(super) const SPECIAL: &[Special] = &[
    ("0.0.0.0/8", Class::NotUnicast),
    ("224.0.0.0/4", Class::NotUnicast),
    ("240.0.0.0/4", Class::NotUnicast),
    ("::/128", Class::NotUnicast),
    ("ff00::/8", Class::NotUnicast),
    // Amazon, Azure, Google, Oracle, DigitalOcean, Hetzner, OpenStack and others.
    ("169.254.169.254/32", Class::Metadata),
    // OpenStack, Linode: the same over IPv6.
    ("fe80::a9fe:a9fe/128", Class::Metadata),
    // Amazon: credentials of containers (ECS) and pods (EKS).
    ("169.254.170.2/32", Class::Metadata),
    ("169.254.170.23/32", Class::Metadata),
    ("fd00:ec2::/32", Class::Metadata),
    // Google.
    ("fd20:ce::254/128", Class::Metadata),
    // Oracle, and Oracle's classic cloud.
    ("fd00:c1::a9fe:a9fe/128", Class::Metadata),
    ("192.0.0.192/32", Class::Metadata),
    // Alibaba.
    ("100.100.100.200/32", Class::Metadata),
    ("fd00:100::100:200/128", Class::Metadata),
    // Azure: the agent of the virtual machine.
    ("168.63.129.16/32", Class::Metadata),
    // Scaleway, Linode, Tencent.
    ("169.254.42.42/32", Class::Metadata),
    ("fd00:42::42/128", Class::Metadata),
    ("fd00:a9fe:a9fe::1/128", Class::Metadata),
    ("169.254.0.23/32", Class::Metadata),
    ("127.0.0.0/8", Class::Loopback),
    ("::1/128", Class::Loopback),
    ("169.254.0.0/16", Class::LinkLocal),
    ("fe80::/10", Class::LinkLocal),
    ("10.0.0.0/8", Class::Private),
    ("172.16.0.0/12", Class::Private),
    ("192.168.0.0/16", Class::Private),
    ("100.64.0.0/10", Class::Private),
    ("fc00::/7", Class::Private),
    // Site-local, deprecated by RFC 3879 and still in use.
    ("fec0::/10", Class::Private),
    ("64:ff9b:1::/48", Class::Private),
    ("192.0.0.0/24", Class::Reserved),
    ("198.18.0.0/15", Class::Reserved),
    // Discard-only (RFC 6666), benchmarking (RFC 5180), ORCHID (RFC 4843, RFC 7343), SRv6 segments (RFC 9602).
    ("100::/64", Class::Reserved),
    ("2001:2::/48", Class::Reserved),
    ("2001:10::/28", Class::Reserved),
    ("2001:20::/28", Class::Reserved),
    ("5f00::/16", Class::Reserved),
];
