//! How `egress.allow` and `egress.deny` are read.
//!
//! What a rule means stands in [`quell_core::provider::rules`]; here it is a text among others, whose mistakes are told with
//! the line, the key and the forms that are allowed.

use quell_core::provider::rules::{Rule, RuleError};

use super::text::Text;

impl Text for Rule {
    const FORM: &'static str = r#"a rule such as "10.0.0.0/8", "10.1.2.3 tcp/443", "tcp/25" or "::/0 udp/1-1023": a prefix, a service ("tcp", "udp", "icmp") or both"#;

    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: RuleError| error.to_string())
    }
}
