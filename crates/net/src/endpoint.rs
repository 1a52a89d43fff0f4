//! QUIC endpoints: the provider's one, and the client's one a dial.
//!
//! Their settings are to be had without a socket, too: whoever drives quinn-proto in virtual time (the simulator's real
//! carriage) runs the same QUIC as the driver does, down to the congestion controller and its
//! [`grant`](crate::congestion::grant).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use quell_underlay::Underlay;
use quell_wire::key::PublicKey;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connecting, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use quinn_proto::HashedConnectionIdGenerator;

use crate::error::NetError;
use crate::identity::Identity;
use crate::socket::{CountingSocket, SocketWatch};
use crate::tls;
use crate::transport::TransportSettings;

/// A server name is part of QUIC's API; ours is never sent, the key is the name.
pub(crate) const SERVER_NAME: &str = "quell";

/// What an endpoint of `identity` is like: its stateless resets and its connection IDs outlive a restart.
///
/// # Errors
/// The keys cannot be derived.
pub fn endpoint_config(identity: &Identity) -> Result<EndpointConfig, NetError> {
    let mut config = EndpointConfig::new(Arc::new(identity.reset_key()?));
    let key = identity.connection_id_key()?;
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(key)));
    Ok(config)
}

/// First packets that wait for the engine's judgement. 4,096: 0.4 s of a flood of
/// 10,000 a second, in 6 MiB. QUIC drops more without a look at them.
const INITIALS_WAITING_MAX: usize = 4_096;
/// Bytes that may follow one first packet until it is judged: a ClientHello with a
/// post-quantum key share takes two packets, and each may be sent twice.
const INITIAL_REST_BYTES: u64 = 6_000;
/// The same over all first packets that wait.
const INITIAL_REST_BYTES_ALL: u64 = 8 * 1024 * 1024;

/// How a provider of `identity` takes connections.
///
/// # Errors
/// A setting is out of what QUIC or TLS can express.
pub fn server_config(
    identity: &Identity,
    transport: &TransportSettings,
) -> Result<ServerConfig, NetError> {
    let crypto = QuicServerConfig::try_from(tls::server_config(identity)?)
        .map_err(|error| NetError::Transport(error.to_string()))?;
    let mut server = ServerConfig::new(Arc::new(crypto), Arc::new(identity.token_key()?));
    server
        .transport_config(transport.quic()?)
        .max_incoming(INITIALS_WAITING_MAX)
        .incoming_buffer_size(INITIAL_REST_BYTES)
        .incoming_buffer_size_total(INITIAL_REST_BYTES_ALL);
    Ok(server)
}

/// How a client of `identity` connects to the provider that holds `expected`.
///
/// # Errors
/// A setting is out of what QUIC or TLS can express.
pub fn client_config(
    identity: &Identity,
    expected: PublicKey,
    transport: &TransportSettings,
) -> Result<ClientConfig, NetError> {
    let crypto = QuicClientConfig::try_from(tls::client_config(identity, expected)?)
        .map_err(|error| NetError::Transport(error.to_string()))?;
    let mut client = ClientConfig::new(Arc::new(crypto));
    client.transport_config(transport.quic()?);
    Ok(client)
}

/// The endpoint that clients connect to.
///
/// # Errors
/// The socket cannot be opened, or a setting is out of what QUIC can express.
pub fn listen(
    identity: &Identity,
    address: SocketAddr,
    transport: &TransportSettings,
    watch: SocketWatch,
) -> Result<Endpoint, NetError> {
    let server = server_config(identity, transport)?;
    let buffer = transport.socket_buffer_bytes;
    let socket = CountingSocket::bind(address, buffer, watch, &Underlay::default())?;
    let endpoint = Endpoint::new_with_abstract_socket(
        endpoint_config(identity)?,
        Some(server),
        socket,
        Arc::new(TokioRuntime),
    );
    endpoint.map_err(|source| NetError::Socket { address, source })
}

/// Starts to connect to `remote`, which must hold `expected`, from a fresh
/// socket: a new dial leaves through whatever network is there by then.
///
/// # Errors
/// The socket cannot be opened, or a setting is out of what QUIC can express.
pub fn connect(
    identity: &Identity,
    remote: SocketAddr,
    expected: PublicKey,
    transport: &TransportSettings,
    watch: SocketWatch,
) -> Result<(Endpoint, Connecting), NetError> {
    let client = client_config(identity, expected, transport)?;
    let any = any_for(remote);
    let buffer = transport.socket_buffer_bytes;
    let socket = CountingSocket::bind(any, buffer, watch, &Underlay::default())?;
    let endpoint = Endpoint::new_with_abstract_socket(
        endpoint_config(identity)?,
        None,
        socket,
        Arc::new(TokioRuntime),
    );
    let endpoint = endpoint.map_err(|source| NetError::Socket {
        address: any,
        source,
    })?;
    let connecting = endpoint.connect_with(client, remote, SERVER_NAME);
    let connecting = connecting.map_err(|error| NetError::Transport(error.to_string()))?;
    Ok((endpoint, connecting))
}

/// Where a socket towards `remote` is bound: what goes to this host itself is not to be reached from elsewhere.
pub(crate) fn any_for(remote: SocketAddr) -> SocketAddr {
    let own: IpAddr = match (remote.ip(), remote.ip().is_loopback()) {
        (IpAddr::V4(_), false) => Ipv4Addr::UNSPECIFIED.into(),
        (IpAddr::V4(_), true) => Ipv4Addr::LOCALHOST.into(),
        (IpAddr::V6(_), false) => Ipv6Addr::UNSPECIFIED.into(),
        (IpAddr::V6(_), true) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(own, 0)
}
