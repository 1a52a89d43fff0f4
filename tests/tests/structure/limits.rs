//! Sizes: 800 lines a file, tests included; 70 lines a function; a module doc of 1 to 40 lines at the top of each file.
//!
//! A function is counted from its `fn` to its closing brace. Lines that begin inside square brackets are a table (a list
//! of cases, a `vec![…]` of vectors) and not counted: a table is read row by row, and cutting it in two helps nobody.

use super::source::{Source, is_word, line_of, tree, words};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const DOC_LINES_MAX: usize = 40;

struct Function {
    name: String,
    line: usize,
    /// Without the lines of tables.
    lines: usize,
}

/// Every function with a body, nested ones too.
fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    words(code, "fn")
        .filter_map(|at| {
            let rest = code[at + 2..].trim_start().trim_start_matches(['$', '#']);
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            // `fn(u8)` is a type.
            if name.is_empty() {
                return None;
            }
            let (lines, tables) = extent(&bytes[at..])?;
            Some(Function {
                name,
                line: line_of(code, at),
                lines: lines - tables,
            })
        })
        .collect()
}

/// Lines from here to the brace that closes the first block, and how many of them are table; `None`: there is no block.
fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut open: Vec<u8> = Vec::new();
    let (mut lines, mut tables, mut in_body) = (1, 0, false);
    for byte in bytes {
        match byte {
            b'\n' => {
                lines += 1;
                tables += usize::from(open.contains(&b'['));
            }
            b';' if open.is_empty() => return None,
            b'(' | b'[' | b'{' => {
                in_body |= *byte == b'{' && open.is_empty();
                open.push(*byte);
            }
            b')' | b']' | b'}' => {
                open.pop();
                if in_body && open.is_empty() {
                    return Some((lines, tables));
                }
            }
            _ => {}
        }
    }
    None
}

fn check(source: &Source) -> Vec<String> {
    let path = &source.path;
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        found.push(format!("{path}: {lines} lines, {FILE_LINES_MAX} at most"));
    }
    for function in functions(&source.code) {
        let Function { name, line, lines } = function;
        if lines > FUNCTION_LINES_MAX {
            found.push(format!(
                "{path}:{line}: fn {name} has {lines} lines, {FUNCTION_LINES_MAX} at most"
            ));
        }
    }
    let doc = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .count();
    if !(1..=DOC_LINES_MAX).contains(&doc) {
        found.push(format!(
            "{path}: begins with {doc} lines of module doc, 1 to {DOC_LINES_MAX} are right"
        ));
    }
    found
}

#[test]
fn files_and_functions_are_small_and_begin_with_a_doc() {
    let tree = tree();
    let rust: Vec<_> = tree.iter().filter(|source| source.is_rust()).collect();
    assert!(rust.len() > 100, "{} files: the walk is broken", rust.len());
    let found: Vec<_> = rust.into_iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A file with a doc and a function of so many lines, the signature and the closing brace included.
fn with_function(lines: usize) -> String {
    let body = "    f(\"}\", '{'); // }\n".repeat(lines - 3);
    format!("//! Doc.\nfn long(\n) {{\n{body}}}\n")
}

#[test]
fn a_function_of_70_lines_passes_and_one_of_71_does_not() {
    let found = |text: &str| check(&Source::new("a.rs", text));
    assert_eq!(found(&with_function(70)), [""; 0]);
    assert_eq!(
        found(&with_function(71)),
        ["a.rs:2: fn long has 71 lines, 70 at most"]
    );
    // Inside an impl, behind a qualifier, in a macro's body.
    for frame in ["impl A {\npub const unsafe X\n}", "m! {\nasync X\n}"] {
        let text = format!(
            "//! Doc.\n{}",
            frame.replace('X', &with_function(71)["//! Doc.\n".len()..])
        );
        assert_eq!(found(&text).len(), 1, "{text}");
    }
}

#[test]
fn tables_are_not_counted_and_code_around_them_is() {
    let rows = "        (1, \"]\"),\n".repeat(200);
    let table = |rest: usize| {
        let rest = "    g();\n".repeat(rest);
        let text = format!("//! Doc.\nfn t() {{\n    for a in [\n{rows}    ] {{}}\n{rest}}}\n");
        check(&Source::new("a.rs", &text)).len()
    };
    // Three lines are the frame: `fn`, `for`, and the brace.
    assert_eq!((table(67), table(68)), (0, 1));
}

#[test]
fn declarations_and_types_have_no_lines() {
    let found = functions("trait A { fn a(&self); }\ntype B = fn(u8) -> u8;\nfn c(d: fn(u8)) {}\n");
    let found: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.lines)).collect();
    assert_eq!(found, [("c", 1)]);
    assert!(is_word(b'_') && !is_word(b'('));
}

#[test]
fn a_file_of_800_lines_passes_and_one_of_801_does_not() {
    let found = |lines: usize| {
        let text = format!("//! Doc.\n{}", "const A: u8 = 1;\n".repeat(lines - 1));
        check(&Source::new("a.rs", &text)).len()
    };
    assert_eq!((found(800), found(801)), (0, 1));
}

#[test]
fn a_doc_of_1_to_40_lines_at_the_very_top_passes() {
    let found = |text: &str| check(&Source::new("a.rs", text)).len();
    assert_eq!((found("fn a() {}\n"), found("//! A.\nfn a() {}\n")), (1, 0));
    assert_eq!(found("#![warn(missing_docs)]\n//! A.\n"), 1);
    assert_eq!(found("// A.\n"), 1);
    assert_eq!(
        (found(&"//! A.\n".repeat(40)), found(&"//! A.\n".repeat(41))),
        (0, 1)
    );
}
