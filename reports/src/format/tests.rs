//! Renders every sample record in every format and compares the texts with the golden files.

mod content;
mod data;

mod reader;
mod screen;

use std::collections::BTreeSet;
use std::io::{self, Write};

use gpubench_record::{
    Condition, DeviceKind, Ends, Estimate, PlannedTime, RunRecord, SampleRow, SpentTime, TimePart,
};
use proptest::prelude::*;

use gpubench_sample_records as sample_records;
use gpubench_sample_records::row;
use gpubench_show::Look;
use gpubench_store::latency::{CurveOf, Latencies, LatencyChart, LatencyCurve};

use super::{CATALOGUE, RenderError, RenderOptions, VIRTUAL_TITLE, View, find, rfc4180};

const FOR_PEOPLE: [&str; 3] = ["text", "html", "md"];

fn render(format: &str, record: &RunRecord, options: &RenderOptions) -> String {
    let mut out = Vec::new();
    (find(format).unwrap().render)(record, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn curve(variant: &str, condition: Condition, rows: &[SampleRow]) -> Option<LatencyCurve> {
    let of = CurveOf {
        variant: variant.to_owned(),
        condition,
        aggressor: (condition == Condition::C).then(|| "fma-hog".to_owned()),
    };
    LatencyCurve::new(of, &[(41, Latencies::of(rows).unwrap())])
}

fn options() -> RenderOptions {
    let slow = |seq: u64| SampleRow { t_done_ns: seq * 1_000 + 900 + 250 * seq * seq, ..row(seq) };
    let rows: Vec<_> = (0..40).map(row).collect();
    let slow_rows: Vec<_> = (0..40).map(slow).collect();
    let curves = [
        curve("exclusive", Condition::N, &rows),
        curve("time-slicing[slice=default]", Condition::C, &slow_rows),
    ];
    RenderOptions {
        look: Look { width: 130, color: false },
        view: View::Full,
        record_dir: Some("target/gpubench/run-1".to_owned()),
        warnings: vec!["the last event (line 9) is incomplete and is left out".to_owned()],
        latency: vec![LatencyChart {
            victim: "fma".to_owned(),
            curves: curves.into_iter().flatten().collect(),
        }],
        ..RenderOptions::default()
    }
}

#[test]
fn every_record_in_every_format_equals_its_golden_file() {
    for (name, record) in sample_records::all() {
        for format in CATALOGUE {
            let text = render(format.name, &record, &options());
            // Golden files do not change with the glossary.
            let text = text.replace(&super::html::glossary().into_string(), "(glossary)\n");
            let mut settings = insta::Settings::clone_current();
            settings.set_snapshot_path("../../golden");
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings.bind(|| insta::assert_snapshot!(format!("{name}.{}", format.name), text));
        }
    }
}

#[test]
fn names_are_unique_and_every_format_has_a_summary() {
    let names: BTreeSet<_> = CATALOGUE.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for format in CATALOGUE {
        assert!(format.summary.len() > 20 && format.summary.len() < 95, "{}", format.name);
        assert!(!format.summary.ends_with('.') && !format.extension.starts_with('.'));
        assert_eq!(find(format.name).map(|format| format.name), Some(format.name));
    }
    let for_people = CATALOGUE.iter().filter(|format| format.is_for_people);
    assert!(for_people.map(|format| format.name).eq(FOR_PEOPLE));
    assert!(find("yaml").is_none());
}

#[test]
fn a_virtual_record_says_so_in_every_title_and_a_real_one_never_does() {
    for (_, record) in sample_records::all() {
        let is_virtual = record.device.kind == DeviceKind::Virtual;
        for format in FOR_PEOPLE.into_iter().chain(["junit"]) {
            let text = render(format, &record, &options());
            assert_eq!(text.contains(VIRTUAL_TITLE), is_virtual, "{format}");
        }
        let terminal = render("text", &record, &options());
        assert_eq!(terminal.starts_with(VIRTUAL_TITLE), is_virtual);
        let html = render("html", &record, &options());
        assert_eq!(html.contains(&format!("<title>{VIRTUAL_TITLE}")), is_virtual);
    }
}

#[test]
fn colour_is_optional_and_changes_nothing_else() {
    let record = sample_records::incomplete();
    for view in [View::Screen, View::Full, View::Why] {
        let render = |color| {
            let options = options();
            let options = RenderOptions { look: Look { color, ..options.look }, view, ..options };
            render("text", &record, &options)
        };
        let (plain, colored) = (render(false), render(true));
        assert!(!plain.contains('\u{1b}'), "an escape sequence of the record is in the output");
        assert!(colored.contains("\u{1b}["));
        let mut stripped = String::new();
        let mut pieces = colored.split('\u{1b}');
        stripped.push_str(pieces.next().unwrap());
        pieces.for_each(|piece| stripped.push_str(piece.split_once('m').unwrap().1));
        assert_eq!(stripped, plain);
    }
}

#[test]
fn every_line_fits_the_width_of_the_terminal() {
    for (name, record) in sample_records::all() {
        for width in [60, 80, 100, 120, 160] {
            for view in [View::Screen, View::Full, View::Why] {
                let options =
                    RenderOptions { look: Look { width, color: false }, view, ..options() };
                let text = render("text", &record, &options);
                let widest = text.lines().max_by_key(|line| line.chars().count());
                let widest = widest.unwrap_or_default();
                let columns = widest.chars().count();
                assert!(columns <= width, "{name} {view:?} at {width}: {columns}\n{widest}");
            }
        }
    }
}

#[test]
fn a_closed_output_is_an_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for format in CATALOGUE {
        let result = (format.render)(&sample_records::real(), &options(), &mut Closed);
        let Err(RenderError::Write(error)) = result else { panic!("{}", format.name) };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_text_and_figure_renders_in_every_format(
        text in any::<String>(),
        value in any::<f64>(),
        lo in any::<f64>(),
        hi in any::<f64>(),
        ends in prop::sample::select(
            vec![Ends::Interval, Ends::Range, Ends::AtLeast, Ends::AtMost]
        ),
    ) {
        let mut record = sample_records::incomplete();
        record.device.name.clone_from(&text);
        record.matrix[0].outcome.reason = Some(text.clone());
        record.matrix[0].claimed = vec![text.clone()];
        record.matrix[1].variant = text;
        record.matrix[1].retention =
            Some(Estimate { value, lo, hi, ends, parts: None, n: 1, unit: "ratio".to_owned() });
        for format in CATALOGUE.iter().filter(|format| format.name != "json") {
            let rendered = render(format.name, &record, &options());
            if matches!(format.name, "html" | "junit") {
                let xml = rendered.replace("<!DOCTYPE html>\n", "");
                prop_assert!(roxmltree::Document::parse(&xml).is_ok());
            }
        }
    }
}

#[test]
fn the_time_of_a_run_stands_beside_its_prediction() {
    const S: u64 = 1_000_000_000;
    let mut record = sample_records::real();
    record.plan.time = vec![
        PlannedTime { part: TimePart::Windows, ns: 348 * S, guessed: false },
        PlannedTime { part: TimePart::Proofs, ns: 12 * S, guessed: true },
    ];
    record.time = vec![
        SpentTime { part: TimePart::Windows, ns: 300 * S },
        SpentTime { part: TimePart::Contexts, ns: 100 * S },
    ];
    let text = render("md", &record, &options());
    let row = |name: &str| -> Vec<&str> {
        let rows = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        rows.filter(|row| row.len() > 4).find(|row| row[1] == name).unwrap_or_default()
    };
    assert_eq!(row("windows")[2..5], ["348.0 s", "300.0 s", "75.0 %"]);
    assert_eq!(row("contexts")[3..5], ["100.0 s", "25.0 %"]);
    assert_eq!(row("proofs")[2], "12.0 s guessed");
    assert_eq!(row("whole run")[2..4], ["360.0 s", "400.0 s"]);
}

/// Text of a record that acts on what shows it, in every field that a person can have written.
#[test]
fn foreign_text_is_inert_in_every_format() {
    const HOSTILE: [&str; 4] = [
        "\u{1b}[2J\u{202e}gpj.exe\u{2066}",
        "=HYPERLINK(\"http://x\")",
        "-2+3|cmd",
        "\"} 1\n# EOF\nx{a=\"<img src=x onerror=y>](http://x)",
    ];
    for hostile in HOSTILE {
        let mut record = sample_records::real();
        let text = || hostile.to_owned();
        (record.device.name, record.device.driver) = (text(), text());
        (record.profile.name, record.incomplete_reason) = (text(), Some(text()));
        record.problems = vec![text()];
        for row in &mut record.matrix {
            (row.victim, row.aggressor) = (Some(text()), Some(text()));
            (row.variant, row.outcome.reason) = (text(), Some(text()));
            (row.warnings, row.claimed) = (vec![text()], vec![text()]);
        }
        for format in CATALOGUE.iter().filter(|format| format.name != "json") {
            let (name, rendered) = (format.name, render(format.name, &record, &options()));
            let acting =
                rendered.chars().find(|c| gpubench_record::acts(*c) && !"\r\n".contains(*c));
            assert_eq!(acting, None, "{name}: {hostile:?}");
            let is_markup = matches!(name, "html" | "md" | "junit");
            assert!(!is_markup || !rendered.contains("<img"), "{name}");
            match name {
                "csv" => {
                    let mut lines = rfc4180::Reader::from_reader(rendered.as_bytes());
                    let fields = lines.records().flat_map(|line| {
                        line.unwrap().iter().map(str::to_owned).collect::<Vec<_>>()
                    });
                    let formula =
                        |field: &String| field.starts_with(['=', '@']) || field == hostile;
                    let found: Vec<String> = fields.filter(formula).collect();
                    let is_plain = !hostile.starts_with(['=', '-']);
                    assert!(is_plain || found.is_empty(), "{found:?}");
                }
                "html" => assert!(rendered.contains("default-src 'none'")),
                "md" => assert!(!rendered.replace("\\]", "").contains("](http"), "{hostile}"),
                "openmetrics" => assert_eq!(rendered.matches("\n# EOF").count(), 1),
                _ => {}
            }
        }
    }
}
