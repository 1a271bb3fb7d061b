//! Walks the catalogue over every sample record, and holds the texts against the golden files.

use std::collections::BTreeSet;
use std::io::{self, Write};

use gpubench_record::{
    DeviceKind, Estimate, ExpectedAnswer, FaultFacts, FaultTrial, MatrixRow, Outcome,
    RecordLeftOut, RunRecord, SampleRow,
};
use proptest::prelude::*;

use super::{CATALOGUE, RenderError, RenderOptions, VIRTUAL_TITLE, find};
use crate::latency::{LatencyChart, LatencyCurve};
use crate::sample_records;
use crate::store::samples_for_tests::row;

/// The formats that people read.
const FOR_PEOPLE: [&str; 3] = ["terminal", "html", "md"];

fn render(format: &str, record: &RunRecord, options: &RenderOptions) -> String {
    let mut out = Vec::new();
    find(format)
        .unwrap()
        .render(record, options, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

fn options() -> RenderOptions {
    let slow = |seq: u64| SampleRow {
        t_done_ns: seq * 1_000 + 900 + 250 * seq * seq,
        ..row(seq)
    };
    let rows: Vec<_> = (0..40).map(row).collect();
    let slow_rows: Vec<_> = (0..40).map(slow).collect();
    let curves = [
        LatencyCurve::from_rows("exclusive, N", &rows),
        LatencyCurve::from_rows("time-slicing[slice=default], C", &slow_rows),
    ];
    RenderOptions {
        width: Some(130),
        record_dir: Some("target/gpubench/run-1".to_owned()),
        warnings: vec!["the last event (line 9) was torn off".to_owned()],
        latency: vec![LatencyChart {
            victim: "fma".to_owned(),
            curves: curves.into_iter().flatten().collect(),
        }],
        ..RenderOptions::default()
    }
}

#[test]
fn every_record_in_every_format_reads_as_its_golden_file() {
    for (name, record) in sample_records::all() {
        for format in CATALOGUE {
            let text = render(format.name(), &record, &options());
            let mut settings = insta::Settings::clone_current();
            settings.set_snapshot_path("../../golden");
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings.bind(|| insta::assert_snapshot!(format!("{name}.{}", format.name()), text));
        }
    }
}

#[test]
fn names_are_unique_and_every_format_says_what_it_is_for() {
    let names: BTreeSet<_> = CATALOGUE.iter().map(|format| format.name()).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for format in CATALOGUE {
        assert!(
            format.summary().len() > 20 && format.summary().len() < 95,
            "{}",
            format.name()
        );
        assert!(!format.summary().ends_with('.') && !format.extension().starts_with('.'));
        assert_eq!(
            find(format.name()).map(super::Format::name),
            Some(format.name())
        );
    }
    assert!(find("yaml").is_none());
}

#[test]
fn json_parses_back_to_the_same_record() {
    for (name, record) in sample_records::all() {
        let again: RunRecord = serde_json::from_str(&render("json", &record, &options())).unwrap();
        assert_eq!(again, record, "{name}");
    }
}

#[test]
fn json_refuses_a_figure_that_it_cannot_hold() {
    let mut record = sample_records::real();
    let unbounded = Estimate {
        value: 0.1,
        lo: 0.0,
        hi: f64::INFINITY,
        n: 8,
        unit: "x".to_owned(),
    };
    record.matrix[0].isolation_index = Some(unbounded);
    let result = find("json")
        .unwrap()
        .render(&record, &options(), &mut Vec::new());
    assert!(matches!(result, Err(RenderError::NotJson { .. })));
    // Formats for people can say it.
    assert!(render("html", &record, &options()).contains("[0.000, inf]"));
}

/// A CSV text as lines of fields, by the rules of RFC 4180.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut lines, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {
                chars.next();
                fields.push(std::mem::take(&mut field));
                lines.push(std::mem::take(&mut fields));
            }
            c => field.push(c),
        }
    }
    assert!(!quoted && field.is_empty() && fields.is_empty());
    lines
}

#[test]
fn csv_has_the_same_columns_whatever_the_record() {
    let mut headers = BTreeSet::new();
    for (name, record) in sample_records::all() {
        let lines = parse_csv(&render("csv", &record, &options()));
        let rows = record.matrix.len() + record.probe_figures.len();
        assert_eq!(lines.len(), rows + 1, "{name}");
        assert!(
            lines.iter().all(|line| line.len() == lines[0].len()),
            "{name}"
        );
        let reason = lines[0]
            .iter()
            .position(|column| column == "reason")
            .unwrap();
        for (line, row) in lines[1..].iter().zip(&record.matrix) {
            assert_eq!(line[reason], row.outcome.reason.clone().unwrap_or_default());
        }
        headers.insert(lines[0].clone());
    }
    assert_eq!(headers.len(), 1);
}

#[test]
fn a_virtual_record_says_so_in_every_title_and_a_real_one_never_does() {
    for (_, record) in sample_records::all() {
        let said = record.device.kind == DeviceKind::Virtual;
        for format in FOR_PEOPLE.into_iter().chain(["junit"]) {
            let text = render(format, &record, &options());
            assert_eq!(text.contains(VIRTUAL_TITLE), said, "{format}");
        }
        let terminal = render("terminal", &record, &options());
        assert_eq!(terminal.starts_with(VIRTUAL_TITLE), said);
        let html = render("html", &record, &options());
        assert_eq!(html.contains(&format!("<title>{VIRTUAL_TITLE}")), said);
    }
}

#[test]
fn incomplete_undecided_and_empty_records_say_so_first() {
    for (record, word) in [
        (sample_records::incomplete(), "INCOMPLETE"),
        (sample_records::on_the_virtual_gpu(), "DECIDES NOTHING"),
        (sample_records::all_waived(), "NOTHING MEASURED"),
    ] {
        for format in FOR_PEOPLE {
            let text = render(format, &record, &options());
            assert!(text.contains(word), "{format} does not say {word}");
            assert!(!render(format, &sample_records::real(), &options()).contains(word));
        }
    }
}

#[test]
fn where_nothing_was_measured_reasons_stand_in_the_place_of_an_empty_matrix() {
    let mut record = sample_records::all_waived();
    let of_all = record.mechanisms[0].outcome.clone();
    record.matrix = sample_records::real().matrix;
    for row in &mut record.matrix {
        *row = MatrixRow {
            retention: None,
            guarantee: None,
            efficiency: None,
            effectiveness: None,
            isolation_index: None,
            jitter: None,
            survival: None,
            overshoot: None,
            level: None,
            outcome: of_all.clone(),
            ..row.clone()
        };
    }
    let (matrix, reasons) = ("Isolation", "Why nothing was measured");
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(!text.contains(matrix), "{format}: {text}");
        // Whose reason is its mechanism's is told with that.
        assert!(!text.contains(reasons), "{format}: {text}");
        assert!(text.contains("process 4711"), "{format}: {text}");
    }
    // A reason of its own is told with what it holds for, once.
    let own = Outcome::waived("alloc: no request of 100000 ns within 10 %");
    record.matrix[1].outcome = own.clone();
    record.matrix[2].outcome = own;
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(!text.contains(matrix) && text.contains(reasons), "{format}");
        let told = text.matches("alloc: no request of 100000 ns").count();
        assert_eq!(told, 1, "{format}: {text}");
    }
    // One figure is something, whoever distrusts it.
    record.matrix[0].retention = sample_records::real().matrix[0].retention.clone();
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(text.contains(matrix) && !text.contains(reasons), "{format}");
    }
}

#[test]
fn a_campaign_that_ended_early_says_what_is_missing_and_passes_nothing() {
    let mut record = sample_records::real();
    let cell = record.plan.cells[0].clone();
    record.plan.fault_trials = (1..=3)
        .map(|trial| FaultTrial {
            id: format!("f{trial}"),
            group: cell.group.clone(),
            mechanism: cell.mechanism.clone(),
            variant: cell.variant.clone(),
            fault: if trial == 3 { "trap" } else { "oom" }.to_owned(),
            class: "sm".to_owned(),
            facts: FaultFacts {
                control: None,
                answer: ExpectedAnswer::Error,
                by_coordinator: false,
                leaves_waiting: false,
            },
            trial,
            victim: cell.victim.clone(),
            tenants: cell.tenants.clone(),
            schedule_seed: cell.schedule_seed,
            at_ns: 0,
            until_ns: 0,
            from_ns: 0,
            window_ns: 0,
        })
        .collect();
    record.fault_trials_stopped = Some("Xid 79 asks for a reset".to_owned());
    record.records_left_out = vec![RecordLeftOut {
        record: "night-1".to_owned(),
        reason: "its driver is 580".to_owned(),
    }];
    let missing = format!(
        "NOT HELD: 3 of 3 planned fault trials; {}: oom (2x), trap",
        cell.variant
    );
    for format in FOR_PEOPLE {
        let options = RenderOptions {
            width: None,
            ..options()
        };
        // Markdown has a backslash before each bracket.
        let text = render(format, &record, &options).replace('\\', "");
        for notice in [
            "FAULT TRIALS STOPPED: Xid 79 asks for a reset",
            "LEFT OUT: the fault trials of night-1 are not counted: its driver is 580",
            &missing,
        ] {
            assert!(text.contains(notice), "{format} does not say {notice}");
        }
    }
    let junit = render("junit", &record, &options());
    assert!(
        junit.contains("<error message=\"FAULT TRIALS STOPPED"),
        "{junit}"
    );
    let json: RunRecord =
        serde_json::from_str(&render("json", &record, &options())).expect("json that can be read");
    assert_eq!(json.records_left_out, record.records_left_out);
}

#[test]
fn a_missing_figure_is_never_a_zero() {
    let mut record = sample_records::real();
    record.matrix.retain(|row| row.axis == "memory");
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(
            !text.contains("0.000") && !text.contains("NaN"),
            "{format}: {text}"
        );
    }
}

#[test]
fn every_reason_and_remedy_is_readable_in_every_format() {
    let options = RenderOptions {
        width: None,
        ..options()
    };
    for (name, record) in sample_records::all() {
        let mut texts: Vec<&String> = record.plan.skips.iter().map(|skip| &skip.reason).collect();
        texts.extend(
            record
                .matrix
                .iter()
                .filter_map(|row| row.outcome.reason.as_ref()),
        );
        texts.extend(record.matrix.iter().flat_map(|row| &row.warnings));
        texts.extend(
            record
                .mechanisms
                .iter()
                .filter_map(|row| row.outcome.reason.as_ref()),
        );
        texts.extend(
            record
                .mechanisms
                .iter()
                .filter_map(|row| row.remedy.as_ref()),
        );
        for format in FOR_PEOPLE {
            let text = render(format, &record, &options).replace('\\', "");
            for wanted in &texts {
                let wanted = match format {
                    "terminal" => (*wanted).clone(),
                    "html" => super::markup::escape(wanted),
                    _ => wanted
                        .replace('&', "&amp;")
                        .replace('<', "&lt;")
                        .replace('>', "&gt;"),
                };
                assert!(text.contains(&wanted), "{name} as {format} lacks {wanted}");
            }
        }
    }
}

#[test]
fn markup_is_well_formed_and_obeys_nothing_in_the_record() {
    for (name, record) in sample_records::all() {
        let html = render("html", &record, &options());
        assert!(
            !html.contains("<script") && !html.contains("http"),
            "{name}"
        );
        let html = html.replace("<!DOCTYPE html>\n", "");
        for text in [html, render("junit", &record, &options())] {
            roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        }
    }
}

#[test]
fn junit_counts_what_it_holds_and_passes_only_what_was_measured() {
    for (name, record) in sample_records::all() {
        let text = render("junit", &record, &options());
        let xml = roxmltree::Document::parse(&text).unwrap();
        let count = |tag| {
            xml.descendants()
                .filter(|node| node.has_tag_name(tag))
                .count()
        };
        let suite = xml
            .descendants()
            .find(|node| node.has_tag_name("testsuite"))
            .unwrap();
        for (attribute, tag) in [
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ] {
            assert_eq!(
                suite.attribute(attribute),
                Some(&*count(tag).to_string()),
                "{name} {tag}"
            );
        }
        let measured = record
            .matrix
            .iter()
            .filter(|row| row.outcome.is_measured())
            .count();
        let whole = usize::from(record.complete && record.plan.decides && measured > 0);
        let not_passed = count("failure") + count("error") + count("skipped");
        assert_eq!(count("testcase") - not_passed, measured + whole, "{name}");
    }
}

#[test]
fn colour_is_there_only_when_asked_for_and_changes_nothing_else() {
    let record = sample_records::incomplete();
    let plain = render("terminal", &record, &options());
    assert!(
        !plain.contains('\u{1b}'),
        "an escape came through from the record"
    );
    let colored = render(
        "terminal",
        &record,
        &RenderOptions {
            color: true,
            ..options()
        },
    );
    assert!(colored.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut parts = colored.split('\u{1b}');
    stripped.push_str(parts.next().unwrap());
    parts.for_each(|part| stripped.push_str(part.split_once('m').unwrap().1));
    assert_eq!(stripped, plain);
}

#[test]
fn tables_keep_to_the_width_of_the_terminal() {
    for (name, record) in sample_records::all() {
        for width in [60, 80, 100, 120, 160] {
            let options = RenderOptions {
                width: Some(width),
                ..options()
            };
            let text = render("terminal", &record, &options);
            let drawn = text
                .lines()
                .filter(|line| line.starts_with(['│', '├', '╭', '╰']));
            let widest = drawn.map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width, "{name} at {width} is {widest} wide");
        }
    }
}

#[test]
fn a_closed_output_is_an_error_and_no_panic() {
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
        let result = format.render(&sample_records::real(), &options(), &mut Closed);
        let Err(RenderError::Write(error)) = result else {
            panic!("{}", format.name())
        };
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
    ) {
        let mut record = sample_records::incomplete();
        record.device.name.clone_from(&text);
        record.matrix[0].outcome.reason = Some(text.clone());
        record.matrix[0].claimed = vec![text.clone()];
        record.matrix[1].variant = text;
        record.matrix[1].retention =
            Some(Estimate { value, lo, hi, n: 1, unit: "ratio".to_owned() });
        for format in CATALOGUE.iter().filter(|format| format.name() != "json") {
            let rendered = render(format.name(), &record, &options());
            if matches!(format.name(), "html" | "junit") {
                let xml = rendered.replace("<!DOCTYPE html>\n", "");
                prop_assert!(roxmltree::Document::parse(&xml).is_ok());
            }
        }
    }
}
