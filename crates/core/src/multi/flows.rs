//! stub
use super::exit_id::ExitId;
use crate::config::FlowsConfig;
use quell_packet::{FlowKey, TcpView};
use std::collections::HashMap;
use std::time::Instant;
/// stub
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct FlowsStatus {
    #[allow(missing_docs)]
    pub flows: usize,
}
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    pub key: FlowKey,
    pub exit: ExitId,
    pub lost: bool,
    pub receive_next: u32,
    pub send_next: u32,
}
#[allow(missing_docs)]
#[derive(Debug)]
pub struct FlowTable {
    map: HashMap<FlowKey, Flow>,
}
#[allow(missing_docs)]
impl FlowTable {
    pub fn new(_: FlowsConfig, _: u64) -> Self {
        Self {
            map: HashMap::new(),
        }
    }
    pub fn touch_outward(
        &mut self,
        key: &FlowKey,
        tcp: Option<&TcpView<'_>>,
        _: Instant,
    ) -> Option<Flow> {
        let f = self.map.get_mut(key)?;
        if let Some(t) = tcp {
            if t.is_ack() {
                f.receive_next = t.acknowledgement();
            }
        }
        Some(*f)
    }
    pub fn touch_inward(
        &mut self,
        key: &FlowKey,
        _: Option<&TcpView<'_>>,
        _: Instant,
    ) -> Option<Flow> {
        self.map.get(key).copied()
    }
    pub fn peek(&self, key: &FlowKey) -> Option<&Flow> {
        self.map.get(key)
    }
    pub fn insert(&mut self, key: FlowKey, exit: ExitId, _: Option<&TcpView<'_>>, _: Instant) {
        self.map.insert(
            key,
            Flow {
                key,
                exit,
                lost: false,
                receive_next: 0,
                send_next: 0,
            },
        );
    }
    pub fn open(&mut self, key: FlowKey, exit: ExitId, seq: Option<u32>, now: Instant) {
        self.insert(key, exit, None, now);
        if let Some(f) = self.map.get_mut(&key) {
            f.send_next = seq.unwrap_or(0);
        }
    }
    pub fn assign(&mut self, key: &FlowKey, exit: ExitId) {
        if let Some(f) = self.map.get_mut(key) {
            f.exit = exit;
        }
    }
    pub fn lose_exit(&mut self, exit: ExitId, _: Instant, mut f: impl FnMut(&Flow)) {
        let keys: Vec<_> = self
            .map
            .values()
            .filter(|x| x.exit == exit)
            .map(|x| x.key)
            .collect();
        for k in keys {
            if k.protocol == 6 {
                if let Some(x) = self.map.get_mut(&k) {
                    x.lost = true;
                    f(x);
                }
            } else {
                self.map.remove(&k);
            }
        }
    }
    pub fn flows_on(&self, exit: ExitId) -> usize {
        self.map
            .values()
            .filter(|x| x.exit == exit && !x.lost)
            .count()
    }
    pub fn len(&self) -> usize {
        self.map.len()
    }
    pub fn expire(&mut self, _: Instant) {}
    pub fn poll_timeout(&self) -> Option<(Instant, &'static str)> {
        None
    }
    pub fn status(&self) -> FlowsStatus {
        FlowsStatus {
            flows: self.map.len(),
        }
    }
}
impl Flow {
    #[allow(missing_docs)]
    pub fn first_sequence(&self) -> Option<u32> {
        Some(self.send_next)
    }
}
