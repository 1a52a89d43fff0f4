//! `quell invite`: asks a backend of one's own for invitations.
//!
//! It is asked over HTTP with the token that its file names, since the store belongs to the running server. Without a role
//! it makes one for each, which is what a first set-up needs. An invitation is shown this once: the backend keeps its hash.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use quell_backend::api::{InviteRequest, Role};
use quell_backend::config::OperatorAccess;
use quell_backend::http::{BaseUrl, Operator};
use tokio::runtime::Builder;

use crate::{Failure, Streams};

/// How long the backend may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Who is invited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Invited {
    /// An exit.
    Provider,
    /// Somebody who has packets to carry.
    Client,
}

impl Invited {
    fn role(self) -> Role {
        match self {
            Self::Provider => Role::Provider,
            Self::Client => Role::Client,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Client => "client",
        }
    }
}

/// Make invitations to a backend of your own
#[derive(Debug, Args)]
pub(crate) struct Invite {
    /// The backend's configuration file, as it runs with it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Who is invited; without it, one of each
    #[arg(value_name = "ROLE")]
    role: Option<Invited>,
    /// How many may enrol with it
    #[arg(long, value_name = "N", default_value_t = 1)]
    uses: u32,
    /// How long it lasts, such as 12h or 7d
    #[arg(long = "for", value_name = "TIME", value_parser = lasting, default_value = "7d")]
    lasts: Duration,
    /// The allowance of each account that it makes, such as 100GiB; without it there is no bound
    #[arg(long, value_name = "SIZE", value_parser = size)]
    quota: Option<u64>,
    /// Where to ask, where that is not the address in the file
    #[arg(long, value_name = "URL")]
    url: Option<BaseUrl>,
}

impl Invite {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let access = OperatorAccess::load(&self.file).map_err(Failure::usage)?;
        let url = match self.url {
            Some(url) => url,
            None if access.is_tls => {
                return Err(Failure::usage(anyhow!(
                    "the backend speaks TLS: say with --url by which name its certificate knows it"
                )));
            }
            None => format!("http://{}", reachable(access.listen)).parse()?,
        };
        let operator = Operator::new(url, access.token.to_string(), ANSWER_TIMEOUT)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let both = [Invited::Provider, Invited::Client];
        let invited = self.role.map_or(both.to_vec(), |role| vec![role]);
        for one in invited {
            let request = InviteRequest {
                role: one.role(),
                uses: self.uses,
                lasts_s: self.lasts.as_secs(),
                quota_bytes: self.quota,
            };
            let answer = runtime.block_on(operator.invite(&request))?;
            writeln!(streams.out, "{}: {}", one.name(), answer.invitation)?;
        }
        Ok(())
    }
}

/// A minute to a year.
fn lasting(text: &str) -> Result<Duration, String> {
    const MINUTE: Duration = Duration::from_secs(60);
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    super::arguments::duration(text, MINUTE..=YEAR)
}

fn size(text: &str) -> Result<u64, String> {
    let size: Result<bytesize::ByteSize, _> = text.parse();
    let size = size.map_err(|_| "a size such as \"100GiB\"".to_owned())?;
    Ok(size.as_u64())
}

/// Where a server that listens everywhere is found from its own machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_found_on_the_loopback() {
        for (listen, found) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            let listen = listen.parse().unwrap();
            assert_eq!(reachable(listen).to_string(), found);
        }
    }
}
