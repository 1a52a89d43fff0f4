//! Any row of calls against a table that keeps no lists, no index and no counts, and looks at everything each time.
//!
//! The model knows of the table's inside only how places are given out again (the last one freed is the next one
//! taken), which decides who is the eldest of flows that were lost at the same moment.

use proptest::prelude::*;

use super::*;

/// A flow, and when it was put behind the others of its class.
#[derive(Debug, Clone, Copy)]
struct Kept {
    flow: Flow,
    turn: u64,
}

struct Model {
    config: FlowsConfig,
    places: Vec<Option<Kept>>,
    free: Vec<usize>,
    turn: u64,
    latest: u64,
    forgotten: u64,
}

impl Model {
    fn idle(&self, flow: &Flow) -> u64 {
        nanos(match flow.class() {
            Class::Tcp => self.config.tcp_idle,
            Class::Other => self.config.other_idle,
            Class::Closing => self.config.closing_idle,
            Class::Lost => self.config.lost_idle,
        })
    }

    fn kept(&self) -> impl Iterator<Item = (usize, Kept)> + '_ {
        (0..)
            .zip(&self.places)
            .filter_map(|(at, kept)| Some((at, (*kept)?)))
    }

    fn due(&self, kept: &Kept) -> u64 {
        kept.flow.active + self.idle(&kept.flow)
    }

    fn find(&self, key: &FlowKey) -> Option<usize> {
        self.kept()
            .find(|(_, kept)| kept.flow.key == *key)
            .map(|(at, _)| at)
    }

    fn forget(&mut self, at: usize) -> Flow {
        self.free.push(at);
        self.forgotten += 1;
        self.places[at].take().unwrap().flow
    }

    fn find_live(&mut self, key: &FlowKey) -> Option<usize> {
        let at = self.find(key)?;
        let due = self.due(self.places[at].as_ref().unwrap());
        if due <= self.latest {
            self.forget(at);
            return None;
        }
        Some(at)
    }

    fn forget_due(&mut self) -> bool {
        let due = self
            .kept()
            .filter(|(_, kept)| self.due(kept) <= self.latest);
        let eldest = due.min_by_key(|(_, kept)| (kept.flow.class() as usize, kept.turn));
        let at = eldest.map(|(at, _)| at);
        at.map(|at| self.forget(at)).is_some()
    }

    fn begin(&mut self, key: FlowKey, exit: ExitId, track: TcpTrack) -> Option<Flow> {
        if let Some(at) = self.find_live(&key) {
            self.forget(at);
        }
        let full = self.kept().count() >= self.config.flows_max as usize;
        let evicted = (full && !self.forget_due()).then(|| {
            let age = |(_, kept): &(usize, Kept)| {
                (kept.flow.active, kept.flow.class() as usize, kept.turn)
            };
            let at = self.kept().min_by_key(age).unwrap().0;
            self.forget(at)
        });
        let flow = Flow {
            key,
            exit,
            lost: false,
            track,
            active: self.latest,
        };
        self.turn += 1;
        let kept = Some(Kept {
            flow,
            turn: self.turn,
        });
        match self.free.pop() {
            Some(at) => self.places[at] = kept,
            None => self.places.push(kept),
        }
        evicted
    }

    fn touch(
        &mut self,
        key: &FlowKey,
        exit: Option<ExitId>,
        tcp: Option<&TcpView<'_>>,
    ) -> Option<Flow> {
        let at = self.find_live(key)?;
        let latest = self.latest;
        let flow = &mut self.places[at].as_mut().unwrap().flow;
        match exit {
            None if tcp.is_some_and(TcpView::is_opening)
                && (flow.lost || flow.track.is_closing()) =>
            {
                self.forget(at);
                return None;
            }
            Some(exit) if flow.lost || tcp.is_some() && flow.exit != exit => return Some(*flow),
            Some(_) => tcp.into_iter().for_each(|tcp| flow.track.on_inward(tcp)),
            None => tcp.into_iter().for_each(|tcp| flow.track.on_outward(tcp)),
        }
        flow.active = latest;
        let flow = *flow;
        self.turn += 1;
        self.places[at] = Some(Kept {
            flow,
            turn: self.turn,
        });
        Some(flow)
    }

    fn lose(&mut self, exit: ExitId) -> Vec<Flow> {
        let mut lost = Vec::new();
        for at in 0..self.places.len() {
            let Some(Kept { flow, .. }) = &mut self.places[at] else {
                continue;
            };
            if flow.exit != exit || flow.lost {
                continue;
            }
            let alive = flow.track.is_established() && !flow.track.is_rst();
            if flow.key.protocol != protocol::TCP || !alive {
                self.forget(at);
                continue;
            }
            (flow.lost, flow.active) = (true, self.latest);
            lost.push(*flow);
            self.turn += 1;
            self.places[at].as_mut().unwrap().turn = self.turn;
        }
        lost
    }

    fn on(&self, exit: ExitId) -> usize {
        self.kept()
            .filter(|(_, kept)| kept.flow.exit == exit && !kept.flow.lost)
            .count()
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Out(u16, u8),
    In(u16, u16, u8),
    Insert(u16, u16, u8),
    Open(u16, u16, Option<u32>),
    Assign(u16, u16),
    Remove(u16),
    Lose(u16),
    Expire,
    /// Milliseconds from the earliest moment of all.
    Clock(u64),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let flags = prop_oneof![
        Just(SYN),
        Just(ACK),
        Just(SYN | ACK),
        Just(flags::RST),
        Just(flags::FIN | ACK)
    ];
    let (key, exit) = (0_u16..24, 0_u16..3);
    let op = prop_oneof![
        6 => (key.clone(), flags.clone()).prop_map(|(key, flags)| Op::Out(key, flags)),
        4 => (key.clone(), exit.clone(), flags.clone()).prop_map(|(key, exit, flags)| Op::In(key, exit, flags)),
        6 => (key.clone(), exit.clone(), flags).prop_map(|(key, exit, flags)| Op::Insert(key, exit, flags)),
        2 => (key.clone(), exit.clone(), any::<Option<u32>>()).prop_map(|(key, exit, first)| Op::Open(key, exit, first)),
        1 => (key.clone(), exit.clone()).prop_map(|(key, exit)| Op::Assign(key, exit)),
        1 => key.prop_map(Op::Remove),
        1 => exit.prop_map(Op::Lose),
        2 => Just(Op::Expire),
        1 => (0_u64..400_000).prop_map(Op::Clock),
        4 => prop_oneof![0_u64..20, 0_u64..3_000, 0_u64..60_000].prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 0..300)
}

/// A key of TCP or, every third, of UDP.
fn nth(n: u16) -> FlowKey {
    if n.is_multiple_of(3) {
        udp_key(n)
    } else {
        tcp_key(n)
    }
}

/// Runs `look` on the segment that a packet of the flow holds.
fn segment_of<T>(n: u16, flags: u8, look: impl FnOnce(Option<&TcpView<'_>>) -> T) -> T {
    if n.is_multiple_of(3) {
        return look(None);
    }
    with_segment(flags, (u32::from(n), 9), |tcp| look(Some(tcp)))
}

fn step(op: Op, now: Instant, table: &mut FlowTable, model: &mut Model) {
    match op {
        Op::Out(n, flags) => segment_of(n, flags, |tcp| {
            let expected = model.touch(&nth(n), None, tcp);
            assert_eq!(table.touch_outward(&nth(n), tcp, now).copied(), expected);
        }),
        Op::In(n, exit, flags) => segment_of(n, flags, |tcp| {
            let expected = model.touch(&nth(n), Some(ExitId(exit)), tcp);
            let found = table.touch_inward(&nth(n), ExitId(exit), tcp, now);
            assert_eq!(found.copied(), expected);
        }),
        Op::Insert(n, exit, flags) => segment_of(n, flags, |tcp| {
            let mut track = TcpTrack::default();
            tcp.into_iter().for_each(|tcp| track.on_outward(tcp));
            let expected = model.begin(nth(n), ExitId(exit), track);
            assert_eq!(table.insert(nth(n), ExitId(exit), tcp, now), expected);
        }),
        Op::Open(n, exit, first) => {
            let expected = model.begin(nth(n), ExitId(exit), TcpTrack::opened(first));
            assert_eq!(table.open(nth(n), ExitId(exit), first, now), expected);
        }
        Op::Assign(n, exit) => {
            if let Some(at) = model.find(&nth(n)) {
                let flow = &mut model.places[at].as_mut().unwrap().flow;
                if !flow.lost {
                    flow.exit = ExitId(exit);
                }
            }
            table.assign(&nth(n), ExitId(exit));
        }
        Op::Remove(n) => {
            let expected = model.find(&nth(n)).map(|at| model.forget(at));
            assert_eq!(table.remove(&nth(n)), expected);
        }
        Op::Lose(exit) => {
            let (expected, mut told) = (model.lose(ExitId(exit)), Vec::new());
            table.lose_exit(ExitId(exit), now, |flow| told.push(*flow));
            assert_eq!(told, expected);
        }
        Op::Expire => {
            let mut expected = 0;
            while model.forget_due() {
                expected += 1;
            }
            assert_eq!(table.expire(now), expected);
        }
        Op::Clock(_) | Op::Wait(_) => {}
    }
}

/// What both say of themselves.
fn compare(table: &FlowTable, model: &Model, begin: Instant) {
    for n in 0..24 {
        let expected = model.find(&nth(n)).map(|at| model.places[at].unwrap().flow);
        assert_eq!(table.peek(&nth(n)).copied(), expected);
    }
    for exit in 0..3 {
        assert_eq!(table.flows_on(ExitId(exit)), model.on(ExitId(exit)));
    }
    let due = model.kept().map(|(_, kept)| model.due(&kept)).min();
    let due = due.map(|due| begin + Duration::from_nanos(due));
    assert_eq!(table.poll_timeout().map(|(at, _)| at), due);
    let status = table.status();
    let lost = model.kept().filter(|(_, kept)| kept.flow.lost).count();
    assert_eq!((status.flows, status.lost), (model.kept().count(), lost));
    let FlowsCounters {
        opened,
        evicted,
        expired,
        removed,
        ..
    } = status.counters;
    assert_eq!(evicted + expired + removed, model.forgotten);
    assert_eq!(opened, status.flows as u64 + model.forgotten);
}

proptest! {
    #[test]
    fn any_row_of_calls_is_as_in_the_model(ops in ops()) {
        let begin = Instant::now();
        let mut table = table(16);
        let mut model = Model {
            config: table.config.clone(),
            places: Vec::new(),
            free: Vec::new(),
            turn: 0,
            latest: 0,
            forgotten: 0,
        };
        // The first moment that the table hears of is the earliest.
        table.expire(begin);
        let mut now = begin;
        for op in ops {
            match op {
                Op::Clock(at) => now = begin + Duration::from_millis(at),
                Op::Wait(ms) => now += Duration::from_millis(ms),
                Op::Assign(..) | Op::Remove(_) => {}
                Op::Out(..) | Op::In(..) | Op::Insert(..) | Op::Open(..) | Op::Lose(_) | Op::Expire => {
                    model.latest = model.latest.max(nanos(now - begin));
                }
            }
            step(op, now, &mut table, &mut model);
            compare(&table, &model, begin);
        }
    }
}
