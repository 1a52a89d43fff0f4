//! The tables of the file, and how each becomes the settings of a part.
//!
//! A table's defaults are the part's own: they are written once, there, with their reasons.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use quell_core::config::{ConfigError, FlapConfig, ProbeLatchConfig};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::{DatabaseUrl, StoreConfig};
use crate::catalog::CatalogConfig;
use crate::probe::ProbeConfig;
use crate::server::LimitsConfig;
use crate::service::ServiceConfig;

/// `store`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StoreSection {
    redb: Option<PathBuf>,
    postgres: Option<Hidden>,
}

/// A text that `Debug` does not show.
#[derive(Deserialize)]
#[serde(transparent)]
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

impl StoreSection {
    pub(super) fn config(self, folder: &Path) -> Result<StoreConfig, ConfigError> {
        let allowed = "one of { redb = \"backend.redb\" } and { postgres = \"postgres://…\" }";
        match (self.redb, self.postgres) {
            (Some(path), None) => Ok(StoreConfig::Redb(folder.join(path))),
            (None, Some(Hidden(url))) => Ok(StoreConfig::Postgres(DatabaseUrl(url))),
            (Some(_), Some(_)) => Err(ConfigError::new("store", "both", allowed)),
            (None, None) => Err(ConfigError::new("store", "none", allowed)),
        }
    }
}

/// `[metrics]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MetricsSection {
    listen: Option<SocketAddr>,
}

impl MetricsSection {
    /// Nothing proves who asks for metrics: beyond the loopback they are nobody's.
    pub(super) fn address(self) -> Result<Option<SocketAddr>, ConfigError> {
        match self.listen {
            Some(listen) if !listen.ip().is_loopback() => {
                let allowed = "an address of the loopback, such as \"127.0.0.1:9621\"";
                Err(ConfigError::new("metrics.listen", listen, allowed))
            }
            listen => Ok(listen),
        }
    }
}

/// A table whose fields are durations, sizes and numbers that a part has defaults for.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident from $config:ident {
        durations { $($time:ident),* } sizes { $($size:ident),* } plain { $($plain:ident: $type:ty),* }
    }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $name {
            $(#[serde(with = "humantime_serde")] $time: Duration,)*
            $(#[serde(deserialize_with = "size")] $size: u64,)*
            $($plain: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                let config = $config::default();
                Self {
                    $($time: config.$time,)*
                    $($size: config.$size,)*
                    $($plain: config.$plain,)*
                }
            }
        }

        impl $name {
            /// The part's settings, with these.
            fn onto(&self, mut config: $config) -> $config {
                $(config.$time = self.$time;)*
                $(config.$size = self.$size;)*
                $(config.$plain = self.$plain.clone();)*
                config
            }
        }
    };
}

section! {
    /// `[contracts]`.
    ContractsSection from ServiceConfig {
        durations { contract_lifetime, grace, retention }
        sizes { contract_bytes_min, contract_bytes_max, grace_bytes }
        plain {}
    }
}

section! {
    /// `[catalog]`.
    CatalogSection from CatalogConfig {
        durations { min_interval, heartbeat_interval, heartbeat_max_age, refresh_interval, wait_max }
        sizes {}
        plain { soft_keeps_percent: u8 }
    }
}

section! {
    /// `[flap]`.
    FlapSection from FlapConfig {
        durations { host_interval, catalog_interval }
        sizes {}
        plain { host_burst: u32, catalog_burst: u32, hosts_max: u32 }
    }
}

section! {
    /// `[limits]`.
    LimitsSection from LimitsConfig {
        durations { header_timeout, body_timeout, connection_age_max, ramp, shutdown_timeout }
        sizes {}
        plain {
            connections_max: usize, connections_per_source: usize, source_requests_per_s: u32, source_request_burst: u32,
            sources_max: u32, account_requests_per_s: u32, account_request_burst: u32, accounts_max: u32,
            ramp_from_per_s: u32, ramp_to_per_s: u32, proxies: Vec<IpAddr>
        }
    }
}

/// `[probe]`: how providers are asked, and when the answer counts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProbeSection {
    #[serde(with = "humantime_serde")]
    interval: Duration,
    #[serde(with = "humantime_serde")]
    timeout: Duration,
    concurrency_max: usize,
    http_path: Option<String>,
    http_port: u16,
    success_before_passing: u32,
    failures_before_critical: u32,
}

impl Default for ProbeSection {
    fn default() -> Self {
        let ProbeConfig {
            interval,
            timeout,
            concurrency_max,
            http_path,
            http_port,
        } = ProbeConfig::default();
        let ProbeLatchConfig {
            success_before_passing,
            failures_before_critical,
        } = ProbeLatchConfig::default();
        Self {
            interval,
            timeout,
            concurrency_max,
            http_path,
            http_port,
            success_before_passing,
            failures_before_critical,
        }
    }
}

impl ProbeSection {
    pub(super) fn config(&self) -> ProbeConfig {
        ProbeConfig {
            interval: self.interval,
            timeout: self.timeout,
            concurrency_max: self.concurrency_max,
            http_path: self.http_path.clone(),
            http_port: self.http_port,
        }
    }

    fn latch(&self) -> ProbeLatchConfig {
        ProbeLatchConfig {
            success_before_passing: self.success_before_passing,
            failures_before_critical: self.failures_before_critical,
        }
    }
}

impl CatalogSection {
    pub(super) fn config(&self, probe: &ProbeSection, flap: FlapSection) -> CatalogConfig {
        let config = CatalogConfig {
            probe: probe.latch(),
            flap: flap.onto(FlapConfig::default()),
            ..CatalogConfig::default()
        };
        self.onto(config)
    }
}

impl LimitsSection {
    pub(super) fn config(&self) -> LimitsConfig {
        self.onto(LimitsConfig::default())
    }
}

impl ContractsSection {
    pub(super) fn config(
        &self,
        heartbeat_interval: Duration,
    ) -> Result<ServiceConfig, ConfigError> {
        let config = ServiceConfig {
            heartbeat_interval,
            ..ServiceConfig::default()
        };
        self.onto(config).try_new()
    }
}

/// A size in bytes, as text with a unit or as a plain number.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    struct SizeReader;

    const FORM: &str = r#"a size such as "4GiB", or a number of bytes"#;

    impl Visitor<'_> for SizeReader {
        type Value = u64;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(FORM)
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<u64, E> {
            u64::try_from(value).map_err(|_| E::custom(format_args!("allowed is {FORM}")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            let ByteSize(bytes) = text
                .parse()
                .map_err(|_| E::custom(format_args!("no size: allowed is {FORM}")))?;
            Ok(bytes)
        }
    }

    from.deserialize_any(SizeReader)
}
