//! Each bound against a simulation that plants exactly its disturbance.

use std::collections::BTreeMap;

use gpubench_record::{
    CellResult, Condition, Gate, GateKind, GateResult, GateScope, GateState, Outcome,
};
use gpubench_stats::ScheduleRng;

use super::{Block, Systematic, drift, idle, speed, starved};
use crate::gate::CLOSED_REQUESTS;

/// A cell with these figures, by their names in JSON.
fn cell(figures: &[(&str, f64)]) -> CellResult {
    let figures: serde_json::Map<_, _> =
        figures.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    CellResult {
        cell: crate::gate::fixture::cell(Condition::C),
        figures: serde_json::from_value(figures.into()).expect("known figures"),
        requests: BTreeMap::new(),
        outcome: Outcome::measured(),
        gates: Vec::new(),
        tenant_results: Vec::new(),
    }
}

#[test]
fn each_cell_acts_on_one_end() {
    let estimate = gpubench_record::Estimate {
        value: 1.0,
        lo: 0.9,
        hi: 1.1,
        ends: gpubench_record::Ends::Interval,
        parts: None,
        n: 8,
        unit: "ratio".to_owned(),
    };
    let part = Systematic { up: 1.25_f64.ln(), down: 2.0_f64.ln(), ..Systematic::default() };
    let wide = part.widen(estimate.clone());
    assert!((wide.lo - 0.45).abs() < 1e-12 && (wide.hi - 1.375).abs() < 1e-12);
    assert_eq!((wide.value, wide.n), (1.0, 8));
    let parts = wide.parts.expect("the parts");
    assert_eq!((parts.stat_lo, parts.stat_hi), (0.9, 1.1));
    assert!((parts.stat_lo - parts.sys_lo.expect("known") - wide.lo).abs() < 1e-12);
    assert!((parts.stat_hi + parts.sys_hi.expect("known") - wide.hi).abs() < 1e-12);
    let text = part.in_words("retention").unwrap_or_default();
    assert!(text.contains("-50.0 % and +25.0 %"), "{text}");
    let none = Systematic::default().widen(estimate.clone());
    assert_eq!((none.lo, none.hi), (estimate.lo, estimate.hi));
    assert_eq!(none.parts.and_then(|parts| parts.sys_lo), Some(0.0));
    assert_eq!(Systematic::default().in_words("retention"), None);
}

#[test]
fn cells_without_counts_have_an_unknown_part() {
    let counted = cell(&[("closed_rate_loss_max_ln", 0.02)]);
    let not = cell(&[]);
    let of = |top, bottom| Systematic::of(&[Block { top, bottom, log: -0.1 }]);
    let found = of(&counted, &counted);
    assert_eq!((found.up, found.down, found.known), (0.02, 0.02, true));
    assert!(!of(&counted, &not).known && !of(&not, &counted).known);
}

/// A victim that runs at 0.3 of its solo rate while the aggressor works and at the solo rate while
/// it pauses: the bound is exactly what the pauses added. Where the victim gains less from a pause,
/// the truth lies above the bound.
#[test]
fn pauses_of_the_aggressor_raise_the_ratio_by_the_bound_at_most() {
    for (paused, gain) in [(0.001, 1.0), (0.04, 1.0), (0.04, 0.5), (0.04, 0.0)] {
        let truth: f64 = 0.3;
        let measured = truth * (1.0 - paused) + (truth + gain * (1.0 - truth)) * paused;
        let top = cell(&[("aggressor_idle_closed_ratio", paused)]);
        let block = Block { top: &top, bottom: &top, log: measured.ln() };
        let lowest = (measured.ln() - idle(&block)).exp();
        assert!(lowest <= truth + 1e-12, "{paused} {gain}: {lowest}");
        assert!(gain < 1.0 || (lowest - truth).abs() < 1e-12, "{paused}: {lowest}");
    }
    // All completions may have been in the pauses.
    let top = cell(&[("aggressor_idle_closed_ratio", 0.04)]);
    let starved = Block { top: &top, bottom: &top, log: 0.01_f64.ln() };
    assert!((idle(&starved).exp() - 1000.0).abs() < 1e-6);
    // A victim that is faster beside the aggressor loses nothing.
    let faster = Block { top: &top, bottom: &top, log: 0.02 };
    assert_eq!(idle(&faster), 0.0);
}

/// A victim whose requests last equally long, one behind the other from the start of the window:
/// its rate lies between the ends that its count of completions leaves.
#[test]
fn the_rate_of_a_starved_victim_lies_within_one_completion() {
    for per_window in [0.4_f64, 1.0, 1.3, 2.0, 2.9, 4.5, 8.99] {
        // The last request may end behind the window, and counts.
        for behind in [0, 1] {
            let completed = per_window.floor() as u64 + behind;
            let rate = (completed + 1) as f64;
            let mut top = cell(&[("closed_rate_per_s", rate)]);
            top.requests = BTreeMap::from([(CLOSED_REQUESTS.to_owned(), completed)]);
            assert_eq!(starved(&top), None);
            top.gates = vec![GateResult {
                gate: Gate::ClosedRate,
                kind: GateKind::Validity,
                state: GateState::NotEvaluated,
                scope: GateScope::Cell,
                value: None,
                limit: None,
                unit: None,
                detail: String::new(),
            }];
            let least = rate * (-starved(&top).expect("starved")).exp();
            // Below two completions the least is a thousandth of the rate.
            let wanted = (rate - 2.0).max(rate / 1000.0);
            assert!((least - wanted).abs() < 1e-9, "{completed}: {least}");
            assert!((least..=rate).contains(&per_window), "{per_window}");
        }
    }
}

/// The mean log rate of a loop that settles at 1 from `1 - start`, and its halves, with noise.
fn settling(start: f64, constant: f64, noise: f64) -> (f64, CellResult) {
    let mean = |from: f64, to: f64| {
        let part = |t: f64| -constant * (-t / constant).exp();
        1.0 - start * (part(to) - part(from)) / (to - from)
    };
    let halves = (mean(0.5, 1.0) / mean(0.0, 0.5)).ln() + noise;
    let figures = [("closed_halves_ln", halves), ("closed_halves_error_ln", 0.002)];
    (mean(0.0, 1.0).ln(), cell(&figures))
}

#[test]
fn a_loop_that_settles_lies_within_the_bound_of_its_end() {
    let mut rng = ScheduleRng::new(17);
    let settled = settling(0.0, 0.1, 0.0).1;
    for constant in [0.05, 0.15, 0.3, 0.45] {
        for start in [0.05, 0.15] {
            let mut noise = || 0.004 * (rng.uniform() - 0.5);
            let cells: Vec<(f64, CellResult)> =
                (0..8).map(|_| settling(start, constant, noise())).collect();
            let blocks = |swapped: bool| -> f64 {
                let all: Vec<Block<'_>> = cells
                    .iter()
                    .map(|(log, one)| match swapped {
                        false => Block { top: one, bottom: &settled, log: *log },
                        true => Block { top: &settled, bottom: one, log: -log },
                    })
                    .collect();
                drift(&all)
            };
            let low = -cells[0].0;
            // The interval of the halves is about 0.2 % wide.
            let case = format!("{start} {constant}: low by {low}, bound {}", blocks(false));
            assert!(blocks(false) + 0.003 >= low, "{case}");
            assert!((blocks(false) + blocks(true)).abs() < 1e-12, "a denominator acts downwards");
        }
    }
}

#[test]
fn halves_that_differ_by_chance_widen_nothing_and_one_pattern_in_all_blocks_neither() {
    let mut rng = ScheduleRng::new(5);
    let mut widened = 0;
    for _ in 0..400 {
        let mut one = || {
            let noise: f64 = (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
            cell(&[("closed_halves_ln", 0.01 * noise), ("closed_halves_error_ln", 0.01)])
        };
        let cells: Vec<(CellResult, CellResult)> = (0..8).map(|_| (one(), one())).collect();
        let blocks = cells.iter().map(|(top, bottom)| Block { top, bottom, log: 0.0 });
        widened += u32::from(drift(&blocks.collect::<Vec<_>>()) != 0.0);
    }
    assert!(widened <= 30, "{widened} of 400, of which 20 are chance");
    // Whole requests in 25 batches, the same in every block of a device without noise.
    let alike = cell(&[("closed_halves_ln", 0.04), ("closed_halves_error_ln", 0.06)]);
    let plain = cell(&[("closed_halves_ln", 0.0), ("closed_halves_error_ln", 0.0)]);
    let block = Block { top: &alike, bottom: &plain, log: 0.0 };
    assert_eq!(drift(&[block; 8]), 0.0);
    assert_eq!(drift(&[block]), 0.0, "a single block has no spread");
}

#[test]
fn a_device_that_is_faster_around_the_numerators_lowers_the_ratio() {
    let mut noise = ScheduleRng::new(11);
    let mut log = |mean: f64| mean + (f64::from(noise.below(2_001)) - 1_000.0) * 2e-6;
    // The rates of both follow the speed, which is 3 % higher around the numerators.
    let speeds: Vec<(f64, f64)> = (0..8).map(|_| (log(0.03), log(0.0))).collect();
    let cells: Vec<_> = speeds
        .iter()
        .map(|&(top, bottom)| [top, bottom].map(|speed| cell(&[("device_speed_ln", speed)])))
        .collect();
    let blocks = |cells: &'_ [[CellResult; 2]]| -> Vec<f64> {
        let blocks: Vec<Block<'_>> =
            cells.iter().map(|[top, bottom]| Block { top, bottom, log: 0.03 }).collect();
        let part = Systematic::of(&blocks);
        vec![speed(&blocks), part.up, part.down]
    };
    let found = blocks(&cells);
    assert!((0.027..0.03).contains(&found[0]), "{found:?}");
    // The ratio of the rates without the speed, exp(0), lies in the widened interval.
    assert_eq!((found[1], found[2]), (0.0, found[0]));
    // Speeds that differ by chance, and cells without a check kernel, widen nothing.
    let by_chance: Vec<_> = (0..8)
        .map(|_| [log(0.0), log(0.0)].map(|speed| cell(&[("device_speed_ln", speed)])))
        .collect();
    assert_eq!(blocks(&by_chance), [0.0; 3]);
    assert_eq!(blocks(&[[cell(&[]), cell(&[])]]), [0.0; 3]);
}
