//! The library people embed: configuration, client and provider.
