//! The file of a running quell is read again: at SIGHUP, and when `quell reload` asks.
//!
//! Whatever becomes of it is said key by key, in the log and to whoever asked. What cannot change while it runs is refused by
//! name, and then nothing is applied; the file that counts stays the one before. Of a process that belongs to a terminal a
//! hangup says something else: see [`daemon::has_terminal`].

use std::future::Future;
use std::io;
use std::path::PathBuf;

use quell::config::{self, Config, Keys};
use quell::reload::{self, Order, Orders, Role};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use crate::{daemon, words};

/// The file that counts.
pub(crate) struct Current {
    path: PathBuf,
    keys: Keys,
    role: Role,
}

impl Current {
    /// `keys` are what the file at `path` said at the start.
    pub(crate) fn new(path: PathBuf, keys: Keys, role: Role) -> Self {
        Self { path, keys, role }
    }

    /// Follows signals and orders for as long as it is polled. `apply` gives the engine what may change.
    ///
    /// # Errors
    /// The system takes no handler.
    pub(crate) async fn follow<F>(
        mut self,
        orders: Option<Orders>,
        apply: impl Fn(Config) -> F,
    ) -> io::Result<()>
    where
        F: Future<Output = Result<quell_core::provider::Reloaded, quell::error::Error>>,
    {
        let mut hangup = match daemon::has_terminal() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        let mut orders = orders;
        loop {
            let order = tokio::select! {
                () = hung_up(&mut hangup) => None,
                order = next(&mut orders) => order,
            };
            let answer = self.read_again(&apply).await;
            match &answer {
                Ok(lines) => lines.iter().for_each(|line| info!("reload: {line}")),
                Err(words) => error!("reload: {words}"),
            }
            if let Some(order) = order {
                order.answer(answer.map(|lines| json!({ "lines": lines })));
            }
        }
    }

    async fn read_again<F>(&mut self, apply: &impl Fn(Config) -> F) -> Result<Vec<String>, String>
    where
        F: Future<Output = Result<quell_core::provider::Reloaded, quell::error::Error>>,
    {
        let loaded = config::load_with_keys(&self.path);
        let (config, keys) = loaded.map_err(|error| words(&error.into()))?;
        let role = match &config {
            Config::Client(_) => Role::Client,
            Config::Provider(_) => Role::Provider,
        };
        if role != self.role {
            return Err("the file is of another role; nothing was applied".to_owned());
        }
        let changes = self.keys.changes(&keys);
        reload::check(role, &changes).map_err(|fixed| fixed.to_string())?;
        let level = match &config {
            Config::Client(file) => file.log.level,
            Config::Provider(file) => file.log.level,
        };
        let done = apply(config).await.map_err(|error| words(&error.into()))?;
        daemon::set_log_level(level);
        self.keys = keys;
        Ok(reload::words(&changes, done))
    }
}

/// The next hangup; without a way for them there is none.
async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The next order; without a way for orders there is none.
async fn next(orders: &mut Option<Orders>) -> Option<Order> {
    if let Some(of) = orders {
        match of.next().await {
            Some(order) => return Some(order),
            None => *orders = None,
        }
    }
    std::future::pending().await
}

/// What `quell reload` was answered, for people.
pub(crate) fn lines(answer: &Value) -> Vec<&str> {
    let lines = answer.get("lines").and_then(Value::as_array);
    lines
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
