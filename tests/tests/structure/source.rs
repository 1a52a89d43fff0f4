//! The project's files as text, and Rust text with its comments and literals blanked.
//!
//! The scanners look for words and braces. In a string or a comment both mean nothing, so [`code_of`] writes blanks over
//! them and leaves every other byte and every line break where it was: line numbers hold, and what is left is code.
//! It knows what can hold a quote or a brace: line and nested block comments, strings, raw strings, characters; and it
//! knows a lifetime from a character.

use std::fs;
use std::path::{Path, PathBuf};

/// What is built or found and not written: folders, from the root.
const SKIPPED: &[&str] = &[
    ".git",
    "target",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/coverage",
];

pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text, blanked; empty for what is not Rust.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") {
            code_of(text)
        } else {
            String::new()
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every text file of the project, in order of path.
pub(crate) fn tree() -> Vec<Source> {
    let root = root();
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !SKIPPED.contains(&name) {
                folders.push(path);
            } else if kind.is_file()
                && !name.ends_with(".lock")
                && let Ok(text) = fs::read_to_string(&path)
            {
                sources.push(Source::new(name, &text));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The number of the line that holds the byte, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
        + 1
}

/// Where a word stands on its own: no letter, digit or `_` on either side that would make it part of a longer one.
pub(crate) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let bytes = text.as_bytes();
    let alone = move |at: usize| {
        let end = at + word.len();
        let starts = !word.as_bytes().first().is_some_and(|b| is_word(*b))
            || at == 0
            || !is_word(bytes[at - 1]);
        let ends = !word.as_bytes().last().is_some_and(|b| is_word(*b))
            || end == bytes.len()
            || !is_word(bytes[end]);
        starts && ends
    };
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| alone(*at))
}

/// Rust text with blanks over comments and over the inside of literals.
pub(crate) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = comment_end(bytes, at)
            .or_else(|| raw_string_end(bytes, at))
            .or_else(|| string_end(bytes, at))
            .or_else(|| character_end(bytes, at));
        if let Some(end) = end {
            let end = end.min(bytes.len());
            for byte in &mut code[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8(code).unwrap()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    (from..bytes.len())
        .find(|at| bytes[*at..].starts_with(what))
        .unwrap_or(bytes.len())
}

fn comment_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes[at..].starts_with(b"//") {
        return Some(find(bytes, at, b"\n"));
    }
    if !bytes[at..].starts_with(b"/*") {
        return None;
    }
    let (mut depth, mut at) = (1, at + 2);
    while depth > 0 && at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    Some(at)
}

/// `r"…"`, `r#"…"#`, and the same behind `b` or `c`; not the raw identifier `r#name`.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let prefix = [&b"r"[..], b"br", b"cr"]
        .into_iter()
        .find(|prefix| bytes[at..].starts_with(prefix))?;
    let marks_at = at + prefix.len();
    let marks = bytes[marks_at..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(marks_at + marks) != Some(&b'"') {
        return None;
    }
    let close = [b"\"", &vec![b'#'; marks][..]].concat();
    Some(find(bytes, marks_at + marks + 1, &close) + close.len())
}

fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes[at] != b'"' {
        return None;
    }
    let mut at = at + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1)
}

/// A character has its second quote right behind it; a lifetime has none.
fn character_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes[at] != b'\'' {
        return None;
    }
    if bytes.get(at + 1) == Some(&b'\\') {
        return Some(find(bytes, at + 3, b"'") + 1);
    }
    let length = match bytes.get(at + 1)? {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    };
    (bytes.get(at + 1 + length) == Some(&b'\'')).then_some(at + length + 2)
}

#[test]
fn blanks_cover_what_is_not_code_and_nothing_else() {
    let blanked = |text: &str| code_of(text).replace(' ', "");
    assert_eq!(blanked("a // { b\nc /* { /* } */ \" */ d"), "a\ncd");
    assert_eq!(blanked(r#"a("{\"}", b"x\\") b"#), "a(,b)b");
    assert_eq!(blanked(r##"a(r#"{ " }"#, br"\", r"") b"##), "a(,,)b");
    assert_eq!(
        blanked(r"a('{', '\'', '\u{7d}', b'}', 'ä', '→') b"),
        "a(,,,b,,)b"
    );
    assert_eq!(
        blanked("fn a<'a>(b: &'a str, r#c: u8)"),
        "fna<'a>(b:&'astr,r#c:u8)"
    );
    let text = "let a = \"ä\n{\"; // ü\n}";
    assert_eq!(code_of(text).len(), text.len());
    assert_eq!(code_of(text).matches('\n').count(), 2);
    // What never ends is blank to the end.
    for open in ["\"", "/*", "r#\"", "'\\", "//"] {
        assert_eq!(blanked(&format!("a {open} {{")), "a", "{open}");
    }
}

#[test]
fn words_stand_alone() {
    assert_eq!(words("un un_ xun (un)", "un").collect::<Vec<_>>(), [0, 12]);
    assert_eq!(words("a::b xa::b", "a::").collect::<Vec<_>>(), [0]);
    assert_eq!(words("f() of(", "f(").collect::<Vec<_>>(), [0]);
}

#[test]
fn the_tree_holds_what_is_written() {
    let tree = tree();
    let has = |path: &str| tree.iter().any(|source| source.path == path);
    assert!(has("Cargo.toml") && has("crates/core/src/lib.rs") && has("fuzz/Cargo.toml"));
    assert!(has(file!()) || has("tests/tests/structure/source.rs"));
    assert!(!tree.iter().any(|s| s.path.starts_with("target/")));
}
