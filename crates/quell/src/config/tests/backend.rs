//! `[backend]` in a whole file and in the environment: what is taken, and what is never shown.

use super::*;

fn with(urls: &str) -> String {
    format!("{}\n[backend]\nurls = {urls}\n", client())
}

fn backend(config: Config) -> BackendSection {
    match config {
        Config::Client(file) => file.backend,
        Config::Provider(file) => file.backend,
    }
}

#[test]
fn both_files_take_it_and_the_environment_replaces_its_urls() {
    let folder = Folder::new();
    for role in [client(), provider()] {
        let text = format!("{role}\n[backend]\nurls = [\"http://a/\"]\ncheck_interval = \"1m\"\n");
        let path = folder.write("quell.toml", text, 0o644);
        let load = |value: &str| {
            let value = OsString::from(value);
            load_with(&path, &move |name| {
                (name == "QUELL_BACKEND_URLS").then(|| value.clone())
            })
        };
        for (value, urls) in [
            ("", vec!["http://a/"]),
            ("https://b/h", vec!["https://b/h"]),
            (
                " https://b/\n http://c:1/ ",
                vec!["https://b/", "http://c:1/"],
            ),
        ] {
            let section = backend(load(value).unwrap());
            let read: Vec<_> = section.urls.iter().map(ToString::to_string).collect();
            assert_eq!(
                (read, section.check_interval.as_secs()),
                (urls.iter().map(|u| (*u).to_owned()).collect(), 60)
            );
        }
        let words = |value: &str| load(value).unwrap_err().to_string();
        let error = words("http://b/ https://me:s3cret@c/");
        assert!(error.starts_with("environment: QUELL_BACKEND_URLS = URL 2, credentials before the host: allowed is a URL"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        let error = words("http://b/1 http://b/2 http://b/3 http://b/4 http://b/5");
        assert_eq!(
            error,
            "environment: QUELL_BACKEND_URLS = 5 URLs: allowed is 0 to 4 of them"
        );
    }
}

#[test]
fn credentials_of_a_url_are_in_no_message() {
    let folder = Folder::new();
    let cases = [
        r#"["https://me:s3cret@api.example.net/"]"#,
        r#""https://me:s3cret@api.example.net/""#,
        r#"["ftp://api.example.net/?key=s3cret"]"#,
        r#"["http://a/?key=s3cret", "http://a/?key=s3cret"]"#,
        r#"["http://a/?key=s3cret", 7]"#,
    ];
    for urls in cases {
        let error = folder.load(with(urls)).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("backend.urls"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    // What holds no secret is shown as everywhere.
    let error = folder
        .load(with(r#"["ftp://api.example.net/"]"#))
        .unwrap_err()
        .to_string();
    assert!(error.contains("ftp://api.example.net/"), "{error}");
    let good = folder.load(with(r#"["http://a/?key=s3cret"]"#)).unwrap();
    assert!(!format!("{good:?}").contains("s3cret"));
}

#[test]
fn a_setting_out_of_its_range_is_named_with_its_line() {
    let folder = Folder::new();
    let text = format!("{}check_interval = \"4s\"\n", with("[]"));
    let line = text.lines().count();
    let error = folder.load(text).unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            ":{line}: backend.check_interval = \"4s\": allowed is 5s"
        )),
        "{error}"
    );
}

#[test]
fn a_client_of_a_control_plane_lists_no_provider() {
    let folder = Folder::new();
    let text = client();
    let alone = text.split("[provider]").next().unwrap();
    let read = |rest: &str| {
        let text = format!("{alone}\n[backend]\n{rest}\n");
        let path = folder.write("quell.toml", text, 0o644);
        load_with(&path, &|_| None)
    };
    match read("url = \"http://127.0.0.1:6620\"").unwrap() {
        Config::Client(file) => {
            assert!(file.providers.is_empty());
            assert_eq!(file.state_dir, std::path::Path::new("/var/lib/quell"));
        }
        Config::Provider(_) => panic!("a provider"),
    }
    let error = read("urls = []").unwrap_err().to_string();
    assert!(
        error.contains("provider = 0: allowed is 1 to 256 providers"),
        "{error}"
    );
}
