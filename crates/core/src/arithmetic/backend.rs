//! What an hour without the control plane costs the control plane.
//!
//! One [`BackendHealth`] is driven in virtual time by the rule of who asks it: whenever it lets a request go, one goes.
//! Chance stretches its waits, so several courses are run and the one with most requests counts.

use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use serde::Serialize;

use super::{BackendQuestion, ms};
use crate::config::BackendHealthConfig;
use crate::health::BackendHealth;
use crate::health::backend::{Admission, Work};
use crate::send::Degraded as _;

const HOUR: Duration = Duration::from_secs(3_600);
/// Courses that are run.
const SEEDS: u64 = 16;
/// The longest wait between two checks, in parts of `check_interval`: each is jittered by a fifth.
const CHECK_STRETCH_MAX: f64 = 1.2;

/// Requests of one client, or one provider, in an outage of its control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BackendFigures {
    /// Backends, each asked on its own.
    pub urls: usize,
    /// Requests an hour while they answer, all together.
    pub requests_an_hour_well: u64,
    /// Requests in an hour in which they refuse at once, all together.
    pub requests_an_hour_refusing: u64,
    /// Requests in an hour in which they take requests and say nothing.
    pub requests_an_hour_silent: u64,
    /// How long after its beginning such an outage is known, at most, where they refuse.
    pub known_within_refusing_ms: u64,
    /// The same where they are silent.
    pub known_within_silent_ms: u64,
}

struct Course {
    requests: u64,
    degraded_after: Option<Duration>,
}

/// An hour that begins with a request, each of which fails after `takes`.
fn course(config: &BackendHealthConfig, takes: Duration, seed: u64, origin: Instant) -> Course {
    let mut rng = SmallRng::seed_from_u64(seed);
    let health = BackendHealth::new(config.clone(), origin, &mut rng);
    let mut course = Course {
        requests: 0,
        degraded_after: None,
    };
    let mut now = origin;
    while now.saturating_duration_since(origin) < HOUR {
        now = match health.admit(Work::Probe, now) {
            Admission::Go(attempt) | Admission::Probe(attempt) => {
                course.requests += 1;
                let end = now + takes;
                health.failed(attempt, end);
                if course.degraded_after.is_none() && health.is_degraded(end) {
                    course.degraded_after = Some(end.saturating_duration_since(origin));
                }
                // A request that fails within no time takes some all the same.
                end.max(now + Duration::from_millis(1))
            }
            Admission::Wait(wait) => wait.until.max(now + Duration::from_millis(1)),
        };
    }
    course
}

/// How long after its beginning an outage is known, where each request takes so long to fail.
pub(super) fn known_within(
    config: &BackendHealthConfig,
    takes: Duration,
    origin: Instant,
) -> Duration {
    let until_asked = config.check_interval.mul_f64(CHECK_STRETCH_MAX);
    let then = course(config, takes, 0, origin).degraded_after;
    until_asked + then.unwrap_or(HOUR)
}

pub(super) fn of(question: &BackendQuestion, origin: Instant) -> BackendFigures {
    let config = &question.health;
    let urls = question.urls as u64;
    let most = |takes| {
        let courses = (0..SEEDS).map(|seed| course(config, takes, seed, origin).requests);
        courses.max().unwrap_or(0) * urls
    };
    let well = HOUR
        .as_millis()
        .div_ceil(config.check_interval.as_millis().max(1));
    let silent = config.attempt_timeout;
    BackendFigures {
        urls: question.urls,
        requests_an_hour_well: u64::try_from(well).unwrap_or(u64::MAX) * urls,
        requests_an_hour_refusing: most(Duration::ZERO),
        requests_an_hour_silent: most(silent),
        known_within_refusing_ms: ms(known_within(config, Duration::ZERO, origin)),
        known_within_silent_ms: ms(known_within(config, silent, origin)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(urls: usize) -> BackendFigures {
        let health = BackendHealthConfig::default();
        let origin = Instant::now();
        of(&BackendQuestion { urls, health }, origin)
    }

    #[test]
    fn an_hour_of_outage_draws_little_more_than_an_hour_without() {
        let one = figures(1);
        assert_eq!(one.requests_an_hour_well, 120);
        // A wait at the cap is 26.25 s on average: 137 an hour, and the first steep part.
        assert!(
            (135..=150).contains(&one.requests_an_hour_refusing),
            "{one:?}"
        );
        assert!(one.requests_an_hour_silent < one.requests_an_hour_refusing);
        let four = figures(4);
        assert_eq!(
            four.requests_an_hour_refusing,
            4 * one.requests_an_hour_refusing
        );
    }

    #[test]
    fn an_outage_is_known_after_36_s_and_three_failures() {
        let one = figures(1);
        // 36 s until the next check, and two waits of 1 s; three timeouts of 5 s where nobody answers.
        assert_eq!(one.known_within_refusing_ms, 38_000);
        assert_eq!(one.known_within_silent_ms, 53_000);
    }
}
