//! The private key's own file.
//!
//! It holds one line, the text form of the secret key as `quell keygen` writes
//! it. Whoever can read it can pose as its owner, so a file that the group or
//! others may read, write or execute is refused like a wrong key would be: a
//! warning would be read once and then never again. The mode is asked of the
//! opened file, not of its name, so that what is judged is what is read.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use quell_wire::key::SecretKey;

use super::LoadError;

/// Most bytes of a key file; a key has 67 characters.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Permission bits of group and others.
const FOREIGN_BITS: u32 = 0o077;

/// Reads the secret key in `path`.
///
/// # Errors
/// `KeyMissing`, `KeyMode` when group or others have any right to the file,
/// `KeyText` when it holds no secret key, and those of reading a file.
pub fn read_private_key(path: &Path) -> Result<SecretKey, LoadError> {
    let unreadable = |source: std::io::Error| match source.kind() == ErrorKind::NotFound {
        true => LoadError::KeyMissing {
            path: path.to_owned(),
        },
        false => LoadError::Unreadable {
            path: path.to_owned(),
            source,
        },
    };
    // Asked before opening: opening a named pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(LoadError::NotAFile {
            path: path.to_owned(),
        });
    }
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if mode & FOREIGN_BITS != 0 {
        return Err(LoadError::KeyMode {
            path: path.to_owned(),
            mode,
        });
    }
    let mut bytes = Vec::new();
    file.take(KEY_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > KEY_FILE_BYTES_MAX {
        return Err(LoadError::TooLarge {
            path: path.to_owned(),
            bytes_max: KEY_FILE_BYTES_MAX,
        });
    }
    // A byte that is not UTF-8 is in no key: its replacement character is refused as such.
    String::from_utf8_lossy(&bytes)
        .parse()
        .map_err(|source| LoadError::KeyText {
            path: path.to_owned(),
            source,
        })
}
