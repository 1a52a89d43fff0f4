//! Bodies of the fuzz targets for what people hand in as files.

use quell::Config;
use quell::config::LoadError;
use quell_net::identity::Identity;
use quell_wire::key::SecretKey;

use crate::wg_quick;

/// Secrets shorter than this are as likely to stand elsewhere in a file by chance.
const SECRET_CHARS_MIN: usize = 16;

/// A wg-quick file of any bytes.
///
/// # Panics
/// A setting has no note or two, a secret is repeated, or the client's file that is made of it is not one.
pub fn wg_quick(data: &[u8]) {
    let Ok(found) = wg_quick::read(data) else {
        return;
    };
    let text = String::from_utf8_lossy(data);
    let settings: Vec<(&str, usize)> = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .zip(1..)
        .filter(|(line, _)| !is_heading(line))
        .collect();
    let told: Vec<_> = found.notes.iter().map(|note| note.line).collect();
    let expected: Vec<_> = settings.iter().map(|(_, number)| *number).collect();
    assert_eq!(told, expected, "a note for each setting");

    let key = Identity::from_secret(&SecretKey::from_bytes([7; 32]))
        .map(|identity| identity.public_key());
    let file = found.client_file(key.as_ref().ok());
    let words: String = found.notes.iter().map(|note| note.words.as_str()).collect();
    for secret in settings.iter().filter_map(|(line, _)| secret(line)) {
        let elsewhere = text.matches(secret).count() > 1;
        let is_said = words.contains(secret) || file.contains(secret);
        assert!(elsewhere || !is_said, "a secret is repeated");
    }
    if found.endpoint.is_some() {
        // The key it names is made beside it later: all that comes before it was read.
        let read = Config::from_text(&file);
        let is_file = matches!(read, Ok(_) | Err(LoadError::KeyMissing { .. }));
        assert!(is_file, "{read:?} of\n{file}");
    }
}

fn is_heading(line: &str) -> bool {
    line.is_empty()
        || line.eq_ignore_ascii_case("[interface]")
        || line.eq_ignore_ascii_case("[peer]")
}

fn secret(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim().to_ascii_lowercase();
    let is_secret = key == "privatekey" || key == "presharedkey";
    (is_secret && value.trim().len() >= SECRET_CHARS_MIN).then_some(value.trim())
}
