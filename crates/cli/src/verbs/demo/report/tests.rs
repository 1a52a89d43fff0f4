//! Pages of invented acts, read again.

#![allow(clippy::unwrap_used)]

use roxmltree::{Document, Node, ParsingOptions};

use super::super::bounds::bound;
use super::*;

/// The page's elements; that there are any says that it is well-formed.
fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap()
}

fn all<'a>(page: &'a Document<'a>, name: &str) -> Vec<Node<'a, 'a>> {
    let nodes = page.descendants();
    nodes.filter(|node| node.has_tag_name(name)).collect()
}

fn chart(kind: Kind, values: &[&[u64]], faults: Vec<Fault>) -> Chart {
    let series = values.iter().enumerate();
    Chart {
        title: "Bytes & \"more\"",
        kind,
        series: series
            .map(|(number, values)| Series::new(&format!("<s{number}>"), values.iter().copied()))
            .collect(),
        faults,
    }
}

fn fault(from: usize, to: usize) -> Fault {
    Fault {
        from,
        to,
        name: "it's <cut>".to_owned(),
    }
}

fn section(charts: Vec<Chart>) -> Section {
    Section {
        title: "A & B",
        words: "a < b",
        charts,
        bounds: vec![
            bound("held", "figures > 0", Some(1_234), 5_000),
            bound("broke", "others", Some(2), 1),
            bound("never", "what never came", None, 1),
        ],
    }
}

#[test]
fn a_page_says_what_was_measured_and_loads_nothing() {
    let linear = chart(
        Kind::Linear,
        &[&[1, 0, 1_500], &[7, 0, 0]],
        vec![fault(1, 2)],
    );
    let log = chart(Kind::Log, &[&[200_000, 0, 200]], vec![fault(1, 2)]);
    let text = page(false, &[section(vec![linear, log])]);
    let page = parsed(&text);
    assert!(text.contains("2 of 3 bounds broke"));
    for loaded in ["script", "link", "img", "iframe"] {
        assert!(all(&page, loaded).is_empty(), "{loaded}");
    }
    assert!(!text.contains("url(") && !text.contains("@import"));
    assert!(!text.contains("href") && !text.contains("src="));

    let cells: Vec<_> = all(&page, "td").iter().filter_map(Node::text).collect();
    for cell in [
        "1,234",
        "5,000",
        "BROKEN",
        "none",
        "1,500",
        "200,000",
        "it's <cut>",
    ] {
        assert!(cells.contains(&cell), "{cell} in {cells:?}");
    }
    let bars: Vec<_> = all(&page, "rect");
    let of = |class: &str| {
        let bars = bars
            .iter()
            .filter(|bar| bar.attribute("class") == Some(class));
        bars.count()
    };
    // Two bars and one, and one in the key of the plot that has two figures.
    assert_eq!([of("s0"), of("s1"), of("fault")], [2 + 2 + 1, 1 + 1, 2]);
}

#[test]
fn each_plot_can_be_read_without_being_seen() {
    let charts = vec![
        chart(Kind::Log, &[&[5]], vec![fault(0, 1)]),
        chart(Kind::Linear, &[&[6]], Vec::new()),
    ];
    let text = page(true, &[section(charts)]);
    let page = parsed(&text);
    let plots = all(&page, "svg");
    let plots: Vec<_> = plots
        .iter()
        .filter(|plot| plot.attribute("role") == Some("img"))
        .collect();
    assert_eq!(plots.len(), 2);
    let mut seen = std::collections::HashSet::new();
    for plot in plots {
        let labels = plot.attribute("aria-labelledby").unwrap();
        for label in labels.split(' ') {
            assert!(seen.insert(label), "{label} is unique");
            let node = plot
                .children()
                .find(|node| node.attribute("id") == Some(label));
            assert!(!node.unwrap().text().unwrap().is_empty());
        }
    }
    assert!(text.contains("it&#39;s &lt;cut&gt; from second 0 to second 1"));
}

#[test]
fn an_act_of_which_nothing_is_known_is_a_page_all_the_same() {
    for kind in [Kind::Linear, Kind::Log] {
        let charts = [
            chart(kind, &[], Vec::new()),
            chart(kind, &[&[]], vec![fault(0, 9)]),
            chart(kind, &[&[0, 0]], vec![fault(1, 9)]),
            chart(kind, &[&[u64::MAX]], Vec::new()),
        ];
        let text = page(false, &[section(charts.into())]);
        let page = parsed(&text);
        assert!(!text.contains("NaN") && !text.contains("inf"));
        for node in page.descendants() {
            for side in ["width", "height", "x", "y"] {
                let Some(value) = node.attribute(side) else {
                    continue;
                };
                let value: f64 = value.parse().unwrap();
                assert!((0.0..=760.0).contains(&value), "{side} of {node:?}");
            }
        }
    }
    assert!(page(false, &[]).contains("all 0 bounds held"));
}

#[test]
fn bars_of_a_second_stand_on_each_other() {
    let chart = chart(Kind::Linear, &[&[10], &[30]], Vec::new());
    let text = format!(
        "{}",
        plot::Svg {
            chart: &chart,
            id: "x"
        }
    );
    let page = parsed(&text);
    let bars = all(&page, "rect");
    let side = |bar: usize, side| -> f64 { bars[bar].attribute(side).unwrap().parse().unwrap() };
    assert!((side(1, "y") + side(1, "height") - side(0, "y")).abs() < 0.2);
    assert!((side(1, "height") - 3.0 * side(0, "height")).abs() < 0.4);
    assert_eq!(bars[1].children().count(), 1, "it says its figure");
}

#[test]
fn seconds_with_one_fault_are_one_span() {
    let names = [None, Some("a"), Some("a"), Some("b"), None, Some("b")];
    let spans = faults(names.iter().map(|name| name.map(str::to_owned)));
    let spans: Vec<_> = spans
        .iter()
        .map(|fault| (fault.from, fault.to, fault.name.as_str()))
        .collect();
    assert_eq!(spans, [(1, 3, "a"), (3, 4, "b"), (5, 6, "b")]);
}
