//! The workspace as cargo sees it: crate directions, libraries in their places, lints, one table of dependencies.
//!
//! Dependencies point one way (DESIGN §1): `wire, packet ← core ← {sim, net} ← backend ← quell ← cli`, `packet ← {tun, stack}`,
//! `stack ← {egress, proxy} ← quell`, `underlay ← {net, backend, proxy}`, `host ← {egress, vpn}`, `vpn ← cli`: what changes a
//! client's host is the command's, never the library's. `lab ← {cli, tests}`. The table below says it as an allowance for
//! each crate, so that a new edge is a decision and not an accident. What only tests use may point further (the core is tested against `sim`), as the second column says.

use std::process::Command;

use serde_json::Value;

use super::source::{Source, read, root, tree, words};

/// A member, which members it may depend on, and which further ones its tests may.
type Allowance = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const WHOLE: &[&str] = &[
    "quell",
    "quell-backend",
    "quell-core",
    "quell-egress",
    "quell-host",
    "quell-lab",
    "quell-net",
    "quell-packet",
    "quell-proxy",
    "quell-sim",
    "quell-stack",
    "quell-tun",
    "quell-underlay",
    "quell-vpn",
    "quell-wire",
];
const DIRECTIONS: &[Allowance] = &[
    ("quell-wire", &[], &[]),
    ("quell-packet", &[], &[]),
    (
        "quell-core",
        &["quell-packet", "quell-wire"],
        &["quell-sim"],
    ),
    (
        "quell-sim",
        &["quell-core", "quell-packet", "quell-wire"],
        &[],
    ),
    ("quell-tun", &["quell-packet"], &[]),
    ("quell-stack", &["quell-packet"], &[]),
    ("quell-host", &[], &[]),
    ("quell-underlay", &[], &[]),
    ("quell-vpn", &["quell-host", "quell-packet"], &[]),
    (
        "quell-proxy",
        &["quell-packet", "quell-stack", "quell-underlay"],
        &["quell-egress"],
    ),
    (
        "quell-egress",
        &["quell-host", "quell-packet", "quell-stack"],
        &["quell-lab", "quell-tun"],
    ),
    (
        "quell-net",
        &[
            "quell-core",
            "quell-packet",
            "quell-tun",
            "quell-underlay",
            "quell-wire",
        ],
        &["quell-lab", "quell-sim"],
    ),
    (
        "quell-backend",
        &["quell-core", "quell-net", "quell-underlay", "quell-wire"],
        &["quell-backend"],
    ),
    (
        "quell-lab",
        &["quell-packet", "quell-sim", "quell-wire"],
        &[],
    ),
    (
        "quell",
        &[
            "quell-backend",
            "quell-core",
            "quell-egress",
            "quell-net",
            "quell-packet",
            "quell-proxy",
            "quell-stack",
            "quell-tun",
            "quell-underlay",
            "quell-wire",
        ],
        &["quell-lab", "quell-sim"],
    ),
    ("quell-ffi", &["quell"], &[]),
    ("quell-cli", WHOLE, &[]),
    ("quell-benches", WHOLE, &["quell-cli"]),
    (
        "quell-tests",
        &[
            "quell",
            "quell-backend",
            "quell-cli",
            "quell-core",
            "quell-egress",
            "quell-lab",
            "quell-net",
            "quell-packet",
            "quell-proxy",
            "quell-sim",
            "quell-tun",
            "quell-wire",
        ],
        &[],
    ),
];

/// The crates without I/O, and what they may not depend on, their tests included.
const PURE: &[&str] = &["quell-wire", "quell-packet", "quell-core", "quell-sim"];
/// What is no I/O in one of them: quinn-proto is QUIC as a value that is handed its time, which the simulator wants.
const PURE_ALL_THE_SAME: &[(&str, &str)] = &[("quell-sim", "quinn-proto")];
const IMPURE: &[&str] = &[
    "libc",
    "mio",
    "nix",
    "quinn",
    "quinn-proto",
    "quinn-udp",
    "rtnetlink",
    "rustix",
    "socket2",
    "tokio",
    "tun",
];

/// The libraries that quell is built on, and the member whose shipped code stands on each.
const PLACES: &[(&str, &str)] = &[
    ("tokio", "quell-net"),
    ("quinn", "quell-net"),
    ("bytes", "quell-core"),
    ("bytes", "quell-net"),
    ("crossbeam-channel", "quell-tun"),
    ("crossbeam-channel", "quell-net"),
    ("parking_lot", "quell"),
    ("rand", "quell-core"),
    ("tracing", "quell-net"),
    ("criterion", "quell-benches"),
    ("tun", "quell-tun"),
];

/// What stands at the top.
const TOP: &[&str] = &[
    "Cargo.toml",
    "crates",
    "benches",
    "tests",
    "fuzz",
    "README.md",
    "rust-toolchain.toml",
];

struct Dependency {
    name: String,
    /// For tests alone.
    dev: bool,
    /// By path: a member, or one to be.
    local: bool,
}

struct Member {
    name: String,
    /// From the root, with a `/` at its end.
    folder: String,
    dependencies: Vec<Dependency>,
}

/// The members, from the answer of `cargo metadata`.
fn members(metadata: &Value) -> Vec<Member> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let root = format!("{}/", text(&metadata["workspace_root"]));
    let packages = metadata["packages"].as_array().unwrap();
    let member = |package: &Value| Member {
        name: text(&package["name"]),
        folder: text(&package["manifest_path"])
            .trim_start_matches(&root)
            .trim_end_matches("Cargo.toml")
            .to_owned(),
        dependencies: package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                dev: dependency["kind"] == "dev",
                local: dependency["path"].is_string(),
            })
            .collect(),
    };
    packages.iter().map(member).collect()
}

fn workspace() -> Vec<Member> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    members(&serde_json::from_slice(&output.stdout).unwrap())
}

fn directions(members: &[Member]) -> Vec<String> {
    let mut found = Vec::new();
    for member in members {
        let name = &member.name;
        let Some((_, code, tests)) = DIRECTIONS.iter().find(|row| row.0 == name) else {
            found.push(format!("{name} has no row in the table of directions"));
            continue;
        };
        for dependency in &member.dependencies {
            let on = dependency.name.as_str();
            let allowed = code.contains(&on) || dependency.dev && tests.contains(&on);
            if dependency.local && !allowed {
                found.push(format!("{name} may not depend on {on}"));
            }
            let excused = PURE_ALL_THE_SAME.contains(&(name.as_str(), on));
            if PURE.contains(&name.as_str()) && IMPURE.contains(&on) && !excused {
                found.push(format!("{name} is without I/O and may not depend on {on}"));
            }
            if on == "anyhow" && name != "quell-cli" {
                found.push(format!("{name}: only the binary speaks anyhow"));
            }
        }
    }
    for (name, ..) in DIRECTIONS {
        if !members.iter().any(|member| member.name == *name) {
            found.push(format!(
                "{name} is in the table of directions and nowhere else"
            ));
        }
    }
    found
}

/// Each library is a dependency of shipped code where it belongs, and that code names it.
fn places(members: &[Member], sources: &[Source]) -> Vec<String> {
    let used = |library: &str, home: &str| {
        let member = members.iter().find(|member| member.name == home)?;
        let depends = |d: &Dependency| d.name == library && (!d.dev || home == "quell-benches");
        member.dependencies.iter().find(|d| depends(d))?;
        let path = format!("{}::", library.replace('-', "_"));
        let says = |source: &Source| words(&source.code, &path).next().is_some();
        let code = |source: &Source| {
            ["src/", "benches/"]
                .iter()
                .any(|part| source.path.starts_with(&format!("{}{part}", member.folder)))
        };
        sources.iter().find(|source| code(source) && says(source))
    };
    PLACES
        .iter()
        .filter(|(library, home)| used(library, home).is_none())
        .map(|(library, home)| format!("{home} is not built on {library}"))
        .collect()
}

/// A member inherits the workspace's lints, and takes each dependency from the workspace's table.
fn manifest(path: &str, text: &str) -> Vec<String> {
    let manifest: toml::Table = text.parse().unwrap();
    let inherits = |table: Option<&toml::Value>| {
        table.and_then(|value| value.get("workspace")) == Some(&toml::Value::Boolean(true))
    };
    let mut found = Vec::new();
    if !inherits(manifest.get("lints")) {
        found.push(format!("{path}: the workspace's lints are not inherited"));
    }
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = targets.into_iter().flat_map(toml::Table::values);
    let tables = tables.filter_map(toml::Value::as_table).chain([&manifest]);
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let list = table.get(kind).and_then(toml::Value::as_table);
            for (name, value) in list.into_iter().flatten() {
                if !inherits(Some(value)) {
                    found.push(format!(
                        "{path}: {name} is not taken from the workspace's table"
                    ));
                }
            }
        }
    }
    found
}

/// Each entry of the workspace's dependency table has a reason above it, alone or shared with its own family: the lines
/// of members, or `quinn-proto` right under `quinn`. Each is taken by a member.
fn reasons(text: &str, members: &[Member]) -> Vec<String> {
    let table = text
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]");
    let lines: Vec<_> = table
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .collect();
    let mut found = Vec::new();
    let mut family: Option<&str> = None;
    for pair in std::iter::once(&"")
        .chain(&lines)
        .zip(&lines)
        .map(|(a, b)| (*a, *b))
    {
        let (above, line) = pair;
        let Some((name, value)) = line.split_once(" = ") else {
            continue;
        };
        let local = value.contains("path = ");
        let related = |head: &str| {
            local && head.starts_with("quell")
                || name.starts_with(&format!("{head}-"))
                || name.starts_with(&format!("{head}_"))
        };
        if above.starts_with("# ") {
            family = Some(name);
        } else if above.is_empty() || !family.is_some_and(related) {
            found.push(format!("{name} is taken without a reason"));
        }
        if !members
            .iter()
            .any(|m| m.name == name || m.dependencies.iter().any(|d| d.name == name))
        {
            found.push(format!("{name} is taken by no member"));
        }
    }
    if lines.is_empty() {
        found.push("there is no table of dependencies".into());
    }
    found
}

fn missing<'n>(names: &[&'n str]) -> Vec<&'n str> {
    let absent = |name: &&&str| !root().join(name).exists();
    names.iter().filter(absent).copied().collect()
}

//
#[test]
fn the_top_holds_what_it_must() {
    assert_eq!(missing(TOP), [""; 0]);
    assert_eq!(
        missing(&["crates", "nothing-of-that-name"]),
        ["nothing-of-that-name"]
    );
}

#[test]
fn dependencies_point_one_way() {
    let members = workspace();
    assert_eq!(members.len(), DIRECTIONS.len());
    let found = directions(&members);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

//
#[test]
fn each_library_stands_where_it_belongs() {
    let found = places(&workspace(), &tree());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn each_member_inherits_lints_and_dependencies() {
    for member in workspace() {
        let path = format!("{}Cargo.toml", member.folder);
        assert_eq!(manifest(&path, &read(&path)), [""; 0]);
    }
}

#[test]
fn each_dependency_has_a_reason() {
    assert_eq!(reasons(&read("Cargo.toml"), &workspace()), [""; 0]);
}

/// Today's members with one more dependency in one of them.
fn with(name: &str, on: &str, dev: bool) -> Vec<Member> {
    let local = on.starts_with("quell");
    let mut members = workspace();
    let member = members
        .iter_mut()
        .find(|member| member.name == name)
        .unwrap();
    member.dependencies.push(Dependency {
        name: on.into(),
        dev,
        local,
    });
    members
}

#[test]
fn a_dependency_the_wrong_way_is_found() {
    let cases = [
        ("quell-core", "quell-net", true),
        ("quell-core", "quell-sim", false),
        ("quell-core", "quell-tun", true),
        ("quell-core", "tokio", true),
        ("quell-core", "quinn", true),
        ("quell-sim", "tokio", false),
        ("quell-wire", "quell-packet", false),
        ("quell-packet", "quell-wire", false),
        ("quell-tun", "quell-core", false),
        ("quell-egress", "quell-tun", false),
        ("quell-stack", "quell-tun", false),
        ("quell-proxy", "quell-egress", false),
        ("quell-net", "quell", true),
        ("quell-net", "quell-sim", false),
        ("quell", "quell-lab", false),
        ("quell", "quell-cli", true),
        ("quell", "anyhow", false),
        ("quell-tests", "anyhow", true),
        ("quell-cli", "quell-tests", true),
    ];
    for (name, on, dev) in cases {
        assert_eq!(directions(&with(name, on, dev)).len(), 1, "{name} on {on}");
    }
    assert_eq!(directions(&with("quell-core", "quell-sim", true)), [""; 0]);
    assert_eq!(directions(&with("quell-cli", "anyhow", false)), [""; 0]);
}

#[test]
fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
    let mut members = workspace();
    members[0].name = "quell-new".into();
    let found = directions(&members);
    assert!(found.contains(&"quell-new has no row in the table of directions".into()));
    assert!(found.iter().any(|line| line.ends_with("and nowhere else")));
}

#[test]
fn a_library_out_of_its_place_is_found() {
    let (mut members, sources) = (workspace(), tree());
    let net = members
        .iter_mut()
        .find(|member| member.name == "quell-net")
        .unwrap();
    for dependency in &mut net.dependencies {
        dependency.dev |= dependency.name == "quinn";
    }
    assert_eq!(
        places(&members, &sources),
        ["quell-net is not built on quinn"]
    );
    // Declared, and no code of that member names them.
    let elsewhere = [
        Source::new("crates/net/src/a.rs", "let quinn = tokio; // quinn::a"),
        Source::new("crates/net/tests/a.rs", "use quinn::a;"),
        Source::new("crates/tun/src/a.rs", "use quinn::a;"),
    ];
    assert_eq!(places(&workspace(), &elsewhere).len(), PLACES.len());
}

#[test]
fn a_member_that_goes_its_own_way_is_found() {
    let good = "[lints]\nworkspace = true\n[dependencies]\na.workspace = true\n";
    assert_eq!(manifest("a", good), [""; 0]);
    assert_eq!(
        manifest("a", &good.replace("[lints]\nworkspace = true", "")).len(),
        1
    );
    assert_eq!(
        manifest(
            "a",
            &good.replace("[lints]\nworkspace", "[lints.rust]\nworkspace")
        )
        .len(),
        1
    );
    for kind in [
        "dependencies",
        "dev-dependencies",
        "build-dependencies",
        "target.'cfg(unix)'.dependencies",
    ] {
        let own = good.replace("[dependencies]", &format!("[{kind}]"));
        assert_eq!(
            manifest("a", &own.replace("a.workspace = true", "a = \"1\"")).len(),
            1,
            "{kind}"
        );
    }
}

#[test]
fn a_dependency_without_reason_or_use_is_found() {
    let members = with("quell-net", "quinn-other", false);
    let found = |lines: &str| {
        reasons(
            &format!("[workspace.dependencies]\n{lines}\n[profile]\nb = 1"),
            &members,
        )
        .len()
    };
    assert_eq!(found("# why\ntokio = \"1\""), 0);
    assert_eq!(found("# why\nquinn = \"1\"\nquinn-other = \"1\""), 0);
    assert_eq!(
        found("# ours\nquell = { path = \"a\" }\nquell-core = { path = \"b\" }"),
        0
    );
    assert_eq!(found("tokio = \"1\""), 1);
    assert_eq!(found("# why\nquinn = \"1\"\ntokio = \"1\""), 1);
    assert_eq!(found("# why\nquinn = \"1\"\n\nquinn-other = \"1\""), 1);
    assert_eq!(found("# why\nnobodys = \"1\""), 1);
    assert_eq!(reasons("[workspace]\n", &members).len(), 1);
}
