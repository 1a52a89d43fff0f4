//! UDP and echo associations.
use super::books::DropReason;
use super::policy::Policy;
use super::router::Common;
use quell_packet::{FlowKey, IpPacket};
use std::rc::Rc;
pub(super) struct Datagrams {
    common: Rc<Common>,
}
impl Datagrams {
    pub(super) fn new(common: Rc<Common>) -> Self {
        Self { common }
    }
    pub(super) fn handle_udp(
        &mut self,
        _key: FlowKey,
        _ip: &IpPacket<'_>,
        _policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        let _ = &self.common;
        Err(DropReason::SendFailed)
    }
    pub(super) fn handle_echo(
        &mut self,
        _key: FlowKey,
        _ip: &IpPacket<'_>,
        _policy: &mut dyn Policy,
    ) -> Result<(), DropReason> {
        Err(DropReason::EchoUnavailable)
    }
}
