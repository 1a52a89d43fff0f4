//! The description says what there is, and there is what it says.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use quell_core::flap::{FlapCounters, HostStatus};
use quell_core::health::ProbeLatch;
use serde::Serialize;
use serde_json::Value;

use super::DESCRIPTION;
use crate::api::*;
use crate::catalog::{CatalogCounters, HostReport};
use crate::server::admin::*;
use crate::server::counters::Counted;
use crate::server::routes::routes;

fn description() -> Value {
    serde_json::from_str(DESCRIPTION).unwrap()
}

#[test]
fn its_paths_are_the_routes() {
    let description = description();
    let mut described = BTreeSet::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            described.insert((method.clone(), path.clone()));
        }
    }
    let routes = routes().into_iter();
    let routes = routes.map(|(method, path, _)| (method.to_owned(), path.to_owned()));
    assert_eq!(described, routes.collect::<BTreeSet<_>>());
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_referred_to() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                let to = fields.get("$ref").and_then(Value::as_str);
                found.extend(to.map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let description = description();
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    let mut all = BTreeSet::new();
    for kind in ["schemas", "responses"] {
        let parts = description["components"][kind].as_object().unwrap();
        all.extend(
            parts
                .keys()
                .map(|name| format!("#/components/{kind}/{name}")),
        );
    }
    assert_eq!(found, all);
}

/// The properties of a schema are those of its samples, no more and no fewer.
fn same(name: &str, samples: &[Value]) {
    let description = description();
    let schema = &description["components"]["schemas"][name];
    let described: BTreeSet<&String> = schema["properties"]
        .as_object()
        .unwrap_or_else(|| panic!("{name} has no properties"))
        .keys()
        .collect();
    let written: BTreeSet<&String> = samples
        .iter()
        .flat_map(|sample| sample.as_object().unwrap().keys())
        .collect();
    assert_eq!(described, written, "{name}");
    let required = schema["required"].as_array();
    for field in required.into_iter().flatten() {
        assert!(
            described.iter().any(|name| *name == field),
            "{name}: {field}"
        );
    }
}

fn one(name: &str, sample: &impl Serialize) {
    same(name, &[serde_json::to_value(sample).unwrap()]);
}

fn refusal() -> Refusal {
    Refusal {
        code: RefusalCode::Other,
        words: String::new(),
    }
}

#[test]
fn every_body_of_clients_has_the_fields_that_are_described() {
    let text = String::new;
    let enrol = EnrolRequest {
        invitation: text(),
        name: text(),
        addresses: Vec::new(),
    };
    one("EnrolRequest", &enrol);
    let answer = EnrolAnswer {
        role: Role::Client,
        name: text(),
        trusted_keys: Vec::new(),
    };
    one("EnrolAnswer", &answer);
    let exit = CatalogExit {
        public_key: text(),
        name: text(),
        addresses: Vec::new(),
    };
    one("CatalogExit", &exit);
    let catalog = CatalogAnswer {
        version: text(),
        issued_s: 0,
        exits: Vec::new(),
    };
    one("CatalogAnswer", &catalog);
    let want = ContractWant {
        binding: text(),
        bytes: 0,
    };
    one("ContractWant", &want);
    let contracts = ContractsRequest {
        request_id: text(),
        wants: Vec::new(),
    };
    one("ContractsRequest", &contracts);
    let outcomes = Vec::new();
    one("ContractsAnswer", &ContractsAnswer { outcomes });
    let outcomes = [
        ContractOutcome::Signed(text()),
        ContractOutcome::Refused(refusal()),
    ];
    same(
        "ContractOutcome",
        &outcomes.map(|o| serde_json::to_value(o).unwrap()),
    );
    one("Refusal", &refusal());
}

#[test]
fn every_body_of_providers_has_the_fields_that_are_described() {
    let text = String::new;
    let filed = FiledReceipt {
        contract: text(),
        receipt: text(),
    };
    one("FiledReceipt", &filed);
    let receipts = Vec::new();
    one("ReceiptsRequest", &ReceiptsRequest { receipts });
    let outcomes = Vec::new();
    one("ReceiptsAnswer", &ReceiptsAnswer { outcomes });
    let settled = ReceiptOutcome::Settled { bytes_total: 0 };
    let outcomes = [settled, ReceiptOutcome::Refused(refusal())];
    same(
        "ReceiptOutcome",
        &outcomes.map(|o| serde_json::to_value(o).unwrap()),
    );
    let beat = HeartbeatRequest {
        addresses: Vec::new(),
        sessions: 0,
        draining: false,
    };
    one("HeartbeatRequest", &beat);
    let answer = HeartbeatAnswer {
        trusted_keys: Vec::new(),
        in_service: true,
        reason: text(),
        next_s: 0,
    };
    one("HeartbeatAnswer", &answer);
}

#[test]
fn every_body_of_the_operator_has_the_fields_that_are_described() {
    let text = String::new;
    let invite = InviteRequest {
        role: Role::Client,
        uses: 1,
        lasts_s: 1,
        quota_bytes: None,
    };
    one("InviteRequest", &invite);
    let answer = InviteAnswer {
        invitation: text(),
        expires_s: 0,
    };
    one("InviteAnswer", &answer);
    let account = AccountReport {
        public_key: text(),
        role: Role::Client,
        name: text(),
        addresses: Vec::new(),
        enrolled_s: 0,
        banned: false,
        quota_bytes: None,
        settled_bytes: 0,
        heartbeat_s: 0,
    };
    one("AccountReport", &account);
    let accounts = AccountsAnswer {
        accounts: Vec::new(),
        next: None,
    };
    one("AccountsAnswer", &accounts);
    one("QuotaRequest", &QuotaRequest { quota_bytes: None });
    one("Done", &Done { done: true });
    let flap = FlapCounters::default();
    one("FlapCounters", &flap);
    one("CatalogCounters", &CatalogCounters::default());
    let status = HostStatus {
        counters: flap,
        is_held: false,
    };
    one("FlapStatus", &status);
    let probe = ProbeLatch::new(quell_core::config::ProbeLatchConfig::default()).status();
    one("ProbeStatus", &probe);
    let host = HostReport {
        public_key: text(),
        name: text(),
        in_service: true,
        reason: text(),
        heartbeat_age_s: None,
        probe,
        flap: Some(status),
    };
    one("ProviderReport", &host);
    let providers = ProvidersAnswer {
        version: text(),
        catalog: CatalogCounters::default(),
        flap,
        providers: Vec::new(),
    };
    one("ProvidersAnswer", &providers);
    one("ServerCounters", &Counted::default());
    let server = ServerAnswer {
        version: text(),
        trusted_keys: Vec::new(),
        counters: Counted::default(),
    };
    one("ServerAnswer", &server);
}

#[test]
fn every_code_of_a_refusal_is_described() {
    let description = description();
    let described = &description["components"]["schemas"]["RefusalCode"]["enum"];
    let described: BTreeSet<Code> = described
        .as_array()
        .unwrap()
        .iter()
        .map(|code| Code(code.as_str().unwrap().to_owned()))
        .collect();
    // Each is read as itself, but for the one that everything else is read as.
    for Code(text) in &described {
        let code: RefusalCode = serde_json::from_value(text.as_str().into()).unwrap();
        assert_eq!(code == RefusalCode::Other, text == "other", "{text}");
    }
    assert_eq!(described.len(), 15);
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Code(String);
