//! CPU time that victims lost widens the ends that it can have moved.

use gpubench_record::Condition;

use super::lab::{Lab, QUOTA, SLICING};

/// Lost CPU time in S lowers the lower end, in C it raises the upper end, and the value stays.
#[test]
fn lost_cpu_time_widens_the_ends_that_it_can_have_moved() {
    let with = |condition: Option<Condition>| {
        let mut lab = Lab::slicing(1000.0, 1000.0, 500.0);
        for cell in &mut lab.cells {
            if Some(cell.cell.condition) == condition {
                cell.figures.closed_rate_loss_max_ln = Some(1.04_f64.ln());
            }
        }
        let row = lab.row(SLICING, "compute");
        (row.retention.expect("a retention"), row.warnings)
    };
    let (exact, warnings) = with(None);
    assert_eq!(warnings, Vec::<String>::new());
    let (of_solo, warnings) = with(Some(Condition::S));
    assert!(warnings.iter().any(|text| text.contains("-3.8 % and +0.0 %")), "{warnings:?}");
    assert!((of_solo.lo - exact.lo / 1.04).abs() < 1e-9);
    assert_eq!((of_solo.value, of_solo.hi), (exact.value, exact.hi));
    let (beside, _) = with(Some(Condition::C));
    assert!((beside.hi - exact.hi * 1.04).abs() < 1e-9);
    assert_eq!((beside.value, beside.lo), (exact.value, exact.lo));
}

/// Both logarithms may lie anywhere within their parts: up to a retention of 0.73 beside an
/// effectiveness of 0.48.
#[test]
fn lost_cpu_time_widens_the_index_to_its_corners() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 700.0, 500.0]);
    for condition in [Condition::C, Condition::N] {
        for cell in lab.each(condition) {
            cell.figures.closed_rate_loss_max_ln = Some(1.04_f64.ln());
        }
    }
    let index = lab.row(QUOTA, "compute").isolation_index.expect("an index");
    let at = |r: f64, u: f64| 1.0 - r.ln() / u.ln();
    for (found, want) in [
        (index.value, at(0.7, 0.5)),
        (index.lo, at(0.7, 0.5)),
        (index.hi, at(0.7 * 1.04, 0.5 / 1.04)),
    ] {
        assert!((found - want).abs() < 1e-9, "{index:?}, want {want}");
    }
    let parts = index.parts.expect("the parts");
    assert_eq!(parts.sys_lo, Some(0.0));
}
