//! Reads the vector files of `golden/`.
//!
//! A line is `name = hex`, and in the files of malformed input `name = hex ; reason`. A line that begins with white
//! space goes on with the one before it. The format is for people and for implementations in any language; this
//! reader is all it takes.

/// Name, bytes, and why they are refused (empty in the files of well-formed input).
pub(crate) type Vector = (String, Vec<u8>, String);

/// The lines of a file, comments left out and continued lines joined.
pub(crate) fn lines(file: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in file
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        match lines.last_mut().filter(|_| line.starts_with(' ')) {
            Some(last) => last.push_str(line),
            None => lines.push(line.to_owned()),
        }
    }
    lines
}

/// The vectors of a file.
pub(crate) fn vectors(file: &str) -> Vec<Vector> {
    let parse = |line: String| {
        let (name, rest) = line.split_once('=').expect("name = hex");
        let (bytes, reason) = rest.split_once(';').unwrap_or((rest, ""));
        (name.trim().to_owned(), hex(bytes), reason.trim().to_owned())
    };
    lines(file).into_iter().map(parse).collect()
}

/// Bytes of a hex string, spaces left out.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text}");
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}
