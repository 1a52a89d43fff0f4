//! Whole files, and each way in which one is wrong.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use quell_core::contract::seal;
use quell_wire::key::SecretKey;
use tempfile::TempDir;

use super::*;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    secret(
        &folder,
        "signing.key",
        &SecretKey::from_bytes([1; 32]).to_text(),
    );
    secret(&folder, "admin.token", &"t".repeat(32));
    folder
}

fn secret(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

const LEAST: &str =
    "listen = \"127.0.0.1:0\"\nstore = { redb = \"b.redb\" }\nsigning_key_file = \"signing.key\"\n";

fn parse(folder: &TempDir, text: &str) -> Result<ServerConfig, ServerError> {
    let path = folder.path().join("backend.toml");
    std::fs::write(&path, text).unwrap();
    ServerConfig::load(&path)
}

fn error(text: &str) -> String {
    parse(&folder(), text).unwrap_err().to_string()
}

#[test]
fn the_least_file_is_enough_and_has_each_parts_defaults() {
    let folder = folder();
    let config = parse(&folder, LEAST).unwrap();
    assert_eq!(
        config.store,
        StoreConfig::Redb(folder.path().join("b.redb"))
    );
    assert!(config.admin_token.is_none() && config.tls.is_none());
    assert_eq!(config.catalog, CatalogConfig::default());
    assert_eq!(config.probe, ProbeConfig::default());
    assert_eq!(config.limits, LimitsConfig::default());
    assert_eq!(config.service, ServiceConfig::default());
    // R-55
    assert!(config.catalog.flap.host_interval.is_zero());
}

/// Every table, with no value that is a default.
const TABLES: &str = r#"
[contracts]
contract_bytes_max = "1GiB"
contract_bytes_min = 4096
contract_lifetime = "2h"
grace_bytes = "1MiB"
grace = "10m"
retention = "7d"
[catalog]
min_interval = "2s"
heartbeat_interval = "5s"
heartbeat_max_age = "30s"
refresh_interval = "3s"
wait_max = "20s"
soft_keeps_percent = 0
[probe]
interval = "4s"
timeout = "1s"
concurrency_max = 8
http_path = "/health"
http_port = 8080
success_before_passing = 4
failures_before_critical = 6
[flap]
host_interval = "1m"
host_burst = 2
catalog_interval = "1s"
catalog_burst = 9
hosts_max = 77
[limits]
connections_max = 100
connections_per_source = 10
header_timeout = "3s"
body_timeout = "4s"
connection_age_max = "2m"
source_requests_per_s = 3
source_request_burst = 4
sources_max = 5
account_requests_per_s = 6
account_request_burst = 7
accounts_max = 8
ramp = "0s"
ramp_from_per_s = 9
ramp_to_per_s = 10
shutdown_timeout = "11s"
proxies = ["127.0.0.1"]
[tls]
cert_file = "a.pem"
key_file = "b.pem"
"#;

#[test]
fn every_table_reaches_its_part() {
    // R-55, R-56
    let next = seal::public_key(&SecretKey::from_bytes([2; 32]));
    let text =
        format!("{LEAST}trusted = [\"{next}\"]\nadmin_token_file = \"admin.token\"\n{TABLES}");
    let s = Duration::from_secs;
    let config = parse(&folder(), &text).unwrap();
    assert_eq!(config.keys.trusted()[1], next);
    assert!(config.admin_token.unwrap().is(&"t".repeat(32)));
    let service = config.service;
    assert_eq!(
        (service.contract_bytes_max, service.contract_bytes_min),
        (1 << 30, 4_096)
    );
    assert_eq!(service.heartbeat_interval, s(5));
    assert_eq!((service.grace, service.retention), (s(600), s(604_800)));
    let (catalog, latch) = (config.catalog.clone(), config.catalog.probe);
    assert_eq!((catalog.wait_max, catalog.soft_keeps_percent), (s(20), 0));
    assert_eq!(
        (latch.success_before_passing, latch.failures_before_critical),
        (4, 6)
    );
    assert_eq!(
        (catalog.flap.hosts_max, catalog.flap.catalog_burst),
        (77, 9)
    );
    assert_eq!(config.probe.http_path.as_deref(), Some("/health"));
    assert_eq!(
        config.limits.proxies,
        ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!((config.limits.ramp, config.limits.accounts_max), (s(0), 8));
    assert!(config.tls.unwrap().key_file.is_absolute());
}

#[test]
fn a_mistake_is_named_with_its_line_or_its_range() {
    let cases = [
        ("lisen = 1\n", "unknown field `lisen`"),
        (
            "[limits]\nramps = \"1s\"\n",
            "line 5: unknown field `ramps`",
        ),
        (
            "[limits]\nconnections_max = 0\n",
            "limits.connections_max = 0: allowed is 1 to 65536",
        ),
        (
            "[catalog]\nwait_max = \"10m\"\n",
            "catalog.wait_max = 600s: allowed is 1s to 300s",
        ),
        (
            "[probe]\nfailures_before_critical = 0\n",
            "probe.failures_before_critical = 0: allowed is 1 to 100",
        ),
        (
            "[contracts]\ncontract_bytes_max = 0\n",
            "contracts.contract_bytes_max",
        ),
        (
            "[contracts]\ngrace_bytes = \"much\"\n",
            "allowed is a size such as",
        ),
        ("trusted = [\"x\"]\n", "trusted = "),
    ];
    for (text, said) in cases {
        // A key of the top must come before the tables.
        let text = format!("{LEAST}{text}");
        let error = error(&text);
        assert!(error.contains(said), "{error}");
        assert!(error.contains("backend.toml"), "{error}");
    }
}

#[test]
fn there_is_one_store() {
    let none = LEAST.replace("redb = \"b.redb\"", "");
    assert!(error(&none).contains("store = none"));
    let both = LEAST.replace("redb =", "postgres = \"postgres://u:hunter2@h/\", redb =");
    let error = error(&both);
    assert!(error.contains("store = both") && !error.contains("hunter2"));
}

#[test]
fn no_secret_is_shown() {
    let text = LEAST.replace(
        "redb = \"b.redb\"",
        "postgres = \"postgres://u:hunter2@h/\"",
    );
    let config = parse(&folder(), &text).unwrap();
    assert!(!format!("{:?}", config.store).contains("hunter2"));
    let wrong = text.replace("postgres =", "postgre =");
    assert!(!error(&wrong).contains("hunter2"));
    assert!(!format!("{:?}", AdminToken::new("hunter2")).contains("hunter2"));
}

#[test]
fn a_secrets_file_is_its_owners_alone_and_a_token_is_long() {
    let folder = folder();
    let path = folder.path().join("signing.key");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let said = parse(&folder, LEAST).unwrap_err().to_string();
    assert!(said.contains("mode 0640"), "{said}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!("admin_token_file = \"admin.token\"\n{LEAST}");
    parse(&folder, &text).unwrap();
    secret(&folder, "admin.token", &"t".repeat(31));
    let said = parse(&folder, &text).unwrap_err().to_string();
    assert!(
        said.contains("at least 32") && !said.contains("ttt"),
        "{said}"
    );
    secret(&folder, "signing.key", "quellsec1wrong");
    let said = parse(&folder, LEAST).unwrap_err().to_string();
    assert!(!said.contains("wrong\""), "{said}");
}

#[test]
fn a_token_is_itself_and_no_other() {
    let token = AdminToken::new("a token of some length, as tokens are");
    assert!(token.is("a token of some length, as tokens are"));
    assert!(!token.is("a token of some length, as tokens arf") && !token.is(""));
}
