//! What ended a connection, in words for a person.

use quell_core::multi::Loss;
use quell_wire::registry::ErrorCode;
use quinn::{ApplicationClose, ConnectionError};

/// How a dial failed, for the core.
pub(crate) fn failure(error: &ConnectionError) -> Loss {
    let said = |close: &ApplicationClose| {
        let code = ErrorCode::from_code(close.error_code.into_inner());
        code.unwrap_or(ErrorCode::Internal)
    };
    let code = match error {
        ConnectionError::ApplicationClosed(close) => Some(said(close)),
        ConnectionError::ConnectionClosed(_)
        | ConnectionError::TransportError(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::VersionMismatch
        | ConnectionError::CidsExhausted => None,
    };
    Loss {
        words: of_connection_error(error),
        code,
    }
}

/// How a connection that stood was lost, for the core. QUIC's idle timeout is longer
/// than a session lives without an answer.
pub(crate) fn loss(error: &ConnectionError) -> Loss {
    let failure = failure(error);
    let idle = matches!(error, ConnectionError::TimedOut).then_some(ErrorCode::Idle);
    Loss {
        code: failure.code.or(idle),
        ..failure
    }
}

/// One line that says what happened and, where it is known, at which side.
pub(crate) fn of_connection_error(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            let reason = String::from_utf8_lossy(&close.reason);
            let name = ErrorCode::from_code(close.error_code.into_inner())
                .map_or("an unknown code", ErrorCode::name);
            format!("closed by the other side: {name}: {}", printable(&reason))
        }
        ConnectionError::ConnectionClosed(close) => {
            let reason = String::from_utf8_lossy(&close.reason);
            format!(
                "refused by the other side's QUIC: {}: {}",
                close.error_code,
                printable(&reason)
            )
        }
        ConnectionError::TransportError(error) => {
            format!("QUIC: {}", printable(&error.to_string()))
        }
        ConnectionError::Reset => {
            "the other side does not know this session (it was restarted)".to_owned()
        }
        ConnectionError::TimedOut => {
            "no answer: the way there, or the other side, is dead".to_owned()
        }
        ConnectionError::LocallyClosed => "closed here".to_owned(),
        ConnectionError::VersionMismatch => {
            "the other side speaks no QUIC version of ours".to_owned()
        }
        ConnectionError::CidsExhausted => "QUIC ran out of connection ids".to_owned(),
    }
}

/// A peer's words on one line of a log: no control characters, no end.
fn printable(words: &str) -> String {
    const LEN_MAX: usize = 256;
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    words.chars().take(LEN_MAX).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_words_cannot_forge_log_lines_nor_flood_them() {
        assert_eq!(printable("a\nERROR b\x1b[2J"), "a ERROR b [2J");
        assert_eq!(printable(&"x".repeat(257)).len(), 256);
    }
}
