//! The question that `quell why DESTINATION` asks a provider: may its clients speak to this?
//!
//! ```text
//! 10.1.2.3            whatever is sent there
//! 10.1.2.3:443        TCP to this port; [2001:db8::1]:443 likewise
//! 10.1.2.3 udp/53     as a rule of `egress.allow` is written, with one address and one port
//! tcp/25              a port, wherever it is
//! ```
//!
//! It crosses the socket as the text that it is, and is read by both ends: who asks hears of a mistake at once, and who
//! answers believes nobody. The destination is neither logged nor kept.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use quell_core::provider::rules::{Asked, Port, Rule, RuleError, Service};
use quell_net::engine::provider::Judge;
use quell_packet::protocol;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Command, Handler, Request};

/// A destination that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Question {
    destination: Option<IpAddr>,
    service: Option<Service>,
}

/// Why a text is no question.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// It is not of the form of a rule either.
    #[error(
        "no destination such as \"10.1.2.3\", \"10.1.2.3:443\", \"10.1.2.3 udp/53\" or \"tcp/25\": {0}"
    )]
    Form(#[from] RuleError),
    /// More than one address or port.
    #[error("{0} is more than one destination: ask about one address and one port")]
    Several(Rule),
}

impl FromStr for Question {
    type Err = QuestionError;

    fn from_str(text: &str) -> Result<Self, QuestionError> {
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(Self {
                destination: Some(socket.ip()),
                service: Some(Service::Tcp(socket.port().into())),
            });
        }
        let rule: Rule = text.parse()?;
        let is_one = |prefix: &quell_packet::Prefix| prefix.size() == 1;
        let one_port = match rule.service {
            Service::Any | Service::Icmp => true,
            Service::Tcp(ports) | Service::Udp(ports) => ports.one().is_some(),
        };
        if !one_port || !rule.prefix.as_ref().is_none_or(is_one) {
            return Err(QuestionError::Several(rule));
        }
        Ok(Self {
            destination: rule.prefix.map(|prefix| prefix.addr()),
            service: Some(rule.service).filter(|service| *service != Service::Any),
        })
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.destination, self.service) {
            (Some(destination), Some(service)) => write!(f, "{destination} {service}"),
            (Some(destination), None) => write!(f, "{destination}"),
            (None, service) => write!(f, "{}", service.unwrap_or(Service::Any)),
        }
    }
}

impl TryFrom<String> for Question {
    type Error = QuestionError;

    fn try_from(text: String) -> Result<Self, QuestionError> {
        text.parse()
    }
}

impl From<Question> for String {
    fn from(question: Question) -> Self {
        question.to_string()
    }
}

impl Question {
    /// The same, in the form that a provider's rules are asked in.
    pub fn asked(self) -> Asked {
        let port =
            |ports: quell_core::provider::rules::Ports| ports.one().map_or(Port::None, Port::Known);
        let icmp = match self.destination {
            Some(IpAddr::V6(_)) => protocol::ICMPV6,
            Some(IpAddr::V4(_)) | None => protocol::ICMP,
        };
        let (protocol, port) = match self.service {
            Some(Service::Tcp(ports)) => (Some(protocol::TCP), port(ports)),
            Some(Service::Udp(ports)) => (Some(protocol::UDP), port(ports)),
            Some(Service::Icmp) => (Some(icmp), Port::None),
            Some(Service::Any) | None => (None, Port::None),
        };
        Asked {
            destination: self.destination,
            protocol,
            port,
        }
    }
}

/// Answers questions by `judge`, and everything else by `others`.
pub fn judging(judge: Judge, others: Handler) -> Handler {
    Arc::new(move |request: Request| match request.command {
        Command::Judge(question) => {
            let judge = judge.clone();
            Box::pin(async move {
                let answer = judge.explain(question.asked()).await;
                let answer = answer.map_err(|error| error.to_string())?;
                serde_json::to_value(answer).map_err(|error| error.to_string())
            })
        }
        Command::Stop => Box::pin(async {
            Err("a provider is ended by a signal, or by its service manager".to_owned())
        }),
        Command::Status | Command::Reload | Command::Drain => others(request),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn question(text: &str) -> Question {
        text.parse().unwrap()
    }

    #[test]
    fn a_question_is_read_as_it_is_written() {
        for (text, shown) in [
            ("10.1.2.3", "10.1.2.3"),
            ("2001:db8::1", "2001:db8::1"),
            ("10.1.2.3:443", "10.1.2.3 tcp/443"),
            ("[2001:db8::1]:443", "2001:db8::1 tcp/443"),
            ("10.1.2.3/32 udp/53", "10.1.2.3 udp/53"),
            ("10.1.2.3 icmp", "10.1.2.3 icmp"),
            ("tcp/25", "tcp/25"),
        ] {
            let asked = question(text);
            assert_eq!(asked.to_string(), shown);
            let command = Command::Judge(asked);
            let line = serde_json::to_string(&command).unwrap();
            assert_eq!(line, format!(r#"{{"judge":"{shown}"}}"#));
            assert_eq!(serde_json::from_str::<Command>(&line).unwrap(), command);
        }
    }

    #[test]
    fn what_is_asked_is_what_a_packet_would_ask() {
        let expected = |destination: Option<&str>, protocol, port| Asked {
            destination: destination.map(|text| text.parse().unwrap()),
            protocol,
            port,
        };
        for (text, asked) in [
            ("10.1.2.3", expected(Some("10.1.2.3"), None, Port::None)),
            (
                "[::1]:25",
                expected(Some("::1"), Some(protocol::TCP), Port::Known(25)),
            ),
            (
                "::1 icmp",
                expected(Some("::1"), Some(protocol::ICMPV6), Port::None),
            ),
            (
                "udp/53",
                expected(None, Some(protocol::UDP), Port::Known(53)),
            ),
        ] {
            assert_eq!(question(text).asked(), asked, "{text}");
        }
    }

    #[test]
    fn what_names_more_than_one_or_nothing_is_refused() {
        for text in [
            "10.0.0.0/8",
            "10.1.2.3 tcp/1-2",
            "10.1.2.3 tcp",
            "tcp",
            "",
            "example.net:443",
        ] {
            text.parse::<Question>().unwrap_err();
        }
    }
}
