//! What a link does to a packet, and which settings make sense.
//!
//! Probabilities are plain fractions in 0..=1, times are [`Duration`]s, sizes are bytes, so that a configuration reads the
//! same in a test, in a relay and in a report. The default is the perfect link: it delivers at once, everything, once.
//!
//! A link never panics on a configuration that [`LinkConfig::validate`] refuses; it merely does something of little use
//! (a probability above 1 means always, NaN means never, a rate of 0 loses everything). Settings that a person wrote are
//! to be validated first, those in code need not be.

use std::time::Duration;

/// The longest delay, jitter or hold that a link takes: an hour. It keeps all arithmetic on time far from its ends.
pub const DELAY_MAX: Duration = Duration::from_secs(3600);

/// Why a [`LinkConfig`] was refused.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A probability is not a number in 0..=1.
    #[error("{name} is {value}, but a probability lies in 0..=1")]
    Probability {
        /// The field.
        name: &'static str,
        /// What it held.
        value: f64,
    },
    /// A time is longer than [`DELAY_MAX`].
    #[error("{name} is {value:?}, longer than {DELAY_MAX:?}")]
    TooLong {
        /// The field.
        name: &'static str,
        /// What it held.
        value: Duration,
    },
    /// The jitter exceeds the delay it varies: a packet would have to arrive before it left.
    #[error("jitter {jitter:?} exceeds delay {delay:?}")]
    JitterAboveDelay {
        /// The jitter, each way.
        jitter: Duration,
        /// The delay.
        delay: Duration,
    },
    /// A limit of 0, which would lose everything: a cut is called `blackhole`.
    #[error("{name} is 0; for a dead link set blackhole")]
    Zero {
        /// The field.
        name: &'static str,
    },
}

/// Loss in bursts: the Gilbert–Elliott chain.
///
/// Before each packet the chain may change its state; in the bad state a packet is lost with `loss_in_bad`. In the long run
/// `p_good_to_bad / (p_good_to_bad + p_bad_to_good)` of the packets meet the bad state, in runs of `1 / p_bad_to_good`
/// packets on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability, per packet, to enter the bad state.
    pub p_good_to_bad: f64,
    /// Probability, per packet, to leave it.
    pub p_bad_to_good: f64,
    /// Probability that a packet is lost in the bad state.
    pub loss_in_bad: f64,
}

/// Settings of one direction. `Default` is the perfect link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// One-way delay after the bottleneck.
    pub delay: Duration,
    /// Uniform in ±`jitter` around `delay`, at most `delay`. It keeps the order: a packet never overtakes an earlier one,
    /// so in dense traffic the mean lies somewhat above `delay`.
    pub jitter: Duration,
    /// Probability of independent loss, after the bottleneck: a lost packet has used the bandwidth.
    pub loss: f64,
    /// Loss in bursts, on top of `loss`.
    pub burst: Option<GilbertElliott>,
    /// Probability that a packet arrives twice. The copy takes no bandwidth and has its own jitter.
    pub duplicate: f64,
    /// Probability that a packet is held back by `reorder_hold`, so that later ones overtake it.
    pub reorder: f64,
    /// How much longer a reordered packet takes. Default 5 ms.
    pub reorder_hold: Duration,
    /// The bottleneck, in bytes per second; `None`: no limit.
    pub rate_bytes_per_s: Option<u64>,
    /// Drop-tail bound of the bottleneck's queue as waiting time, in milliseconds: a packet that would wait longer is lost.
    /// Default 50. Means nothing without a rate.
    pub queue_ms_max: u64,
    /// A silent cut: loses what is sent into it.
    pub blackhole: bool,
    /// Packets longer than this are lost silently; `None`: no limit.
    pub mtu: Option<usize>,
    /// Bound of the packets in flight; what is beyond it counts as lost in the queue. Default 65,536.
    pub in_flight_max: usize,
    /// Bound of the bytes in flight, likewise. Default 256 MiB.
    pub in_flight_bytes_max: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            burst: None,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_hold: Duration::from_millis(5),
            rate_bytes_per_s: None,
            queue_ms_max: 50,
            blackhole: false,
            mtu: None,
            in_flight_max: 65_536,
            in_flight_bytes_max: 256 << 20,
        }
    }
}

impl LinkConfig {
    /// Checks every field against its bounds.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn validate(&self) -> Result<(), LinkError> {
        self.validate_probabilities()?;
        let queue = Duration::from_millis(self.queue_ms_max);
        for (name, value) in [
            ("delay", self.delay),
            ("jitter", self.jitter),
            ("reorder_hold", self.reorder_hold),
            ("queue_ms_max", queue),
        ] {
            if value > DELAY_MAX {
                return Err(LinkError::TooLong { name, value });
            }
        }
        if self.jitter > self.delay {
            return Err(LinkError::JitterAboveDelay {
                jitter: self.jitter,
                delay: self.delay,
            });
        }
        for (name, zero) in [
            ("rate_bytes_per_s", self.rate_bytes_per_s == Some(0)),
            ("mtu", self.mtu == Some(0)),
            ("in_flight_max", self.in_flight_max == 0),
            ("in_flight_bytes_max", self.in_flight_bytes_max == 0),
        ] {
            if zero {
                return Err(LinkError::Zero { name });
            }
        }
        Ok(())
    }

    fn validate_probabilities(&self) -> Result<(), LinkError> {
        let burst = self.burst.unwrap_or(GilbertElliott {
            p_good_to_bad: 0.0,
            p_bad_to_good: 0.0,
            loss_in_bad: 0.0,
        });
        for (name, value) in [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("burst.p_good_to_bad", burst.p_good_to_bad),
            ("burst.p_bad_to_good", burst.p_bad_to_good),
            ("burst.loss_in_bad", burst.loss_in_bad),
        ] {
            // NaN lies in no range, so it is refused here too.
            if !(0.0..=1.0).contains(&value) {
                return Err(LinkError::Probability { name, value });
            }
        }
        Ok(())
    }
}
