//! The operator's view of constructed runs.

use gpubench_record::{CellTenant, Condition, Role};

use super::lab::{Lab, SLICING};

fn tenants(neighbour: Role) -> Vec<CellTenant> {
    let tenant = |name: &str, role, workload: &str| CellTenant {
        tenant: name.to_owned(),
        role,
        workload: Some(workload.to_owned()),
    };
    vec![tenant("victim", Role::Victim, "compute"), tenant("neighbour-1", neighbour, "fma-hog")]
}

/// A victim at a quarter of its native rate beside a neighbour at half of its own.
fn lab(neighbour: Role) -> Lab {
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
    let lab = lab(Role::Aggressor);
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
    let mut lab = lab(Role::Aggressor);
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
    assert!(lab(Role::Peer).score().operator.is_empty());
    let mut few = lab(Role::Aggressor);
    for cell in few.each(Condition::C).skip(2) {
        cell.outcome = gpubench_record::Outcome::inconclusive("planted");
    }
    assert!(few.score().operator.is_empty());
}
