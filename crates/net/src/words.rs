//! What ended a connection, in words for a person.

use quell_wire::registry::ErrorCode;
use quinn::ConnectionError;

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
