//! The quiet phase: pings and a download while nothing else crosses the tunnel.
//!
//! It shows that the tunnel carries what it is given before anything is broken,
//! and what it can carry: the wire has no limit of its own, so the download is
//! as fast as this machine. The bytes are known beforehand, and the file counts
//! as right only if its SHA-256 is that of what the server was asked for.

use std::fmt;
use std::time::Duration;

use quell_lab::content;
use quell_lab::http::Download;
use quell_lab::probe::PingReport;

/// How many pings.
pub(super) const PINGS: u16 = 20;
/// What the ping of most systems carries, in bytes.
pub(super) const PING_BYTES: usize = 56;
/// How long the last ping may take.
pub(super) const PING_TIME: Duration = Duration::from_secs(1);
/// Enough for the largest file at 300 Mbit/s.
pub(super) const DOWNLOAD_TIME: Duration = Duration::from_secs(120);

/// What came of it.
#[derive(Debug)]
pub(super) struct Quiet {
    ping: PingReport,
    download: Download,
    expected_sha256: String,
}

impl Quiet {
    /// Of [`PINGS`] pings, and a download of the content's first `bytes`.
    pub(super) fn new(ping: PingReport, download: Download, bytes: u64) -> Self {
        Self {
            ping,
            download,
            expected_sha256: content::sha256(bytes),
        }
    }

    /// Pings without a right answer.
    pub(super) fn pings_lost(&self) -> u64 {
        self.ping.lost().into()
    }

    /// Whether another file arrived than was asked for.
    pub(super) fn is_damaged(&self) -> bool {
        self.download.sha256 != self.expected_sha256
    }

    /// The download's speed, in Mbit/s.
    pub(super) fn mbit_s(&self) -> f64 {
        self.download.bytes as f64 * 8.0 / self.download.elapsed.as_secs_f64() / 1e6
    }
}

impl fmt::Display for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Option<Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
        let mib = self.download.bytes as f64 / (1024.0 * 1024.0);
        let right = if self.is_damaged() { "WRONG" } else { "right" };
        writeln!(
            f,
            "ping      {:.2} ms mean, {:.2} ms at most, {} of {PINGS} lost",
            ms(self.ping.round_trip_mean()),
            ms(self.ping.round_trip_max()),
            self.ping.lost()
        )?;
        write!(
            f,
            "download  {mib:.0} MiB in {:.2} s: {:.0} Mbit/s, SHA-256 {right}",
            self.download.elapsed.as_secs_f64(),
            self.mbit_s()
        )
    }
}
