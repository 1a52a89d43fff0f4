//! What an answer of the control plane means to the core: the one place where errors of the one become ends of the other.

#[cfg(feature = "provider")]
use quell_backend::api::ReceiptOutcome;
use quell_backend::api::{ContractOutcome, Refusal, RefusalCode};
use quell_backend::ask::AskError;
#[cfg(feature = "provider")]
use quell_core::contract::Filed;
use quell_core::contract::wallet::WantOutcome;
use quell_core::contract::{AskEnd, RefusedFor};
use quell_core::health::BackendHealth;
use quell_core::health::backend::Attempt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::time::Instant;

/// The same reason in the core's words.
fn refused_for(code: RefusalCode) -> RefusedFor {
    match code {
        RefusalCode::Malformed => RefusedFor::Malformed,
        RefusalCode::Unsigned => RefusedFor::Unsigned,
        RefusalCode::Clock => RefusedFor::Clock,
        RefusalCode::Unknown => RefusedFor::Unknown,
        RefusalCode::Banned => RefusedFor::Banned,
        RefusalCode::WrongRole => RefusedFor::WrongRole,
        RefusalCode::Invitation => RefusedFor::Invitation,
        RefusalCode::Quota => RefusedFor::Quota,
        RefusalCode::Provider => RefusedFor::Provider,
        RefusalCode::Limit => RefusedFor::Limit,
        RefusalCode::Signature => RefusedFor::Signature,
        RefusalCode::Misdirected => RefusedFor::Misdirected,
        RefusalCode::Expired => RefusedFor::Expired,
        RefusalCode::Exceeds => RefusedFor::Exceeds,
        RefusalCode::Other => RefusedFor::Other,
    }
}

/// How a question ended that got no such answer as was asked for.
pub(super) fn end_of(error: &AskError) -> AskEnd {
    match error {
        AskError::Unavailable { retry_after, .. } => AskEnd::Unavailable(*retry_after),
        AskError::Refused(refusal) => AskEnd::Refused(refused_for(refusal.code)),
        AskError::Unreachable(_) | AskError::Timeout(_) | AskError::Garbled(_) => AskEnd::Failed,
        // What is not known here is nothing that could be used.
        _ => AskEnd::Failed,
    }
}

/// Tells the health how an attempt ended.
pub(super) fn report<T>(
    health: &BackendHealth,
    attempt: Attempt,
    answer: &Result<T, AskError>,
    now: Instant,
) {
    match answer.as_ref().map_err(end_of) {
        Ok(_) => health.succeeded(attempt, now),
        Err(AskEnd::Refused(_)) => health.refused(attempt, now),
        Err(AskEnd::Unavailable(after)) => health.unavailable(attempt, after, now),
        Err(AskEnd::Throttled(after)) => health.throttled(attempt, after, now),
        Err(AskEnd::Failed | AskEnd::Cancelled) => health.failed(attempt, now),
    }
}

/// What became of a want. A text that is not base64 is no contract, as the wallet will say.
pub(super) fn want_outcome(outcome: ContractOutcome) -> WantOutcome {
    match outcome {
        ContractOutcome::Signed(text) => {
            WantOutcome::Signed(STANDARD.decode(text).unwrap_or_default())
        }
        ContractOutcome::Refused(Refusal { code, .. }) => WantOutcome::Refused(refused_for(code)),
    }
}

/// What became of a receipt.
#[cfg(feature = "provider")]
pub(super) fn filed(outcome: ReceiptOutcome) -> Filed {
    match outcome {
        ReceiptOutcome::Settled { bytes_total } => Filed::Settled(bytes_total),
        ReceiptOutcome::Refused(Refusal { code, .. }) => Filed::Refused(refused_for(code)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_code_is_the_reason_of_the_same_name() {
        for reason in RefusedFor::ALL {
            let text = format!("\"{}\"", reason.name());
            let code: RefusalCode = serde_json::from_str(&text).unwrap();
            assert_eq!(refused_for(code), reason, "{text}");
        }
    }

    #[test]
    fn only_a_refusal_is_an_answer() {
        let refusal = Refusal {
            code: RefusalCode::Quota,
            words: "spent".to_owned(),
        };
        let refused = end_of(&AskError::Refused(refusal));
        assert_eq!(refused, AskEnd::Refused(RefusedFor::Quota));
        let after = Some(std::time::Duration::from_secs(7));
        let unavailable = AskError::Unavailable {
            retry_after: after,
            words: String::new(),
        };
        assert_eq!(end_of(&unavailable), AskEnd::Unavailable(after));
        for failed in [
            AskError::Unreachable(String::new()),
            AskError::Timeout(std::time::Duration::from_secs(5)),
            AskError::Garbled(String::new()),
        ] {
            assert_eq!(end_of(&failed), AskEnd::Failed);
        }
    }
}
