//! What both ends of a greeting share: control messages as bytes.

use bytes::{Bytes, BytesMut};
use quell_wire::control::Control;
use quell_wire::registry::{AGENT_BYTES_MAX, ErrorCode};

use crate::path::Violation;

/// `message` as it goes onto the control stream.
///
/// A message of ours that cannot be written is a fault of ours; it ends the
/// session by name instead of leaving the peer waiting.
pub(crate) fn encode(message: &Control) -> Result<Bytes, Violation> {
    let mut bytes = BytesMut::new();
    match message.encode(&mut bytes) {
        Ok(()) => Ok(bytes.freeze()),
        Err(error) => Err(Violation {
            code: ErrorCode::Internal,
            words: error.to_string(),
        }),
    }
}

/// As much of `agent` as HELLO may carry.
pub(crate) fn bounded(mut agent: String) -> String {
    let end = (0..=AGENT_BYTES_MAX)
        .rev()
        .find(|end| agent.is_char_boundary(*end));
    agent.truncate(end.unwrap_or(0));
    agent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_cut_between_characters() {
        assert_eq!(bounded("x".repeat(64)).len(), 64);
        assert_eq!(bounded("x".repeat(65)).len(), 64);
        assert_eq!(bounded("é".repeat(40)).len(), 64);
        assert_eq!(bounded(format!("x{}", "é".repeat(40))).len(), 63);
    }
}
