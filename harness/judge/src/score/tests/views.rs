//! Figures beside the levels: dose curves, the operator's view, and pools of fault trials.

use gpubench_record::{
    Cell, CellTenant, Condition, DeviceKind, DoseCurve, OutcomeKind, PlannedPair, Role, RunRecord,
    SubAxis,
};

use super::lab::{Lab, QUOTA, SLICING};
use crate::gate::fixture::example;
use crate::score::{MACHINE_HASH, VERSION, pool};

// Dose curves: retention at each dose, area, and rises.

const BLOCKS: u32 = 8;

/// A lab with contended cells at these doses too; `retention` gives the rate over the solo rate by
/// dose and block.
fn lab(doses: &[f64], retention: impl Fn(f64, u32) -> f64) -> Lab {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 1000.0, 500.0]);
    let full: Vec<_> = lab.plan.cells.iter().cloned().zip(lab.cells.clone()).collect();
    let contended = |cell: &gpubench_record::Cell| cell.condition == Condition::C;
    for (planned, result) in full.iter().filter(|(cell, _)| contended(cell)) {
        for &dose in doses {
            let (mut planned, mut result) = (planned.clone(), result.clone());
            planned.id.push_str(&format!("-dose{dose}"));
            planned.dose = dose;
            result.cell = planned.clone();
            lab.plan.cells.push(planned);
            lab.cells.push(result);
        }
    }
    for result in lab.each(Condition::C) {
        let rate = 1000.0 * retention(result.cell.dose, result.cell.block);
        result.figures.closed_rate_per_s = Some(rate);
        result.figures.achieved_dose_ratio = Some(0.8 * result.cell.dose);
    }
    lab
}

fn curve(lab: &Lab) -> DoseCurve {
    let mut curves = lab.score().dose_curves;
    assert_eq!(curves.len(), 1, "{curves:?}");
    curves.remove(0)
}

/// A small spread between blocks, with a mean of 0.
fn noise(block: u32) -> f64 {
    [0.01, -0.01, 0.005, -0.005][block as usize % 4]
}

#[test]
fn the_area_is_the_trapezoid_mean_from_dose_0() {
    let lab = lab(&[0.25, 0.5, 0.75], |dose, block| 1.0 - 0.4 * dose + noise(block));
    let curve = curve(&lab);
    assert!(curve.outcome.is_measured(), "{:?}", curve.outcome);
    let offered: Vec<f64> = curve.points.iter().map(|point| point.offered).collect();
    assert_eq!(offered, [0.25, 0.5, 0.75, 1.0]);
    for point in &curve.points {
        let retention = point.retention.as_ref().expect("a figure");
        assert!((retention.value - (1.0 - 0.4 * point.offered)).abs() < 1e-3);
        let achieved = point.achieved.as_ref().expect("a figure");
        assert!((achieved.value - 0.8 * point.offered).abs() < 1e-12);
    }
    let area = curve.area.expect("an area");
    // The line from 1 to 0.6 has the mean 0.8.
    assert!((area.value - 0.8).abs() < 1e-6, "{area:?}");
    assert!(area.lo < 0.8 && 0.8 < area.hi && area.hi - area.lo < 0.02);
    assert_eq!((area.n, curve.rises.len()), (BLOCKS, 0));
}

#[test]
fn a_curve_that_rises_is_said() {
    // Isolated at full load only.
    let lab = lab(&[0.5], |dose, block| noise(block) + if dose < 1.0 { 0.6 } else { 0.9 });
    let curve = curve(&lab);
    let [rise] = &curve.rises[..] else {
        panic!("{:?}", curve.rises);
    };
    assert_eq!((rise.from, rise.to), (0.5, 1.0));
    assert!(rise.ratio.lo > 1.0 && (rise.ratio.value - 1.5).abs() < 0.01);
}

#[test]
fn noise_alone_is_no_rise() {
    let wide = |dose: f64, block: u32| {
        let sign = if block.is_multiple_of(2) == (dose < 1.0) { 1.0 } else { -1.0 };
        0.8 + 0.02 * dose + 0.1 * sign
    };
    assert_eq!(curve(&lab(&[0.5], wide)).rises, []);
}

#[test]
fn blocks_without_every_dose_do_not_count() {
    let mut lab = lab(&[0.5], |_, block| 0.7 + noise(block));
    let spoilt = lab.each(Condition::C).filter(|cell| cell.cell.dose < 1.0 && cell.cell.block >= 2);
    for cell in spoilt {
        cell.outcome = gpubench_record::Outcome::inconclusive("the aggressor ended early");
    }
    let curve = curve(&lab);
    assert_eq!(curve.outcome.outcome, OutcomeKind::Inconclusive);
    let reason = curve.outcome.reason.unwrap_or_default();
    assert!(reason.contains("2 blocks") && reason.contains("ended early"), "{reason}");
    assert_eq!(curve.area, None);
}

#[test]
fn one_dose_is_no_curve() {
    assert_eq!(lab(&[], |_, _| 0.7).score().dose_curves, []);
}

#[test]
fn cells_without_an_aggressor_serve_every_pair_of_their_victim() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0]);
    lab.plan.axes.clear();
    lab.plan.pairs = [(SubAxis::Sm, "fma-hog"), (SubAxis::Power, "power-virus")]
        .map(|(sub_axis, aggressor)| PlannedPair {
            sub_axis,
            victim: "compute".to_owned(),
            aggressor: aggressor.to_owned(),
        })
        .to_vec();
    // The contended cells of a second pair, without N and S of their own.
    let contended = |cell: &&Cell| cell.condition.has_aggressor();
    let more: Vec<Cell> = lab.plan.cells.iter().filter(contended).cloned().collect();
    for mut cell in more {
        let known = lab.cells.iter().find(|result| result.cell.id == cell.id);
        let mut result = known.expect("it ran").clone();
        cell.id.push_str("-power");
        cell.sub_axis = SubAxis::Power;
        cell.aggressor = Some("power-virus".to_owned());
        result.cell = cell.clone();
        result.figures.closed_rate_per_s = result.figures.closed_rate_per_s.map(|rate| rate * 0.5);
        lab.plan.cells.push(cell);
        lab.cells.push(result);
    }
    let (sm, power) = (lab.row(QUOTA, "compute"), lab.row(QUOTA, "power"));
    let of = |row: &gpubench_record::MatrixRow| {
        let figures = [&row.retention, &row.guarantee, &row.effectiveness];
        figures.map(|figure| figure.as_ref().map(|one| (one.value * 1000.0).round()))
    };
    assert_eq!(of(&sm), [Some(900.0), Some(900.0), Some(500.0)]);
    assert_eq!(of(&power), [Some(450.0), Some(450.0), Some(250.0)]);
}

// The operator's view of constructed runs.

fn tenants(neighbour: Role) -> Vec<CellTenant> {
    let tenant = |name: &str, role, workload: &str| CellTenant {
        tenant: name.to_owned(),
        role,
        workload: Some(workload.to_owned()),
    };
    vec![tenant("victim", Role::Victim, "compute"), tenant("neighbour-1", neighbour, "fma-hog")]
}

/// A victim at a quarter of its native rate beside a neighbour at half of its own.
fn shared_lab(neighbour: Role) -> Lab {
    let mut lab = Lab::slicing(1000.0, 1000.0, 250.0);
    for cell in lab.each(Condition::C) {
        cell.cell.tenants = tenants(neighbour);
        cell.figures.achieved_dose_ratio = Some(0.5);
        for (tenant, ns) in [("victim", 1e9), ("neighbour-1", 3e9)] {
            cell.figures.tenant(tenant).gpu_time_ns = Some(ns);
        }
    }
    lab
}

#[test]
fn progress_of_two_tenants_gives_all_figures_and_each_pays_for_its_time() {
    let lab = shared_lab(Role::Aggressor);
    let rows = lab.score().operator;
    let [row] = &rows[..] else {
        panic!("one row: {rows:?}");
    };
    assert_eq!((row.variant.as_str(), row.tenants), (SLICING, 2));
    let values = row.figures().map(|figure| figure.value);
    // Jain of a quarter and a half: 0.75^2 / (2 x 0.3125). Its work is not known, so the victim
    // counts with its share of the device; the aggressor alone reaches 0.99 of the peak.
    let wanted = [3.0, 0.75, 0.25, 0.5, 0.9, 0.25 * 3.0 / 7.0 + 0.5 * 0.99];
    for (value, wanted) in values.into_iter().zip(wanted) {
        assert!((value - wanted).abs() < 1e-12, "{values:?}");
    }
    assert!(row.figures().iter().all(|figure| figure.n == 8));
    let times: Vec<(u64, f64)> =
        row.gpu_time.iter().map(|one| (one.gpu_time_ns, one.share)).collect();
    assert_eq!(times, [(8_000_000_000, 0.25), (24_000_000_000, 0.75)]);
}

#[test]
fn tenants_that_share_a_full_device_use_all_of_it() {
    // Alone the victim uses 0.3 of the peak, which is less than its share of 3/7, and the aggressor
    // uses 0.99 of it. Beside each other they have 0.76 of their rates: 0.76 x 1.29 = 0.98.
    let mut lab = shared_lab(Role::Aggressor);
    let victim = gpubench_record::CalibrationEntry {
        spec: gpubench_record::WorkloadSpec {
            name: "compute".to_owned(),
            params: std::collections::BTreeMap::new(),
        },
        native_rate_per_s: 1000.0,
        service_ns: 1_000_000,
        work_per_request: 0.6e9,
        unit: "operations".to_owned(),
    };
    lab.calibration.entries.insert("compute".to_owned(), victim);
    for cell in lab.each(Condition::C) {
        cell.figures.closed_rate_per_s = Some(760.0);
        cell.figures.achieved_dose_ratio = Some(0.76);
    }
    let found = lab.score().operator[0].utilisation.value;
    assert!((found - 0.76 * 1.29).abs() < 1e-12, "{found}");
}

#[test]
fn a_peer_has_no_progress_and_two_blocks_no_row() {
    assert!(shared_lab(Role::Peer).score().operator.is_empty());
    let mut few = shared_lab(Role::Aggressor);
    for cell in few.each(Condition::C).skip(2) {
        cell.outcome = gpubench_record::Outcome::inconclusive("planted");
    }
    assert!(few.score().operator.is_empty());
}

// Which records' fault trials count together.

fn record_of(started_at: &str, seed: u64) -> RunRecord {
    let mut record = example("h100_580.159.04_matrix").expect("an example");
    record.scoring = VERSION.to_owned();
    record.provenance.started_at = started_at.to_owned();
    record.seed = seed;
    record
}

fn machine(mut record: RunRecord, hash: Option<&str>) -> RunRecord {
    record.device.kind = DeviceKind::Virtual;
    record.provenance.clock = "virtual".to_owned();
    let hash = hash.map(|hash| (MACHINE_HASH.to_owned(), hash.to_owned()));
    record.device.facts.extend(hash);
    record
}

/// Why the trials of `other` do not count with those of `record`; `None` where they do.
fn why(record: &RunRecord, other: &RunRecord) -> Option<String> {
    let pooled = pool(record, &[("it".to_owned(), other)]);
    assert_eq!(pooled.earlier.len() + pooled.left_out.len(), 1);
    let left_out = pooled.left_out.into_iter().next()?;
    assert_eq!(left_out.record, "it");
    Some(left_out.reason)
}

#[test]
fn records_of_one_device_and_driver_count_together() {
    let (one, two) = (record_of("2026-01-01T02:00:00Z", 1), record_of("2026-01-02T02:00:00Z", 1));
    assert_eq!(why(&two, &one), None);
    type Change = fn(&mut RunRecord);
    let changes: [(Change, &str); 5] = [
        (|r| r.device.driver = "580.00".to_owned(), "its driver is 580.00"),
        (|r| r.device.uuid = "GPU-other".to_owned(), "its device is real GPU-other"),
        (|r| r.plan.tenants = 7, "its tenants is 7"),
        (|r| r.scoring = "scoring-v0".to_owned(), "its scoring is scoring-v0"),
        (|r| r.device.kind = DeviceKind::Virtual, "its device is virtual"),
    ];
    for (change, want) in changes {
        let mut other = one.clone();
        change(&mut other);
        let why = why(&two, &other).unwrap_or_default();
        assert!(why.contains(want), "{why}");
    }
    assert!(why(&one, &one).is_some_and(|why| why.contains("another record that counts")));
}

#[test]
fn virtual_records_need_one_machine_file_and_different_seeds() {
    let (one, two) = (record_of("2026-01-01T02:00:00Z", 1), record_of("2026-01-02T02:00:00Z", 2));
    let on = |record: &RunRecord, hash| machine(record.clone(), hash);
    assert_eq!(why(&on(&two, Some("aa")), &on(&one, Some("aa"))), None);
    let same = record_of("2026-01-02T02:00:00Z", 1);
    for (record, other, want) in [
        (on(&same, Some("aa")), on(&one, Some("aa")), "another record that counts"),
        (on(&two, Some("aa")), on(&one, Some("bb")), "machine file bb, not virtual"),
        (on(&two, None), on(&one, None), "neither record names its machine file"),
        (on(&two, Some("aa")), one.clone(), "its device is real"),
    ] {
        let why = why(&record, &other).unwrap_or_default();
        assert!(why.contains(want), "{why}");
    }
}
