//! What an operator asks of a backend over HTTP, with its token: invitations. The rest of the admin API is for `curl` and
//! for programs of one's own, as the description at `/openapi.json` has it.

use std::fmt;
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use hyper::{Method, Request};

use super::meaning::{Meaning, meaning};
use super::{
    AGENT, ANSWER_BYTES_MAX, BaseUrl, Connections, HttpError, connections, innermost, read,
    received, system_trust,
};
use crate::api::{InviteAnswer, InviteRequest};
use crate::ask::AskError;

/// A backend, asked by who holds its token.
pub struct Operator {
    client: Connections,
    base: BaseUrl,
    token: String,
    timeout: Duration,
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Operator {
    /// Asks the backend at `base` with its admin token; an answer that takes longer than `timeout` is none.
    ///
    /// # Errors
    /// The system's certificate authorities cannot be read.
    pub fn new(base: BaseUrl, token: String, timeout: Duration) -> Result<Self, HttpError> {
        let config = system_trust(&base)?;
        Ok(Self {
            client: connections(config, quell_underlay::Underlay::default()),
            base,
            token,
            timeout,
        })
    }

    /// Makes an invitation.
    ///
    /// # Errors
    /// There is no answer, or it refuses.
    pub async fn invite(&self, request: &InviteRequest) -> Result<InviteAnswer, AskError> {
        let garbled =
            |error: &dyn fmt::Display| AskError::Garbled(format!("the question itself: {error}"));
        let body = serde_json::to_vec(request).map_err(|error| garbled(&error))?;
        let target = self.base.target("/v1/admin/invitations");
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.base.uri(&target))
            .header(USER_AGENT, AGENT)
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(body.into()))
            .map_err(|error| garbled(&error))?;
        let asked = async {
            let answered = self.client.request(request).await;
            let response = answered.map_err(|error| AskError::Unreachable(innermost(&error)))?;
            received(response, ANSWER_BYTES_MAX).await
        };
        let (head, body) = tokio::time::timeout(self.timeout, asked)
            .await
            .map_err(|_| AskError::Timeout(self.timeout))??;
        match meaning(head.status, &head.headers, body, SystemTime::now())? {
            Meaning::Good(body) => read(&body),
            Meaning::Unchanged => Err(AskError::Garbled("304 to a POST".to_owned())),
            Meaning::Refused { refusal, .. } => Err(AskError::Refused(refusal)),
        }
    }
}
