//! How high a figure stands, and which figures have a line across the plot.
//!
//! Linear scales begin at 0 and end at a round number. On a logarithmic one each line is ten times the one
//! below, so that 200 bytes a second are seen beside 200,000; 0, which has no logarithm, is the floor, and 1
//! stands a little above it.

/// Lines of a linear scale at most.
const LINES_MAX: u64 = 5;
/// Decades of a logarithmic scale at least: less than that would make a hill of a grain.
const DECADES_MIN: u32 = 3;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Twice as high is twice as much.
    Linear,
    /// A step up is ten times as much.
    Log,
}

/// From 0 to a figure that none exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Lines at each multiple of `step` up to `step * steps`.
    Linear {
        /// From one line to the next.
        step: u64,
        /// How many of them.
        steps: u64,
    },
    /// Lines at 1, 10, … up to 10 to the power of `decades`.
    Log {
        /// How many lines above 1.
        decades: u32,
    },
}

impl Scale {
    /// One that `max` fits.
    #[must_use]
    pub fn new(kind: Kind, max: u64) -> Self {
        match kind {
            Kind::Linear => {
                let step = round_up(max.div_ceil(LINES_MAX).max(1));
                let steps = max.div_ceil(step).max(1);
                Self::Linear { step, steps }
            }
            Kind::Log => {
                let digits = max.max(1).ilog10();
                let is_power = 10_u64.checked_pow(digits) == Some(max.max(1));
                let decades = digits + u32::from(!is_power);
                Self::Log {
                    decades: decades.max(DECADES_MIN),
                }
            }
        }
    }

    /// The share of the plot's height at which `value` stands, 0 to 1.
    #[must_use]
    pub fn height(self, value: u64) -> f64 {
        let share = match self {
            Self::Linear { step, steps } => value as f64 / (step as f64 * steps as f64),
            Self::Log { .. } if value == 0 => 0.0,
            // A floor below 1, or 1 would not be told from nothing.
            Self::Log { decades } => ((value as f64).log10() + 0.2) / (f64::from(decades) + 0.2),
        };
        share.clamp(0.0, 1.0)
    }

    /// The figures that have a line, from below.
    #[must_use]
    pub fn lines(self) -> Vec<u64> {
        match self {
            Self::Linear { step, steps } => (0..=steps).map(|n| step.saturating_mul(n)).collect(),
            Self::Log { decades } => (0..=decades)
                .map(|power| 10_u64.saturating_pow(power))
                .collect(),
        }
    }
}

/// The next of 1, 2, 5, 10, 20, 50, …
fn round_up(value: u64) -> u64 {
    let power = 10_u64.saturating_pow(value.max(1).ilog10());
    [1, 2, 5, 10]
        .map(|factor| power.saturating_mul(factor))
        .into_iter()
        .find(|round| *round >= value)
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_scale_ends_at_a_round_number_that_is_not_exceeded() {
        let lines = |max| Scale::new(Kind::Linear, max).lines();
        assert_eq!(lines(0), [0, 1]);
        assert_eq!(lines(3), [0, 1, 2, 3]);
        assert_eq!(lines(5), [0, 1, 2, 3, 4, 5]);
        assert_eq!(lines(6), [0, 2, 4, 6]);
        assert_eq!(lines(135), [0, 50, 100, 150]);
        assert_eq!(
            lines(436_875),
            [0, 100_000, 200_000, 300_000, 400_000, 500_000]
        );
        for max in 0..2_000 {
            let lines = lines(max);
            assert!(lines.len() <= LINES_MAX as usize + 1);
            assert!(lines.last() >= Some(&max));
        }
    }

    #[test]
    fn a_logarithmic_scale_has_a_line_a_decade() {
        let lines = |max| Scale::new(Kind::Log, max).lines();
        for few in [0, 1, 999, 1_000] {
            assert_eq!(lines(few), [1, 10, 100, 1_000]);
        }
        assert_eq!(lines(1_001).last(), Some(&10_000));
        assert_eq!(lines(276_966).last(), Some(&1_000_000));
    }

    #[test]
    fn heights_grow_from_the_floor_to_the_top() {
        for kind in [Kind::Linear, Kind::Log] {
            let scale = Scale::new(kind, 1_000);
            assert_eq!(scale.height(0), 0.0);
            assert_eq!(scale.height(1_000), 1.0);
            assert_eq!(scale.height(u64::MAX), 1.0, "nothing leaves the plot");
            let heights = [0, 1, 2, 10, 500, 1_000].map(|value| scale.height(value));
            assert!(heights.is_sorted_by(|a, b| a < b), "{heights:?}");
        }
    }

    #[test]
    fn the_largest_figures_have_a_scale_too() {
        for kind in [Kind::Linear, Kind::Log] {
            let scale = Scale::new(kind, u64::MAX);
            assert!(scale.height(u64::MAX) > 0.9);
            assert!(scale.lines().len() < 25);
        }
    }
}
