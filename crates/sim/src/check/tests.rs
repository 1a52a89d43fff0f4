//! Each checker by itself: the last thing that it allows, and the first that it does not.
#![allow(clippy::unwrap_used)]

use super::*;

const MS: u64 = 1_000_000;
const S: u64 = SECOND_NS;

const CALM: &str = r#"
name = "calm"
summary = "nothing breaks"
duration = "1000s"
[fleet]
clients = 2
providers = 2
"#;

fn terms() -> Terms {
    terms_of(CALM)
}

fn terms_of(text: &str) -> Terms {
    Terms::of(&Scenario::from_toml(text).unwrap(), ClientConfig::default())
}

/// A checker, and what it said.
struct One<C> {
    checker: C,
    complaints: Complaints,
}

impl<C: Checker> One<C> {
    fn new(checker: C) -> Self {
        Self {
            checker,
            complaints: Complaints::default(),
        }
    }

    fn saw(&mut self, now_ns: u64, fact: Fact<'_>) -> usize {
        self.checker.saw(&fact, now_ns, &mut self.complaints);
        self.complaints.words.len()
    }

    fn hand(&mut self, now_ns: u64, packs: &[(u64, u32)], causes: &Causes) -> usize {
        let (client, server) = (0, 0);
        self.saw(
            now_ns,
            Fact::Handed {
                client,
                server,
                causes,
                packs,
            },
        )
    }

    fn stands(&mut self, now_ns: u64, facts: &ClientFacts) -> usize {
        self.saw(now_ns, Fact::Stands { client: 0, facts })
    }

    fn heard(&mut self, now_ns: u64) -> usize {
        self.saw(
            now_ns,
            Fact::Heard {
                client: 0,
                server: 0,
            },
        )
    }

    fn dial(&mut self, now_ns: u64) -> usize {
        self.saw(
            now_ns,
            Fact::Dialled {
                client: 0,
                server: 0,
            },
        )
    }

    fn close(&mut self, now_ns: u64) -> usize {
        self.saw(
            now_ns,
            Fact::Closed {
                client: 0,
                server: 0,
            },
        )
    }

    fn ask(&mut self, now_ns: u64, call: u64) -> usize {
        self.saw(
            now_ns,
            Fact::Asked {
                client: 0,
                backend: 0,
                work: Work::Auth,
                call,
            },
        )
    }

    fn answer(&mut self, now_ns: u64, call: u64, answer: Answer) -> usize {
        self.saw(
            now_ns,
            Fact::Answered {
                client: 0,
                call,
                answer,
            },
        )
    }
}

fn first(bytes: u32) -> Causes {
    Causes {
        first_send: bytes,
        ..Causes::default()
    }
}

fn again(bytes: u32) -> Causes {
    Causes {
        resend: bytes,
        ..Causes::default()
    }
}

#[test]
fn a_pack_is_handed_over_seventeen_times_and_not_eighteen() {
    // R-3, R-10
    let mut cap = One::new(cap::Cap::new(&terms()));
    for send in 0..17 {
        assert_eq!(cap.hand(send * S, &[(4, 1)], &again(100)), 0);
    }
    assert_eq!(cap.hand(17 * S, &[(5, 2)], &again(100)), 0, "another");
    assert_eq!(
        cap.hand(17 * S, &[(4, 3)], &again(100)),
        0,
        "another session's"
    );
    let mut cap = One::new(cap::Cap::new(&terms()));
    let said: Vec<_> = (0..18)
        .map(|n| cap.hand(n * S, &[(4, 1)], &again(100)))
        .collect();
    assert_eq!((said[16], said[17]), (0, 1));
}

#[test]
fn an_item_comes_once_and_not_twice_and_none_is_missing() {
    // R-21
    let offered = |number| Fact::Offered { client: 0, number };
    let came = |number| Fact::Delivered { client: 0, number };
    let mut once = One::new(once::Once::new(&terms()));
    for number in 0..100 {
        once.saw(S, offered(number));
        assert_eq!(once.saw(S, came(number)), 0);
    }
    assert_eq!(once.saw(999 * S, offered(100)), 0);
    assert_eq!(once.saw(1_000 * S, Fact::Ended), 0, "the last is under way");
    assert_eq!(once.saw(2 * S, came(64)), 1);
    assert_eq!(once.saw(2 * S, came(101)), 2, "never offered");

    for (dropped, held, said) in [(1, 1, 0), (1, 0, 1), (0, 1, 1)] {
        let mut once = One::new(once::Once::new(&terms()));
        once.saw(S, offered(0));
        once.saw(S, offered(1));
        once.stands(
            999 * S,
            &ClientFacts {
                dropped,
                waiting_items: held,
                ..ClientFacts::default()
            },
        );
        assert_eq!(once.saw(1_000 * S, Fact::Ended), said, "{dropped} {held}");
    }
}

#[test]
fn even_books_are_no_complaint_and_uneven_ones_are() {
    // R-21
    let mut conservation = One::new(conservation::Conservation);
    for (unaccounted, said) in [(0, 0), (1, 1), (-1, 2)] {
        let facts = ClientFacts {
            unaccounted,
            ..ClientFacts::default()
        };
        assert_eq!(conservation.stands(S, &facts), said);
    }
}

#[test]
fn windows_may_be_full_and_no_more() {
    // R-3
    let lane = ClientConfig::default().path;
    let bytes = 2 * (2 * lane.lanes.send.window_bytes + lane.dgram_queue_bytes_max) as u64;
    let packs = u32::try_from(2 * 2 * lane.lanes.send.window_numbers).unwrap();
    let mut memory = One::new(memory::Memory::new(&terms()));
    for (held_bytes, unacked, said) in [
        (bytes, packs, 0),
        (bytes + 1, packs, 1),
        (bytes, packs + 1, 2),
    ] {
        let facts = ClientFacts {
            held_bytes,
            unacked,
            ..ClientFacts::default()
        };
        assert_eq!(memory.stands(S, &facts), said);
    }
}

#[test]
fn one_dial_of_a_server_at_a_time() {
    // R-32
    let mut single = One::new(single::Single::new(&terms()));
    assert_eq!(single.dial(S), 0);
    let (client, server) = (0, 1);
    assert_eq!(
        single.saw(S, Fact::Dialled { client, server }),
        0,
        "another's"
    );
    single.close(2 * S);
    assert_eq!(single.dial(2 * S), 0);
    assert_eq!(single.dial(3 * S), 1);
}

#[test]
fn what_fails_is_asked_for_one_at_a_time_and_paced() {
    // R-18
    let mut single = One::new(single::Single::new(&terms()));
    for (n, call) in (0..4).zip(0..) {
        assert_eq!(single.ask(n * S, call), 0, "not degraded yet");
        single.answer(n * S + 600 * MS, call, Answer::Failed);
    }
    assert_eq!(
        single.ask(3 * S + 3_750 * MS, 4),
        0,
        "the smallest wait of a probe"
    );
    assert_eq!(single.ask(12 * S, 5), 0, "the one before was given up");
    assert_eq!(single.ask(16 * S, 6), 1, "one is under way");
    let mut single = One::new(single::Single::new(&terms()));
    for n in 0..4 {
        single.ask(n * S, n);
        single.answer(n * S + 600 * MS, n, Answer::Failed);
    }
    assert_eq!(single.ask(3 * S + 3_749 * MS, 4), 1, "too soon");
    single.answer(7 * S, 4, Answer::Yes);
    assert_eq!(single.ask(7 * S, 5), 1, "well again");
}

#[test]
fn a_minute_without_progress_holds_the_ceiling_and_a_dial() {
    // R-20
    let left = |bytes| Fact::Left { client: 0, bytes };
    let most = 16 * 1_024 + 12_000;
    let mut quiet = One::new(quiet::Quiet::new(&terms()));
    assert_eq!(quiet.saw(59 * S, left(1_000_000)), 0, "not in force yet");
    assert_eq!(quiet.saw(60 * S, left(most)), 0);
    assert_eq!(quiet.saw(121 * S, left(most)), 0, "another minute");
    assert_eq!(quiet.saw(122 * S, left(1)), 1);
    quiet.heard(123 * S);
    assert_eq!(quiet.saw(182 * S, left(1_000_000)), 1, "progress lifts it");
    assert_eq!(quiet.saw(183 * S, left(most + 1)), 2);
}

#[test]
fn ten_seconds_of_guesses_hold_the_floor_and_the_share() {
    // R-3
    let mut budget = One::new(budget::Budget::new(&terms()));
    budget.heard(S);
    for _ in 0..30 {
        assert_eq!(budget.hand(3_999 * MS, &[], &again(1_000)), 0, "evidence");
    }
    for _ in 0..20 {
        assert_eq!(budget.hand(20 * S, &[], &again(1_000)), 0, "the floor");
    }
    budget.hand(20 * S, &[], &first(10_000));
    assert_eq!(budget.hand(21 * S, &[], &again(1_000)), 0, "the share");
    assert_eq!(budget.hand(21 * S, &[], &again(1_000)), 0, "the share");
    assert_eq!(budget.hand(21 * S, &[], &again(1_000)), 1);
}

#[test]
fn a_silent_path_carries_nothing_after_its_stall() {
    // R-20: 4 probe timeouts of a second, the shortest stall, and a second more.
    let limit = 6 * S;
    let mut silence = One::new(silence::Silence::new(&terms()));
    silence.heard(S);
    assert_eq!(
        silence.hand(100 * S, &[(1, 1)], &first(100)),
        0,
        "idle is not silent"
    );
    assert_eq!(silence.hand(100 * S + limit, &[(1, 1)], &again(100)), 0);
    assert_eq!(
        silence.hand(101 * S + limit, &[], &again(100)),
        0,
        "a question"
    );
    silence.heard(101 * S + limit);
    assert_eq!(silence.hand(102 * S + limit, &[(1, 1)], &again(100)), 0);
    assert_eq!(
        silence.hand(102 * S + 2 * limit + 1, &[(1, 1)], &again(100)),
        1
    );
}

#[test]
fn degraded_resends_are_spread() {
    // R-4, R-11
    let mut widen = One::new(widen::Widen::new(&terms()));
    let degraded = ClientFacts {
        degraded: true,
        ..ClientFacts::default()
    };
    for n in 0..20 {
        assert_eq!(widen.hand(n * 100 * MS, &[(1, 1)], &again(100)), 0, "well");
    }
    widen.stands(2 * S, &degraded);
    widen.stands(4 * S, &degraded);
    for n in 0..6 {
        assert_eq!(widen.hand((5 + n) * S, &[(2, 2)], &again(100)), 0);
    }
    assert_eq!(widen.hand(14 * S, &[(2, 2)], &again(100)), 1);
    widen.heard(14 * S);
    assert_eq!(widen.hand(14 * S, &[(2, 2)], &again(100)), 1, "evidence");
}

#[test]
fn who_had_an_outage_delivers_within_the_bound() {
    // R-20
    let text = format!("{CALM}[[fault]]\nkind = \"suspend\"\nat = \"5s\"\nuntil = \"10s\"\n");
    let terms = terms_of(&text);
    let bound_ns = ns(converge::bound(&terms.client, &terms.scenario));
    let offered = |number| Fact::Offered { client: 0, number };
    let came = |number| Fact::Delivered { client: 0, number };
    for (late_ns, said) in [(0, 0), (1, 1)] {
        let mut converge = One::new(converge::Converge::new(&terms));
        converge.saw(9 * S, offered(0));
        converge.saw(12 * S, offered(1));
        let at_ns = 12 * S + bound_ns + late_ns;
        assert_eq!(converge.saw(at_ns, came(0)), said);
        assert_eq!(converge.saw(1_000 * S, Fact::Ended), said);
    }
    let mut converge = One::new(converge::Converge::new(&terms));
    converge.saw(12 * S, offered(1));
    assert_eq!(converge.saw(1_000 * S, Fact::Ended), 1, "never");
    let mut converge = One::new(converge::Converge::new(&terms));
    converge.saw(990 * S, offered(1));
    assert_eq!(converge.saw(1_000 * S, Fact::Ended), 0, "no time for it");
}

#[test]
fn a_failed_dial_waits_as_long_as_its_row_says() {
    // R-17, R-31
    let waits = [3_750, 7_500, 15_000, 30_000, 45_000, 45_000];
    for early in 0..waits.len() {
        let mut paced = One::new(paced::Paced::new(&terms()));
        let mut now_ns = S;
        paced.dial(now_ns);
        for (n, wait) in waits.into_iter().enumerate() {
            paced.close(now_ns);
            now_ns += wait * MS - u64::from(n == early);
            let said = paced.dial(now_ns);
            assert_eq!(said, usize::from(n >= early), "failure {n}, early {early}");
        }
    }
    let mut paced = One::new(paced::Paced::new(&terms()));
    paced.dial(S);
    let (client, server) = (0, 0);
    paced.saw(S, Fact::Connected { client, server });
    paced.close(2 * S);
    assert_eq!(paced.dial(2 * S), 0, "it stood");
    paced.close(2 * S);
    paced.saw(3 * S, Fact::Woke { client });
    assert_eq!(paced.dial(3 * S), 0, "it slept");
}

#[test]
fn a_third_of_a_fleet_in_a_tenth_of_a_second_is_a_herd() {
    // R-31
    let terms = terms_of(&CALM.replace("clients = 2", "clients = 60"));
    let server = 0;
    let herd = |count, prepare: &dyn Fn(ClientId) -> Fact<'static>| {
        let mut herd = One::new(herd::Herd::new(&terms));
        (0..60).for_each(|client| {
            herd.saw(S, prepare(client));
        });
        let dials = (0..count).map(|client| herd.saw(2 * S, Fact::Dialled { client, server }));
        dials.last().unwrap_or(0)
    };
    let stood = |client| Fact::Connected { client, server };
    assert_eq!(herd(18, &stood), 0);
    assert_eq!(herd(19, &stood), 1);
    assert_eq!(
        herd(60, &|client| Fact::Woke { client }),
        0,
        "they start, or wake"
    );
}

#[test]
fn a_large_fleet_has_the_cheap_ones_alone_and_other_policies_none() {
    let names = |clients: u32, policy| {
        let text = CALM.replace("clients = 2", &format!("clients = {clients}"));
        let scenario = Scenario::from_toml(&text).unwrap();
        let checks = Checks::new(policy, &scenario, &Options::default());
        checks
            .checkers
            .iter()
            .map(|named| named.name)
            .collect::<Vec<_>>()
    };
    let cheap = ["conservation", "single", "paced", "herd", "converge"];
    assert_eq!(names(ALL_CLIENTS_MAX, "quell").len(), 12);
    assert_eq!(names(ALL_CLIENTS_MAX + 1, "quell"), cheap);
    assert!(names(2, "quell-no-cap").is_empty());
}
