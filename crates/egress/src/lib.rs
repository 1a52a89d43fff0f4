//! How a provider's packets reach the world: kernel forwarding and masquerade.
