//! The content of formats for people: notices, reasons and tables.

use gpubench_record::{
    DoseCurve, DosePoint, DoseRise, Estimate, ExpectedAnswer, FaultFacts, FaultTally, FaultTrial,
    Json, MatrixRow, Outcome, RecordLeftOut, RunRecord, Skip, SubAxis,
};
use gpubench_sample_records as sample_records;
use gpubench_show::Look;

use super::{FOR_PEOPLE, RenderOptions, View, options, render};

/// No text of a table wraps.
const WIDE: Look = Look { width: 1_000, color: false };

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
        let options = RenderOptions { look: WIDE, ..options() };
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
fn every_reason_and_remedy_is_readable_in_every_format() {
    let options = RenderOptions { look: WIDE, ..options() };
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
                    "text" => (*wanted).clone(),
                    "html" => gpubench_show::html::allowed(
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

/// A record in which each fault of one mechanism has that many contained trials of one.
fn with_faults(contained: &[u32]) -> RunRecord {
    let mut record = sample_records::real();
    let row = record.matrix.iter().find(|row| row.axis == "fault").cloned();
    let row = row.expect("a fault row");
    record.matrix.retain(|row| row.axis != "fault");
    let mut tally = record.fault_tallies.remove(0);
    record.fault_tallies = contained
        .iter()
        .enumerate()
        .map(|(number, &contained)| {
            let mut own = row.clone();
            tally.fault = format!("fault-{number}");
            own.aggressor = Some(tally.fault.clone());
            (own.level, own.word) = (Some("L1..L3".to_owned()), None);
            own.outcome = Outcome::inconclusive("L1..L3");
            if contained == 0 {
                own.level = Some("L0".to_owned());
                own.outcome = Outcome::measured();
            }
            record.matrix.push(own);
            FaultTally {
                trials: 1,
                contained,
                more_for_l2: (contained == 1).then_some(13),
                ..tally.clone()
            }
        })
        .collect();
    record
}

fn wide(record: &RunRecord) -> String {
    render("md", record, &RenderOptions { view: View::Full, ..RenderOptions::default() })
}

#[test]
fn the_faults_of_a_mechanism_share_a_row_with_a_level_only_where_one_is_refuted() {
    for (contained, cells, note) in [
        (
            &[1, 0, 1][..],
            "fault<br>2/3 held, 1 trial each | L1<br>word: Partial",
            "a victim was harmed by: fault-1",
        ),
        (
            &[1, 1],
            "fault<br>2/2 held, 1 trial each | -",
            "no victim harmed; 13 more trials of each would show L2",
        ),
        (
            &[0, 0],
            "fault<br>0/2 held, 1 trial each | L0",
            "a victim was harmed by: fault-0, fault-1",
        ),
    ] {
        let text = wide(&with_faults(contained));
        assert!(text.contains(cells), "{contained:?}: {text}");
        assert!(text.contains(note), "{contained:?}: {text}");
        assert_eq!(text.matches(" held, 1 trial each").count(), 1, "{text}");
    }
}

#[test]
fn what_was_not_asked_for_is_one_sentence_with_its_flag() {
    const FAULTS: &str = "NOT ASKED FOR: the fault axis; --faults injects faults";
    const MIG: &str = "NOT ASKED FOR: mig, mig-mps; --allow-reconfigure lets the run change device";
    let mut record = sample_records::real();
    assert!(!wide(&record).contains(FAULTS), "it has trials");
    record.fault_tallies.clear();
    record.plan.skips = ["mig", "mig-mps"]
        .map(|name| Skip {
            name: name.to_owned(),
            variant: name.to_owned(),
            axis: None,
            reason: "it would change device settings (MIG mode)".to_owned(),
            remedy: Some("--allow-reconfigure".to_owned()),
        })
        .into();
    for text in [FAULTS, MIG] {
        assert!(wide(&record).contains(text), "{text}: {}", wide(&record));
    }
    record.plan.axes = vec!["compute".to_owned()];
    assert!(!wide(&record).contains(FAULTS), "the profile leaves the axis out");
}

fn estimate(value: f64) -> Estimate {
    let known = sample_records::real().matrix[1].retention.clone().unwrap();
    Estimate { value, lo: value - 0.015, hi: value + 0.015, ..known }
}

fn with_curve() -> RunRecord {
    let mut record = sample_records::real();
    let row = record.matrix[1].clone();
    let point = |offered, achieved, retention| DosePoint {
        offered,
        achieved: Some(estimate(achieved)),
        retention: Some(estimate(retention)),
        left_out: None,
    };
    record.dose_curves.push(DoseCurve {
        mechanism: row.mechanism,
        variant: row.variant,
        sub_axis: SubAxis::Sm,
        victim: "fma".to_owned(),
        aggressor: "fma-hog".to_owned(),
        outcome: Outcome::measured(),
        points: vec![point(0.5, 0.437, 0.613), point(1.0, 0.529, 0.721)],
        area: Some(estimate(0.777)),
        rises: vec![DoseRise { from: 0.5, to: 1.0, ratio: estimate(1.176) }],
    });
    record
}

#[test]
fn doses_area_and_a_rise_are_in_every_format() {
    let record = with_curve();
    for format in FOR_PEOPLE {
        let text = render(format, &record, &options());
        for wanted in ["0.437", "0.613", "0.529", "0.721", "0.777", "not monotone"] {
            assert!(text.contains(wanted), "{format} lacks {wanted}: {text}");
        }
        let without = render(format, &sample_records::real(), &options());
        assert!(!without.contains("Doses: "), "{format}");
    }
    let csv = render("csv", &record, &options());
    let mut reader = ::csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let at = |name: &str| columns.iter().position(|one| one == name).unwrap();
    let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
    let of = |figure: &str| {
        let mut found = lines.iter().filter(|line| &line[at("figure")] == figure);
        let line = found.next().unwrap();
        assert_eq!(&line[at("aggressor")], "fma-hog");
        line[at("figure_value")].to_owned()
    };
    assert_eq!(of("retention at dose 0.5"), "0.613");
    assert_eq!(of("achieved dose at dose 1"), "0.529");
    assert_eq!(of("dose area"), "0.777");
    assert_eq!(of("not monotone: dose 1 over dose 0.5"), "1.176");
    let json = render("json", &record, &options());
    let json = RunRecord::from_json(json.as_bytes()).unwrap();
    assert_eq!(json.dose_curves, record.dose_curves);
}
