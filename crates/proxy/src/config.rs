//! The settings of a proxy: where it listens, who may use it, and what it may hold.
//!
//! A proxy that listens beyond the loopback gives the whole network the tunnel, so it needs a password
//! ([`ProxyConfig::try_new`] refuses it without one). On the loopback every local user may use it: who wants to keep them
//! out sets a password there, too.
//!
//! The limits are for one person's machine with many tabs open; what is beyond a limit is refused in words.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use quell_stack::BUFFER_BYTES_MIN;
use zeroize::Zeroizing;

use crate::error::ProxyError;

/// Where DNS is spoken (RFC 1035 §4.2).
pub const DNS_PORT: u16 = 53;
/// Most DNS servers.
pub const DNS_SERVERS_MAX: usize = 8;
/// Most bytes of a user name, and of a password (RFC 1929 has a byte for the length).
pub const CREDENTIAL_BYTES_MAX: usize = 255;

/// Who is asked for names unless the configuration says otherwise: Quad9 over both families. It validates DNSSEC, keeps no
/// addresses of those who ask, and is run by a foundation, not by whoever sells advertisements. The questions come from
/// the provider's address, as all traffic does.
pub const DNS_SERVERS: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9)), DNS_PORT),
    SocketAddr::new(
        IpAddr::V6(Ipv6Addr::new(0x2620, 0xfe, 0, 0, 0, 0, 0, 0xfe)),
        DNS_PORT,
    ),
];

/// A user name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name; 1 to 255 bytes without a colon (RFC 7617 §2).
    pub username: String,
    /// The password; 1 to 255 bytes.
    pub password: Zeroizing<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Where a proxy listens, for whom, and how far it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Where SOCKS5 is spoken; port 0 lets the system choose.
    pub socks5: Option<SocketAddr>,
    /// Where HTTP is spoken; port 0 lets the system choose.
    pub http: Option<SocketAddr>,
    /// Who may use it; `None`: whoever reaches it.
    pub credentials: Option<Credentials>,
    /// Who is asked for names, in this order; see [`DNS_SERVERS`].
    pub dns_servers: Vec<SocketAddr>,
    /// What it may hold, and for how long.
    pub limits: ProxyLimits,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            socks5: None,
            http: None,
            credentials: None,
            dns_servers: DNS_SERVERS.to_vec(),
            limits: ProxyLimits::default(),
        }
    }
}

impl ProxyConfig {
    /// Checks every value against its range, and that nobody is let in who should not be.
    ///
    /// # Errors
    /// [`ProxyError::InvalidSetting`]: the first setting that is not allowed.
    pub fn try_new(self) -> Result<Self, ProxyError> {
        for (key, address) in [("proxy.socks5", self.socks5), ("proxy.http", self.http)] {
            check_listener(key, address, self.credentials.is_some())?;
        }
        if self.socks5.is_none() && self.http.is_none() {
            let allowed = "an address for socks5, for http, or for both";
            return Err(invalid("proxy", "nothing", allowed));
        }
        if let Some(Credentials { username, password }) = &self.credentials {
            let fits = |text: &str| (1..=CREDENTIAL_BYTES_MAX).contains(&text.len());
            if !fits(username) || username.contains(':') {
                let allowed = "1 to 255 bytes without a colon";
                return Err(invalid("proxy.username", format!("{username:?}"), allowed));
            }
            if !fits(password) {
                let allowed = "1 to 255 bytes";
                return Err(invalid("proxy.password_file", "its content", allowed));
            }
        }
        within("proxy.dns", self.dns_servers.len(), 1..=DNS_SERVERS_MAX)?;
        let not_host = |server: &&SocketAddr| crate::dial::checked(**server).is_err();
        if let Some(address) = self.dns_servers.iter().find(not_host) {
            return Err(invalid("proxy.dns", address, "addresses of hosts"));
        }
        Ok(Self {
            limits: self.limits.try_new()?,
            ..self
        })
    }
}

/// Whether a listener may be there without a password.
///
/// # Errors
/// [`ProxyError::InvalidSetting`].
pub fn check_listener(
    key: &'static str,
    address: Option<SocketAddr>,
    has_credentials: bool,
) -> Result<(), ProxyError> {
    match address {
        Some(address) if !address.ip().is_loopback() && !has_credentials => Err(invalid(
            key,
            address,
            "an address of the loopback, or proxy.username and proxy.password_file: without them the whole network could \
             use the tunnel",
        )),
        Some(_) | None => Ok(()),
    }
}

/// What a proxy may hold, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Most connections of applications at once, those that only shake hands included; one beyond is reset.
    ///
    /// 4,096: a browser opens hundreds. Each is one file descriptor. Range 1 to 65,536.
    pub connections_max: usize,
    /// Most TCP flows through the tunnel at once; a request beyond is refused.
    ///
    /// 4,096: one a connection. Range 1 to 32,768.
    pub flows_max: usize,
    /// Most UDP associations at once; a request beyond is refused.
    ///
    /// 256: one a program that speaks UDP. Range 1 to 4,096.
    pub associations_max: usize,
    /// Bytes of each of a flow's two buffers, while flows are few: the window that the far end is offered.
    ///
    /// 1 MiB: 160 Mbit/s at 50 ms of round trip for one flow. Pages of it are used as data comes. Range 16 KiB to
    /// 16 MiB.
    pub tcp_buffer_bytes: usize,
    /// How long an application may take to say what it wants.
    ///
    /// 10 s: a program needs milliseconds, a person at a terminal is not foreseen. Range 1 s to 60 s.
    pub handshake_timeout: Duration,
    /// How long a request waits for the tunnel's first session.
    ///
    /// 10 s: a dial with a retry fits, and no application gives up sooner. Range 0 s to 60 s.
    pub session_wait: Duration,
    /// How long a connection may take to stand.
    ///
    /// 30 s: five SYNs (RFC 6298: after 1, 3, 7 and 15 s), as long as a provider's own sockets try. Range 1 s to 240 s.
    pub connect_timeout: Duration,
    /// How long the preferred address of a name is alone before the next is tried, too.
    ///
    /// 250 ms: RFC 8305 §5. Range 100 ms to 2 s.
    pub connect_head_start: Duration,
    /// How long an established flow may carry nothing before both ends are reset.
    ///
    /// 7,440 s: the 2 h 4 min of RFC 5382 REQ-5, which a provider's sockets follow. Range 60 s to 7 days.
    pub tcp_idle: Duration,
    /// The same for a flow of which one direction has ended, and for one whose far end is silent while data waits for it.
    ///
    /// 240 s: the 4 min of RFC 5382 REQ-5; an outage that the session survives fits. Range 10 s to 1 h.
    pub tcp_idle_transitory: Duration,
    /// How long a DNS server may take.
    ///
    /// 5 s: what the resolvers of most systems wait. Range 100 ms to 30 s.
    pub dns_timeout: Duration,
    /// How often a name is asked for, each time the next server.
    ///
    /// 2: 10 s in all, before an application stops to wait. Range 1 to 8.
    pub dns_tries: usize,
    /// Most answers that are remembered, each for as long as it says, one hour at most.
    ///
    /// 1,024: a day's browsing; 200 KiB. Range 0 to 65,536.
    pub dns_cache_max: usize,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            flows_max: 4_096,
            associations_max: 256,
            tcp_buffer_bytes: 1024 * 1024,
            handshake_timeout: Duration::from_secs(10),
            session_wait: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(30),
            connect_head_start: Duration::from_millis(250),
            tcp_idle: Duration::from_secs(7_440),
            tcp_idle_transitory: Duration::from_secs(240),
            dns_timeout: Duration::from_secs(5),
            dns_tries: 2,
            dns_cache_max: 1_024,
        }
    }
}

impl ProxyLimits {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// [`ProxyError::InvalidSetting`]: the first setting outside its range.
    pub fn try_new(self) -> Result<Self, ProxyError> {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        within("connections_max", self.connections_max, 1..=65_536)?;
        within("flows_max", self.flows_max, 1..=32_768)?;
        within("associations_max", self.associations_max, 1..=4_096)?;
        let bytes = BUFFER_BYTES_MIN..=16 << 20;
        within("tcp_buffer_bytes", self.tcp_buffer_bytes, bytes)?;
        lasting("handshake_timeout", self.handshake_timeout, s(1)..=s(60))?;
        lasting("session_wait", self.session_wait, s(0)..=s(60))?;
        lasting("connect_timeout", self.connect_timeout, s(1)..=s(240))?;
        let head_start = ms(100)..=s(2);
        lasting("connect_head_start", self.connect_head_start, head_start)?;
        lasting("tcp_idle", self.tcp_idle, s(60)..=s(7 * 86_400))?;
        let transitory = s(10)..=s(3_600);
        lasting("tcp_idle_transitory", self.tcp_idle_transitory, transitory)?;
        lasting("dns_timeout", self.dns_timeout, ms(100)..=s(30))?;
        within("dns_tries", self.dns_tries, 1..=8)?;
        within("dns_cache_max", self.dns_cache_max, 0..=65_536)?;
        Ok(self)
    }
}

fn within<T: PartialOrd + Display>(
    key: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ProxyError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(invalid(key, value, allowed))
}

fn lasting(
    key: &'static str,
    value: Duration,
    range: RangeInclusive<Duration>,
) -> Result<(), ProxyError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("{:?} to {:?}", range.start(), range.end());
    Err(invalid(key, format!("{value:?}"), allowed))
}

fn invalid(key: &'static str, value: impl Display, allowed: impl Into<String>) -> ProxyError {
    ProxyError::InvalidSetting {
        key,
        value: value.to_string(),
        allowed: allowed.into(),
    }
}

#[cfg(test)]
mod tests;
