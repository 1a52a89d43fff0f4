//! Where control sockets live unless the configuration says otherwise.
//!
//! A daemon's place is `/run/quell`. Who may not write there, and runs quell all the same (a proxy client, a provider of
//! sockets), has a folder of the session, or one in the home; never one in `/tmp`, where somebody else could be first and
//! answer in our place. The daemon and whoever asks it come to the same folder when they are the same user.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Uid, access};

/// The folder of daemons.
pub const RUN_DIR: &str = "/run/quell";

/// The folder of control sockets: [`RUN_DIR`] for root and for who may write there; else `quell` in `$XDG_RUNTIME_DIR`,
/// else in `$XDG_STATE_HOME`, else `~/.local/state/quell`. With none of them, [`RUN_DIR`] and its error.
#[must_use]
pub fn run_dir() -> PathBuf {
    let may_write = Uid::effective().is_root()
        || access(RUN_DIR, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    choose(may_write, |name| env::var_os(name))
}

fn choose(may_write: bool, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let absolute = |name| {
        let path = PathBuf::from(variable(name)?);
        // The base directory specification has relative ones ignored.
        path.is_absolute().then_some(path)
    };
    if may_write {
        return RUN_DIR.into();
    }
    let state = || {
        let home = absolute("HOME").map(|home| home.join(".local/state"));
        absolute("XDG_STATE_HOME").or(home)
    };
    absolute("XDG_RUNTIME_DIR")
        .or_else(state)
        .map_or_else(|| Path::new(RUN_DIR).to_owned(), |base| base.join("quell"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(may_write: bool, variables: &[(&str, &str)]) -> PathBuf {
        choose(may_write, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_user_has_a_folder_of_the_own() {
        let all = [
            ("XDG_RUNTIME_DIR", "/run/user/7"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/home/ada"),
        ];
        assert_eq!(chosen(true, &all), Path::new("/run/quell"));
        assert_eq!(chosen(false, &all), Path::new("/run/user/7/quell"));
        assert_eq!(chosen(false, &all[1..]), Path::new("/state/quell"));
        let home = Path::new("/home/ada/.local/state/quell");
        assert_eq!(chosen(false, &all[2..]), home);
        assert_eq!(chosen(false, &[]), Path::new("/run/quell"));
        let relative = [("XDG_RUNTIME_DIR", "run"), ("HOME", "/home/ada")];
        assert_eq!(chosen(false, &relative), home);
    }
}
