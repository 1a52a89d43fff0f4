//! What the tests of all settings ask of a range: its last value passes, and the
//! first beyond it is refused by the setting's own name.
#![allow(clippy::unwrap_used)]

use super::ConfigError;

/// A change to settings that are valid.
pub(super) type Change<C> = fn(&mut C);

/// Of each setting by name: a change to the last value of its range, and one beyond.
pub(super) fn each_ends_where_it_says<C: Default>(
    try_new: fn(C) -> Result<C, ConfigError>,
    cases: &[(&str, Change<C>, Change<C>)],
) {
    let changed = |change: Change<C>| {
        let mut config = C::default();
        change(&mut config);
        try_new(config)
    };
    for (key, inside, outside) in cases {
        assert_eq!(changed(*inside).err(), None, "{key}");
        assert_eq!(changed(*outside).err().unwrap().key, *key);
    }
}
