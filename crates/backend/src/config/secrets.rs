//! Files that hold secrets: the signing key and the admin's token.
//!
//! Whoever can read them can sign contracts or ban everybody, so a file that group or others may read, write or execute
//! is refused as a wrong key would be. The mode is asked of the opened file, so that what is judged is what is read.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use quell_wire::key::SecretKey;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::server::ServerError;

/// Most bytes of a secret's file.
const SECRET_BYTES_MAX: u64 = 4_096;
/// Most bytes of a file with a private key of TLS: an RSA key of 16,384 bits in PEM is 13 KiB.
const SECRET_FILE_BYTES_MAX: u64 = 64 * 1_024;
/// Least characters of a token: at 5 bits each, as many as nobody guesses.
const TOKEN_CHARS_MIN: usize = 32;
/// Permission bits of group and others.
const FOREIGN_BITS: u32 = 0o077;

/// The admin's token, as its digest.
#[derive(Clone)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// The token of this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Whether `text` is it, in a time that does not tell how much of it is right.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.0.ct_eq(&Self::new(text).0).into()
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(hidden)")
    }
}

fn refuse(path: &Path, words: impl Into<String>) -> ServerError {
    ServerError::File {
        path: path.to_owned(),
        words: words.into(),
    }
}

pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, ServerError> {
    let bytes = read(path, bytes_max, false)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refuse(path, "not UTF-8 text"))?;
    Ok(text.to_owned())
}

pub(super) fn read_key(path: &Path) -> Result<SecretKey, ServerError> {
    let bytes = read(path, SECRET_BYTES_MAX, true)?;
    String::from_utf8_lossy(&bytes)
        .parse()
        .map_err(|error: quell_wire::key::KeyError| refuse(path, error.to_string()))
}

/// What lies in a file that its owner alone may read.
pub(crate) fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, ServerError> {
    read(path, SECRET_FILE_BYTES_MAX, true)
}

pub(super) fn read_token(path: &Path) -> Result<AdminToken, ServerError> {
    Ok(AdminToken::new(&read_token_text(path)?))
}

pub(super) fn read_token_text(path: &Path) -> Result<Zeroizing<String>, ServerError> {
    let bytes = read(path, SECRET_BYTES_MAX, true)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refuse(path, "not UTF-8 text"))?;
    let token = text.trim_ascii();
    let is_token = token.len() >= TOKEN_CHARS_MIN && token.bytes().all(|b| b.is_ascii_graphic());
    if !is_token {
        let words = format!(
            "a token has at least {TOKEN_CHARS_MIN} characters of ASCII, none of them white space"
        );
        return Err(refuse(path, words));
    }
    Ok(Zeroizing::new(token.to_owned()))
}

fn read(path: &Path, bytes_max: u64, is_secret: bool) -> Result<Zeroizing<Vec<u8>>, ServerError> {
    let unreadable = |error: std::io::Error| refuse(path, format!("cannot be read: {error}"));
    // Asked before opening: opening a named pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(refuse(path, "not a regular file"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if is_secret && mode & FOREIGN_BITS != 0 {
        let words = format!("has mode {mode:04o}, so others may use it: allowed is 0600");
        return Err(refuse(path, words));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    let len = read.map_err(unreadable)?;
    if u64::try_from(len).unwrap_or(u64::MAX) > bytes_max {
        return Err(refuse(path, format!("has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}
