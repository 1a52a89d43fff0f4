//! The task that reads an endpoint's socket.
//!
//! A turn reads once, as many datagrams as one system call gives, hands each to its connection, lets every connection
//! that heard something settle, and gives the thread to whoever was woken by it. So the engine works on packets while
//! they lie in the cache, and a flood of datagrams cannot keep it from what it sends.

use std::future::poll_fn;
use std::io::IoSliceMut;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use quinn::AsyncUdpSocket as _;
use quinn::udp::{self, RecvMeta};
use quinn_proto::DatagramEvent;
use tracing::error;

use super::connection;
use super::endpoint::Shared;
use crate::engine::now;

/// Messages taken in a call. Each may be 64 datagrams in a row of one sender, where the system joins them.
const MESSAGES_MAX: usize = 16;

/// Serves the socket until nobody has a use for it, or it fails for good.
pub(super) async fn receive(shared: Rc<Shared>) {
    let mut buffer = Buffer::new(&shared);
    poll_fn(|cx| poll(&shared, &mut buffer, cx)).await;
}

struct Buffer {
    bytes: Box<[u8]>,
    metas: [RecvMeta; MESSAGES_MAX],
    /// Connections that something arrived for.
    touched: Vec<Rc<connection::Shared>>,
    answer: Vec<u8>,
}

impl Buffer {
    fn new(shared: &Shared) -> Self {
        let payload_max = shared.proto.borrow().config().get_max_udp_payload_size();
        let datagram = usize::try_from(payload_max)
            .unwrap_or(usize::MAX)
            .min(64 * 1024);
        let message = datagram * shared.socket.max_receive_segments();
        Self {
            bytes: vec![0; message * MESSAGES_MAX].into(),
            metas: [RecvMeta::default(); MESSAGES_MAX],
            touched: Vec::new(),
            answer: Vec::new(),
        }
    }
}

fn poll(shared: &Rc<Shared>, buffer: &mut Buffer, cx: &mut Context<'_>) -> Poll<()> {
    if !shared.is_used() {
        return Poll::Ready(());
    }
    shared.receiving.replace(Some(cx.waker().clone()));
    let len = buffer.bytes.len() / MESSAGES_MAX;
    let mut slices = buffer.bytes.chunks_exact_mut(len);
    let mut slices: [IoSliceMut<'_>; MESSAGES_MAX] =
        std::array::from_fn(|_| IoSliceMut::new(slices.next().unwrap_or_default()));
    let count = match shared.socket.poll_recv(cx, &mut slices, &mut buffer.metas) {
        Poll::Pending => return Poll::Pending,
        Poll::Ready(Ok(count)) => count,
        Poll::Ready(Err(failure)) => {
            error!(%failure, "the UDP socket can no longer receive");
            shared.close();
            return Poll::Ready(());
        }
    };
    for (meta, message) in buffer.metas.iter().zip(&slices).take(count) {
        handle_message(
            shared,
            meta,
            message,
            &mut buffer.touched,
            &mut buffer.answer,
        );
    }
    if !shared.incoming.borrow().is_empty() {
        shared.tell_accepting();
    }
    let now = now();
    for connection in buffer.touched.drain(..) {
        connection.state.borrow_mut().is_touched = false;
        connection.settle(now);
    }
    // Whoever was woken is first; then there may be more.
    cx.waker().wake_by_ref();
    Poll::Pending
}

fn handle_message(
    shared: &Shared,
    meta: &RecvMeta,
    message: &[u8],
    touched: &mut Vec<Rc<connection::Shared>>,
    answer: &mut Vec<u8>,
) {
    let now = now();
    let mut rest = BytesMut::from(message.get(..meta.len).unwrap_or_default());
    let ecn = meta.ecn.map(proto_ecn);
    while !rest.is_empty() {
        let datagram = rest.split_to(meta.stride.clamp(1, rest.len()));
        answer.clear();
        let event =
            shared
                .proto
                .borrow_mut()
                .handle(now, meta.addr, meta.dst_ip, ecn, datagram, answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let connections = shared.connections.borrow();
                let Some(connection) = connections.get(&handle) else {
                    continue;
                };
                let mut state = connection.state.borrow_mut();
                state.proto.handle_event(event);
                if !std::mem::replace(&mut state.is_touched, true) {
                    touched.push(Rc::clone(connection));
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                shared.incoming.borrow_mut().push_back(incoming)
            }
            Some(DatagramEvent::Response(transmit)) => shared.respond(&transmit, answer),
            None => {}
        }
    }
}

fn proto_ecn(ecn: udp::EcnCodepoint) -> quinn_proto::EcnCodepoint {
    match ecn {
        udp::EcnCodepoint::Ect0 => quinn_proto::EcnCodepoint::Ect0,
        udp::EcnCodepoint::Ect1 => quinn_proto::EcnCodepoint::Ect1,
        udp::EcnCodepoint::Ce => quinn_proto::EcnCodepoint::Ce,
    }
}
