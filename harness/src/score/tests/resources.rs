//! Worked cases of the resource axes, levels, words and roll-up.

use gpubench_record::{Condition, OutcomeKind, Thresholds};

use super::lab::{Lab, MIG, QUOTA, SLICING, rate};

fn close(estimate: Option<&gpubench_record::Estimate>, want: f64) {
    let got = estimate.expect("a figure");
    assert!((got.value - want).abs() < 1e-9, "{got:?}, want {want}");
    assert!(got.lo <= got.value && got.value <= got.hi, "{got:?}");
}

/// Two tenants take turns: R = G = U = 0.5, and fair is not isolated.
#[test]
fn time_slicing_is_as_unprotected_as_itself() {
    let lab = Lab::slicing(1000.0, 1000.0, 500.0);
    let row = lab.row(SLICING, "compute");
    assert_eq!(
        row.outcome.outcome,
        OutcomeKind::Measured,
        "{:?}",
        row.outcome
    );
    close(row.retention.as_ref(), 0.5);
    close(row.guarantee.as_ref(), 0.5);
    close(row.effectiveness.as_ref(), 0.5);
    close(row.efficiency.as_ref(), 1.0);
    close(row.isolation_index.as_ref(), 0.0);
    assert_eq!(
        (row.level.as_deref(), row.word.as_deref()),
        (Some("L0"), Some("None"))
    );
    assert_eq!(row.u_kind.as_deref(), Some("time-slicing (identity)"));
    assert_eq!(row.aggressor.as_deref(), Some("fma-hog"));
    assert_eq!(row.sub_axis.as_deref(), Some("sm"));
    assert_eq!(row.claimed, ["S0: None", "S1: None"]);
    assert_eq!(row.requests, 8 * 2 * 850);
    assert_eq!(
        row.retention.map(|r| (r.n, r.unit)),
        Some((8, "ratio".to_owned()))
    );
    assert_eq!(
        row.isolation_index.map(|i| (i.n, i.unit)),
        Some((8, "index".to_owned()))
    );
    assert_eq!(row.warnings, Vec::<String>::new());
    let overall = lab.overall(SLICING);
    assert_eq!(overall.level.as_deref(), Some("L0"));
    assert_eq!(overall.weakest_axis.as_deref(), Some("compute"));
    assert_eq!(overall.unmeasured_axes, Vec::<String>::new());
}

/// MIG 3g: R = 0.98, O = 1.0, an aggressor that halves the unprotected rate: I = 0.97.
#[test]
fn a_partition_that_holds_is_hardware() {
    let mut lab = Lab::protected(MIG, [1000.0, 1000.0, 980.0, 500.0]);
    lab.prove(MIG, true, false);
    let row = lab.row(MIG, "compute");
    close(
        row.isolation_index.as_ref(),
        1.0 - 0.98_f64.ln() / 0.5_f64.ln(),
    );
    assert_eq!(
        row.isolation_index.map(|i| (i.value * 100.0).round()),
        Some(97.0)
    );
    assert_eq!(
        (row.level.as_deref(), row.word.as_deref()),
        (Some("L3"), Some("Hardware"))
    );
    assert_eq!(row.u_kind.as_deref(), Some("mps"));
    assert_eq!(row.warnings, ["bypass: not tried"]);
}

/// A mechanism that halves the solo speed and is then unaffected bought isolation with capacity.
#[test]
fn capacity_forfeited_is_partial() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 500.0, 500.0, 450.0]);
    lab.prove(QUOTA, false, true);
    let row = lab.row(QUOTA, "compute");
    close(row.retention.as_ref(), 1.0);
    close(row.guarantee.as_ref(), 0.5);
    assert_eq!(
        (row.level.as_deref(), row.word.as_deref()),
        (Some("L1"), Some("Partial"))
    );
    assert_eq!(row.warnings, ["isolated, but capacity forfeited"]);
}

#[test]
fn levels_and_words_follow_rates_and_evidence() {
    /// Rates of N, S, C, U; hardware, limiter; level, word.
    type Case = ([f64; 4], (bool, bool), &'static str, &'static str);
    let table: &[Case] = &[
        ([1e3, 1e3, 990.0, 500.0], (true, true), "L3", "Hardware"),
        ([1e3, 1e3, 990.0, 500.0], (false, true), "L3", "Software"),
        ([1e3, 1e3, 990.0, 500.0], (false, false), "L3", "Partial"),
        ([1e3, 1e3, 900.0, 500.0], (true, false), "L2", "Software"),
        ([1e3, 1e3, 900.0, 500.0], (false, false), "L2", "Partial"),
        ([1e3, 1e3, 700.0, 500.0], (true, true), "L1", "Partial"),
        ([1e3, 1e3, 520.0, 500.0], (true, true), "L0", "None"),
        ([1e3, 1e3, 400.0, 500.0], (true, true), "L0", "None"),
    ];
    for (rates, (hardware, limiter), level, word) in table {
        let mut lab = Lab::protected(QUOTA, *rates);
        lab.prove(QUOTA, *hardware, *limiter);
        let row = lab.row(QUOTA, "compute");
        let got = (row.level.as_deref(), row.word.as_deref());
        assert_eq!(got, (Some(*level), Some(*word)), "{rates:?}: {row:?}");
        assert!(row.outcome.is_measured(), "{:?}", row.outcome);
    }
}

/// Retention alternates between 0.93 and 0.97: its interval contains 0.95.
#[test]
fn a_straddling_interval_prints_both_levels_and_the_blocks_needed() {
    let lab = Lab::new(&[(QUOTA, Some("mps"))], 8, |_, condition, block| {
        rate(match (condition, block % 2) {
            (Condition::U, _) => 500.0,
            (Condition::C, 0) => 935.0,
            (Condition::C, _) => 970.0,
            _ => 1000.0,
        })
    });
    let row = lab.row(QUOTA, "compute");
    assert_eq!((row.level.as_deref(), row.word), (Some("L2..L3"), None));
    assert_eq!(row.outcome.outcome, OutcomeKind::Inconclusive);
    let reason = row.outcome.reason.unwrap_or_default();
    assert!(
        reason.starts_with("L2..L3: retention straddles 0.95: about "),
        "{reason}"
    );
    assert!(
        reason.ends_with(" blocks are needed, 8 are there"),
        "{reason}"
    );
    let overall = lab.overall(QUOTA);
    assert_eq!(overall.level.as_deref(), Some("L2..L3"), "jitter is L3");
    assert_eq!(overall.weakest_axis.as_deref(), Some("compute"));
}

#[test]
fn thresholds_move_the_level() {
    let default = Thresholds::default();
    for (thresholds, want) in [
        (default.clone(), Some("L2")),
        (
            Thresholds {
                retention_l3: 0.85,
                ..default.clone()
            },
            Some("L3"),
        ),
        (
            Thresholds {
                retention_l2: 0.92,
                ..default.clone()
            },
            Some("L1"),
        ),
        (
            Thresholds {
                guarantee_l3: 0.95,
                ..default.clone()
            },
            Some("L1"),
        ),
        (
            Thresholds {
                retention_l2: 0.92,
                index_l1: 0.95,
                ..default.clone()
            },
            Some("L0"),
        ),
        (
            Thresholds {
                effectiveness_max: 0.4,
                ..default.clone()
            },
            None,
        ),
        (
            Thresholds {
                blocks_min: 9,
                ..default.clone()
            },
            None,
        ),
    ] {
        let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0]);
        lab.plan.thresholds = thresholds.clone();
        let row = lab.row(QUOTA, "compute");
        assert_eq!(
            row.level.as_deref(),
            want,
            "{thresholds:?}: {:?}",
            row.outcome
        );
        assert_eq!(row.outcome.is_measured(), want.is_some());
    }
}

#[test]
fn without_native_or_unprotected_cells_two_is_the_most() {
    let mut lab = Lab::protected(MIG, [1000.0, 1000.0, 990.0, 500.0]);
    lab.prove(MIG, true, false);
    lab.plan.mechanisms[0].unprotected = None;
    let row = lab.row(MIG, "compute");
    assert_eq!(
        (row.level.as_deref(), row.word.as_deref()),
        (Some("L2"), Some("Software"))
    );
    assert!(row.effectiveness.is_none() && row.isolation_index.is_none() && row.u_kind.is_none());
    assert!(
        row.warnings.iter().any(|w| w.contains("L2 at most")),
        "{:?}",
        row.warnings
    );
    let native = |id: &str| id.ends_with("-N") || id.ends_with("-N'");
    lab.plan.cells.retain(|cell| !native(&cell.id));
    lab.cells.retain(|cell| !native(&cell.cell.id));
    let row = lab.row(MIG, "compute");
    assert_eq!(row.level.as_deref(), Some("L2"));
    assert!(row.guarantee.is_none() && row.efficiency.is_none());
    let jitter = lab.row(MIG, "jitter");
    assert_eq!(
        (jitter.level, jitter.outcome.outcome),
        (None, OutcomeKind::Inconclusive)
    );
}

/// One form serves another: U of the quota are the contended cells of time-slicing.
#[test]
fn contended_cells_of_the_unprotected_form_serve_as_u() {
    let variants = [(SLICING, Some(SLICING)), ("hami[cores=50]", Some(SLICING))];
    let lab = Lab::new(&variants, 8, |variant, condition, _| {
        rate(match (variant, condition) {
            (SLICING, Condition::C) => 500.0,
            (_, Condition::C) => 850.0,
            _ => 1000.0,
        })
    });
    let row = lab.row("hami[cores=50]", "compute");
    close(row.effectiveness.as_ref(), 0.5);
    assert_eq!(row.u_kind.as_deref(), Some(SLICING));
    assert_eq!(row.level.as_deref(), Some("L2"));
    assert_eq!(row.claimed, ["S0: Software", "S1: Soft"]);
}

#[test]
fn the_reference_is_a_row_without_a_level() {
    let lab = Lab::slicing(1000.0, 1000.0, 500.0);
    let scored = lab.score();
    let row = &scored.matrix[0];
    assert_eq!(
        (row.mechanism.as_str(), row.sub_axis.as_deref()),
        ("exclusive", Some("sm"))
    );
    assert_eq!(
        (row.level.as_deref(), row.word.as_deref()),
        (None, Some("reference"))
    );
    assert!(row.outcome.is_measured(), "{:?}", row.outcome);
    close(row.retention.as_ref(), 1.0);
    assert_eq!(scored.matrix.len(), 3, "reference, compute, jitter");
    assert!(
        scored
            .overall
            .iter()
            .all(|row| row.mechanism != "exclusive")
    );
    let mut moved = lab.clone();
    moved.each(Condition::NAgain).for_each(|cell| {
        cell.rates.insert("closed_rate_per_s".to_owned(), 1060.0);
    });
    let row = &moved.score().matrix[0];
    assert_eq!(
        row.outcome.outcome,
        OutcomeKind::Inconclusive,
        "six percent is more than five"
    );
}

#[test]
fn only_what_was_asked_for_has_rows() {
    for (axes, want) in [
        (vec!["compute"], vec!["compute", "compute"]),
        (vec!["compute/sm"], vec!["compute", "compute"]),
        (vec!["jitter"], vec!["compute", "jitter"]),
        (vec!["bandwidth/dram"], vec![]),
        (vec![], vec!["compute", "compute", "jitter"]),
        (vec!["all"], vec!["compute", "compute", "jitter"]),
    ] {
        let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
        lab.plan.axes = axes.iter().map(|axis| (*axis).to_owned()).collect();
        let rows = lab.score().matrix;
        let got: Vec<&str> = rows.iter().map(|row| row.axis.as_str()).collect();
        assert_eq!(got, want, "{axes:?}");
    }
    let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
    lab.plan.axes = vec!["all".to_owned()];
    let overall = lab.overall(SLICING);
    assert_eq!(overall.unmeasured_axes, ["memory", "bandwidth", "fault"]);
    assert_eq!(overall.level.as_deref(), Some("L0"));
}
