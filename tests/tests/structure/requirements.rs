//! The table requirement → test (`docs/requirement-tests.md`), held against the list of requirements
//! (`docs/REQUIREMENTS.md`) and against the tests themselves.
//!
//! Each row of the list has one row in the table, with its state:
//! - `whole`: the tests named prove all of it;
//! - `partly: …`: they prove what the words say, and no more;
//! - `later`: nothing that it speaks of is built; it names no test.
//!
//! A test is named as `file::function`. The function stands in that file and carries the requirement as a comment
//! (`// R-12`) in it or right above it. The other way round, no comment names a requirement that is not in the list.

use std::collections::BTreeMap;

use super::source::{Source, line_of, read, tree, words};

pub(super) const LIST: &str = "docs/REQUIREMENTS.md";
const TABLE: &str = "docs/requirement-tests.md";

/// The rows of every table whose first cell is a requirement: its name, and the cells behind it.
pub(super) fn rows(text: &str) -> Vec<(String, Vec<String>)> {
    let cells = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let named = text.lines().filter(|line| line.starts_with("| R-"));
    named
        .map(|line| {
            let mut cells = cells(line);
            (cells.remove(0), cells)
        })
        .collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The function with the comments and attributes right above it, as text.
pub(super) fn function<'t>(source: &'t Source, name: &str) -> Option<&'t str> {
    let head = format!("fn {name}");
    let at = words(&source.code, &head).next()?;
    let opens = at + source.code[at..].find('{')?;
    let mut depth = 0_usize;
    let mut end = opens;
    for (offset, byte) in source.code[opens..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            end = opens + offset + 1;
            break;
        }
    }
    let mut start = source.text[..at]
        .rfind('\n')
        .map_or(0, |newline| newline + 1);
    while start > 0 {
        let above = source.text[..start - 1]
            .rfind('\n')
            .map_or(0, |newline| newline + 1);
        let line = source.text[above..start].trim_start();
        if !line.starts_with("//") && !line.starts_with("#[") {
            break;
        }
        start = above;
    }
    Some(&source.text[start..end])
}

/// Requirements that comments name, with their places.
fn marks(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("// R-") {
        let line = text[at..].lines().next().unwrap_or_default();
        let names = line.split([' ', ',', ':', ';', '.', ')']);
        let names = names.filter(|word| {
            word.strip_prefix("R-").is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
            })
        });
        found.extend(names.map(|name| (line_of(text, at), name.to_owned())));
    }
    found
}

/// What is wrong with one test that the row of a requirement names.
fn test(requirement: &str, named: &str, sources: &[Source]) -> Option<String> {
    let Some((path, name)) = named.split_once("::") else {
        return Some(format!("{requirement}: {named} is not file::function"));
    };
    let Some(source) = sources.iter().find(|source| source.path == path) else {
        return Some(format!("{requirement}: there is no file {path}"));
    };
    let Some(text) = function(source, name) else {
        return Some(format!("{requirement}: {path} has no function {name}"));
    };
    let marked = marks(text).iter().any(|(_, mark)| mark == requirement);
    (!marked).then(|| format!("{requirement}: {named} does not say // {requirement}"))
}

fn check(list: &str, table: &str, sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let mut missing = BTreeMap::from_iter(rows(list));
    for (requirement, cells) in rows(table) {
        if missing.remove(&requirement).is_none() {
            found.push(format!(
                "{requirement} is not in the list, or twice in the table"
            ));
        }
        let [state, tests] = &cells[..] else {
            found.push(format!("{requirement}: a row has a state and tests"));
            continue;
        };
        let due = state == "whole" || state.starts_with("partly: ");
        if !due && state != "later" {
            found.push(format!("{requirement}: {state} is no state"));
        }
        if due != quoted(tests).next().is_some() {
            found.push(format!(
                "{requirement}: what is due has a test, what comes later has none"
            ));
        }
        found.extend(quoted(tests).filter_map(|named| test(&requirement, named, sources)));
    }
    found.extend(
        missing
            .keys()
            .map(|name| format!("{name} has no row in the table")),
    );
    let known: BTreeMap<_, _> = BTreeMap::from_iter(rows(list));
    for source in sources.iter().filter(|source| source.is_rust()) {
        let unknown = marks(&source.text)
            .into_iter()
            .filter(|(_, mark)| !known.contains_key(mark));
        found.extend(
            unknown.map(|(line, mark)| format!("{}:{line}: there is no {mark}", source.path)),
        );
    }
    found
}

#[test]
fn the_table_holds() {
    let found = check(&read(LIST), &read(TABLE), &tree());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_list_is_read_whole() {
    let list = rows(&read(LIST));
    assert!(list.len() >= 40, "{} rows", list.len());
    assert!(list.iter().any(|(name, _)| name == "R-56"));
}

/// A list, a table and a file that agree; each case spoils one of them.
fn agreed() -> [String; 3] {
    let slashes = "//";
    [
        "| id | text |\n|---|---|\n| R-901 | a |\n| R-902 | b |\n| R-903 | c |\n".into(),
        "| R-901 | whole | `t.rs::one` |\n| R-902 | partly: half | `t.rs::one`, `t.rs::two` |\n| R-903 | later | |\n".into(),
        format!(
            "//! T.\n\n{slashes} R-901\n#[test]\nfn one() {{\n    {slashes} R-902, case B1\n    a();\n}}\n\n\
             {slashes} R-902\n\nfn two() {{\n    {slashes} R-902\n}}\n\nfn three() {{}}\n"
        ),
    ]
}

fn spoilt(part: usize, from: &str, to: &str) -> Vec<String> {
    let mut parts = agreed();
    assert!(parts[part].contains(from), "{from}");
    parts[part] = parts[part].replacen(from, to, 1);
    let [list, table, text] = parts;
    check(&list, &table, &[Source::new("t.rs", &text)])
}

#[test]
fn what_agrees_passes() {
    assert_eq!(spoilt(0, "| a |", "| a |"), [""; 0]);
}

#[test]
fn each_disagreement_is_found() {
    let cases = [
        (0, "R-903 |", "R-904 |", "R-903 is not in the list"),
        (0, "R-903 |", "R-904 |", "R-904 has no row"),
        (1, "R-903 | later", "R-901 | later", "twice in the table"),
        (1, "whole", "done", "done is no state"),
        (1, "partly: half", "partly", "partly is no state"),
        (1, "`t.rs::one` |", "|", "what is due has a test"),
        (
            1,
            "later | |",
            "later | `t.rs::one` |",
            "what comes later has none",
        ),
        (1, "later | |", "later |", "a row has a state and tests"),
        (1, "`t.rs::one`", "`t.rs`", "is not file::function"),
        (1, "t.rs::one", "u.rs::one", "there is no file u.rs"),
        (1, "t.rs::one", "t.rs::on", "has no function on"),
        (1, "t.rs::one", "t.rs::three", "does not say // R-901"),
        (1, "t.rs::one", "t.rs::two", "does not say // R-901"),
        (2, "R-902, case", "R-90, case", "there is no R-90"),
        (2, "    // R-902\n}", "}", "t.rs::two does not say // R-902"),
        (2, "fn two", "fn too", "has no function two"),
    ];
    for (part, from, to, words) in cases {
        let found = spoilt(part, from, to);
        assert!(
            found.iter().any(|line| line.contains(words)),
            "{words}: {found:?}"
        );
    }
}
