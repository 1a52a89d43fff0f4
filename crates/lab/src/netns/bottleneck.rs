//! A bottleneck for whatever leaves an interface: the kernel's token bucket (TBF), by netlink.
//!
//! The relay of this crate impairs UDP alone. Where a tunnel is to share a narrow link with the kernel's own TCP, the narrow
//! place has to be in the kernel, whose minimal builds have this queueing discipline and no other of use: a rate, a queue
//! behind it with a bound in bytes, and drop-tail. It adds no delay but that of its queue.
//!
//! The request is put together by hand, since the netlink library knows no options of this discipline. Its parts are
//! `struct tc_tbf_qopt` of `linux/pkt_sched.h` and the burst in bytes, in the machine's byte order.

use futures_util::StreamExt;
use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::Iface;
use crate::error::{LabError, Result};

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_BURST: u16 = 6;

/// Frames of an Ethernet: what the kernel counts is what a frame of it carries.
const LINKLAYER_ETHERNET: u8 = 1;

/// Tokens that gather while the link is idle: two full frames. With less, full frames never pass.
const BURST_BYTES: u32 = 3_028;

impl Iface {
    /// Lets what leaves the interface do so at `bytes_per_s` and no faster, behind a drop-tail queue of `queue_bytes`. Whole
    /// frames count. What was set before is replaced.
    ///
    /// # Errors
    /// [`LabError::Invalid`] for a rate or queue of 0, else what the kernel says.
    pub fn set_bottleneck(&self, bytes_per_s: u32, queue_bytes: u32) -> Result<()> {
        if bytes_per_s == 0 || queue_bytes == 0 {
            return Err(LabError::Invalid(format!(
                "a bottleneck of {bytes_per_s} B/s with a queue of {queue_bytes} B"
            )));
        }
        let index = self.index().cast_signed();
        let message = token_bucket(index, bytes_per_s, queue_bytes);
        self.entry.netlink(
            || format!("bottleneck on {}", self.name()),
            |mut handle| async move {
                let mut request =
                    NetlinkMessage::from(RouteNetlinkMessage::NewQueueDiscipline(message));
                request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
                let mut answers = handle.request(request)?;
                while let Some(answer) = answers.next().await {
                    if let NetlinkPayload::Error(error) = answer.payload
                        && error.code.is_some()
                    {
                        return Err(rtnetlink::Error::NetlinkError(error));
                    }
                }
                Ok(())
            },
        )
    }
}

fn token_bucket(index: i32, bytes_per_s: u32, queue_bytes: u32) -> TcMessage {
    let option = |kind, value| TcOption::Other(DefaultNla::new(kind, value));
    let options = vec![
        option(TCA_TBF_PARMS, parameters(bytes_per_s, queue_bytes)),
        option(TCA_TBF_BURST, BURST_BYTES.to_ne_bytes().to_vec()),
    ];
    let mut message = TcMessage::with_index(index);
    message.header.parent = TcHandle::ROOT;
    message.attributes = vec![
        TcAttribute::Kind("tbf".into()),
        TcAttribute::Options(options),
    ];
    message
}

/// `struct tc_tbf_qopt`: two `struct tc_ratespec`, the queue, and burst and peak burst in ticks, which the burst in bytes
/// replaces.
fn parameters(bytes_per_s: u32, queue_bytes: u32) -> Vec<u8> {
    let mut bytes = vec![0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&bytes_per_s.to_ne_bytes());
    bytes.extend_from_slice(&[0; 12]);
    for value in [queue_bytes, 0, 0] {
        bytes.extend_from_slice(&value.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stderr)]

    use super::super::{Namespace, unavailable, veth};
    use super::*;
    use crate::load::{TcpLoad, TcpSink, UdpLoad};
    use crate::probe::udp_echo_server;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn a_bottleneck_bounds_the_rate_and_its_queue_the_delay() {
        if let Some(reason) = unavailable() {
            eprintln!("skipped: {reason}");
            return;
        }
        let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        let (near, far) = veth(&a, "lab0", &b, "lab0").unwrap();
        near.add_address("192.0.2.1".parse().unwrap(), 24).unwrap();
        far.add_address("192.0.2.2".parse().unwrap(), 24).unwrap();
        for (rate, queue) in [(0, 1), (1, 0)] {
            let refused = near.set_bottleneck(rate, queue);
            assert!(matches!(refused, Err(LabError::Invalid(_))), "{refused:?}");
        }
        let any = "192.0.2.2:0".parse().unwrap();
        let sink = b.run(|| TcpSink::start(any)).unwrap().unwrap();
        // The second replaces the first: 8 Mbit/s, and 50 ms of it in the queue.
        near.set_bottleneck(100_000, 50_000).unwrap();
        near.set_bottleneck(1_000_000, 50_000).unwrap();
        let start = Instant::now();
        let stream = a.run(|| TcpLoad::start(sink.address(), u64::MAX)).unwrap();
        thread::sleep(Duration::from_millis(600));
        let passed = sink.arrivals().bytes();
        let most = start.elapsed().as_micros() as u64 + u64::from(BURST_BYTES);
        assert!((250_000..=most).contains(&passed), "{passed} of {most}");
        drop(stream);
        thread::sleep(Duration::from_millis(300));
        // Twice what passes: the queue is full soon, and answers are as late as it is long, and no later.
        let echo = b.run(|| udp_echo_server(any)).unwrap().unwrap();
        let start = Instant::now();
        let flood = a
            .run(|| UdpLoad::start(echo.address(), 1_000, 16_000_000))
            .unwrap()
            .unwrap();
        thread::sleep(Duration::from_millis(400));
        let late = flood.answers().age_max_after(start).unwrap();
        assert!(
            (Duration::from_millis(40)..Duration::from_millis(120)).contains(&late),
            "{late:?}"
        );
        assert!(flood.answers().count() < flood.sent() * 3 / 4);
    }
}
