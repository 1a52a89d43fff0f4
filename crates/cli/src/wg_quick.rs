//! A wg-quick file (wg-quick(8)), read for what a quell client can use of it.
//!
//! Each line ends in exactly one [`Note`]: what became of it, or why nothing did. Secrets are named and never repeated;
//! hooks are named and never run. What is written from it is made of parsed values alone. The input is somebody's download:
//! whatever its bytes, the result is notes or an error, within bounds.

use std::fmt::Write as _;
use std::net::IpAddr;

use quell::config::{Host, ServerAddress};
use quell_packet::Prefix;
use quell_wire::key::PublicKey;

/// The longest file that is read.
pub(crate) const FILE_BYTES_MAX: usize = 64 * 1024;
/// Most lines that are read, and most routes that are taken.
const LINES_MAX: usize = 2_048;
const ROUTES_MAX: usize = 1_024;
/// Most servers of names.
const DNS_MAX: usize = 3;
/// How much of a value is shown.
const SHOWN_CHARS_MAX: usize = 60;

/// What became of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// Its number, from 1.
    pub(crate) line: usize,
    /// Its key, as it stands there.
    pub(crate) key: String,
    /// What became of it.
    pub(crate) words: String,
}

/// What a client can use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) dns: Vec<IpAddr>,
    pub(crate) mtu: Option<u16>,
    pub(crate) mark: Option<u32>,
    pub(crate) keepalive_s: Option<u64>,
    pub(crate) routes: Vec<Prefix>,
    pub(crate) endpoint: Option<Host>,
    pub(crate) notes: Vec<Note>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Interface,
    /// The first one, or a later one.
    Peer(usize),
}

/// Reads a file.
///
/// # Errors
/// It is too long, no text, or no file of wg-quick: in words.
pub(crate) fn read(bytes: &[u8]) -> Result<Found, String> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text (UTF-8)".to_owned())?;
    let mut found = Found::default();
    let mut section = Section::None;
    let mut peers = 0;
    for (line, number) in text.lines().zip(1..) {
        if number > LINES_MAX {
            return Err(format!("it has more than {LINES_MAX} lines"));
        }
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if line.eq_ignore_ascii_case("[interface]") {
            section = Section::Interface;
        } else if line.eq_ignore_ascii_case("[peer]") {
            peers += 1;
            section = Section::Peer(peers);
        } else {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let (key, value) = (key.trim(), value.trim());
            let words = found.take(section, key, value);
            let key = shown(key);
            found.notes.push(Note {
                line: number,
                key,
                words,
            });
        }
    }
    match (section, peers) {
        (Section::None, 0) => Err("there is no [Interface] and no [Peer] in it".to_owned()),
        _ => Ok(found),
    }
}

impl Found {
    /// Takes a setting; what became of it.
    fn take(&mut self, section: Section, key: &str, value: &str) -> String {
        let key = key.to_ascii_lowercase();
        match (section, key.as_str()) {
            (Section::Interface, "privatekey") => {
                "never copied: the client has a new key of its own".into()
            }
            (Section::Peer(_), "presharedkey") => "never copied: quell has no such keys".into(),
            (Section::Interface, "preup" | "postup" | "predown" | "postdown") => {
                "never run; if it kept traffic from leaving in the clear, set vpn.fail_closed = true".into()
            }
            (Section::Interface, "address") => {
                "not taken: a provider gives its clients their addresses".into()
            }
            (Section::Interface, "dns") => self.take_dns(value),
            (Section::Interface, "mtu") => self.take_mtu(value),
            (Section::Interface, "fwmark") => self.take_mark(value),
            (Section::Interface, "table") if value.eq_ignore_ascii_case("auto") => {
                "as it is anyway".into()
            }
            (Section::Peer(1), "allowedips") => self.take_routes(value),
            (Section::Peer(1), "endpoint") => self.take_endpoint(value),
            (Section::Peer(1), "persistentkeepalive") => self.take_keepalive(value),
            (Section::Peer(1), "publickey") => {
                "not taken: a quell provider has a key of its own kind (quellpub1…)".into()
            }
            (Section::Peer(2..), _) => {
                "not taken: of several peers the first is; add providers by hand".into()
            }
            (Section::None, _) => "not taken: it stands in no section".into(),
            (Section::Interface | Section::Peer(_), _) => {
                "not taken: quell has nothing like it".into()
            }
        }
    }

    /// The client's file: parsed values alone. Without a key, or without an endpoint, it says what is to be written there.
    pub(crate) fn client_file(&self, provider_key: Option<&PublicKey>) -> String {
        let mut text = String::from(
            "# A quell client, made of a wg-quick file. Every key: examples/client.toml.\n\
             private_key_file = \"client.key\"\n\n[provider]\n",
        );
        let address = match &self.endpoint {
            Some(Host::Ip(IpAddr::V6(ip))) => format!("[{ip}]"),
            Some(Host::Ip(ip)) => ip.to_string(),
            Some(Host::Name(name)) => name.clone(),
            None => "WRITE THE PROVIDER'S ADDRESS HERE".to_owned(),
        };
        let key = match provider_key {
            Some(key) => key.to_string(),
            None => "WRITE THE PROVIDER'S PUBLIC KEY HERE".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "address = {address:?}\npublic_key = {key:?}\n\n[tun]\n"
        );
        if let Some(mtu) = self.mtu {
            let _ = writeln!(text, "mtu_max = {mtu}");
        }
        let _ = writeln!(text, "routes = {}", strings(&self.routes));
        let _ = write!(text, "\n[vpn]\n");
        if !self.dns.is_empty() {
            let _ = writeln!(text, "dns = {}", strings(&self.dns));
        }
        if let Some(mark) = self.mark {
            let _ = writeln!(text, "mark = {mark}");
        }
        if let Some(seconds) = self.keepalive_s {
            let _ = write!(text, "\n[transport]\nkeepalive_interval = \"{seconds}s\"\n");
        }
        text
    }

    fn take_dns(&mut self, value: &str) -> String {
        let mut left = Vec::new();
        for item in list(value) {
            match item.parse() {
                Ok(server) if self.dns.contains(&server) => {}
                Ok(server) if self.dns.len() < DNS_MAX => self.dns.push(server),
                Ok(_) | Err(_) => left.push(shown(item)),
            }
        }
        let taken = format!("vpn.dns = {}", strings(&self.dns));
        match left.is_empty() {
            true => taken,
            false => format!(
                "{taken}; left out (names to search, or more than {DNS_MAX} servers): {}",
                left.join(", ")
            ),
        }
    }

    fn take_mtu(&mut self, value: &str) -> String {
        match value.parse() {
            Ok(mtu @ 1_280..=9_000) => {
                self.mtu = Some(mtu);
                format!("tun.mtu_max = {mtu}")
            }
            Ok(_) | Err(_) => format!("not taken: {} is not 1280 to 9000", shown(value)),
        }
    }

    fn take_mark(&mut self, value: &str) -> String {
        let hex = value
            .strip_prefix("0x")
            .or_else(|| value.strip_prefix("0X"));
        let mark = match hex {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        match mark {
            Ok(mark @ 256..=0x7fff_ffff) => {
                self.mark = Some(mark);
                format!("vpn.mark = {mark}")
            }
            Ok(_) | Err(_) => format!("not taken: {} is not 256 to 2147483647", shown(value)),
        }
    }

    fn take_keepalive(&mut self, value: &str) -> String {
        match value.parse() {
            Ok(seconds @ 5..=37) => {
                self.keepalive_s = Some(seconds);
                format!("transport.keepalive_interval = \"{seconds}s\"")
            }
            Ok(_) | Err(_) => format!(
                "not taken: {} is not 5 to 37 seconds; 20 are kept",
                shown(value)
            ),
        }
    }

    fn take_routes(&mut self, value: &str) -> String {
        let mut left = Vec::new();
        let before = self.routes.len();
        for item in list(value) {
            match prefix(item) {
                Some(route) if self.routes.contains(&route) => {}
                Some(route) if self.routes.len() < ROUTES_MAX => self.routes.push(route),
                Some(_) | None => left.push(shown(item)),
            }
        }
        let taken = format!("tun.routes: {} more", self.routes.len() - before);
        match left.is_empty() {
            true => taken,
            false => format!("{taken}; left out (no prefix): {}", left.join(", ")),
        }
    }

    fn take_endpoint(&mut self, value: &str) -> String {
        match value.parse::<ServerAddress>() {
            Ok(address) => {
                let host = match &address.host {
                    Host::Ip(ip) => ip.to_string(),
                    Host::Name(name) => name.clone(),
                };
                self.endpoint = Some(address.host);
                format!("provider.address = {host:?}: the host alone, the port is WireGuard's")
            }
            Err(error) => format!("not taken: {} is no server: {error}", shown(value)),
        }
    }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// A prefix whose host bits are cleared, as WireGuard clears them; an address alone is a prefix of one.
fn prefix(text: &str) -> Option<Prefix> {
    let Some((address, len)) = text.split_once('/') else {
        return text.parse().ok().map(Prefix::host);
    };
    let (address, len): (IpAddr, u32) = (address.parse().ok()?, len.parse().ok()?);
    let network = match address {
        IpAddr::V4(ip) => {
            let left = 32_u32.checked_sub(len)?;
            let mask = u32::MAX.checked_shl(left).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let left = 128_u32.checked_sub(len)?;
            let mask = u128::MAX.checked_shl(left).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
    };
    Prefix::new(network, u8::try_from(len).ok()?).ok()
}

/// A value for people: without what a terminal would obey, and not endless.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let plain = short.escape_debug().to_string();
    match short.len() < text.len() {
        true => plain + "…",
        false => plain,
    }
}

/// As a list of TOML.
fn strings(items: &[impl ToString]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|item| format!("{:?}", item.to_string()))
        .collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests;
