//! quell's wire format: frames and control messages, parsed and written, nothing else.
