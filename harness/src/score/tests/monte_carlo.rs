//! The printed interval of retention contains the true value in 95 % of runs.
//!
//! Synthetic cells with log-normal spread in three parts: one for the session, one for each block,
//! one for each cell. The first two cancel in a paired ratio.

use gpubench_record::Condition;
use gpubench_stats::ScheduleRng;

use super::lab::{Lab, SLICING, rate};

const REPLICATES: u32 = 600;
const TRUE_RETENTION: f64 = 0.62;
const SESSION_SD: f64 = 0.02;
const BLOCK_SD: f64 = 0.01;
const CELL_SD: f64 = 0.01;

/// A standard normal from twelve uniforms. Its tails end at six, which does not matter for a t
/// interval of eight blocks.
fn normal(rng: &mut ScheduleRng) -> f64 {
    (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0
}

fn replicate(seed: u64) -> Lab {
    let mut rng = ScheduleRng::new(seed);
    let session = SESSION_SD * normal(&mut rng);
    let blocks: Vec<f64> = (0..8).map(|_| BLOCK_SD * normal(&mut rng)).collect();
    let draws: Vec<f64> = (0..8 * 8).map(|_| CELL_SD * normal(&mut rng)).collect();
    Lab::new(&[(SLICING, Some(SLICING))], 8, |_, condition, block| {
        let at = block as usize;
        let own = draws[at * 8 + condition as usize];
        let truth = if condition == Condition::C { 1000.0 * TRUE_RETENTION } else { 1000.0 };
        rate(truth * (session + blocks[at] + own).exp())
    })
}

#[test]
fn the_interval_of_retention_contains_the_true_value() {
    let mut inside = 0;
    let mut excluded = 0;
    for seed in 0..REPLICATES {
        let lab = replicate(u64::from(seed));
        let row = lab.row(SLICING, "compute");
        let retention = row.retention.expect("eight measured blocks");
        inside += u32::from(retention.lo <= TRUE_RETENTION && TRUE_RETENTION <= retention.hi);
        excluded += u32::from(row.warnings.iter().any(|warning| warning.starts_with("A/A")));
    }
    let share = f64::from(inside) / f64::from(REPLICATES);
    assert!((0.93..=0.97).contains(&share), "{inside} of {REPLICATES}");
    // The A/A pair warns in about one run of twenty.
    let alarms = f64::from(excluded) / f64::from(REPLICATES);
    assert!((0.03..=0.07).contains(&alarms), "{excluded} of {REPLICATES}");
}

/// Rows of many mechanisms: an A/A pair costs a row of an undisturbed run in at most 5 % of runs.
#[test]
fn a_a_pairs_of_a_whole_run_rarely_leave_a_row_without_a_level() {
    const RUNS: u32 = 100;
    let variants: Vec<String> = (0..14).map(|number| format!("m{number}")).collect();
    let variants: Vec<(&str, Option<&str>)> =
        variants.iter().map(|name| (name.as_str(), Some("m0"))).collect();
    let mut spoilt = 0;
    for seed in 0..RUNS {
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
    assert!(spoilt <= RUNS / 20, "{spoilt} of {RUNS}");
}
