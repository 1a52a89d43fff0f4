//! The order to drain: a provider takes nobody new, tells its clients to go, and ends when they have.
//!
//! It is what SIGTERM does, for who has the control socket and not the process. A second order is only told how far the first
//! one is: who scripts this must not cut a drain short by asking again.

use std::sync::Arc;

use quell_net::engine::Handle;
use quell_net::engine::provider::ProviderReport;
use serde_json::json;

use crate::control::{Command, Handler, Request};

/// Drains the provider of `handle` when it is asked to, and has `others` answer everything else.
pub(crate) fn draining(handle: &Handle<ProviderReport>, others: Handler) -> Handler {
    let handle = handle.clone();
    Arc::new(move |request: Request| match request.command {
        Command::Drain => {
            let handle = handle.clone();
            Box::pin(async move {
                let report = handle.status().await.map_err(|error| error.to_string())?;
                let was_draining = report.provider.is_draining;
                if !was_draining {
                    handle.stop().await;
                }
                let sessions = report.provider.sessions.len();
                Ok(json!({"was_draining": was_draining, "sessions": sessions}))
            })
        }
        Command::Status | Command::Reload | Command::Stop | Command::Judge(_) => others(request),
    })
}
