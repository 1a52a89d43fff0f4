//! The private key's own file, and the password's.
//!
//! The first holds one line, the text form of the secret key as `quell keygen` writes
//! it. Whoever can read it can pose as its owner, so a file that the group or
//! others may read, write or execute is refused like a wrong key would be: a
//! warning would be read once and then never again. The mode is asked of the
//! opened file, not of its name, so that what is judged is what is read. A password's
//! file is read by the same rules.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use quell_wire::key::SecretKey;
use zeroize::Zeroizing;

use super::LoadError;

/// Most bytes of a key file; a key has 67 characters.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Most bytes of a password's file: a line of 255 bytes, its end, and remarks behind it.
const PASSWORD_FILE_BYTES_MAX: u64 = 4096;

/// Permission bits of group and others.
const FOREIGN_BITS: u32 = 0o077;

/// Reads the secret key in `path`.
///
/// # Errors
/// `KeyMissing`, `KeyMode` when group or others have any right to the file,
/// `KeyText` when it holds no secret key, and those of reading a file.
pub fn read_private_key(path: &Path) -> Result<SecretKey, LoadError> {
    let path_buf = || path.to_owned();
    let bytes = read_secret(path, KEY_FILE_BYTES_MAX).map_err(|why| match why {
        Unusable::Unreadable(source) if source.kind() == ErrorKind::NotFound => {
            LoadError::KeyMissing { path: path_buf() }
        }
        Unusable::Unreadable(source) => LoadError::Unreadable {
            path: path_buf(),
            source,
        },
        Unusable::NotAFile => LoadError::NotAFile { path: path_buf() },
        Unusable::Mode(mode) => LoadError::KeyMode {
            path: path_buf(),
            mode,
        },
        Unusable::TooLarge => LoadError::TooLarge {
            path: path_buf(),
            bytes_max: KEY_FILE_BYTES_MAX,
        },
    })?;
    // A byte that is not UTF-8 is in no key: its replacement character is refused as such.
    String::from_utf8_lossy(&bytes)
        .parse()
        .map_err(|source| LoadError::KeyText {
            path: path.to_owned(),
            source,
        })
}

/// Reads the password in `path`: its first line, without the line's end.
///
/// # Errors
/// [`LoadError::Password`], without a word of what the file holds.
pub(super) fn read_password(path: &Path) -> Result<Zeroizing<String>, LoadError> {
    let shown = path.display();
    let refuse = |words: String| LoadError::Password { words };
    let bytes = read_secret(path, PASSWORD_FILE_BYTES_MAX).map_err(|why| {
        refuse(match why {
            Unusable::Unreadable(source) => format!("cannot read {shown}: {source}"),
            Unusable::NotAFile => format!("{shown} is not a regular file"),
            Unusable::Mode(mode) => format!(
                "{shown} has mode {mode:04o}, so others may read it: allowed is 0600; run: chmod 600 {shown}"
            ),
            Unusable::TooLarge => {
                format!("{shown} has more than {PASSWORD_FILE_BYTES_MAX} bytes")
            }
        })
    })?;
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| refuse(format!("{shown} is not UTF-8 text")))?;
    Ok(Zeroizing::new(
        text.lines().next().unwrap_or_default().to_owned(),
    ))
}

/// Why a secret's file is not usable.
enum Unusable {
    Unreadable(io::Error),
    NotAFile,
    Mode(u32),
    TooLarge,
}

fn read_secret(path: &Path, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, Unusable> {
    // Asked before opening: opening a named pipe would wait for its writer.
    if !std::fs::metadata(path)
        .map_err(Unusable::Unreadable)?
        .is_file()
    {
        return Err(Unusable::NotAFile);
    }
    let file = File::open(path).map_err(Unusable::Unreadable)?;
    let mode = file.metadata().map_err(Unusable::Unreadable)?.mode() & 0o7777;
    if mode & FOREIGN_BITS != 0 {
        return Err(Unusable::Mode(mode));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(Unusable::Unreadable)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Unusable::TooLarge);
    }
    Ok(bytes)
}
