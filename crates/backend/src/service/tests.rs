//! The rules, one by one, over a store in memory.

#![allow(clippy::unwrap_used)]

mod flips;
mod ground;
mod receipts;

use std::time::Duration;

use quell_core::contract::seal;
use quell_wire::contract::SignedContract;
use quell_wire::key::{PublicKey, SecretKey};

use self::ground::{DAY, Ground, NOW_S, binding, code, pack, run, secret, want};
use super::admin::{INVITATION_USES_MAX, InvitationPlan, QUOTA_BYTES_MAX};
use super::{InvitationText, ServiceConfig, SigningKeys};
use crate::api::{
    ContractOutcome, ContractsRequest, EnrolRequest, HeartbeatRequest, RefusalCode, Role,
};

const GIB: u64 = 1 << 30;

#[test]
fn an_invitation_is_read_as_it_was_written_and_no_other_way() {
    let ground = Ground::new();
    let text = ground.draw();
    let written = text.to_text();
    assert!(written.starts_with("quellinv1"));
    let read = InvitationText::parse(&format!("  {}\n", written.as_str())).unwrap();
    assert_eq!(read.hash(), text.hash());
    assert_ne!(read.hash(), ground.draw().hash());
    assert_eq!(format!("{text:?}"), "InvitationText(hidden)");
    for at in 0..written.len() {
        let mut bytes = written.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'q' { b'p' } else { b'q' };
        let other = String::from_utf8(bytes).unwrap();
        assert!(InvitationText::parse(&other).is_none(), "{at}");
    }
    let key = seal::public_key(&secret(1)).to_text();
    assert!(InvitationText::parse(&key).is_none());
}

#[test]
fn enrolling_says_whose_contracts_to_trust_and_repeats_itself() {
    run(async {
        let ground = Ground::new();
        let request = ground.invitation(Role::Provider, 1, None).await;
        let who = seal::public_key(&secret(1));
        let answer = ground.service.enrol(who, &request, NOW_S).await.unwrap();
        assert_eq!(
            (answer.role, answer.name.as_str()),
            (Role::Provider, "somebody")
        );
        assert_eq!(answer.trusted_keys, ground.service.keys().trusted_texts());
        let other = EnrolRequest {
            name: "other".into(),
            ..request.clone()
        };
        assert_eq!(
            ground.service.enrol(who, &other, NOW_S + 9).await.unwrap(),
            answer
        );
        let second = seal::public_key(&secret(2));
        let refused = ground.service.enrol(second, &request, NOW_S).await;
        assert_eq!(code(refused), RefusalCode::Invitation);
        ground.service.set_banned(who, true).await.unwrap();
        let refused = ground.service.enrol(who, &request, NOW_S).await;
        assert_eq!(code(refused), RefusalCode::Banned);
        let client = ground.invitation(Role::Client, 1, None).await;
        let refused = ground.service.enrol(who, &client, NOW_S).await;
        assert_eq!(code(refused), RefusalCode::WrongRole);
    });
}

#[test]
fn names_and_addresses_have_bounds() {
    run(async {
        let ground = Ground::new();
        let request = ground.invitation(Role::Provider, 1_000, None).await;
        let mut n = 0;
        let mut enrol = async |name: &str, addresses: &[&str]| {
            n += 1;
            let request = EnrolRequest {
                name: name.into(),
                addresses: addresses.iter().map(|&a| a.into()).collect(),
                ..request.clone()
            };
            let who = seal::public_key(&secret(n));
            match ground.service.enrol(who, &request, NOW_S).await {
                Ok(_) => None,
                refused => Some(code(refused)),
            }
        };
        assert_eq!(enrol(&"ä".repeat(64), &[]).await, None);
        for name in ["", "a\nb", &"ä".repeat(65)] {
            assert_eq!(
                enrol(name, &[]).await,
                Some(RefusalCode::Malformed),
                "{name}"
            );
        }
        let host = format!("{}:65535", "a".repeat(253));
        let good = [
            "h.example:1",
            "192.0.2.1:6610",
            "[2001:db8::1]:6610",
            host.as_str(),
        ];
        assert_eq!(enrol("a", &good).await, None);
        let five = [good.as_slice(), &["h:2"]].concat();
        assert_eq!(enrol("a", &five).await, Some(RefusalCode::Limit));
        let long = format!("a{host}");
        for bad in [
            "",
            "h",
            ":1",
            "h:",
            "h:0",
            "h:65536",
            "h:+1",
            "h h:1",
            "::1:443",
            "2001:db8::1:443",
            "192.0.2.1:0",
            "[::1]",
            "h/x:1",
            "u@h:1",
            long.as_str(),
        ] {
            assert_eq!(
                enrol("a", &[bad]).await,
                Some(RefusalCode::Malformed),
                "{bad}"
            );
        }
    });
}

#[test]
fn who_asks_has_to_be_enrolled_in_its_role_and_not_banned() {
    run(async {
        let ground = Ground::new();
        let (client, provider) = ground.pair(None).await;
        let stranger = seal::public_key(&secret(99));
        let admit = async |who, role| ground.service.admit(who, role).await;
        assert_eq!(
            code(admit(stranger, Role::Client).await),
            RefusalCode::Unknown
        );
        assert_eq!(
            code(admit(client, Role::Provider).await),
            RefusalCode::WrongRole
        );
        assert_eq!(
            code(admit(provider, Role::Client).await),
            RefusalCode::WrongRole
        );
        assert_eq!(admit(client, Role::Client).await.unwrap().key, client);
        ground.service.set_banned(client, true).await.unwrap();
        assert_eq!(code(admit(client, Role::Client).await), RefusalCode::Banned);
        let asked = ground.contracts(1, vec![want(GIB)]).await;
        assert_eq!(code(asked), RefusalCode::Banned);
        ground.service.set_banned(client, false).await.unwrap();
        admit(client, Role::Client).await.unwrap();
    });
}

#[test]
fn a_heartbeat_says_where_the_provider_is() {
    run(async {
        let ground = Ground::new();
        let (client, provider) = ground.pair(None).await;
        let beat = HeartbeatRequest {
            addresses: vec!["new.example:6610".into()],
            sessions: 3,
            draining: false,
        };
        let account = ground
            .service
            .heartbeat(provider, &beat, NOW_S)
            .await
            .unwrap();
        assert_eq!(ground.service.usage(provider).await.unwrap(), account);
        assert_eq!(
            (account.addresses.clone(), account.heartbeat_s),
            (beat.addresses.clone(), NOW_S)
        );
        let refused = ground.service.heartbeat(client, &beat, NOW_S).await;
        assert_eq!(code(refused), RefusalCode::WrongRole);
        let none = HeartbeatRequest {
            addresses: vec![],
            ..beat
        };
        let refused = ground.service.heartbeat(provider, &none, NOW_S).await;
        assert_eq!(code(refused), RefusalCode::Malformed);
        let answer = ground.service.heartbeat_answer(true, "answers".into());
        assert_eq!((answer.next_s, answer.in_service), (10, true));
        assert_eq!(answer.trusted_keys, ground.service.keys().trusted_texts());
    });
}

fn signed(outcome: &ContractOutcome) -> SignedContract {
    match outcome {
        ContractOutcome::Signed(form) => SignedContract::decode(&ground::unpack(form)).unwrap(),
        ContractOutcome::Refused(refusal) => panic!("{refusal:?}"),
    }
}

fn refused(outcome: &ContractOutcome) -> RefusalCode {
    match outcome {
        ContractOutcome::Signed(_) => panic!("signed"),
        ContractOutcome::Refused(refusal) => refusal.code,
    }
}

#[test]
fn a_contract_names_the_fresh_key_and_keeps_to_the_configured_sizes() {
    run(async {
        let ground = Ground::new();
        let (_, provider) = ground.pair(None).await;
        let wants = [1, 1 << 20, GIB, 4 * GIB, 4 * GIB + 1, u64::MAX].map(want);
        let outcomes = ground.contracts(1, wants.to_vec()).await.unwrap();
        let contracts: Vec<_> = outcomes.iter().map(signed).collect();
        let bytes = [1 << 20, 1 << 20, GIB, 4 * GIB, 4 * GIB, 4 * GIB];
        assert_eq!(
            contracts.iter().map(|c| c.terms.bytes).collect::<Vec<_>>(),
            bytes
        );
        let key = ground.service.keys().trusted()[0];
        for contract in &contracts {
            let terms = contract.terms;
            assert!(seal::is_contract_signed(&key, contract));
            assert_eq!(terms.client_key, seal::public_key(&secret(11)));
            assert_eq!(terms.provider_key, provider);
            assert_eq!(
                (terms.not_before_s, terms.not_after_s),
                (NOW_S, NOW_S + 86_400)
            );
            assert_eq!((terms.grace_bytes, terms.grace_s), (0, 0));
        }
        // Once more, later and with other wishes: the same contracts.
        let again = vec![want(7); 6];
        let again = ground.contracts_at(1, again, NOW_S + 60).await.unwrap();
        assert_eq!(again, outcomes);
        let other = ground.contracts(2, vec![want(GIB)]).await.unwrap();
        assert_ne!(
            signed(&other[0]).terms.contract_id,
            contracts[0].terms.contract_id
        );
    });
}

#[test]
fn grace_comes_with_the_first_settled_contract() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let outcomes = ground.contracts(1, vec![want(GIB)]).await.unwrap();
        let first = signed(&outcomes[0]);
        assert_eq!((first.terms.grace_bytes, first.terms.grace_s), (0, 0));
        ground.file(&first, 1).await.unwrap();
        let wants = vec![want(GIB), want(1 << 20)];
        let outcomes = ground.contracts(2, wants).await.unwrap();
        let (large, small) = (signed(&outcomes[0]).terms, signed(&outcomes[1]).terms);
        assert_eq!((large.grace_bytes, large.grace_s), (256 << 20, 3_600));
        assert_eq!((small.grace_bytes, small.grace_s), (1 << 20, 3_600));
    });
}

#[test]
fn the_last_bytes_of_an_allowance_can_be_used() {
    run(async {
        let ground = Ground::new();
        let (client, _) = ground.pair(Some(2 * GIB + (1 << 20))).await;
        let outcomes = ground
            .contracts(1, vec![want(2 * GIB - 1); 3])
            .await
            .unwrap();
        // The second gets what is left, 1 MiB and a byte; then there is nothing.
        assert_eq!(signed(&outcomes[0]).terms.bytes, 2 * GIB - 1);
        assert_eq!(signed(&outcomes[1]).terms.bytes, (1 << 20) + 1);
        assert_eq!(refused(&outcomes[2]), RefusalCode::Quota);
        // Less than the least contract is not given out.
        let quota = Some(2 * GIB + (1 << 20) + (1 << 20) - 1);
        ground.service.set_quota(client, quota).await.unwrap();
        let outcomes = ground.contracts(2, vec![want(GIB)]).await.unwrap();
        assert_eq!(refused(&outcomes[0]), RefusalCode::Quota);
        let quota = Some(2 * GIB + (2 << 20));
        ground.service.set_quota(client, quota).await.unwrap();
        let outcomes = ground.contracts(3, vec![want(GIB)]).await.unwrap();
        assert_eq!(signed(&outcomes[0]).terms.bytes, 1 << 20);
    });
}

#[test]
fn a_binding_holds_for_its_days() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let day = |day| vec![ground::want_of(&binding(day), GIB)];
        for (n, good) in [DAY - 7, DAY, DAY + 1].into_iter().enumerate() {
            let outcomes = ground.contracts(n as u8, day(good)).await.unwrap();
            signed(&outcomes[0]);
        }
        for (n, bad) in [DAY - 8, DAY + 2, 0, u32::MAX].into_iter().enumerate() {
            let outcomes = ground.contracts(10 + n as u8, day(bad)).await.unwrap();
            assert_eq!(refused(&outcomes[0]), RefusalCode::Expired);
        }
    });
}

#[test]
fn a_want_that_does_not_hold_is_refused_alone_and_with_its_reason() {
    run(async {
        let ground = Ground::new();
        let (client, provider) = ground.pair(None).await;
        let good = binding(DAY);
        let signed_as = |signer: u8, change: &dyn Fn(&mut quell_wire::contract::BindingTerms)| {
            let mut terms = good.terms;
            change(&mut terms);
            ground::want_of(&seal::sign_binding(&secret(signer), terms), GIB)
        };
        let mut forged = good;
        forged.terms.client_key = seal::public_key(&secret(50));
        let other = seal::public_key(&secret(2));
        let wants = vec![
            (want(0), RefusalCode::Malformed),
            (
                crate::api::ContractWant {
                    binding: "?".into(),
                    bytes: 1,
                },
                RefusalCode::Malformed,
            ),
            (
                crate::api::ContractWant {
                    binding: pack(b"QLB1"),
                    bytes: 1,
                },
                RefusalCode::Malformed,
            ),
            (ground::want_of(&forged, GIB), RefusalCode::Signature),
            (signed_as(2, &|_| ()), RefusalCode::Signature),
            (
                signed_as(2, &|terms| terms.account_key = other),
                RefusalCode::Misdirected,
            ),
            (
                signed_as(1, &|terms| terms.client_key = client),
                RefusalCode::Malformed,
            ),
            (
                signed_as(1, &|terms| terms.provider_key = other),
                RefusalCode::Provider,
            ),
            (
                signed_as(1, &|terms| terms.provider_key = client),
                RefusalCode::Provider,
            ),
        ];
        let (mut wants, codes): (Vec<_>, Vec<_>) = wants.into_iter().unzip();
        wants.push(want(GIB));
        let outcomes = ground.contracts(1, wants).await.unwrap();
        assert_eq!(outcomes[..9].iter().map(refused).collect::<Vec<_>>(), codes);
        signed(&outcomes[9]);
        ground.service.set_banned(provider, true).await.unwrap();
        let outcomes = ground.contracts(2, vec![want(GIB)]).await.unwrap();
        assert_eq!(refused(&outcomes[0]), RefusalCode::Provider);
    });
}

#[test]
fn a_request_has_its_bounds() {
    run(async {
        let ground = Ground::new();
        ground.pair(None).await;
        let wants = |n| vec![want(GIB); n];
        assert_eq!(ground.contracts(1, wants(16)).await.unwrap().len(), 16);
        assert_eq!(
            code(ground.contracts(2, wants(17)).await),
            RefusalCode::Limit
        );
        assert_eq!(
            code(ground.contracts(3, wants(0)).await),
            RefusalCode::Malformed
        );
        let who = seal::public_key(&secret(1));
        for id in [
            "",
            "0g",
            &"0".repeat(31),
            &"0".repeat(33),
            &"0".repeat(34),
            &"ä".repeat(16),
        ] {
            let request = ContractsRequest {
                request_id: id.into(),
                wants: wants(1),
            };
            let refused = ground.service.contracts(who, &request, NOW_S).await;
            assert_eq!(code(refused), RefusalCode::Malformed, "{id}");
        }
        // Times at their ends are no reason to fall over.
        for now_s in [0, u64::MAX] {
            ground.contracts_at(4, wants(1), now_s).await.ok();
        }
    });
}

#[test]
fn an_operator_is_told_what_is_not_so() {
    run(async {
        let ground = Ground::new();
        let (client, _) = ground.pair(Some(5)).await;
        let nobody = PublicKey([9; 32]);
        let service = &ground.service;
        assert_eq!(
            code(service.set_banned(nobody, true).await),
            RefusalCode::Unknown
        );
        assert_eq!(
            code(service.set_quota(nobody, None).await),
            RefusalCode::Unknown
        );
        assert_eq!(code(service.usage(nobody).await), RefusalCode::Unknown);
        service
            .set_quota(client, Some(QUOTA_BYTES_MAX))
            .await
            .unwrap();
        let more = service.set_quota(client, Some(QUOTA_BYTES_MAX + 1)).await;
        assert_eq!(code(more), RefusalCode::Limit);
        assert_eq!(
            service.usage(client).await.unwrap().quota_bytes,
            Some(QUOTA_BYTES_MAX)
        );
        assert_eq!(service.accounts(None, usize::MAX).await.unwrap().len(), 2);
        for (uses, is_good) in [
            (0, false),
            (1, true),
            (INVITATION_USES_MAX, true),
            (INVITATION_USES_MAX + 1, false),
        ] {
            let plan = InvitationPlan {
                role: Role::Client,
                uses,
                lasts_s: 1,
                quota_bytes: None,
            };
            let invited = service.invite(&ground.draw(), plan, NOW_S).await;
            assert_eq!(invited.is_ok(), is_good, "{uses}");
        }
    });
}

#[test]
fn a_configuration_that_cannot_be_is_refused() {
    ServiceConfig::default().try_new().unwrap();
    let wrong = |change: fn(&mut ServiceConfig)| {
        let mut config = ServiceConfig::default();
        change(&mut config);
        config.try_new().err().map(|error| error.key)
    };
    assert_eq!(wrong(|c| c.contract_bytes_max = 1 << 50), None);
    assert_eq!(
        wrong(|c| c.contract_bytes_max = (1 << 50) + 1),
        Some("contracts.contract_bytes_max".into())
    );
    assert_eq!(
        wrong(|c| c.contract_bytes_min = 0),
        Some("contracts.contract_bytes_min".into())
    );
    assert_eq!(wrong(|c| c.contract_bytes_min = c.contract_bytes_max), None);
    assert_eq!(
        wrong(|c| c.contract_bytes_min = c.contract_bytes_max + 1),
        Some("contracts.contract_bytes_min".into())
    );
    assert_eq!(
        wrong(|c| c.contract_lifetime = Duration::from_secs(60)),
        None
    );
    assert_eq!(
        wrong(|c| c.contract_lifetime = Duration::from_secs(59)),
        Some("contracts.contract_lifetime".into())
    );
    assert_eq!(
        wrong(|c| c.grace = Duration::from_millis(999)),
        Some("contracts.grace".into())
    );
    assert_eq!(wrong(|c| c.grace_bytes = 0), Some("contracts.grace".into()));
    assert_eq!(
        wrong(|c| c.grace = Duration::from_secs(30 * 86_400 + 1)),
        Some("contracts.grace".into())
    );
    assert_eq!(
        wrong(|c| c.heartbeat_interval = Duration::ZERO),
        Some("catalog.heartbeat_interval".into())
    );

    // What was given and what is allowed are told, as everywhere else.
    let told = |change: fn(&mut ServiceConfig)| {
        let mut config = ServiceConfig::default();
        change(&mut config);
        config.try_new().unwrap_err().to_string()
    };
    let words = told(|c| c.contract_bytes_max = 0);
    assert_eq!(
        words,
        "contracts.contract_bytes_max = 0: allowed is 1 to 1125899906842624"
    );
    let words = told(|c| c.grace = Duration::ZERO);
    assert!(words.starts_with("contracts.grace = 0ns, with grace_bytes = 268435456: allowed is "));
}

#[test]
fn keys_are_few_and_each_in_one_place() {
    let public = |n| seal::public_key(&secret(n));
    let keys = |other, retired: Vec<u8>| {
        let retired = retired.into_iter().map(public).collect();
        SigningKeys::try_new(SecretKey::from_bytes([1; 32]), other, retired)
    };
    assert_eq!(
        keys(Some(public(2)), (3..19).collect())
            .unwrap()
            .trusted()
            .len(),
        2
    );
    assert!(keys(None, (3..20).collect()).is_err());
    assert!(
        keys(
            Some(seal::public_key(&SecretKey::from_bytes([1; 32]))),
            vec![]
        )
        .is_err()
    );
    assert!(keys(Some(public(2)), vec![2]).is_err());
}
