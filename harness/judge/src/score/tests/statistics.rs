//! Printed intervals contain the true value as often as they say, and properties that hold for all
//! rates.

use gpubench_record::{CellResult, Condition, Estimate, MatrixRow, OutcomeKind};
use gpubench_stats::ScheduleRng;
use proptest::prelude::*;

use super::lab::{Figures, Lab, QUOTA, SLICING, rate};
use super::rows::{assert_doubt, valid};

// Printed intervals contain the true value as often as they say, with planted disturbances of
// every kind, singly and together. Seeds count from 0.
//
// The bounds are known as on a real host: each cell has the most that its disturbance can have
// done, and what it did is a random part of that.

/// So many of a simulated campaign; all of them in `bash ci/long.sh statistics`.
fn replicates(whole: u64, quick: u64) -> u64 {
    if std::env::var_os("GPUBENCH_WHOLE").is_some() { whole } else { quick }
}

const TRUE_RETENTION: f64 = 0.62;
/// The true growth of the tail: the tails of C and N in native medians, over a native median of 1.
const TAILS: (f64, f64) = (1.5, 0.2);
const CELL_SD: f64 = 0.01;
const BLOCK_SD: f64 = 0.01;

#[derive(Debug, Clone, Copy, Default)]
struct Planted {
    lost_cpu: bool,
    pauses: bool,
    lateness: bool,
    drift: bool,
    clock: bool,
}

fn normal(rng: &mut ScheduleRng) -> f64 {
    (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0
}

/// A run of eight blocks whose cells have the planted disturbances.
fn run(planted: Planted, seed: u64) -> Lab {
    let mut rng = ScheduleRng::new(seed);
    let level: Vec<f64> = (0..8).map(|_| BLOCK_SD * normal(&mut rng)).collect();
    let mut lab = Lab::new(&[(SLICING, Some(SLICING))], 8, |_, _, _| Figures {
        rate_per_s: 1000.0,
        p50: 1.0,
        p99: 1.2,
    });
    for cell in &mut lab.cells {
        disturb(cell, planted, level[cell.cell.block as usize], &mut rng);
    }
    lab
}

fn disturb(cell: &mut CellResult, planted: Planted, level: f64, rng: &mut ScheduleRng) {
    let contended = cell.cell.condition == Condition::C;
    let mut part = if contended { TRUE_RETENTION } else { 1.0 };
    let figures = &mut cell.figures;
    if planted.pauses && contended {
        let paused = 0.04 * rng.uniform();
        figures.aggressor_idle_closed_ratio = Some(paused);
        part += rng.uniform() * (1.0 - part) * paused;
    }
    if planted.lost_cpu {
        let most = (0.02 * rng.exponential()).min(0.09);
        figures.closed_rate_loss_max_ln = Some(-(-most).ln_1p());
        part *= 1.0 - most * rng.uniform();
    }
    let mut halves = 0.004 * normal(rng);
    if planted.drift && contended {
        // Settles from 4 % below with a quarter of the loop as time constant.
        let mean = |from: f64, to: f64| {
            let area = |t: f64| -0.25 * (-t / 0.25_f64).exp();
            1.0 - 0.04 * (area(to) - area(from)) / (to - from)
        };
        part *= mean(0.0, 1.0);
        halves += (mean(0.5, 1.0) / mean(0.0, 0.5)).ln();
    }
    figures.closed_halves_ln = Some(halves);
    figures.closed_halves_error_ln = Some(0.004);
    // The clock of each cell, whatever its condition.
    let clock = if planted.clock { 0.015 * normal(rng) } else { 0.0 };
    let rate = 1000.0 * part * (level + clock + CELL_SD * normal(rng)).exp();
    figures.closed_rate_per_s = Some(rate);
    let (tail, median) = (if contended { TAILS.0 } else { TAILS.1 }, (-clock).exp());
    let (tail, late) = (tail + 0.02 * normal(rng), (0.1 * rng.exponential()).min(0.15));
    let (mut p50, mut p99) = (1e6 * median, 1e6 * median * (1.0 + tail));
    // The host is busier beside the aggressor.
    if planted.lateness && contended {
        let moved = 1e6 * late * rng.uniform();
        (p50, p99) = (p50 + 0.1 * moved, p99 + moved);
        figures.open_latency_p50_lower_ns = Some(p50 - 1e5 * late);
        figures.open_latency_p99_lower_ns = Some(p99 - 1e6 * late);
    }
    figures.open_latency_p50_ns = Some(p50);
    figures.open_latency_p99_ns = Some(p99);
}

/// Of all runs, those whose intervals of retention, guarantee and tail contain the true value,
/// and those whose A/A pair warns.
fn coverage(planted: Planted, replicates: u64) -> ([f64; 3], f64) {
    let (mut inside, mut alarms) = ([0_u32; 3], 0_u32);
    for seed in 0..replicates {
        let rows = run(planted, seed).score().matrix;
        let mut count = |at: usize, found: Option<&Estimate>, truth: f64| {
            let found = found.expect("eight measured blocks");
            inside[at] += u32::from(found.lo <= truth && truth <= found.hi);
        };
        for row in rows.iter().filter(|row| row.variant == SLICING) {
            if row.axis == "jitter" {
                count(2, row.tail_at_load.as_ref(), TAILS.0 - TAILS.1);
            } else {
                count(0, row.retention.as_ref(), TRUE_RETENTION);
                count(1, row.guarantee.as_ref(), TRUE_RETENTION);
                alarms += u32::from(row.warnings.iter().any(|text| text.starts_with("A/A")));
            }
        }
    }
    let share = |count: u32| f64::from(count) / replicates as f64;
    (inside.map(share), share(alarms))
}

/// Planted disturbances leave at least 92 %; the disturbed runs lack the undisturbed ones' upper
/// bound, because a bound is the most that can have been.
fn covers(planted: Planted) {
    let (found, _) = coverage(planted, replicates(1000, 300));
    assert!(found.iter().all(|share| *share >= 0.92), "{planted:?}: {found:?}");
}

#[test]
fn undisturbed_intervals_cover_as_they_say() {
    let (found, alarms) = coverage(Planted::default(), 1000);
    // 1000 runs have a standard error of 0.7 %.
    let near = |share: &f64| (0.93..=0.97).contains(share);
    assert!(found.iter().all(near), "{found:?}");
    // The A/A pair warns in about one run of twenty.
    assert!((0.03..=0.07).contains(&alarms), "{alarms}");
}

#[test]
fn intervals_cover_beside_each_disturbance() {
    let none = Planted::default;
    for planted in [
        Planted { lost_cpu: true, ..none() },
        Planted { pauses: true, ..none() },
        Planted { lateness: true, ..none() },
        Planted { drift: true, ..none() },
        Planted { clock: true, ..none() },
    ] {
        covers(planted);
    }
}

#[test]
fn intervals_cover_beside_everything_together() {
    covers(Planted { lost_cpu: true, pauses: true, lateness: true, drift: true, clock: true });
}

/// Rows of many mechanisms: an A/A pair costs a row of an undisturbed run in at most 5 % of runs.
#[test]
fn a_a_pairs_of_a_whole_run_rarely_leave_a_row_without_a_level() {
    let runs = replicates(100, 40) as u32;
    let variants: Vec<String> = (0..14).map(|number| format!("m{number}")).collect();
    let variants: Vec<(&str, Option<&str>)> =
        variants.iter().map(|name| (name.as_str(), Some("m0"))).collect();
    let mut spoilt = 0;
    for seed in 0..runs {
        let mut rng = ScheduleRng::new(u64::from(seed) + 10_000);
        let mut lab = Lab::new(&variants, 8, |_, condition, _| {
            rate(if condition == Condition::C { 620.0 } else { 1000.0 })
        });
        for cell in &mut lab.cells {
            for rate in cell.figures.named_mut().filter_map(|(_, figure)| figure.as_mut()) {
                *rate *= (CELL_SD * normal(&mut rng)).exp();
            }
        }
        let rows = lab.score().matrix;
        let doubts = rows.iter().filter_map(|row| row.outcome.reason.as_deref());
        spoilt += u32::from(doubts.into_iter().any(|why| why.contains("A/A")));
    }
    assert!(20 * spoilt <= runs, "{spoilt} of {runs}");
}

// Properties that hold for all rates.

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

    /// Whatever the mechanism, and whatever its unprotected form leaves.
    #[test]
    fn equal_retention_and_guarantee_have_equal_levels(rates in rates(), loss in 0.1..0.8_f64) {
        let level = |variant: &str, u: &[f64]| {
            let [n, s, c, _] = rates.clone();
            let all = [n, s, c, u.to_vec()];
            let mut lab = lab(&all);
            for cell in lab.cells.iter_mut().filter(|cell| cell.cell.variant == QUOTA) {
                cell.cell.variant = variant.to_owned();
            }
            for cell in lab.plan.cells.iter_mut().filter(|cell| cell.variant == QUOTA) {
                cell.variant = variant.to_owned();
            }
            lab.plan.mechanisms[0].variant = variant.to_owned();
            for row in lab.mechanisms.iter_mut().filter(|row| row.variant == QUOTA) {
                row.variant = variant.to_owned();
            }
            lab.row(variant, "compute").level
        };
        let weak: Vec<f64> = rates[0].iter().map(|rate| loss * rate).collect();
        let known = level(QUOTA, &rates[3]);
        prop_assert_eq!(&known, &level(QUOTA, &weak));
        prop_assert_eq!(&known, &level("another-mechanism", &weak));
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

// A/A pairs: what a difference between two equal measurements does to a row.

#[test]
fn an_a_a_pair_that_differs_is_a_warning() {
    let again = |rate: f64| {
        let mut lab = valid();
        lab.each(Condition::SAgain).for_each(|cell| {
            cell.figures.closed_rate_per_s = Some(rate);
        });
        lab.row(QUOTA, "compute")
    };
    let row = again(991.0);
    // One of one pair: chance does that once in twenty runs.
    assert!(row.outcome.is_measured(), "{:?}", row.outcome);
    assert_eq!(row.warnings.len(), 1, "{:?}", row.warnings);
    assert!(row.warnings[0].starts_with("A/A: solo against itself is 0.991 [0.991, 0.991] ratio"));
    assert_doubt(&again(989.0), OutcomeKind::Inconclusive, "A/A: solo against itself is 0.989");
    assert_eq!(again(999.5).warnings, Vec::<String>::new());
}

/// Three of three pairs exclude 1, each by less than 1 %.
#[test]
fn more_a_a_pairs_than_chance_allows_leave_no_level() {
    let variants = [(SLICING, Some(SLICING)), (QUOTA, Some(SLICING)), ("mps", Some(SLICING))];
    let rows = |fire: usize| {
        let lab = Lab::new(&variants, 8, |variant, condition, _| {
            let place = variants.iter().position(|(one, _)| *one == variant);
            let fires = place.is_some_and(|place| place < fire);
            rate(match condition {
                Condition::SAgain if fires => 994.0,
                Condition::C | Condition::U => 500.0,
                _ => 1000.0,
            })
        });
        let rows = lab.score().matrix;
        let compute = rows.into_iter().filter(|row| row.axis == "compute");
        compute.filter(|row| row.word.as_deref() != Some("reference")).collect::<Vec<_>>()
    };
    assert!(rows(1).iter().all(|row| row.outcome.is_measured()));
    for (place, row) in rows(2).iter().enumerate() {
        if place < 2 {
            assert_doubt(row, OutcomeKind::Inconclusive, "A/A: 2 of 3 solo cells differ");
        } else {
            assert!(row.outcome.is_measured(), "its own pair agrees: {:?}", row.outcome);
        }
    }
}
