//! Values of arguments that several verbs take.

use std::ops::RangeInclusive;
use std::time::Duration;

use humantime_serde::re::humantime;

/// Reads a duration as files have them (`"50ms"`, `"1m 15s"`).
///
/// # Errors
/// It is none, or not in the range: what is allowed, in words.
pub(crate) fn duration(text: &str, allowed: RangeInclusive<Duration>) -> Result<Duration, String> {
    let form = || {
        let (low, high) = (allowed.start(), allowed.end());
        format!("a duration from {low:?} to {high:?}, such as \"50ms\"")
    };
    let duration = humantime::parse_duration(text).map_err(|_| form())?;
    match allowed.contains(&duration) {
        true => Ok(duration),
        false => Err(form()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_range_is_taken_and_the_next_value_is_not() {
        let read = |text| duration(text, Duration::from_millis(1)..=Duration::from_secs(10));
        assert_eq!(read("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(read("10s"), Ok(Duration::from_secs(10)));
        for refused in ["999us", "10001ms", "50", "", "-1s", "fast"] {
            let said = read(refused).err();
            assert!(
                said.is_some_and(|said| said.contains("1ms to 10s")),
                "{refused}"
            );
        }
    }
}
