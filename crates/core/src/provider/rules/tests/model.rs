//! The compiled ranges against a list of prefixes that is searched from end to end.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::ranges::{Cell, Mark, Ranges, Span};
use super::*;

/// Prefixes and addresses from few bits, so that they meet: the rest is zeros or ones.
fn address() -> impl Strategy<Value = u32> {
    let near = (0_u32..16, 0_u32..8, any::<bool>());
    let near = near.prop_map(|(high, low, ones)| {
        let middle = if ones { 0x0fff_fff8 } else { 0 };
        high << 28 | middle | low
    });
    prop_oneof![4 => near, 1 => any::<u32>()]
}

fn mark() -> impl Strategy<Value = Mark> {
    let class = (0..Class::ALL.len()).prop_map(|index| Mark::Class(Class::ALL[index]));
    let service = prop_oneof![
        Just(Service::Any),
        Just(Service::Icmp),
        Just(Service::Tcp(Ports::ALL))
    ];
    let rule = (service, any::<bool>()).prop_map(|(service, allow)| match allow {
        true => Mark::Allow(service),
        false => Mark::Deny(service),
    });
    prop_oneof![class, rule]
}

fn prefix() -> impl Strategy<Value = (Prefix, Mark)> {
    let len = prop_oneof![0_u8..=5, 27_u8..=32];
    (address(), len, mark()).prop_map(|(address, len, mark)| {
        let address = IpAddr::from(Ipv4Addr::from_bits(address));
        (Prefix::new(address, len).unwrap(), mark)
    })
}

fn naive(prefixes: &[(Prefix, Mark)], address: u32) -> Cell {
    let mut cell = Cell::default();
    for (prefix, mark) in prefixes {
        if !prefix.contains(Ipv4Addr::from_bits(address).into()) {
            continue;
        }
        match mark {
            Mark::Class(class) => {
                cell.class = Some(cell.class.map_or(*class, |other| other.min(*class)));
            }
            Mark::Deny(service) => cell.deny.push(*service),
            Mark::Allow(service) => cell.allow.push(*service),
        }
    }
    sorted(cell)
}

fn sorted(mut cell: Cell) -> Cell {
    cell.deny.sort();
    cell.allow.sort();
    cell
}

fn spans(prefixes: &[(Prefix, Mark)]) -> Vec<Span<u32>> {
    let mut spans = Spans::default();
    for (prefix, mark) in prefixes {
        spans.add(*prefix, *mark);
    }
    spans.ipv4
}

proptest! {
    #[test]
    fn compiled_ranges_say_what_the_list_of_prefixes_says(
        prefixes in vec(prefix(), 0..24),
        addresses in vec(address(), 32),
    ) {
        let ranges = Ranges::new(spans(&prefixes));
        // Where something begins or ends, and one address before.
        let edges = ranges.starts().iter().flat_map(|start| [*start, start.wrapping_sub(1)]);
        let given = prefixes.iter().flat_map(|(prefix, _)| match prefix.addr() {
            IpAddr::V4(first) => [first.to_bits(), first.to_bits().wrapping_sub(1)],
            IpAddr::V6(_) => [0, 0],
        });
        for address in edges.chain(given).chain(addresses).chain([0, u32::MAX]) {
            prop_assert_eq!(sorted(ranges.at(address).clone()), naive(&prefixes, address));
        }
    }

    /// Both families are compiled by the same code, but for the width.
    #[test]
    fn ranges_of_ipv6_are_those_of_ipv4_scaled(
        prefixes in vec(prefix(), 0..16),
        addresses in vec(address(), 32),
    ) {
        let mut wide = Spans::default();
        for (prefix, mark) in &prefixes {
            let IpAddr::V4(v4) = prefix.addr() else { continue };
            let address = std::net::Ipv6Addr::from_bits(u128::from(v4.to_bits()) << 96);
            wide.add(Prefix::new(address.into(), prefix.len()).unwrap(), *mark);
        }
        let (narrow, wide) = (Ranges::new(spans(&prefixes)), Ranges::new(wide.ipv6));
        for address in addresses {
            let first = u128::from(address) << 96;
            for wide_address in [first, first | u128::MAX >> 32] {
                prop_assert_eq!(wide.at(wide_address), narrow.at(address));
            }
        }
    }

    #[test]
    fn any_text_is_a_rule_that_is_written_back_or_an_error(text in "[0-9a-z:./ -]{0,24}") {
        if let Ok(rule) = text.parse::<Rule>()
            && (rule.prefix.is_some() || rule.service != Service::Any)
        {
            prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }
    }
}

#[test]
fn ranges_that_say_the_same_are_one() {
    let halves = ["10.0.0.0/9", "10.128.0.0/9"];
    let prefixes = halves.map(|prefix| (prefix.parse().unwrap(), Mark::Class(Class::Private)));
    let ranges = Ranges::new(spans(&prefixes));
    assert_eq!(ranges.starts(), [0, 10 << 24, 11 << 24]);
}
