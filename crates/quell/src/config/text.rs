//! How values are read from a file's text and numbers.
//!
//! serde's own messages name Rust types ("expected u16"). People need the form
//! that is allowed, so each kind of value brings its [`Text::FORM`], and both
//! ways to go wrong, a wrong type and a wrong text, end in it.
//!
//! Whole numbers and sizes that do not fit their type are *saturated* here: the
//! range check of the file's `try_new` then refuses them with the range, which
//! this stage does not know, and the message shows the value as it was written.
//! No range reaches to an end of its type, so a saturated value is never let in.

use std::fmt;
use std::marker::PhantomData;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytesize::ByteSize;
use quell_backend::http::BaseUrl;
use quell_core::config::{ExitPolicy, Raced, TcpLane};
use quell_net::backend::BackendUrl;
use quell_packet::addr::Prefix;
use quell_wire::key::PublicKey;
use quell_wire::registry::SECRET_KEY_HRP;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::address::ServerAddress;

/// Stands in messages for a value that may not be shown.
pub(super) const HIDDEN: &str = "(a secret key, not shown)";

/// Stands in messages for a URL that may hold credentials.
pub(super) const HIDDEN_URL: &str = "(a URL with what may be credentials, not shown)";

/// Whether credentials may stand in a URL of `text`: before the host, or in the query.
pub(super) fn may_hold_credentials(key: &str, text: &str) -> bool {
    key.starts_with("backend.url") && text.contains(['@', '?'])
}

/// Whether a secret key stands in `text`, sound or damaged.
pub(super) fn holds_secret(text: &str) -> bool {
    // Bech32 may be written in upper case altogether.
    text.to_ascii_lowercase()
        .contains(&format!("{SECRET_KEY_HRP}1"))
}

/// A value that is written as a string.
pub(super) trait Text: Sized {
    /// What is allowed, in words.
    const FORM: &'static str;

    /// Reads it; the error says what is wrong.
    fn read(text: &str) -> Result<Self, String>;
}

impl Text for Duration {
    const FORM: &'static str = r#"a duration such as "30s", "1m 15s" or "500ms""#;

    fn read(text: &str) -> Result<Self, String> {
        humantime_serde::re::humantime::parse_duration(text).map_err(|error| error.to_string())
    }
}

impl Text for TcpLane {
    const FORM: &'static str = r#""flow" or "dgram""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "no lane for TCP".to_owned())
    }
}

impl Text for ExitPolicy {
    const FORM: &'static str = r#""sticky" or "spread""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "no exit policy".to_owned())
    }
}

impl Text for Raced {
    const FORM: &'static str = r#""tcp", "tcp+dns" or "off""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "nothing that is raced".to_owned())
    }
}

impl Text for PublicKey {
    const FORM: &'static str = "a public key as `quell pubkey` prints it";

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: quell_wire::key::KeyError| error.to_string())
    }
}

impl Text for Ipv4Addr {
    const FORM: &'static str = r#"an IPv4 address such as "192.0.2.1""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: AddrParseError| error.to_string())
    }
}

impl Text for Ipv6Addr {
    const FORM: &'static str = r#"an IPv6 address such as "2001:db8::1""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: AddrParseError| error.to_string())
    }
}

impl Text for Prefix {
    const FORM: &'static str = r#"an address prefix such as "10.85.0.0/16" or "::/0""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: quell_packet::PacketError| error.to_string())
    }
}

impl Text for ServerAddress {
    const FORM: &'static str =
        r#"a server such as "vpn.example.net", "192.0.2.1:6610" or "[2001:db8::1]:6610""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: super::address::AddressError| error.to_string())
    }
}

impl Text for BackendUrl {
    const FORM: &'static str =
        r#"a URL such as "https://api.example.net/health", without credentials before the host"#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: quell_net::backend::BackendUrlError| error.to_string())
    }
}

impl Text for BaseUrl {
    const FORM: &'static str =
        r#"a URL such as "https://quell.example.net", without credentials and without a query"#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: quell_backend::http::BaseUrlError| error.to_string())
    }
}

impl Text for SocketAddr {
    const FORM: &'static str = r#"an IP address and a port such as "0.0.0.0:6610" or "[::]:6610""#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error: std::net::AddrParseError| error.to_string())
    }
}

/// For `deserialize_with`: one value.
pub(super) fn one<'de, D: Deserializer<'de>, T: Text>(from: D) -> Result<T, D::Error> {
    from.deserialize_str(Reader(PhantomData))
}

/// For `deserialize_with`: a value that may be left out.
pub(super) fn option<'de, D: Deserializer<'de>, T: Text>(from: D) -> Result<Option<T>, D::Error> {
    one(from).map(Some)
}

/// For `deserialize_with`: an array of values.
pub(super) fn list<'de, D: Deserializer<'de>, T: Text>(from: D) -> Result<Vec<T>, D::Error> {
    struct Item<T>(T);
    impl<'de, T: Text> Deserialize<'de> for Item<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            one(from).map(Item)
        }
    }
    let items = Vec::<Item<T>>::deserialize(from)?;
    Ok(items.into_iter().map(|Item(value)| value).collect())
}

struct Reader<T>(PhantomData<T>);

impl<T: Text> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::FORM)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::read(text).map_err(|why| E::custom(format_args!("{why}: allowed is {}", T::FORM)))
    }
}

/// For `deserialize_with`: a size in bytes, as text with a unit or as a plain number.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    from.deserialize_any(SizeReader)
}

/// As [`size`], for a setting that may be left out.
pub(super) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    size(from).map(Some)
}

struct SizeReader;

impl Visitor<'_> for SizeReader {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a size such as "2MiB" or "512KiB", or a number of bytes"#)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<usize, E> {
        Ok(saturate(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        let ByteSize(bytes) = text.parse().map_err(|_| {
            E::custom(
                r#"not a size: allowed is a size such as "2MiB" or "512KiB", or a number of bytes"#,
            )
        })?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

/// For `deserialize_with`: a whole number, saturated to its type.
pub(super) fn number<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64> + Bounds,
{
    from.deserialize_i64(NumberReader(PhantomData))
}

/// The ends of a type.
pub(super) trait Bounds {
    const LOW: Self;
    const HIGH: Self;
}

impl Bounds for u16 {
    const LOW: Self = u16::MIN;
    const HIGH: Self = u16::MAX;
}

impl Bounds for u32 {
    const LOW: Self = u32::MIN;
    const HIGH: Self = u32::MAX;
}

impl Bounds for usize {
    const LOW: Self = usize::MIN;
    const HIGH: Self = usize::MAX;
}

fn saturate<T: TryFrom<i64> + Bounds>(value: i64) -> T {
    T::try_from(value).unwrap_or(if value < 0 { T::LOW } else { T::HIGH })
}

struct NumberReader<T>(PhantomData<T>);

impl<T: TryFrom<i64> + Bounds> Visitor<'_> for NumberReader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        Ok(saturate(value))
    }
}
