//! `egress.allow` and `egress.deny` in a whole file.

use quell_core::provider::rules::Rule;

use super::*;

fn with(lines: &str) -> String {
    provider().replace("kind = \"tun\"\n", &format!("kind = \"tun\"\n{lines}\n"))
}

#[test]
fn rules_of_every_form_reach_the_core() {
    let folder = Folder::new();
    let allow = ["10.1.2.3 tcp/443", "tcp/25", "fd00::/8", "::/0 udp/1-1023"];
    let text = with(&format!("allow = {allow:?}\ndeny = [\"203.0.113.0/24\"]"));
    let core = as_provider(folder.load(text).unwrap()).core();
    let rules: Vec<Rule> = allow.map(|rule| rule.parse().unwrap()).into();
    assert_eq!(core.egress_rules.allow, rules);
    assert_eq!(core.egress_rules.deny, ["203.0.113.0/24".parse().unwrap()]);
    let core = as_provider(folder.load(provider()).unwrap()).core();
    assert_eq!(core.egress_rules, Default::default());
}

#[test]
#[rustfmt::skip] // a table: a row a line
fn a_wrong_rule_is_named_with_key_value_and_form() {
    const KIND: &str = "kind = \"tun\"";
    refuses(
        &provider(),
        &[
            bad(KIND, "allow = [\"10.0.0.0/8\", \"10.0.0.1/8\"]", &["egress.allow[1] = \"10.0.0.1/8\"", "10.0.0.0/8", "allowed is a rule such as"]),
            bad(KIND, "deny = [\"http\"]", &["egress.deny[0] = \"http\"", "neither \"tcp\", \"udp\" nor \"icmp\"", "\"10.1.2.3 tcp/443\""]),
            bad(KIND, "deny = [\"tcp/70000\"]", &["egress.deny[0] = \"tcp/70000\"", "no port", "allowed is a rule such as"]),
            bad(KIND, "deny = [\"icmp/8\"]", &["egress.deny[0]", "no port"]),
            bad(KIND, "allow = [7]", &["egress.allow[0] = 7", "invalid type", "a rule such as"]),
            bad(KIND, "allow = \"10.0.0.0/8\"", &["egress.allow", "invalid type"]),
            bad(KIND, "permit = []", &["egress.permit", "unknown field", "`allow`"]),
        ],
    );
}

#[test]
fn as_many_rules_as_are_allowed_pass_and_one_more_does_not() {
    let folder = Folder::new();
    let rules = |count| format!("deny = {:?}", vec!["192.0.2.1"; count]);
    folder.load(with(&rules(4_096))).unwrap();
    let error = words(&folder.load(with(&rules(4_097))).unwrap_err());
    assert!(error.contains(": allowed is at most 4096 rules"), "{error}");
}
