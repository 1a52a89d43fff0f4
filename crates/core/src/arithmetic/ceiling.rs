//! A client that lives with so much memory and no more.
//!
//! *Intuition.* What a client holds with everything full is known (`super::memory`), so a ceiling is a question asked
//! backwards: which settings come to that much? Windows, queues and tables are halved together until they fit; what is
//! asked for counts as everything full at once, which nothing that happens can exceed.
//!
//! What the process holds beside the core is set aside first ([`BESIDE_BYTES`]): code's data, TLS, QUIC's buffers, batches
//! of packets between threads, stacks, and what an allocator keeps of freed memory.
//!
//! Halving windows costs throughput on long paths and nothing else: a window of 512 KiB carries 200 Mbit/s over 20 ms.
//! Numbers shrink with bytes, so that a full window of small packs stays bounded. The floor is 64 KiB, the least that a
//! lane may have.

use std::time::Instant;

use super::{ClientQuestion, memory};
use crate::config::{ClientConfig, ConfigError};

/// What a process holds beside the core, in bytes.
///
/// 11 MiB: measured of a client under load (`crates/quell/tests/memory.rs`), a quarter more, and 2 for the packets that wait
/// for the TUN when its writer does not get a turn.
pub const BESIDE_BYTES: usize = 11 << 20;

/// The least window of a lane, in bytes.
const WINDOW_FLOOR_BYTES: usize = 64 << 10;
/// The least window of a lane, in packs.
const NUMBERS_FLOOR: usize = 256;
/// The least table of flows, races, or hosts.
const TABLE_FLOOR: u32 = 256;
/// The least queue of what is not acknowledged, in bytes.
const QUEUE_FLOOR_BYTES: usize = 64 << 10;
/// Halvings until each floor is reached, whatever the settings were: 2^15 is the largest quotient of any of them.
const HALVINGS_MAX: usize = 15;

/// `config` with windows, queues and tables halved until a client of `exits` exits stays below `memory_bytes`.
///
/// # Errors
/// Not even the smallest of all settings do: `budget.memory` with the least that does.
pub fn within(
    config: ClientConfig,
    exits: usize,
    memory_bytes: usize,
    origin: Instant,
) -> Result<ClientConfig, ConfigError> {
    let mut question = ClientQuestion {
        config,
        exits,
        backend: None,
        mtu_bytes: 1_452,
        rtt: std::time::Duration::from_millis(50),
    };
    // A window of more exits than it needs is memory that only a good day would use.
    question.config.window.window_max = question.config.window.window_min;
    let mut needed = 0;
    for _ in 0..=HALVINGS_MAX {
        let total = memory::of_client(&question, origin).total_bytes;
        needed = usize::try_from(total).unwrap_or(usize::MAX) + BESIDE_BYTES;
        if needed <= memory_bytes {
            return Ok(question.config);
        }
        halve(&mut question.config);
    }
    Err(ConfigError::new(
        "budget.memory",
        format!("{memory_bytes} bytes"),
        format!(
            "{needed} bytes or more with {exits} exits kept; fewer exits need less (window.window_min)"
        ),
    ))
}

/// Half of `value`, but not less than `floor`; what is less already stays.
fn half<T>(value: &mut T, floor: T)
where
    T: Copy + Ord + std::ops::Div<Output = T> + From<u8>,
{
    if *value > floor {
        *value = (*value / T::from(2)).max(floor);
    }
}

fn halve(config: &mut ClientConfig) {
    let lanes = &mut config.path.lanes;
    half(&mut lanes.send.window_bytes, WINDOW_FLOOR_BYTES);
    half(&mut lanes.send.window_numbers, NUMBERS_FLOOR);
    half(&mut lanes.receive.window_bytes, WINDOW_FLOOR_BYTES as u64);
    half(&mut lanes.receive.window_numbers, NUMBERS_FLOOR as u64);
    half(&mut config.path.dgram_queue_bytes_max, QUEUE_FLOOR_BYTES);
    half(&mut config.flows.flows_max, TABLE_FLOOR);
    half(&mut config.flap.hosts_max, TABLE_FLOOR);
    half(&mut config.racer.races_max, TABLE_FLOOR as usize);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MIB: usize = 1 << 20;

    fn total(config: &ClientConfig, exits: usize) -> usize {
        let question = ClientQuestion {
            config: config.clone(),
            exits,
            backend: None,
            mtu_bytes: 1_452,
            rtt: std::time::Duration::from_millis(50),
        };
        let origin = Instant::now();
        let memory = memory::of_client(&question, origin);
        usize::try_from(memory.total_bytes).unwrap() + BESIDE_BYTES
    }

    fn fitted(
        config: ClientConfig,
        exits: usize,
        bytes: usize,
    ) -> Result<ClientConfig, ConfigError> {
        let origin = Instant::now();
        within(config, exits, bytes, origin)
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let config = fitted(ClientConfig::default(), 2, 1 << 30).unwrap();
        let windows = |config: &ClientConfig| config.path.lanes.clone();
        assert_eq!(windows(&config), windows(&ClientConfig::default()));
    }

    #[test]
    fn every_ceiling_is_kept_with_settings_that_are_valid() {
        for exits in [1, 2] {
            for mib in [16, 24, 32, 64] {
                let config = fitted(ClientConfig::default(), exits, mib * MIB).unwrap();
                let config = config.try_new().unwrap();
                assert!(
                    total(&config, exits) <= mib * MIB,
                    "{exits} exits, {mib} MiB"
                );
            }
        }
    }

    #[test]
    fn twenty_four_mib_leave_a_window_for_200_mbit_s_over_20_ms() {
        let config = fitted(ClientConfig::default(), 2, 24 * MIB).unwrap();
        let window = config.path.lanes.send.window_bytes;
        assert!(window >= 200_000_000 / 8 / 50, "{window}");
    }

    #[test]
    fn what_no_settings_reach_is_refused_with_what_they_reach() {
        let config = ClientConfig::default();
        let error = fitted(config, 2, BESIDE_BYTES).unwrap_err();
        assert_eq!(error.key, "budget.memory");
        assert!(error.allowed.contains("bytes or more"), "{error}");
    }
}
