//! Dose curves in every format.

use gpubench_record::{
    DoseCurve, DosePoint, DoseRise, Estimate, Json, Outcome, RunRecord, SubAxis,
};

use super::{FOR_PEOPLE, options, render};
use crate::sample_records;

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
