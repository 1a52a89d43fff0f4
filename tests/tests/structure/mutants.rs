//! The table of mutants (`tests/mutants.toml`), held against the tree: what it says is there, is there.
//!
//! Each row's guard stands in its file exactly once, so that a change of the code cannot leave a mutant behind that breaks
//! something else or nothing. The test that it names is a test of the program that it names. What it serves is in the
//! list of requirements, or is a case or a section of the design. Whether the test fails with the mutant takes a build for
//! each row: that is the runner's part (`tests/src/bin/mutants.rs`).

use std::collections::BTreeSet;

use quell_tests::mutants::{Mutant, TABLE, parse};

use super::requirements::{LIST, function, rows};
use super::source::{Source, read, tree};

/// Fewer rows than this are not the table that was meant.
const ROWS_MIN: usize = 30;

/// Whether a file may hold the test: its program's folder, and in it the file or folder of its first module.
fn may_hold(path: &str, folder: &str, mutant: &Mutant) -> bool {
    let program = match mutant.target.as_str() {
        "lib" => format!("{folder}/src/"),
        name => format!("{folder}/tests/{name}/"),
    };
    let module = mutant.test.split("::").next().unwrap_or_default();
    let Some(rest) = path.strip_prefix(&program) else {
        return false;
    };
    let rest = rest.strip_prefix(module).unwrap_or_default();
    rest.starts_with('/') || rest.starts_with(".rs")
}

fn is_known(what: &str, requirements: &BTreeSet<String>) -> bool {
    let number = |prefix| {
        let digits = what.strip_prefix::<&str>(prefix)?;
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(())
    };
    requirements.contains(what) || number("B").is_some() || number("DESIGN §").is_some()
}

fn complaints(mutant: &Mutant, requirements: &BTreeSet<String>, sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    match sources.iter().find(|source| source.path == mutant.file) {
        None => found.push(format!("there is no file {}", mutant.file)),
        Some(source) => match mutant.apply(&source.text) {
            None => found.push("does not occur once".to_owned()),
            Some(broken) if broken == source.text => found.push("changes nothing".to_owned()),
            Some(_) => {}
        },
    }
    if mutant.serves.is_empty() {
        found.push("serves nothing".to_owned());
    }
    let unknown = mutant
        .serves
        .iter()
        .filter(|what| !is_known(what, requirements));
    found.extend(unknown.map(|what| format!("there is no {what}")));
    let name = mutant.test.rsplit("::").next().unwrap_or_default();
    let folder = mutant.folder().unwrap_or_default();
    let is_there = sources.iter().any(|source| {
        let text = may_hold(&source.path, folder, mutant).then(|| function(source, name));
        text.flatten().is_some_and(is_test)
    });
    if !is_there {
        found.push(format!("{} has no test {}", mutant.target, mutant.test));
    }
    let named = |what: String| format!("{}: {what}", mutant.guard);
    found.into_iter().map(named).collect()
}

fn is_test(text: &str) -> bool {
    text.contains("#[test]") || text.contains("#[tokio::test]")
}

fn check(table: &str, list: &str, sources: &[Source]) -> Vec<String> {
    let mutants = match parse(table) {
        Ok(mutants) => mutants,
        Err(error) => return vec![error.to_string()],
    };
    let requirements: BTreeSet<_> = rows(list).into_iter().map(|(name, _)| name).collect();
    let mut guards = BTreeSet::new();
    let twice = mutants.iter().filter(|m| !guards.insert(&m.guard));
    let mut found: Vec<_> = twice.map(|m| format!("{}: twice", m.guard)).collect();
    found.extend(
        mutants
            .iter()
            .flat_map(|m| complaints(m, &requirements, sources)),
    );
    found
}

#[test]
fn the_table_of_mutants_holds() {
    let table = read(TABLE);
    let found = check(&table, &read(LIST), &tree());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    let count = parse(&table).unwrap().len();
    assert!(count >= ROWS_MIN, "{count} rows");
}

#[test]
fn each_row_that_is_not_true_is_found() {
    let row = "[[mutant]]\nguard = 'a bound'\nserves = ['R-901', 'B01', 'DESIGN §4']\nfile = 'crates/core/src/a.rs'\n\
               from = 'a < b'\nto = 'true'\ntest = 'a::tests::one'\n";
    let sources = [
        Source::new("crates/core/src/a.rs", "if a < b {}\n"),
        Source::new(
            "crates/core/src/a/tests.rs",
            "#[test]\nfn one() {}\nfn two() {}\n",
        ),
        Source::new("crates/core/tests/session/a.rs", "#[test]\nfn three() {}\n"),
    ];
    let found = |from: &str, to: &str| {
        assert!(row.contains(from), "{from}");
        check(&row.replacen(from, to, 1), "| R-901 | a |\n", &sources)
    };
    assert_eq!(found("true", "false"), [""; 0]);
    let moved = "target = 'session'\ntest = 'a::three'";
    assert_eq!(found("test = 'a::tests::one'", moved), [""; 0]);
    for (from, to, words) in [
        (
            "src/a.rs",
            "src/b.rs",
            "there is no file crates/core/src/b.rs",
        ),
        ("a < b", "a > b", "does not occur once"),
        ("a < b", "", "does not occur once"),
        ("'true'", "'a < b'", "changes nothing"),
        ("'R-901', 'B01', 'DESIGN §4'", "", "serves nothing"),
        ("R-901", "R-902", "there is no R-902"),
        ("B01", "B", "there is no B"),
        ("tests::one", "tests::on", "lib has no test a::tests::on"),
        ("tests::one", "tests::two", "lib has no test a::tests::two"),
        (
            "a::tests::one",
            "b::tests::one",
            "lib has no test b::tests::one",
        ),
        ("a::tests::one", "a::three", "lib has no test a::three"),
        ("guard", "gaurd", "unknown field"),
    ] {
        let found = found(from, to);
        assert!(
            found.iter().any(|line| line.contains(words)),
            "{words}: {found:?}"
        );
    }
    let found = check(&row.repeat(2), "| R-901 | a |\n", &sources);
    assert_eq!(found, ["a bound: twice"]);
}
