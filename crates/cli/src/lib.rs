//! The quell command.
