//! What of a provider may be others while it runs: who may connect, whom clients may speak to, how much is allowed.
//!
//! *Intuition.* A restart ends every session, and with sockets for an egress every connection of every client. So what an
//! operator changes in daily work is taken on by a running provider: a client more or less, a rule, a limit. What a session is
//! made of (lanes, queues, keys, addresses) is not: it was agreed on with peers who cannot be asked again.
//!
//! All of it is taken, or nothing: the settings are checked as a whole before the first one changes.
//!
//! | what | from when on |
//! |---|---|
//! | `egress_rules` | the next packet, of sessions that stand too |
//! | the roster | at once: whoever is not listed any more is told so and goes |
//! | `sessions_max`, the doorman's limits, `drain` | the next connection, the next drain |
//! | `client` less its rate | the next session |
//! | `month_bytes_max` | the next packet; a month that was used up is open again below a higher one |

use std::time::Instant;

use quell_wire::registry::ErrorCode;

use super::{Provider, Roster};
use crate::config::{ClientLimitsConfig, ConfigError, ProviderConfig};
use crate::path::Violation;

/// What a provider did with other settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Sessions that end because their client is not listed any more.
    pub sessions_ended: usize,
}

impl Provider {
    /// Takes on what may change of `config`, and `roster`; the rest of `config` is not looked at. Sessions that have
    /// something to say are announced by [`Provider::poll_ready`].
    ///
    /// # Errors
    /// The first setting outside its range; everything stays as it was.
    pub fn on_reload(
        &mut self,
        config: ProviderConfig,
        roster: Roster,
        now: Instant,
    ) -> Result<Reloaded, ConfigError> {
        let config = config.try_new()?;
        self.on_egress_rules(config.egress_rules)?;
        let rate = self.config.client.client_rate_bits_per_s;
        self.config.client = ClientLimitsConfig {
            client_rate_bits_per_s: rate,
            ..config.client
        };
        self.config.sessions_max = config.sessions_max;
        self.config.drain = config.drain;
        self.doorman.on_config(config.doorman);
        self.config.month_bytes_max = config.month_bytes_max;
        self.ceiling.on_bytes_max(config.month_bytes_max, now);
        self.roster = roster;
        Ok(Reloaded {
            sessions_ended: self.end_unlisted(),
        })
    }

    /// Ends the sessions of whom the roster does not know. Who is carried under contracts needs no place in it.
    fn end_unlisted(&mut self) -> usize {
        let roster = &self.roster;
        let unlisted = self.sessions.iter().filter(|(_, session)| {
            session.billing.is_none() && roster.name_of(&session.key).is_none()
        });
        let unlisted: Vec<_> = unlisted.map(|(id, _)| id).collect();
        for id in &unlisted {
            let code = ErrorCode::UnknownClient;
            let words = "this client is not listed here any more".to_owned();
            self.close(*id, Violation { code, words });
            self.ready.push_back(*id);
        }
        unlisted.len()
    }
}
