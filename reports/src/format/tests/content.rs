//! The content of formats for people: notices, reasons and missing figures.

use gpubench_record::{
    ExpectedAnswer, FaultFacts, FaultTrial, Json, MatrixRow, Outcome, RecordLeftOut, RunRecord,
};

use super::{FOR_PEOPLE, options, render};
use crate::format::RenderOptions;
use crate::sample_records;

#[test]
fn incomplete_undecided_and_empty_records_begin_with_a_notice() {
    for (record, word) in [
        (sample_records::incomplete(), "INCOMPLETE"),
        (sample_records::on_the_virtual_gpu(), "DECIDES NOTHING"),
        (sample_records::all_waived(), "NOTHING MEASURED"),
    ] {
        for format in FOR_PEOPLE {
            let text = render(format, &record, &options());
            assert!(text.contains(word), "{format} lacks {word}");
            assert!(!render(format, &sample_records::real(), &options()).contains(word));
        }
    }
}

#[test]
fn reasons_replace_a_matrix_without_figures() {
    let mut record = sample_records::all_waived();
    let outcome = record.mechanisms[0].outcome.clone();
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
            outcome: outcome.clone(),
            ..row.clone()
        };
    }
    let (matrix, reasons) = ("Isolation", "Why nothing was measured");
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(!text.contains(matrix), "{format}: {text}");
        // A reason that a row shares with its mechanism is not repeated.
        assert!(!text.contains(reasons), "{format}: {text}");
        assert!(text.contains("process 4711"), "{format}: {text}");
    }
    // A reason of a row alone appears once, with its rows.
    let own = Outcome::waived("alloc: no request of 100000 ns within 10 %");
    record.matrix[1].outcome = own.clone();
    record.matrix[2].outcome = own;
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(!text.contains(matrix) && text.contains(reasons), "{format}");
        let count = text.matches("alloc: no request of 100000 ns").count();
        assert_eq!(count, 1, "{format}: {text}");
    }
    // One figure brings the matrix back, also in a waived row.
    record.matrix[0].retention = sample_records::real().matrix[0].retention.clone();
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(text.contains(matrix) && !text.contains(reasons), "{format}");
    }
}

#[test]
fn stopped_fault_trials_are_listed_and_fail_in_junit() {
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
    record.fault_trials_stopped = Some("Xid 79 requires a reset".to_owned());
    record.records_left_out = vec![RecordLeftOut {
        record: "night-1".to_owned(),
        reason: "its driver is 580".to_owned(),
    }];
    let missing = format!("NOT RUN: 3 of 3 planned fault trials; {}: oom (2x), trap", cell.variant);
    for format in FOR_PEOPLE {
        let options = RenderOptions { width: None, ..options() };
        // Markdown has a backslash before each bracket.
        let text = render(format, &record, &options).replace('\\', "");
        for notice in [
            "FAULT TRIALS STOPPED: Xid 79 requires a reset",
            "LEFT OUT: the fault trials of night-1 do not count: its driver is 580",
            &missing,
        ] {
            assert!(text.contains(notice), "{format} lacks {notice}");
        }
    }
    let junit = render("junit", &record, &options());
    assert!(junit.contains("<error message=\"FAULT TRIALS STOPPED"), "{junit}");
    let json = render("json", &record, &options());
    let json = RunRecord::from_json(json.as_bytes()).expect("json that can be read");
    assert_eq!(json.records_left_out, record.records_left_out);
}

#[test]
fn a_missing_figure_is_never_a_zero() {
    let mut record = sample_records::real();
    record.matrix.retain(|row| row.axis == "memory");
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        assert!(!text.contains("0.000") && !text.contains("NaN"), "{format}: {text}");
    }
}

#[test]
fn every_reason_and_remedy_is_readable_in_every_format() {
    let options = RenderOptions { width: None, ..options() };
    for (name, record) in sample_records::all() {
        let mut texts: Vec<&String> = record.plan.skips.iter().map(|skip| &skip.reason).collect();
        texts.extend(record.matrix.iter().filter_map(|row| row.outcome.reason.as_ref()));
        texts.extend(record.matrix.iter().flat_map(|row| &row.warnings));
        texts.extend(record.mechanisms.iter().filter_map(|row| row.outcome.reason.as_ref()));
        texts.extend(record.mechanisms.iter().filter_map(|row| row.remedy.as_ref()));
        for format in FOR_PEOPLE {
            let text = render(format, &record, &options).replace('\\', "");
            for wanted in &texts {
                let wanted = match format {
                    "terminal" => (*wanted).clone(),
                    "html" => crate::format::html::allowed(
                        &wanted
                            .replace('&', "&amp;")
                            .replace('<', "&lt;")
                            .replace('>', "&gt;")
                            .replace('"', "&quot;"),
                    ),
                    _ => wanted.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
                };
                assert!(text.contains(&wanted), "{name} as {format} lacks {wanted}");
            }
        }
    }
}
