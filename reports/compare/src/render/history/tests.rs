//! The charts of a history: what cuts a series is drawn where it happened, with its words.

use std::collections::BTreeMap;

use super::chart;
use gpubench_show::Look;

use super::history;
use crate::history::{ChangePoint, Deviation, EventAt, History, Night, SeriesReport};
use crate::render::Detail;
use crate::render::Format;
use crate::session::{Metric, RowKey};

/// Twenty nights in two segments: another driver and kernel before the tenth, a change before the
/// fifteenth.
fn series() -> SeriesReport {
    let name = |at: usize| format!("n{at:02}");
    let started_at = |at: usize| format!("2026-01-{:02}T02:00:00Z", at + 1);
    let event = |what: &str| EventAt {
        session: name(10),
        started_at: started_at(10),
        what: what.to_owned(),
    };
    SeriesReport {
        identity: BTreeMap::from([("uuid".to_owned(), "GPU-1".to_owned())]),
        key: RowKey {
            variant: "mps".to_owned(),
            axis: "bandwidth/dram".to_owned(),
            victim: "stream".to_owned(),
            aggressor: Some("dram-copy".to_owned()),
            dose: None,
            metric: Metric::Retention,
        },
        nights: (0..20)
            .map(|at| Night {
                session: name(at),
                started_at: started_at(at),
                value: if at < 15 { 0.3 } else { 0.2 },
                segment: u32::from(at >= 10),
                bound: false,
            })
            .collect(),
        events: vec![event("driver 570 -> 575 <new>"), event("kernel 6.8 -> 6.9")],
        changes: vec![ChangePoint {
            between: [name(14), name(15)],
            change: -0.333,
            worse: true,
            looks: 11,
        }],
        deviations: vec![Deviation { session: name(16), worse: true }],
        crossings: Vec::new(),
        detectable: Some(0.041),
        open: None,
    }
}

fn of(series: Vec<SeriesReport>) -> History {
    History {
        history_format: 2,
        sessions: 20,
        has_virtual: false,
        lost: Vec::new(),
        series,
        alerts: Vec::new(),
        undecided: Vec::new(),
        missing: Vec::new(),
        unmeasured: Vec::new(),
        exit: 0,
    }
}

#[test]
fn a_bound_has_its_sign_and_short_segments_are_named_once() {
    let mut one = SeriesReport { detectable: None, ..series() };
    one.nights.last_mut().unwrap().bound = true;
    one.key.axis = "jitter".to_owned();
    let jitter = RowKey { metric: Metric::Jitter, ..one.key.clone() };
    let two = SeriesReport { key: jitter, ..one.clone() };
    let both = of(vec![one, two]);
    let text = history(&both, Format::Text, Detail::Changes, Look::PIPED).unwrap();
    assert!(text.contains("last <0.200") && text.contains("mps jitter, "), "{text}");
    assert_eq!(text.matches("too short to show a change").count(), 1, "{text}");
}

/// The x at which vertical lines of a class stand.
fn lines(svg: &str, class: &str) -> Vec<f64> {
    let start = format!("<path class=\"{class}\" d=\"M");
    let found = svg.split(start.as_str()).skip(1);
    found.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn events_and_changes_are_lines_with_labels_where_they_happened() {
    let svg = chart(&series(), "mps").unwrap();
    // Half of the nights are before the events, three quarters before the change.
    let (left, right) = (66.0, 392.0);
    assert_eq!(lines(&svg, "event"), [f64::midpoint(left, right); 2]);
    assert_eq!(lines(&svg, "worse"), [left + 0.75 * (right - left)]);
    for label in ["driver 570 -&gt; 575 &lt;new&gt;", "kernel 6.8 -&gt; 6.9", "-33.3 %, worse"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{label}: {svg}");
    }
    assert_eq!(svg.matches("class=\"deviation\"").count(), 1);
    // The line of nights is cut at the events and at the change.
    assert_eq!(svg.matches("class=\"line\"").count(), 3);
    for day in ["2026-01-01", "2026-01-20"] {
        assert!(svg.contains(day), "{svg}");
    }
}

#[test]
fn labels_of_one_height_do_not_overlap_and_stay_inside() {
    let mut crowded = series();
    crowded.changes.clear();
    let events = crowded.nights.iter().skip(1).map(|night| EventAt {
        session: night.session.clone(),
        started_at: night.started_at.clone(),
        what: format!("driver 570.{} -> 575.57.08", night.session),
    });
    crowded.events = events.collect();
    let svg = chart(&crowded, "mps").unwrap();
    assert_eq!(lines(&svg, "event").len(), 19, "every event has its line");
    let labels = svg.split("<text class=\"event\"").skip(1);
    let mut places: Vec<(String, f64, f64)> = labels
        .map(|rest| {
            let of = |name: &str| rest.split(name).nth(1).unwrap().split('"').next().unwrap();
            let text = rest.split(['>', '<']).nth(1).unwrap().replace("&gt;", ">");
            let x: f64 = of(" x=\"").parse().unwrap();
            let width = 5.8 * text.chars().count() as f64;
            let from = if of("text-anchor=\"") == "end" { x - width } else { x };
            (of(" y=\"").to_owned(), from, from + width)
        })
        .collect();
    assert!(places.len() >= 6, "{places:?}");
    places.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    assert!(places.iter().all(|(_, from, to)| *from >= 0.0 && *to <= 400.5), "{places:?}");
    for pair in places.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
    }
}

#[test]
fn the_page_has_what_got_worse_first_and_no_chart_of_one_night() {
    let mut quiet = series();
    quiet.key.variant = "mig".to_owned();
    quiet.changes.clear();
    quiet.deviations.clear();
    let mut single = quiet.clone();
    single.key.variant = "single".to_owned();
    single.nights.truncate(1);
    let all = of(vec![quiet, single, series()]);
    let page = history(&all, Format::Html, Detail::Full, Look::PIPED).unwrap();
    let captions = page.split("<figcaption>").skip(1);
    let variants: Vec<&str> = captions.map(|text| text.split(' ').next().unwrap()).collect();
    assert_eq!(variants, ["mps", "mig"]);
    assert!(page.contains("<td>single bandwidth/dram"), "the table has every series");
    let least = "smallest change that the last segment could have shown: 4.1 %";
    assert_eq!(page.matches(least).count(), 3);
}

#[test]
fn many_series_have_a_line_for_each_row_and_all_their_lines_in_full() {
    let of_gpu = |gpu: u32| {
        let mut one = series();
        one.identity.insert("uuid".to_owned(), format!("GPU-{gpu}"));
        one.nights[19].value += 0.001 * f64::from(gpu);
        one
    };
    let all = of((0..60).map(of_gpu).collect());
    let text = |detail| history(&all, Format::Text, detail, Look::PIPED).unwrap();
    let short = text(Detail::Changes);
    let row =
        "60 series, last 0.230 (median), 0.200 to 0.259\n  all with a change inside a segment";
    assert!(short.contains(row) && short.lines().count() < 10, "{short}");
    assert_eq!(text(Detail::Full).matches("20 nights, last").count(), 60);
}
