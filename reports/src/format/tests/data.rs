//! Formats for programs, and the markup of the HTML page.

use std::collections::BTreeSet;

use gpubench_record::{Ends, Estimate};
use gpubench_sample_records as sample_records;

use super::{options, render};
use crate::format::{RenderError, find};

#[test]
fn json_refuses_an_infinite_figure() {
    let mut record = sample_records::real();
    let unbounded = Estimate {
        value: 0.1,
        lo: 0.0,
        hi: f64::INFINITY,
        ends: Ends::Interval,
        parts: None,
        n: 8,
        unit: "x".to_owned(),
    };
    record.matrix[0].isolation_index = Some(unbounded);
    let result = (find("json").unwrap().render)(&record, &options(), &mut Vec::new());
    assert!(matches!(result, Err(RenderError::NotJson { .. })));
    // Formats for people print it.
    assert!(render("html", &record, &options()).contains("[0.000, inf]"));
}

#[test]
fn csv_has_the_same_columns_for_every_record() {
    let mut headers = BTreeSet::new();
    for (name, record) in sample_records::all() {
        let text = render("csv", &record, &options());
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        // The reader refuses a line with another number of fields.
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        let claims = record.claims.iter().map(|row| row.figures.len().max(1));
        let operator = record.operator.iter();
        let operator = operator.map(|row| row.figures().len() + row.gpu_time.len());
        let further = record.probe_figures.len() + claims.chain(operator).sum::<usize>();
        let rows = record.matrix.len() + further;
        assert_eq!(lines.len(), rows, "{name}");
        let reason = header.iter().position(|column| column == "reason");
        for (line, row) in lines.iter().zip(&record.matrix) {
            let expected = row.outcome.reason.clone().unwrap_or_default();
            assert_eq!(line[reason.unwrap()], expected);
        }
        headers.insert(text.split("\r\n").next().unwrap().to_owned());
    }
    assert_eq!(headers.len(), 1);
}

#[test]
fn markup_is_well_formed_and_escapes_the_record() {
    for (name, record) in sample_records::all() {
        let html = render("html", &record, &options());
        // Nothing is loaded from elsewhere; addresses of sources are text.
        let scripts: Vec<&str> = html.split("<script").skip(1).collect();
        assert!(scripts.iter().all(|one| one.starts_with(">\n// Compares")), "{name}");
        assert!(scripts.len() <= 1 && !html.contains("=\"http"), "{name}");
        let html = html.replace("<!DOCTYPE html>\n", "");
        for text in [html, render("junit", &record, &options())] {
            roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        }
    }
}

#[test]
fn junit_counts_its_cases_and_passes_only_measured_rows() {
    for (name, record) in sample_records::all() {
        let text = render("junit", &record, &options());
        let xml = roxmltree::Document::parse(&text).unwrap();
        let count = |tag| xml.descendants().filter(|node| node.has_tag_name(tag)).count();
        let suite = xml.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        for (attribute, tag) in [
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ] {
            assert_eq!(suite.attribute(attribute), Some(&*count(tag).to_string()), "{name} {tag}");
        }
        let measured = record.matrix.iter().filter(|row| row.outcome.is_measured()).count();
        let record_passes = usize::from(record.complete && record.plan.decides && measured > 0);
        let not_passed = count("failure") + count("error") + count("skipped");
        assert_eq!(count("testcase") - not_passed, measured + record_passes, "{name}");
    }
}
