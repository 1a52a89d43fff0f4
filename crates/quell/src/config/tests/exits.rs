//! One provider or several in a whole file: what is taken, and what is refused by name.

use super::*;

fn several(second: &str) -> String {
    format!(
        r#"private_key_file = "own.key"

[[provider]]
address = "fra.example.net"
public_key = "{}"
place = "Frankfurt"
weight = 200

[[provider]]
address = "192.0.2.1:443"
public_key = "{}"
{second}

[window]
exit_policy = "spread"

[race]
race = "off"
"#,
        public(1),
        public(2)
    )
}

fn refused(text: &str) -> String {
    words(&Folder::new().load(text).unwrap_err())
}

#[test]
fn several_providers_are_taken_in_their_order() {
    let file = as_client(Folder::new().load(several("")).unwrap());
    let [first, second] = file.providers.as_slice() else {
        panic!("{:?}", file.providers);
    };
    assert_eq!((first.place.as_str(), first.weight), ("Frankfurt", 200));
    assert_eq!((second.place.as_str(), second.weight), ("", 100));
    assert_eq!(second.address.to_string(), "192.0.2.1:443");
    let core = file.core();
    assert_eq!(core.window.exit_policy.to_string(), "spread");
    assert_eq!(core.racer.race.to_string(), "off");
}

#[test]
fn a_mistake_in_one_of_several_is_named_with_its_place_in_the_list() {
    let twice = several("").replace(&public(2), &public(1));
    let error = refused(&twice);
    assert!(error.contains("provider[1].public_key"), "{error}");
    assert!(error.contains("each provider once"), "{error}");
    let error = refused(&several("weight = 0"));
    assert!(error.contains("provider[1].weight"), "{error}");
    assert!(error.contains("1 to 10000"), "{error}");
    let error = refused(&several("wieght = 1"));
    assert!(error.contains("wieght"), "{error}");
    let long = format!("place = \"{}\"", "x".repeat(65));
    assert!(refused(&several(&long)).contains("provider[1].place"));
    let longest = format!("place = \"{}\"", "x".repeat(64));
    Folder::new().load(several(&longest)).unwrap();
}

#[test]
fn a_list_without_providers_or_of_something_else_is_refused() {
    let none = "private_key_file = \"own.key\"\nprovider = []\n";
    assert!(
        refused(none).contains("1 to 256 providers"),
        "{}",
        refused(none)
    );
    let text = "private_key_file = \"own.key\"\nprovider = 3\n";
    assert!(
        refused(text).contains("[[provider]] tables"),
        "{}",
        refused(text)
    );
}

#[test]
fn a_route_may_cover_a_provider_since_its_packets_are_marked() {
    let text =
        several("") + "\n[tun]\nroutes = [\"192.0.2.0/24\"]\nexclude = [\"192.0.2.128/25\"]\n";
    let file = as_client(Folder::new().load(text).unwrap());
    assert_eq!(file.tun.exclude.len(), 1);
    let twice = several("") + "\n[tun]\nexclude = [\"10.0.0.0/8\", \"10.0.0.0/8\"]\n";
    assert!(refused(&twice).contains("tun.exclude[1]"));
}

#[test]
fn a_window_that_contradicts_itself_is_refused() {
    let text = several("").replace("[race]", "window_min = 4\nwindow_max = 3\n[race]");
    let error = refused(&text);
    assert!(error.contains("window.window_max"), "{error}");
    assert!(error.contains("4 to 32"), "{error}");
}
