//! Properties that hold for all rates.

use gpubench_record::{Condition, MatrixRow};
use gpubench_stats::ScheduleRng;
use proptest::prelude::*;

use super::lab::{Figures, Lab, QUOTA, rate};

/// Rates of N, S, C and U in eight blocks: a steady native GPU, a strong aggressor, and any rates
/// in S and C.
fn rates() -> impl Strategy<Value = [Vec<f64>; 4]> {
    let of = |range: std::ops::Range<f64>| prop::collection::vec(range, 8);
    [of(980.0..1000.0), of(300.0..1100.0), of(300.0..1100.0), of(400.0..600.0)]
}

fn lab(rates: &[Vec<f64>; 4]) -> Lab {
    Lab::new(&[(QUOTA, Some("mps"))], 8, |_, condition, block| {
        let of = match condition {
            Condition::N | Condition::NAgain => &rates[0],
            Condition::S | Condition::SAgain => &rates[1],
            Condition::C => &rates[2],
            Condition::U => &rates[3],
        };
        let rate_per_s = of[block as usize];
        Figures { rate_per_s, p50: 1e3 / rate_per_s, p99: 2e3 / rate_per_s }
    })
}

/// Equal but for rounding.
fn assert_equal(left: &MatrixRow, right: &MatrixRow) -> Result<(), TestCaseError> {
    let figures = |row: &MatrixRow| {
        [&row.retention, &row.guarantee, &row.efficiency, &row.effectiveness, &row.jitter]
            .map(|figure| figure.as_ref().map(|f| [f.value, f.lo, f.hi]))
    };
    for (left, right) in figures(left).into_iter().zip(figures(right)) {
        prop_assert_eq!(left.is_some(), right.is_some());
        for (a, b) in left.into_iter().flatten().zip(right.into_iter().flatten()) {
            prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{a} against {b}");
        }
    }
    prop_assert_eq!((&left.level, &left.word), (&right.level, &right.word));
    prop_assert_eq!(left.outcome.outcome, right.outcome.outcome);
    Ok(())
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_order_of_cells_does_not_matter(rates in rates(), seed in any::<u64>()) {
        let mut lab = lab(&rates);
        let before = lab.score();
        let mut rng = ScheduleRng::new(seed);
        rng.shuffle(&mut lab.cells);
        rng.shuffle(&mut lab.plan.cells);
        prop_assert_eq!(before, lab.score());
    }

    #[test]
    fn the_unit_of_time_does_not_matter(rates in rates(), factor in 1e-3..1e3_f64) {
        let lab = lab(&rates);
        let mut scaled = lab.clone();
        for cell in &mut scaled.cells {
            let figures = &mut cell.figures;
            figures.closed_rate_per_s = figures.closed_rate_per_s.map(|rate| rate / factor);
            for latency in [&mut figures.open_latency_p50_ns, &mut figures.open_latency_p99_ns] {
                *latency = latency.map(|ns| ns * factor);
            }
        }
        let (left, right) = (lab.score().matrix, scaled.score().matrix);
        prop_assert!(!left.is_empty() && left.len() == right.len());
        for (left, right) in left.iter().zip(&right) {
            assert_equal(left, right)?;
        }
    }

    #[test]
    fn equal_contended_and_solo_rates_are_retention_1_and_never_l0(rates in rates()) {
        let [n, s, _, u] = rates;
        let row = lab(&[n, s.clone(), s, u]).row(QUOTA, "compute");
        let retention = row.retention.expect("a figure");
        prop_assert_eq!((retention.value, retention.lo, retention.hi), (1.0, 1.0, 1.0));
        let level = row.level.ok_or_else(|| TestCaseError::fail(format!("{:?}", row.outcome)))?;
        prop_assert!(!level.contains("L0"), "{level}");
    }

    #[test]
    fn swapping_solo_and_contended_mirrors_retention(rates in rates()) {
        let [n, s, c, u] = rates;
        let row = lab(&[n.clone(), s.clone(), c.clone(), u.clone()]).row(QUOTA, "compute");
        let swapped = lab(&[n, c, s, u]).row(QUOTA, "compute");
        let (a, b) = (row.retention.expect("a figure"), swapped.retention.expect("a figure"));
        for (one, other) in [(a.value, b.value), (a.lo, b.hi), (a.hi, b.lo)] {
            prop_assert!((one * other - 1.0).abs() < 1e-9, "{one} and {other}");
        }
    }

    #[test]
    fn a_faster_contended_victim_never_has_a_lower_level(rates in rates(), gain in 1.0..1.5_f64) {
        let [n, s, c, _] = rates;
        let steady = |of: &[f64]| vec![of[0]; 8];
        let u: Vec<f64> = n.iter().map(|rate| 0.5 * rate).collect();
        let faster: Vec<f64> = c.iter().map(|rate| gain * rate).collect();
        let of = |c: &[f64]| {
            lab(&[steady(&n), steady(&s), steady(c), steady(&u)]).row(QUOTA, "compute").level
        };
        prop_assert!(of(&c) <= of(&faster), "{:?} then {:?}", of(&c), of(&faster));
    }

    #[test]
    fn a_row_with_a_word_is_measured(rates in rates()) {
        let rows = lab(&rates).score().matrix;
        prop_assert!(rows.iter().any(|row| row.word.is_some()));
        for row in rows {
            let reference = row.word.as_deref() == Some("reference");
            let decided = row.level.is_some() && row.outcome.is_measured();
            prop_assert_eq!(row.word.is_some() && !reference, decided);
            prop_assert_eq!(row.outcome.is_measured(), row.outcome.reason.is_none());
        }
    }
}

#[test]
fn a_dose_below_one_does_not_count() {
    let mut lab = Lab::protected(QUOTA, [1000.0, 1000.0, 900.0, 500.0]);
    let before = lab.row(QUOTA, "compute");
    let weak: Vec<_> =
        lab.plan.cells.iter().filter(|cell| cell.condition == Condition::C).cloned().collect();
    for mut cell in weak {
        let mut result =
            lab.cells.iter().find(|one| one.cell.id == cell.id).expect("it ran").clone();
        cell.id.push_str("-dose0.5");
        cell.dose = 0.5;
        (result.cell.id, result.cell.dose) = (cell.id.clone(), 0.5);
        result.figures.closed_rate_per_s = Some(rate(990.0).rate_per_s);
        lab.plan.cells.push(cell);
        lab.cells.push(result);
    }
    assert_eq!(before, lab.row(QUOTA, "compute"));
}
