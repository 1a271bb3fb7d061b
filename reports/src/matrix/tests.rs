//! Cells, rows and reasons of sample records.

use gpubench_sample_records as sample_records;

use super::{Glance, Selection};
use crate::matrix::cell::Standing;
use crate::matrix::sentences::sentences;

#[test]
fn a_selection_narrows_rows_and_splits_the_axis_into_its_sub_axes() {
    let record = sample_records::real();
    let selection = Selection {
        mechanisms: vec!["time-slicing".to_owned()],
        axes: vec!["compute".to_owned(), "bandwidth/dram".to_owned()],
        ..Selection::default()
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

/// The flag of fault trials gives a probe no trial.
#[test]
fn the_cure_of_a_probe_is_not_that_of_faults() {
    for (axis, sub_axis, cure) in
        [("memory", "residue", "fewer tenants"), ("compute", "sm", "--fault-trials")]
    {
        let mut record = sample_records::real();
        let row = &mut record.matrix[1];
        (row.axis, row.sub_axis) = (axis.to_owned(), Some(sub_axis.to_owned()));
        let reason = "more trials would decide".to_owned();
        row.outcome = gpubench_record::Outcome::inconclusive(reason);
        let glance = Glance::of(&record, &Selection::default(), 12);
        let mut groups = glance.reasons.iter();
        let group = groups.find(|group| group.reason.contains("would decide")).unwrap();
        assert!(group.cure.is_some_and(|one| one.contains(cure)), "{group:?}");
    }
}

// Sentences of synthetic matrices, written by hand.

/// One synthetic matrix: its columns, its rows as signs, and its sentences.
type Case =
    (&'static [&'static str], &'static [(&'static str, &'static str)], &'static [&'static str]);

const ALL: &[&str] = &["compute", "DRAM", "L2", "PCIe", "jitter", "memory", "faults"];
const RATES: &[&str] = &["compute", "DRAM", "L2", "PCIe", "jitter"];

const CASES: &[Case] = &[
    // 1: no mechanism ran.
    (ALL, &[], &[]),
    // 2: one mechanism, nothing isolated.
    (
        RATES,
        &[("time-slicing", "!!!!!")],
        &[
            "Nothing here isolates compute, DRAM, L2, PCIe or jitter.",
            "time-slicing isolates nothing.",
        ],
    ),
    // 3: one mechanism, everything isolated.
    (RATES, &[("mig 3g+3g", "#####")], &["mig 3g+3g isolates everything that was measured."]),
    // 4: the H100 with seven mechanisms.
    (
        RATES,
        &[
            ("time-slicing", "!!!!!"),
            ("mps", "!!!!!"),
            ("mps-quota 50%", "#~!!?"),
            ("hami 50%", "!!!!!"),
            ("green-context", "#~!!?"),
            ("stream-priority", "!!!!!"),
        ],
        &[
            "Nothing here isolates DRAM, L2 or PCIe.",
            "mps-quota 50% and green-context isolate compute; undecided: jitter.",
            "time-slicing, mps, hami 50% and stream-priority isolate nothing.",
        ],
    ),
    // 5: strong beside none.
    (
        &["compute", "DRAM"],
        &[("mig 3g+3g", "##"), ("mps", "!!")],
        &["mig 3g+3g isolates everything that was measured.", "mps isolates nothing."],
    ),
    // 6: bounded counts as isolated for the first sentence.
    (
        &["compute", "DRAM"],
        &[("mps-quota 50%", "+!"), ("mps", "!!")],
        &[
            "Nothing here isolates DRAM.",
            "mps-quota 50% limits interference in compute.",
            "mps isolates nothing.",
        ],
    ),
    // 7: strong and bounded in one mechanism.
    (
        &["compute", "DRAM", "L2"],
        &[("mig 3g+3g", "#+!")],
        &[
            "Nothing here isolates L2.",
            "mig 3g+3g isolates compute, and limits interference in DRAM.",
        ],
    ),
    // 8: an undecided cell keeps the first sentence from naming the column.
    (
        &["compute", "jitter"],
        &[("mps", "!?"), ("time-slicing", "!!")],
        &[
            "Nothing here isolates compute.",
            "mps isolates nothing; undecided: jitter.",
            "time-slicing isolates nothing.",
        ],
    ),
    // 9: nothing decided of those that ran.
    (
        &["compute", "DRAM"],
        &[("mps", "??"), ("hami 50%", "-?"), ("time-slicing", "--")],
        &["Nothing is decided for mps and hami 50%."],
    ),
    // 10: partial only.
    (
        &["compute", "DRAM"],
        &[("hami 50%", "~~")],
        &[
            "Nothing here isolates compute or DRAM.",
            "hami 50% isolates compute and DRAM in part only.",
        ],
    ),
    // 11: partial beside none.
    (
        &["DRAM", "faults"],
        &[("time-slicing", "!~"), ("mps", "!~")],
        &[
            "Nothing here isolates DRAM or faults.",
            "time-slicing and mps isolate faults in part only.",
        ],
    ),
    // 12: partial is not named where something is isolated.
    (
        &["compute", "faults"],
        &[("mps-quota 50%", "#~")],
        &["Nothing here isolates faults.", "mps-quota 50% isolates compute."],
    ),
    // 13: a column without a cell is no part of any statement.
    (
        &["compute", "faults"],
        &[("green-context", "# "), ("mps", "!~")],
        &[
            "Nothing here isolates faults.",
            "green-context isolates compute.",
            "mps isolates faults in part only.",
        ],
    ),
    // 14: one strong column alone is named.
    (&["compute"], &[("green-context", "#")], &["green-context isolates compute."]),
    // 15: the mechanism that isolates most stands first, whatever its place in the matrix.
    (
        &["compute", "DRAM", "jitter"],
        &[("mps-quota 50%", "#!#"), ("mig 3g+3g", "###"), ("mps", "!!!")],
        &[
            "mig 3g+3g isolates everything that was measured.",
            "mps-quota 50% isolates compute and jitter.",
            "mps isolates nothing.",
        ],
    ),
    // 16: a failed cell is undecided.
    (
        &["compute", "memory"],
        &[("mig 3g+3g", "#x")],
        &["mig 3g+3g isolates compute; undecided: memory."],
    ),
    // 17: one undecided cell is not everything.
    (
        ALL,
        &[("mig 3g+3g", "######?")],
        &["mig 3g+3g isolates compute, DRAM, L2, PCIe, jitter and memory; undecided: faults."],
    ),
    // 18: two groups with the same number of strong columns keep the order of the matrix.
    (
        &["compute", "jitter"],
        &[("mps-quota 50%", "#!"), ("stream-priority", "!#")],
        &["mps-quota 50% isolates compute.", "stream-priority isolates jitter."],
    ),
    // 19: two bounded columns.
    (
        &["compute", "DRAM", "L2"],
        &[("mig-mps 7g", "!++"), ("mig 3g+3g", "!++")],
        &[
            "Nothing here isolates compute.",
            "mig-mps 7g and mig 3g+3g limit interference in DRAM and L2.",
        ],
    ),
    // 20: a column that could not run is no part of any statement, and a strong mechanism with it
    // isolates everything that was measured.
    (
        &["compute", "DRAM", "power"],
        &[("mig 3g+3g", "##-"), ("mps", "~?-")],
        &[
            "mig 3g+3g isolates everything that was measured.",
            "mps isolates compute in part only; undecided: DRAM.",
        ],
    ),
];

fn standing(sign: char) -> Option<Standing> {
    let all = Standing::LEGEND.into_iter().chain([Standing::Waived]);
    let ran = |one: &Standing| *one != Standing::Waived;
    all.filter(ran).find(|one| one.sign() == sign)
}

#[test]
fn the_sentences_of_twenty_matrices_are_those_written_by_hand() {
    assert_eq!(CASES.len(), 20);
    for (index, (columns, rows, expected)) in CASES.iter().enumerate() {
        let rows: Vec<_> = rows
            .iter()
            .map(|(label, signs)| {
                assert_eq!(signs.len(), columns.len(), "matrix {}", index + 1);
                let cells = columns.iter().zip(signs.chars());
                let cells = cells.map(|(noun, sign)| ((*noun).to_owned(), standing(sign)));
                ((*label).to_owned(), cells.collect())
            })
            .collect();
        assert_eq!(sentences(&rows), *expected, "matrix {}", index + 1);
    }
}
