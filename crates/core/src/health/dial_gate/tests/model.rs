//! Any interleaving of dials, cancellations, drops and clock jumps, against a model that
//! knows no generations: it keeps the list of dials whose result still counts.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Acquire,
    Succeed(usize),
    Fail(usize),
    Drop(usize),
    /// Milliseconds; the clock may go back.
    Advance(i64),
    Ended(u64),
    StatelessReset(u64),
    Timeout,
    Reset,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let lived = || prop_oneof![0..10_u64, 4_999..=5_001_u64, Just(u64::MAX)];
    let op = prop_oneof![
        10 => Just(Op::Acquire),
        2 => (0..6_usize).prop_map(Op::Succeed),
        8 => (0..6_usize).prop_map(Op::Fail),
        3 => (0..6_usize).prop_map(Op::Drop),
        10 => prop_oneof![-2_000..3_000_i64, 0..70_000_i64, Just(1 << 40)].prop_map(Op::Advance),
        1 => lived().prop_map(Op::Ended),
        1 => lived().prop_map(Op::StatelessReset),
        1 => Just(Op::Timeout),
        1 => Just(Op::Reset),
    ];
    prop::collection::vec(op, 0..250)
}

#[derive(Debug, Default)]
struct Model {
    /// Dials whose result counts.
    counting: Vec<u64>,
    /// The dial that alone may end the block.
    probe: Option<(u64, Instant)>,
    probe_dropped: bool,
    blocked: bool,
    failures: u32,
    /// Doublings so far.
    step: u32,
    stood: Option<Instant>,
}

impl Model {
    fn settle(&mut self, now: Instant) {
        if let Some(since) = self.stood
            && now.saturating_duration_since(since) >= 5 * S
        {
            self.stood = None;
            self.step = 0;
        }
        let Some((_, lease)) = self.probe else { return };
        if self.probe_dropped {
            self.probe = None;
            self.counting.clear();
        } else if now >= lease {
            self.failures += 1;
            self.block();
        }
        self.probe_dropped = false;
    }

    fn block(&mut self) {
        self.open();
        self.blocked = true;
        self.step += 1;
        self.stood = None;
    }

    fn open(&mut self) {
        self.blocked = false;
        self.counting.clear();
        self.probe = None;
    }

    fn succeeded(&mut self, id: u64, now: Instant) {
        self.settle(now);
        if self.counting.contains(&id) {
            if self.blocked {
                self.open();
            }
            self.failures = 0;
            self.stood = Some(now);
        }
    }

    fn failed(&mut self, id: u64, now: Instant) {
        self.settle(now);
        if self.counting.contains(&id) {
            self.failures += 1;
            if self.blocked || self.failures >= 3 {
                self.block();
            }
        }
    }

    fn ended(&mut self, lived: Duration, now: Instant) {
        self.settle(now);
        if self.blocked {
            return;
        }
        self.stood = None;
        if lived >= 5 * S {
            (self.step, self.failures) = (0, 0);
        } else {
            self.block();
        }
    }

    fn stateless_reset(&mut self, lived: Duration, now: Instant) {
        self.settle(now);
        if self.blocked && self.probe.is_none() && lived >= 5 * S {
            self.open();
            self.failures = 0;
        }
    }
}

struct Run {
    gate: DialGate,
    model: Model,
    /// Dials under way, each with an id of the model's own.
    open: Vec<(DialPermit, u64)>,
    next_id: u64,
    t0: Instant,
    ms: i64,
}

impl Run {
    fn now(&self) -> Instant {
        self.t0 + Duration::from_millis(self.ms.unsigned_abs())
    }

    fn acquire(&mut self) -> Result<(), TestCaseError> {
        let now = self.now();
        self.model.settle(now);
        let answer = self.gate.try_acquire(now);
        let probing = self.model.probe.is_some();
        match answer {
            Ok(permit) => {
                prop_assert!(!probing, "a second probe");
                prop_assert_eq!(permit.is_probe(), self.model.blocked);
                let id = self.next_id;
                self.next_id += 1;
                if let Some(lease) = permit.lease() {
                    prop_assert_eq!(lease, now + 20 * S);
                    self.model.probe = Some((id, lease));
                    self.model.counting.clear();
                }
                self.model.counting.push(id);
                self.open.push((permit, id));
            }
            Err(RetryAt { at, reason }) => {
                prop_assert!(at > now);
                let expected = match (self.model.blocked, probing) {
                    (true, true) => RetryReason::ProbeInFlight,
                    (true, false) => RetryReason::Blocked,
                    (false, _) => RetryReason::Recent,
                };
                prop_assert_eq!(reason, expected);
            }
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let now = self.now();
        let count = self.open.len();
        match *op {
            Op::Acquire => return self.acquire(),
            Op::Succeed(i) if i < count => {
                let (permit, id) = self.open.remove(i);
                self.gate.succeeded(permit, now);
                self.model.succeeded(id, now);
            }
            Op::Fail(i) if i < count => {
                let (permit, id) = self.open.remove(i);
                self.gate.failed(permit, now);
                self.model.failed(id, now);
            }
            Op::Drop(i) if i < count => {
                let (permit, id) = self.open.remove(i);
                drop(permit);
                let probe = self.model.probe.map(|(probe, _)| probe);
                self.model.probe_dropped |= probe == Some(id);
            }
            Op::Advance(by) => self.ms = (self.ms + by).clamp(0, 1 << 44),
            Op::Ended(ms) => {
                self.gate
                    .on_connection_ended(Duration::from_millis(ms), now);
                self.model.ended(Duration::from_millis(ms), now);
            }
            Op::StatelessReset(ms) => {
                self.gate.on_stateless_reset(Duration::from_millis(ms), now);
                self.model.stateless_reset(Duration::from_millis(ms), now);
            }
            Op::Timeout => {
                let told = self.gate.handle_timeout(now);
                self.model.settle(now);
                let open = |number| self.open.iter().find(|(p, _)| p.number() == number);
                if let Some(number) = told {
                    prop_assert!(open(number).is_some_and(|(permit, _)| permit.is_expired()));
                }
            }
            Op::Reset => {
                self.gate.reset();
                self.model = Model::default();
            }
            Op::Succeed(_) | Op::Fail(_) | Op::Drop(_) => {}
        }
        Ok(())
    }

    fn check(&self, before: u64, step: u32) -> Result<(), TestCaseError> {
        let (gate, model) = (&self.gate, &self.model);
        let state = match gate.state {
            State::Ready => GateState::Ready,
            State::Backoff { .. } => GateState::Backoff,
            State::Probing(_) => GateState::Probing,
        };
        let expected = match (model.blocked, &model.probe) {
            (false, _) => GateState::Ready,
            (true, None) => GateState::Backoff,
            (true, Some(_)) => GateState::Probing,
        };
        prop_assert_eq!(state, expected);
        prop_assert_eq!(gate.failures(), model.failures);
        prop_assert_eq!(gate.backoff.failures(), model.step);
        // A wait is that of its step, and is never longer than the cap.
        if let State::Backoff { until } = &gate.state
            && gate.generation != before
            && model.step > step
        {
            let wait = until.saturating_duration_since(self.now());
            let interval = S.saturating_mul(1 << step.min(10)).min(60 * S);
            prop_assert!(wait >= interval / 2 && wait <= (interval * 3 / 2).min(60 * S));
        }
        Ok(())
    }
}

proptest! {
    // case B21
    #[test]
    fn any_interleaving_does_what_the_model_does(ops in ops(), seed: u64) {
        let mut run = Run {
            gate: gate(seed),
            model: Model::default(),
            open: Vec::new(),
            next_id: 0,
            t0: Instant::now(),
            ms: 0,
        };
        let mut probed = std::collections::BTreeSet::new();
        for op in ops {
            let (before, step) = (run.gate.generation, run.model.step);
            let under_way = run.open.len();
            run.apply(&op)?;
            if run.open.len() > under_way
                && let Some((permit, _)) = run.open.last()
                && permit.is_probe()
            {
                prop_assert!(probed.insert(permit.number()), "two probes in one generation");
            }
            run.check(before, step)?;
        }
    }
}
