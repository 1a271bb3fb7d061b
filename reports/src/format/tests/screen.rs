//! The screen: its snapshots at three widths, and what must fit on it.

use std::path::Path;

use gpubench_record::{Axis, ClaimedWord, MatrixRow, Outcome, RunRecord};
use gpubench_sample_records as sample_records;
use gpubench_show::Look;
use gpubench_store::Record;

use super::super::{RenderOptions, View};
use super::{options, render};
use crate::matrix::Selection;

const LINES_MAX: usize = 40;

/// The matrix that was measured on an H100.
pub(super) fn h100() -> RunRecord {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/h100_580.159.04_matrix");
    let mut record = Record::open(&dir).unwrap().run().clone();
    let word = |mechanism: &str, axis, word: &str, about: &[&str]| ClaimedWord {
        source: "a-paper".to_owned(),
        cited: None,
        sub_axes: about.iter().map(|&one| one.to_owned()).collect(),
        mechanism: mechanism.to_owned(),
        axis,
        word: word.to_owned(),
    };
    record.plan.claimed = vec![
        word("mps", Axis::Compute, "None", &["sm"]),
        word("mps-quota", Axis::Compute, "Partial", &["sm"]),
        word("mps-quota", Axis::Bandwidth, "None", &["dram", "l2"]),
        word("hami", Axis::Compute, "Software", &["sm"]),
        word("hami", Axis::Compute, "Soft", &["sm"]),
        // About other resources, and about any neighbour beside a row with one.
        word("time-slicing", Axis::Compute, "Hardware", &["launch"]),
        word("mps", Axis::Jitter, "Low-Medium", &[]),
    ];
    record
}

/// A word about any neighbour is compared with rows beside every aggressor of the plan.
#[test]
fn a_published_word_is_compared_only_with_what_it_is_about() {
    let mut record = h100();
    let lines = |record: &RunRecord| {
        let text = screen(record, 160);
        let compared = text.lines().filter(|line| line.contains("than published"));
        compared.map(str::to_owned).collect::<Vec<_>>().join("; ")
    };
    assert!(!lines(&record).contains("jitter"), "{}", lines(&record));
    let aggressors: Vec<String> =
        record.plan.pairs.iter().map(|pair| pair.aggressor.clone()).collect();
    let is_of_mps = |row: &&MatrixRow| row.mechanism == "mps" && row.axis == "jitter";
    let jitter = record.matrix.iter().find(is_of_mps).unwrap().clone();
    record.matrix.extend(
        aggressors.into_iter().map(|one| MatrixRow { aggressor: Some(one), ..jitter.clone() }),
    );
    assert!(lines(&record).contains("jitter of mps (Low-Medium)"), "{}", lines(&record));
}

pub(super) fn screen(record: &RunRecord, width: usize) -> String {
    let options = RenderOptions {
        look: Look { width, color: false },
        record_dir: Some("out/h100".to_owned()),
        ..RenderOptions::default()
    };
    render("text", record, &options)
}

#[test]
fn the_screen_at_three_widths_equals_its_golden_file() {
    for (name, record) in [("h100", h100()), ("real", sample_records::real())] {
        for width in [80, 100, 160] {
            let text = screen(&record, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let mut settings = insta::Settings::clone_current();
            settings.set_snapshot_path("../../../golden");
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings.bind(|| insta::assert_snapshot!(format!("{name}.screen-{width}"), text));
        }
    }
}

#[test]
fn a_matrix_of_many_variants_with_every_notice_fits_one_screen() {
    let mut record = h100();
    record.complete = false;
    record.incomplete_reason = Some("interrupted ".repeat(40));
    for copy in 0..20 {
        let rename = |variant: &str| match variant.strip_suffix(']') {
            Some(variant) => format!("{variant},copy={copy}]"),
            None => format!("{variant}[copy={copy}]"),
        };
        let rows = record.matrix.iter().filter(|row| !row.variant.contains("copy")).cloned();
        let rows: Vec<_> = rows.collect();
        let mechanisms: Vec<_> = record.mechanisms.clone();
        for mut row in rows {
            row.variant = rename(&row.variant);
            row.outcome = gpubench_record::Outcome::inconclusive("a reason ".repeat(copy + 3));
            record.matrix.push(row);
        }
        for mut one in mechanisms.into_iter().filter(|one| !one.variant.contains("copy")) {
            one.variant = rename(&one.variant);
            record.mechanisms.push(one);
        }
    }
    let options = RenderOptions {
        look: Look { width: 80, color: false },
        lines_max: Some(LINES_MAX),
        ..RenderOptions::default()
    };
    let text = render("text", &record, &options);
    assert!(text.lines().count() <= LINES_MAX, "{}\n{text}", text.lines().count());
    assert!(text.contains("mps +20"), "{text}");
    assert!(text.contains(" ...\n"), "{text}");
    // A pipe has all of it.
    let whole = screen(&record, 80);
    assert!(!whole.contains(" ...\n") && whole.lines().count() > LINES_MAX, "{whole}");
}

/// What the lines of a small terminal leave out is in the view with all tables.
#[test]
fn a_screen_of_24_lines_has_each_answer_and_the_full_view_has_the_rest() {
    let record = h100();
    let small = RenderOptions {
        look: Look { width: 80, color: false },
        lines_max: Some(24),
        record_dir: Some("out/h100".to_owned()),
        ..RenderOptions::default()
    };
    let text = render("text", &record, &small);
    assert!(text.lines().count() <= 24, "{}\n{text}", text.lines().count());
    for answer in ["* weaker than", "not run: ", "# strong (L3)", "isolate", "? ", "--full"] {
        assert!(text.contains(answer), "{answer}\n{text}");
    }
    let full = RenderOptions { view: View::Full, look: Look::PIPED, ..RenderOptions::default() };
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let full = flat(&render("text", &record, &full));
    for cut in text.lines().filter_map(|line| line.strip_suffix(" ...")) {
        assert!(full.contains(&flat(cut)), "{cut}");
    }
    assert!(full.contains("stronger than published"), "{full}");
}

#[test]
fn a_command_to_copy_stays_on_one_line() {
    let dir = "gpubench-out/20261128T190746Z-smoke-7812-of-another-name".to_owned();
    let options = RenderOptions {
        look: Look { width: 80, color: false },
        record_dir: Some(dir.clone()),
        ..RenderOptions::default()
    };
    let text = render("text", &h100(), &options);
    assert!(text.contains(&format!("\n  gpubench report {dir} --full, or --why\n")), "{text}");
}

#[test]
fn of_long_reasons_the_screen_has_the_beginning() {
    let mut record = h100();
    let gaps = "issuer lost 53.75 % in 107 gaps, the longest 12237 us, ".repeat(9);
    let reason = format!("retention rests on 0 blocks, 3 are needed (C cpu-gap: {gaps}); {gaps}");
    for row in &mut record.matrix {
        row.level = None;
        row.outcome = Outcome::inconclusive(reason.clone());
    }
    let text = screen(&record, 80);
    let begins = "retention rests on 0 blocks, 3 are needed (C cpu-gap ...; all: --why)";
    assert!(text.replace("\n  ", " ").contains(begins), "{text}");
    assert!(!text.contains("12237 us") && text.lines().count() < 40, "{text}");
}

#[test]
fn a_profile_that_decides_nothing_leaves_no_axis_to_blame() {
    let mut record = h100();
    record.plan.decides = false;
    for row in &mut record.overall {
        (row.level, row.unmeasured_axes) = (None, vec!["jitter".to_owned()]);
    }
    let text = screen(&record, 100);
    assert!(text.contains("DECIDES NOTHING") && !text.contains("no level yet in"), "{text}");
}

#[test]
fn the_screen_says_what_faults_claims_and_overall_levels_rest_on() {
    let mut record = sample_records::real();
    for tally in &mut record.fault_tallies {
        (tally.trials, tally.contained) = (1, 1);
    }
    let text = screen(&record, 80);
    let flat = text.replace("\n  ", " ").replace('\n', " ");
    for wanted in [
        "faults: those that harm no victim, 1 trial each.",
        "overall: the weakest of compute and jitter, as far as decided",
        "claims: 0 supported, 1 refuted, 0 inconclusive, 1 untested: gpubench claims out/h100",
    ] {
        assert!(flat.contains(wanted), "{text}");
    }
}

/// A run of all faults: the names are few, the rest is one flag away, and `--why` says who died.
#[test]
fn an_open_fault_says_whom_it_harmed() {
    let mut record = sample_records::real();
    let found = record.matrix.iter_mut().find(|row| row.is_of_fault());
    let row = found.unwrap();
    (row.level, row.outcome) = (Some("L0..L3".to_owned()), Outcome::inconclusive("failed once"));
    let said = "1 of 1 victim dead, victims' CUresult 700";
    row.warnings =
        vec![format!("0 of 1 trial contained: 0.000 to 0.975 of them with 95 %, {said}")];
    let (mechanism, fault) = (row.mechanism.clone(), row.aggressor.clone().unwrap());
    let variant = row.variant.clone();
    let selection = Selection {
        mechanisms: vec![mechanism],
        axes: vec!["fault".to_owned()],
        faults: vec![fault],
        ..Selection::default()
    };
    let of_fault = RenderOptions { view: View::Why, selection, ..options() };
    let text = render("text", &record, &of_fault).replace("\n  ", " ");
    assert!(text.contains(said) && text.contains("failed once"), "{text}");
    let one = record.fault_tallies.iter().find(|one| one.variant == variant).unwrap().clone();
    record.fault_tallies.retain(|one| one.variant != variant);
    for fault in ["a", "b", "c", "d", "e", "f"] {
        let (fault, class) = (fault.to_owned(), "mmu".to_owned());
        let harmful = gpubench_record::FaultTally { trials: 1, contained: 0, ..one.clone() };
        record.fault_tallies.push(gpubench_record::FaultTally { fault, class, ..harmful });
    }
    let text = screen(&record, 80).replace("\n  ", " ");
    assert!(text.contains("a victim was harmed by: a, b, c, d and 2 more (all: --why)"), "{text}");
}

#[test]
fn two_warnings_of_one_row_are_one_row() {
    let mut record = h100();
    let is_dram =
        |row: &&mut MatrixRow| row.mechanism == "mps" && row.sub_axis.as_deref() == Some("dram");
    let row = record.matrix.iter_mut().find(is_dram).unwrap();
    row.warnings = ["0 of 3840 marked pages, freed", "0 of 768 marked pages, given up"]
        .map(str::to_owned)
        .to_vec();
    let selection = Selection {
        mechanisms: vec!["mps".to_owned()],
        axes: vec!["bandwidth/dram".to_owned()],
        ..Selection::default()
    };
    let options = RenderOptions { view: View::Why, selection, ..options() };
    let text = render("text", &record, &options);
    assert!(text.contains("1 row: for example 0 of 3840 marked pages"), "{text}");
}

/// A part of the matrix that did not run has the sign of it, and `--why` names it so.
#[test]
fn what_did_not_run_reads_so_in_every_view() {
    let mut record = sample_records::real();
    let variants: Vec<String> = record.mechanisms.iter().map(|one| one.variant.clone()).collect();
    let has_fault = |variant: &&String| {
        record.matrix.iter().any(|row| row.variant == **variant && row.is_of_fault())
    };
    assert!(variants.iter().filter(has_fault).count() > 0);
    let first = record.overall.iter().find(|row| row.level.is_some()).unwrap().variant.clone();
    record.matrix.retain(|row| row.variant != first || !row.is_of_fault());
    for row in record.overall.iter_mut().filter(|row| row.variant == first) {
        row.unmeasured_axes = vec!["fault".to_owned()];
    }
    let selection = Selection { mechanisms: vec![first.clone()], ..Selection::default() };
    let options = RenderOptions { view: View::Why, selection, ..options() };
    let text = render("text", &record, &options);
    assert!(text.contains("; not run: fault") && !text.contains("without a level"), "{text}");
}

/// A selection that the record has nothing of prints no empty grid.
#[test]
fn an_axis_that_was_not_measured_has_no_grid() {
    let selection = Selection { axes: vec!["power".to_owned()], ..Selection::default() };
    let text = render("text", &h100(), &RenderOptions { selection, ..RenderOptions::default() });
    assert!(text.contains("no figure of power: matrix --axis power measures it"), "{text}");
    assert!(!text.contains("overall\n"), "{text}");
}

#[test]
fn a_selection_narrows_every_view_of_the_terminal() {
    let record = sample_records::real();
    for view in [View::Screen, View::Full, View::Why] {
        let options = RenderOptions {
            view,
            selection: Selection {
                mechanisms: vec!["mig".to_owned()],
                axes: vec!["bandwidth".to_owned()],
                ..Selection::default()
            },
            ..options()
        };
        let text = render("text", &record, &options);
        assert!(!text.contains("time-slicing"), "{view:?}\n{text}");
        assert_eq!(text.contains("Of the rows shown: "), view != View::Why, "{view:?}\n{text}");
        assert!(!text.contains("claims: "), "{view:?}\n{text}");
    }
}

#[test]
fn the_planned_wall_time_is_that_of_published_runs() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for (name, took_s) in [
        ("h100_580.159.04_matrix", 562.0),
        ("h200_580.159.04_day", 319.0),
        ("h200_580.159.04_jitter", 145.0),
    ] {
        let record = Record::open(&examples.join(name)).unwrap();
        let planned_s = record.run().plan.wall_time_ns() as f64 / 1e9;
        assert!((planned_s / took_s - 1.0).abs() < 0.1, "{name}: {planned_s} s, it took {took_s}");
    }
}

#[test]
fn why_a_place_is_bad_or_did_not_run() {
    let mut record = h100();
    let of_jitter = record.matrix.iter_mut().filter(|row| row.axis == "jitter");
    of_jitter.for_each(|row| row.sub_axis = Some("sm".to_owned()));
    let why = |mechanism: &str, axes: &[&str]| {
        let selection = Selection {
            mechanisms: vec![mechanism.to_owned()],
            axes: axes.iter().map(|&axis| axis.to_owned()).collect(),
            ..Selection::default()
        };
        let options = RenderOptions { view: View::Why, selection, ..options() };
        render("text", &record, &options).replace("\n  ", " ")
    };
    for (mechanism, axes, wanted) in [
        ("mig", &[][..], "mig 3g+3g: not run, because it would change device settings (MIG)"),
        ("mps", &["memory"], "memory of mps: not run, because "),
        ("mps", &["bandwidth/dram"], "dram of mps: none (L0): retention 0.1"),
        ("mps", &["bandwidth/dram"], "misses L1: the retention ends at 0.1"),
        ("mps", &["bandwidth/dram"], "L3 retention >= 0.95 and guarantee >= 0.80"),
        ("mps", &["bandwidth/dram"], "stream beside dram-copy"),
        ("mps", &["jitter"], "jitter/sm of mps"),
        ("exclusive", &[], "exclusive: the reference"),
    ] {
        let text = why(mechanism, axes);
        assert!(text.contains(wanted) && !text.contains("No doubt"), "{wanted}\n{text}");
    }
    let selection = Selection {
        mechanisms: vec!["mps".to_owned()],
        axes: vec!["compute/launch".to_owned()],
        ..Selection::default()
    };
    let launch = RenderOptions { view: View::Why, selection, ..options() };
    let own = RunRecord { format_version: gpubench_record::FORMAT_VERSION, ..h100() };
    let text = render("text", &own, &launch);
    assert!(text.contains("matrix --axis compute/launch"), "{text}");
    let nothing = RenderOptions { view: View::Why, ..options() };
    let text = render("text", &sample_records::all_waived(), &nothing);
    assert!(text.contains("NOTHING MEASURED") && !text.contains("No doubt"), "{text}");
}
