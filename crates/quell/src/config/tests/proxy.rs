//! `[proxy]`: what is understood, what is refused, and where the password comes from.

use super::*;

/// A client's file with these lines under `[proxy]`.
fn with(lines: &str) -> String {
    let client = client().replace("routes = [\"10.0.0.0/8\", \"::/0\"]\n", "");
    format!("{client}\n[proxy]\n{lines}\n")
}

#[test]
fn a_proxy_is_understood_and_off_by_default() {
    let folder = Folder::new();
    let file = as_client(folder.load(client()).unwrap());
    assert!(!file.proxy.is_on());
    assert!(file.proxy.proxy().unwrap().is_none());
    let text = with(
        "socks5 = \"127.0.0.1:1080\"\nhttp = \"[::1]:0\"\ndns = [\"192.0.2.1\", \"[2001:db8::1]:5353\"]",
    );
    let file = as_client(folder.load(text).unwrap());
    let config = file.proxy.proxy().unwrap().unwrap();
    assert_eq!(config.socks5, Some("127.0.0.1:1080".parse().unwrap()));
    assert_eq!(config.http, Some("[::1]:0".parse().unwrap()));
    let servers = ["192.0.2.1:53", "[2001:db8::1]:5353"].map(|text| text.parse().unwrap());
    assert_eq!(config.dns_servers, servers);
}

#[test]
fn what_would_let_the_network_in_is_refused() {
    let folder = Folder::new();
    for (lines, key) in [
        ("socks5 = \"0.0.0.0:1080\"", "proxy.socks5"),
        ("http = \"192.0.2.1:8080\"", "proxy.http"),
        ("username = \"ada\"", "proxy.username"),
        ("password_file = \"p\"", "proxy.password_file"),
        ("socks5 = \"127.0.0.1:1\"\ndns = []", "proxy.dns"),
        ("socks5 = \"localhost:1\"", "proxy.socks5"),
    ] {
        let error = words(&folder.load(with(lines)).unwrap_err());
        assert!(error.contains(key), "{lines}: {error}");
    }
}

#[test]
fn a_password_has_a_file_of_its_own() {
    let folder = Folder::new();
    let text =
        with("socks5 = \"0.0.0.0:1080\"\nusername = \"ada\"\npassword_file = \"proxy.password\"");
    let error = words(&folder.load(&text).unwrap_err());
    assert!(error.contains("proxy.password_file"), "missing: {error}");
    folder.write("proxy.password", "pass word\nremark\n", 0o644);
    let error = words(&folder.load(&text).unwrap_err());
    assert!(
        error.contains("chmod 600") && !error.contains("pass word"),
        "{error}"
    );
    folder.write("proxy.password", "pass word\nremark\n", 0o600);
    let file = as_client(folder.load(&text).unwrap());
    let credentials = file.proxy.proxy().unwrap().unwrap().credentials.unwrap();
    assert_eq!(credentials.username, "ada");
    assert_eq!(credentials.password.as_str(), "pass word");
    folder.write("proxy.password", "\n", 0o600);
    let error = words(&folder.load(&text).unwrap_err());
    assert!(error.contains("proxy.password_file"), "empty: {error}");
}

#[test]
fn a_proxy_has_no_routes() {
    let text = format!("{}\n[proxy]\nsocks5 = \"127.0.0.1:0\"\n", client());
    let error = words(&Folder::new().load(text).unwrap_err());
    assert!(error.contains("tun.routes"), "{error}");
}
