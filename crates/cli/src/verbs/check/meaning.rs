//! What the settings of a file mean: the understood values, defaults filled in.
//!
//! What is printed is what the file was understood to say, not its text. Secret keys are shown as their public halves.

use std::fmt::Display;

use quell::config::{
    BackendSection, ClientFile, EgressKind, LanesConfig, ProviderFile, Rule, read_private_key,
};
use quell_backend::config::{ServerConfig, StoreConfig};
use quell_net::identity::Identity;
use quell_net::transport::TransportSettings;

use crate::Failure;
use crate::table::Table;

/// Most items of a list that are shown one by one.
const LISTED_MAX: usize = 16;

pub(super) fn client(file: &ClientFile) -> Result<Table, Failure> {
    let mut table = Table::default();
    private_key(&mut table, &file.private_key_file)?;
    for provider in &file.providers {
        let place = match provider.place.as_str() {
            "" => String::new(),
            place => format!(" ({place})"),
        };
        table.row("provider", format!("{}{place}", provider.address));
        table.row("provider's key", provider.public_key);
    }
    if file.providers.len() > 1 {
        let window = &file.window;
        let kept = window.window_min.min(file.providers.len());
        table.row(
            "exits",
            format!(
                "{kept} of {} kept, {}",
                file.providers.len(),
                window.exit_policy
            ),
        );
    }
    near(&mut table, file);
    let core = file.core();
    table.row(
        "keepalive",
        format!("every {:?}", core.path.keepalive_interval),
    );
    table.row(
        "dials",
        format!(
            "{:?} each, then a pause of {:?} doubling to {:?}",
            core.dial_timeout, core.reconnect_base, core.reconnect_max
        ),
    );
    lanes(&mut table, &core.path.lanes);
    quic(&mut table, file.transport.quic());
    backend(&mut table, &file.backend);
    table.row("control socket", file.control_socket().display());
    table.row("log", file.log.level);
    Ok(table)
}

/// What applications meet: an interface, or a proxy.
fn near(table: &mut Table, file: &ClientFile) {
    let (tun, proxy) = (&file.tun, &file.proxy);
    if !proxy.is_on() {
        table.row("tun", format!("{}, MTU up to {}", tun.name, tun.mtu_max));
        match tun.routes.as_slice() {
            [] => table.row("routes", "the provider's pools alone"),
            routes => table.row("routes", listed(routes)),
        }
        if !tun.exclude.is_empty() {
            table.row("around the tunnel", listed(&tun.exclude));
        }
        if !file.vpn.dns.is_empty() {
            table.row("names from", listed(&file.vpn.dns));
        }
        if file.vpn.fail_closed {
            let lan = match file.vpn.allow_lan {
                true => ", and to the local network",
                false => "",
            };
            table.row(
                "leaves",
                format!("only through the tunnel{lan}, until `quell down`"),
            );
        }
        return;
    }
    table.row("tun", "none, without privileges");
    if let Some(address) = proxy.socks5 {
        table.row("SOCKS5 proxy", address);
    }
    if let Some(address) = proxy.http {
        table.row("HTTP proxy", format!("http://{address}"));
    }
    let whom = match &proxy.username {
        Some(_) => "who knows the password",
        None => "whoever reaches them",
    };
    table.row("for", whom);
    let servers: Vec<_> = proxy.dns.iter().map(|server| server.0).collect();
    table.row("names from", listed(&servers));
}

pub(super) fn provider(file: &ProviderFile) -> Result<Table, Failure> {
    let mut table = Table::default();
    private_key(&mut table, &file.private_key_file)?;
    table.row("listen", format!("{} (UDP)", file.listen));
    match file.clients.len() {
        0 if file.backend.url.is_some() => table.row("clients", "whoever has a contract"),
        0 => table.row("clients", "none: nobody may connect yet"),
        count => table.row("clients", count),
    }
    for client in file.clients.iter().take(LISTED_MAX) {
        table.inner(1, &client.name, client.public_key);
    }
    if let Some(more) = file.clients.len().checked_sub(LISTED_MAX + 1) {
        table.inner(1, "…", format!("and {} more", more + 1));
    }
    let pool = file.addresses.pool().map_err(Failure::usage)?;
    let gateway = pool.gateway();
    if let (Some(prefix), Some(own)) = (file.addresses.ipv4_pool, gateway.gateway_ipv4) {
        table.row("IPv4", format!("{prefix}, the provider is {own}"));
    }
    if let (Some(prefix), Some(own)) = (file.addresses.ipv6_pool, gateway.gateway_ipv6) {
        table.row("IPv6", format!("{prefix}, the provider is {own}"));
    }
    table.row("room for", format!("{} clients", pool.capacity()));
    table.row("sessions", format!("{} at most", file.limits.sessions_max));
    shares(&mut table, file);
    let egress = &file.egress;
    let way = if egress.kind == EgressKind::Tun {
        let not = if egress.masquerade { "" } else { "not " };
        format!("tun {}, {not}masqueraded", egress.tun_name)
    } else {
        format!("{}, without privileges", egress.kind.as_str())
    };
    table.row("egress", format!("{way}, MTU {}", egress.mtu));
    rules(&mut table, "allowed", &egress.allow);
    rules(&mut table, "denied", &egress.deny);
    lanes(&mut table, &file.core().path.lanes);
    quic(&mut table, file.transport.quic());
    backend(&mut table, &file.backend);
    table.row("control socket", file.control_socket().display());
    table.row("log", file.log.level);
    Ok(table)
}

/// The operator's rules, which are few or none.
fn rules(table: &mut Table, name: &str, rules: &[Rule]) {
    for rule in rules.iter().take(LISTED_MAX) {
        table.inner(1, name, rule);
    }
    if let Some(more) = rules.len().checked_sub(LISTED_MAX + 1) {
        table.inner(1, "…", format!("and {} more", more + 1));
    }
}

/// What one client may take, and all together.
fn shares(table: &mut Table, file: &ProviderFile) {
    let core = file.core();
    let client = &core.client;
    let mut words = format!(
        "{} flows, {} new destinations a second",
        client.client_flows_max, client.client_new_destinations_per_s
    );
    if let Some(rate) = client.client_rate_bits_per_s {
        words += &format!(", {rate} bit/s each way");
    }
    table.row("a client", words);
    if let Some(rate) = core.share.egress_rate_bits_per_s {
        table.row("egress rate", format!("{rate} bit/s each way"));
    }
    if let Some(bytes) = core.month_bytes_max {
        let folder = file.state_dir.display();
        table.row(
            "a month",
            format!("{bytes} bytes at most, counted in {folder}"),
        );
    }
}

fn private_key(table: &mut Table, path: &std::path::Path) -> Result<(), Failure> {
    let secret = read_private_key(path).map_err(Failure::usage)?;
    table.row("private key", path.display());
    table.row(
        "own public key",
        Identity::from_secret(&secret)?.public_key(),
    );
    Ok(())
}

fn lanes(table: &mut Table, lanes: &LanesConfig) {
    let send = &lanes.send;
    table.row(
        "TCP",
        format!(
            "lane {}, a packet resent {} times at most and given up after {:?}",
            lanes.tcp, send.max_resend_count, send.ack_timeout
        ),
    );
}

/// What a control plane's file means.
pub(super) fn backend_file(config: &ServerConfig) -> Table {
    let mut table = Table::default();
    table.row("listen", config.listen);
    match &config.store {
        StoreConfig::Redb(path) => table.row("books", path.display()),
        StoreConfig::Postgres(_) => table.row("books", "in PostgreSQL"),
    }
    let trusted: Vec<_> = config.keys.trusted_texts();
    table.row("signs as", trusted.first().map_or("", String::as_str));
    if let Some(other) = trusted.get(1) {
        table.row("and trusts", other);
    }
    let admin = match config.admin_token {
        Some(_) => "for who has the token",
        None => "none: nobody can be invited",
    };
    table.row("admin API", admin);
    let tls = if config.tls.is_some() {
        "its own"
    } else {
        "none: for the loopback, or behind a proxy"
    };
    table.row("TLS", tls);
    table
}

fn backend(table: &mut Table, backend: &BackendSection) {
    if let Some(url) = &backend.url {
        table.row("control plane", url);
    }
    match backend.urls.as_slice() {
        [] if backend.url.is_some() => {}
        [] => table.row("backend", "none: nobody is asked"),
        urls => table.row(
            "backend",
            format!("{}, asked every {:?}", listed(urls), backend.check_interval),
        ),
    }
}

fn quic(table: &mut Table, quic: TransportSettings) {
    table.row("idle timeout", format!("{:?}", quic.idle_timeout));
    table.row(
        "UDP payload",
        format!("{} to {} bytes", quic.mtu_initial, quic.mtu_upper),
    );
}

/// The first items, and how many more there are.
fn listed<T: Display>(items: &[T]) -> String {
    let mut words: Vec<_> = items
        .iter()
        .take(LISTED_MAX)
        .map(ToString::to_string)
        .collect();
    if let Some(more) = items.len().checked_sub(LISTED_MAX + 1) {
        words.push(format!("and {} more", more + 1));
    }
    words.join(", ")
}
