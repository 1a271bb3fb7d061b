//! Cells, rows and reasons of sample records.

mod sentences;

use super::{Figure, Glance, Selection, Subject};
use crate::sample_records;

#[test]
fn a_record_becomes_rows_with_figures_levels_and_reasons() {
    let record = sample_records::real();
    let glance = Glance::of(&record, &Selection::default(), 12);
    let headings: Vec<&str> = glance.columns.iter().map(|one| one.heading.as_str()).collect();
    assert_eq!(headings, ["compute", "dram", "jitter", "memory", "faults"]);
    let labels: Vec<&str> = glance.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["time-slicing", "mig 3g+3g"]);
    let signs = |at: usize| -> String {
        let cells = glance.rows[at].cells.iter();
        cells.map(|one| one.as_ref().map_or(' ', |one| one.standing.sign())).collect()
    };
    assert_eq!([signs(0), signs(1)], ["!!!  ", " ? x#"]);
    let Some(Figure::Estimate(figure)) = glance.rows[0].cells[0].as_ref().unwrap().figure.clone()
    else {
        panic!("no retention")
    };
    assert!((figure.value - 0.497).abs() < 1e-9);
    let not_run: Vec<_> = glance.not_run.iter().map(|one| one.mechanisms.join(", ")).collect();
    assert_eq!(not_run, ["hami 50%", "mps"]);
    assert!(glance.open.iter().all(|group| group.subject == Subject::Row));
    assert_eq!(glance.cells.planned, record.plan.cells.len());
}

#[test]
fn a_selection_narrows_rows_and_splits_the_axis_into_its_sub_axes() {
    let record = sample_records::real();
    let selection = Selection {
        mechanisms: vec!["time-slicing".to_owned()],
        axes: vec!["compute".to_owned(), "bandwidth/dram".to_owned()],
    };
    let glance = Glance::of(&record, &selection, 12);
    let headings: Vec<&str> = glance.columns.iter().map(|one| one.heading.as_str()).collect();
    assert_eq!(headings, ["sm", "dram"]);
    assert_eq!(glance.rows.len(), 1);
    assert!(glance.not_run.is_empty());
}

#[test]
fn many_variants_fold_to_the_weakest_of_each_mechanism() {
    let mut record = sample_records::real();
    let mut stronger = record.matrix[1].clone();
    stronger.variant = "time-slicing[slice=long]".to_owned();
    stronger.level = Some("L2".to_owned());
    let mut mechanism = record.mechanisms[1].clone();
    mechanism.variant.clone_from(&stronger.variant);
    record.matrix.insert(1, stronger);
    record.mechanisms.insert(1, mechanism);
    let all = Glance::of(&record, &Selection::default(), 3);
    assert_eq!(all.rows.len(), 3);
    let folded = Glance::of(&record, &Selection::default(), 2);
    let rows: Vec<_> = folded.rows.iter().map(|row| (row.label.as_str(), row.more)).collect();
    assert_eq!(rows, [("time-slicing default", 1), ("mig 3g+3g", 0)]);
}

#[test]
fn equal_reasons_are_one_group_with_a_count() {
    let mut record = sample_records::real();
    for (at, blocks) in [(1, 28), (2, 31)] {
        let reason = format!("L2..L3: retention straddles 0.9: about {blocks} blocks are needed");
        record.matrix[at].outcome = gpubench_record::Outcome::inconclusive(reason);
    }
    let glance = Glance::of(&record, &Selection::default(), 12);
    let group = glance.reasons.iter().find(|group| group.reason.contains("0.9")).unwrap();
    assert_eq!((group.count, group.differs), (2, true));
    assert_eq!(group.reason, "retention straddles 0.9: about 28 blocks are needed");
    assert!(group.cure.is_some_and(|cure| cure.contains("blocks")));
}
