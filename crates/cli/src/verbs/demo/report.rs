//! What the demo measured, and whether it was right.

use std::fmt;
use std::time::Duration;

use anyhow::anyhow;
use quell_lab::content;
use quell_lab::http::{self, Download, Server};
use quell_lab::probe::{self, PingReport};
use serde_json::Value;

use super::Stage;
use crate::Failure;

/// The exit's address inside the tunnel, where the web server listens.
const WEB_SERVER: &str = "10.85.0.1:80";
const PINGS: u16 = 20;
const PING_INTERVAL: Duration = Duration::from_millis(20);
const DOWNLOAD_TIME: Duration = Duration::from_secs(120);

/// One run of the demo.
pub(super) struct Report {
    ping: PingReport,
    download: Download,
    expected_sha256: String,
    client: Value,
    provider: Value,
}

impl Report {
    /// Pings the exit, then downloads `bytes` from it, through the tunnel.
    pub(super) fn measure(stage: &Stage, bytes: u64) -> Result<Self, Failure> {
        let server = WEB_SERVER
            .parse()
            .map_err(|_| Failure::Failed(anyhow!("{WEB_SERVER} is no address")))?;
        let _web = stage.hosts.provider.run(|| Server::start(server))??;
        let ping = stage.hosts.client.run(|| {
            probe::ping(
                server.ip(),
                56,
                PINGS,
                PING_INTERVAL,
                Duration::from_secs(1),
            )
        })??;
        let download = stage
            .hosts
            .client
            .run(|| http::download(server, bytes, DOWNLOAD_TIME))??;
        Ok(Self {
            ping,
            download,
            expected_sha256: content::sha256(bytes),
            client: stage.client.status()?,
            provider: stage.provider.status()?,
        })
    }

    /// What was not as it should be.
    pub(super) fn complaint(&self) -> Option<String> {
        let unaccounted =
            [&self.client, &self.provider].map(|status| status["unaccounted"].as_i64());
        if self.download.sha256 != self.expected_sha256 {
            Some("the file arrived damaged".to_owned())
        } else if self.ping.lost() > 0 {
            Some(format!("{} of {PINGS} pings were lost", self.ping.lost()))
        } else if unaccounted != [Some(0), Some(0)] {
            Some(format!("packets are unaccounted for: {unaccounted:?}"))
        } else {
            None
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Option<Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        let seconds = self.download.elapsed.as_secs_f64();
        let mib = self.download.bytes as f64 / (1024.0 * 1024.0);
        let counters = &self.client["path"]["counters"];
        let count = |name: &str| counters[name].as_u64().unwrap_or(0);
        let drops = |status: &Value| {
            status["path"]["drops"]
                .as_object()
                .map_or(0, |drops| drops.values().filter_map(Value::as_u64).sum())
        };
        let right = if self.download.sha256 == self.expected_sha256 {
            "right"
        } else {
            "WRONG"
        };
        writeln!(
            f,
            "tunnel     {}, {} inside; packets of up to {} bytes cross whole",
            show(&self.client["addresses"]["ipv4"]),
            show(&self.client["addresses"]["ipv6"]),
            self.client["path"]["inner_mtu"]
        )?;
        writeln!(
            f,
            "ping       {:.2} ms mean, {:.2} ms at most, {} of {PINGS} lost",
            ms(self.ping.round_trip_mean()),
            ms(self.ping.round_trip_max()),
            self.ping.lost()
        )?;
        writeln!(
            f,
            "download   {mib:.0} MiB in {seconds:.2} s: {:.0} Mbit/s, SHA-256 {right}",
            self.download.bytes as f64 * 8.0 / seconds / 1e6
        )?;
        writeln!(
            f,
            "carried    {} packets out, {} in, {} dropped, {} unaccounted for",
            count("sent") + count("laned"),
            count("received"),
            drops(&self.client),
            self.client["unaccounted"]
        )?;
        writeln!(
            f,
            "on the wire {} bytes out, {} in",
            self.client["udp"]["bytes_out"], self.client["udp"]["bytes_in"]
        )
    }
}

fn show(address: &Value) -> String {
    match (address[0].as_str(), address[1].as_u64()) {
        (Some(address), Some(len)) => format!("{address}/{len}"),
        (_, _) => "none".to_owned(),
    }
}
