//! The reference server's metrics, on a listener of their own on the loopback: `[metrics] listen`.
//!
//! They are apart from `/v1`, which the whole world may ask, and so need no token. A page holds what the operator's API holds
//! in numbers: requests by what became of them, and whether each provider is in the catalog. There are as many series as
//! [`PROVIDERS_MAX`] providers make; those beyond are counted together. Clients are counted and never named.

use std::sync::Arc;
use std::time::Instant;

use quell_core::exposition::Kind::{Counter, Gauge};
use quell_core::exposition::{Names, Page};
use quell_core::flap::FlapCounters;
use quell_net::scrape::{self, Serving};

use super::counters::Counted;
use super::{App, ServerError};
use crate::catalog::{CatalogCounters, HostReport};

/// Most providers that have a series of their own: a thousand is twice the fleet that this server is made for, and 60 kB.
const PROVIDERS_MAX: usize = 1_024;

/// Serves the metrics of `app`.
pub(super) fn serve(app: &Arc<App>, address: std::net::SocketAddr) -> Result<Serving, ServerError> {
    let app = Arc::clone(app);
    let make = move || -> scrape::PageFuture {
        let page = page(&app);
        Box::pin(async move { Ok(page) })
    };
    let serving = scrape::serve(address, Arc::new(make)).map_err(ServerError::Metrics)?;
    tracing::info!(address = %serving.address(), "metrics are served");
    Ok(serving)
}

fn page(app: &App) -> String {
    let (catalog, flap, hosts) = app.catalog.look(|membership| {
        let hosts = membership.report(Instant::now());
        (membership.counters(), membership.flap_counters(), hosts)
    });
    render(&app.counters.counted(), &catalog, &flap, &hosts)
}

fn render(
    counted: &Counted,
    catalog: &CatalogCounters,
    flap: &FlapCounters,
    hosts: &[HostReport],
) -> String {
    let mut page = Page::default();
    let labels = [("role", "backend"), ("version", env!("CARGO_PKG_VERSION"))];
    let help = "Which quell this is; always 1.";
    page.family("quell_info", Gauge, help).add(&labels, 1.0);
    requests(&mut page, counted);
    memberships(&mut page, catalog, flap);
    providers(&mut page, hosts);
    page.to_string()
}

fn requests(page: &mut Page, counted: &Counted) {
    let help = "Connections, by what became of them.";
    page.family("quell_server_connections_total", Counter, help)
        .add(&[("outcome", "taken")], counted.connections as f64)
        .add(
            &[("outcome", "refused_full")],
            counted.connections_refused_total as f64,
        )
        .add(
            &[("outcome", "refused_source")],
            counted.connections_refused_source as f64,
        )
        .add(
            &[("outcome", "refused_tls")],
            counted.connections_refused_tls as f64,
        );
    let help = "Requests that came.";
    page.counter("quell_server_requests_total", help, counted.requests as f64);
    let help = "Requests that did not get what they asked for, by reason.";
    let family = page.family("quell_server_refusals_total", Counter, help);
    for (reason, count) in [
        ("put_off", counted.requests_put_off),
        ("source", counted.requests_refused_source),
        ("account", counted.requests_refused_account),
        ("malformed", counted.requests_malformed),
        ("unsigned", counted.requests_unsigned),
        ("rules", counted.requests_refused),
        ("store", counted.requests_failed),
    ] {
        family.add(&[("reason", reason)], count as f64);
    }
}

fn memberships(page: &mut Page, catalog: &CatalogCounters, flap: &FlapCounters) {
    let help = "Versions of the catalog that were published.";
    page.counter(
        "quell_catalog_versions_total",
        help,
        catalog.versions as f64,
    );
    let help = "Providers that came into the catalog or left it, or were held.";
    let family = page.family("quell_catalog_changes_total", Counter, help);
    for (change, count) in [
        ("entered", catalog.entered),
        ("left", catalog.left),
        ("doubted", catalog.doubted),
        ("refused_full", catalog.refused_full),
    ] {
        family.add(&[("change", change)], count as f64);
    }
    let help = "Hosts that were to go down in the eyes of others, by what was decided.";
    let family = page.family("quell_flap_transitions_total", Counter, help);
    for (decision, count) in [
        ("allowed", flap.allowed),
        ("denied_host", flap.denied_host),
        ("denied_catalog", flap.denied_catalog),
    ] {
        family.add(&[("decision", decision)], count as f64);
    }
}

fn providers(page: &mut Page, hosts: &[HostReport]) {
    let serving = hosts.iter().filter(|host| host.in_service).count();
    let help = "Providers, by whether they are in the catalog.";
    page.family("quell_catalog_providers", Gauge, help)
        .add(&[("state", "in_service")], serving as f64)
        .add(&[("state", "out")], (hosts.len() - serving) as f64);
    let ages = hosts.iter().filter_map(|host| host.heartbeat_age_s);
    if let Some(oldest) = ages.max() {
        let help = "How long ago the provider was heard that was not heard for longest.";
        page.gauge("quell_catalog_silence_max_seconds", help, oldest as f64);
    }
    let mut names = Names::at_most(PROVIDERS_MAX);
    let help = "Whether a provider is in the catalog.";
    let family = page.family("quell_catalog_provider_in_service", Gauge, help);
    for host in hosts {
        let name = names.of(&host.name);
        family.add(&[("provider", &name)], f64::from(u8::from(host.in_service)));
    }
}

#[cfg(test)]
mod tests {
    use quell_core::health::probe_latch::{ProbeLatchStatus, ProbeState};

    use super::*;

    fn host(name: String, in_service: bool) -> HostReport {
        HostReport {
            public_key: String::new(),
            name,
            in_service,
            reason: String::new(),
            heartbeat_age_s: Some(3),
            probe: ProbeLatchStatus {
                state: ProbeState::Passing,
                in_service,
                successes: 0,
                failures: 0,
                reason: String::new(),
            },
            flap: None,
        }
    }

    fn page_of(hosts: &[HostReport]) -> String {
        render(
            &Counted::default(),
            &CatalogCounters::default(),
            &FlapCounters::default(),
            hosts,
        )
    }

    #[test]
    fn providers_are_counted_and_named() {
        let page = page_of(&[host("fra".to_owned(), true), host("lon".to_owned(), false)]);
        for line in [
            "quell_catalog_providers{state=\"in_service\"} 1",
            "quell_catalog_providers{state=\"out\"} 1",
            "quell_catalog_provider_in_service{provider=\"fra\"} 1",
            "quell_catalog_provider_in_service{provider=\"lon\"} 0",
            "quell_catalog_silence_max_seconds 3",
            "quell_server_refusals_total{reason=\"store\"} 0",
        ] {
            assert!(page.lines().any(|is| is == line), "no {line} in\n{page}");
        }
    }

    #[test]
    fn ten_thousand_names_are_as_many_series_as_the_bound_allows() {
        let hosts = (0..10_000).map(|number| host(format!("{number}\"\n{number}"), true));
        let page = page_of(&hosts.collect::<Vec<_>>());
        let series = page
            .lines()
            .filter(|line| line.starts_with("quell_catalog_provider_in_service{"));
        assert_eq!(series.count(), PROVIDERS_MAX + 1);
    }
}
