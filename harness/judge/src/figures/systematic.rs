//! The systematic part of an interval over blocks: what disturbances of the host and counts of few
//! completions can have done to its figure. More blocks do not narrow it.

use gpubench_record::{CellResult, Estimate, Gate, GateState, Parts};
use gpubench_stats::student_t;
use gpubench_stats::summary::moments;

use crate::gate::CLOSED_REQUESTS;

/// Widening of an end that a row mentions, as a share.
const NAMED_MIN: f64 = 0.01;
/// Largest part of one block, a factor of 1000. It keeps an end that may be zero finite, and no
/// level depends on what lies below it.
const PART_MAX_LN: f64 = 6.907_755_278_982_137;

/// The systematic part of the interval of a ratio, as logarithms: each at least 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Systematic {
    /// By how much the ratio may be higher.
    pub up: f64,
    /// By how much it may be lower.
    pub down: f64,
    /// Blocks whose value is the most that it can be, because the victim starved.
    pub starved: usize,
    /// Whether every cell was counted. The format of older records lacks the counts.
    pub known: bool,
}

/// One block: its cells, numerator first, and the logarithm of their ratio of rates.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    pub top: &'a CellResult,
    pub bottom: &'a CellResult,
    pub log: f64,
}

impl Default for Systematic {
    fn default() -> Self {
        Self { up: 0.0, down: 0.0, starved: 0, known: true }
    }
}

impl Systematic {
    /// The part of a mean of block logs `ln(top / bottom)`: the mean over blocks of the bounds of
    /// their cells. The disturbances of one host do not average out, so the bounds are added to the
    /// ends and not to the variance.
    pub fn of(blocks: &[Block<'_>]) -> Self {
        let mut sum = Self::default();
        for block in blocks {
            let (top, bottom) = (lost(block.top), lost(block.bottom));
            sum.up += top.unwrap_or(0.0);
            sum.up += starved(block.bottom).unwrap_or(0.0);
            sum.down += bottom.unwrap_or(0.0) + idle(block) + starved(block.top).unwrap_or(0.0);
            sum.starved += usize::from(starved(block.top).is_some());
            sum.known &= top.is_some() && bottom.is_some();
        }
        let count = blocks.len().max(1) as f64;
        let (drift, speed) = (drift(blocks), speed(blocks));
        Self {
            up: sum.up / count + drift.max(0.0) + (-speed).max(0.0),
            down: sum.down / count + (-drift).max(0.0) + speed.max(0.0),
            ..sum
        }
    }

    pub fn of_rates<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Self {
        let (mut sum, mut count) = (Self::default(), 0.0);
        for cell in cells {
            count += 1.0;
            sum.up += lost(cell).unwrap_or(0.0);
            sum.down += starved(cell).unwrap_or(0.0);
            sum.starved += usize::from(starved(cell).is_some());
            sum.known &= lost(cell).is_some();
        }
        let count = f64::max(count, 1.0);
        Self { up: sum.up / count, down: sum.down / count, ..sum }
    }

    /// The interval with this part; the value stays.
    pub fn widen(self, estimate: Estimate) -> Estimate {
        let (lo, hi) = (estimate.lo * (-self.down).exp(), estimate.hi * self.up.exp());
        self.with_ends(estimate, lo, hi)
    }

    /// The interval with these ends, and its former ends as the statistical part.
    pub fn with_ends(self, estimate: Estimate, lo: f64, hi: f64) -> Estimate {
        let (stat_lo, stat_hi) = (estimate.lo, estimate.hi);
        Estimate {
            lo,
            hi,
            parts: Some(Parts {
                stat_lo,
                stat_hi,
                sys_lo: self.known.then_some(stat_lo - lo),
                sys_hi: self.known.then_some(hi - stat_hi),
            }),
            ..estimate
        }
    }

    /// What it adds to an interval, where that is worth a line.
    pub fn in_words(self, what: &str) -> Option<String> {
        let (down, up) = (-(-self.down).exp_m1(), self.up.exp_m1());
        (down.max(up) >= NAMED_MIN).then(|| {
            format!(
                "the interval of {what} includes -{:.1} % and +{:.1} % for disturbances of the \
                 host (lost CPU time, pauses of the aggressor, drift) and for cells with few \
                 completions; more blocks do not narrow these",
                100.0 * down,
                100.0 * up
            )
        })
    }
}

/// By how much lost CPU time can have lowered the rate of a cell, as a logarithm: 0 in virtual
/// time, `None` where it was not counted. The true rate lies between `P` and `P exp(b)`, so a lossy
/// numerator raises the upper end, and a lossy denominator lowers the lower end.
fn lost(cell: &CellResult) -> Option<f64> {
    let virtual_time = cell.gate_state(&Gate::CpuGap) == Some(GateState::NotApplicable);
    let counted = cell.figures.closed_rate_loss_max_ln;
    counted.or(virtual_time.then_some(0.0))
}

/// By how much pauses of the aggressor can have raised the ratio, as a logarithm.
///
/// With `o` the part of the window in which the aggressor had work outstanding, the victim ran at
/// its contended rate for that part, and at most at its solo rate for the rest: `R = o r + (1 -
/// o)`. So beside an aggressor that never pauses the ratio may be as low as `r = (R - (1 - o)) /
/// o`.
fn idle(block: &Block<'_>) -> f64 {
    let Some(paused) = block.top.figures.aggressor_idle_closed_ratio else {
        return 0.0;
    };
    let ratio = block.log.exp();
    let least = (ratio - paused) / (1.0 - paused);
    if least <= 0.0 {
        return PART_MAX_LN;
    }
    (block.log - least.ln()).clamp(0.0, PART_MAX_LN)
}

/// By how much the rate of a cell may be lower because its victim starved, as a logarithm; `None`
/// where it did not.
///
/// A starved victim had a request outstanding all the time, and `n` completed, the last of them
/// perhaps behind the window: its rate lies between `n - 1` and `n + 1` in the window, and the cell
/// has the higher one.
pub fn starved(cell: &CellResult) -> Option<f64> {
    let has_rate = cell.figures.closed_rate_per_s.is_some();
    if !has_rate || cell.gate_state(&Gate::ClosedRate) != Some(GateState::NotEvaluated) {
        return None;
    }
    let completed = cell.requests.get(CLOSED_REQUESTS).copied().unwrap_or(0) as f64;
    let ratio = (completed + 1.0) / (completed - 1.0).max(0.0);
    Some(ratio.ln().min(PART_MAX_LN))
}

/// By how much the ratio may be higher (above 0) or lower (below 0) because the cells had not
/// settled.
///
/// `d = ln(first half / second half)` of the service times of a cell is by how much its rate rose.
/// In a block the numerator rose by `d_top - d_bottom` against the denominator. A rate that settles
/// exponentially lies in the end beyond its mean by less than its halves differ, if its time
/// constant is below 0.45 of the loop (`(1 + x) / (2 - 2 x) < 1` with `x = exp(-T / 2 tau)`). The
/// mean over blocks counts by what exceeds its own 95 % interval: halves also differ by chance, and
/// the interval of the ratio has that already. Its standard error is that of the blocks or that
/// within the cells, whichever is larger: on a device without noise all blocks are alike.
fn drift(blocks: &[Block<'_>]) -> f64 {
    let halves = |cell: &CellResult| {
        Some((cell.figures.closed_halves_ln?, cell.figures.closed_halves_error_ln?))
    };
    let of_blocks = blocks.iter().filter_map(|block| {
        let (top, bottom) = (halves(block.top)?, halves(block.bottom)?);
        Some((top.0 - bottom.0, top.1.powi(2) + bottom.1.powi(2)))
    });
    let (differences, squares): (Vec<f64>, Vec<f64>) = of_blocks.unzip();
    let within = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
    beyond_chance(&differences, within)
}

/// By how much the device was faster (above 0) or slower (below 0) around the numerators than
/// around the denominators, by the check kernel.
///
/// A rate follows the speed of the device, so a ratio `P_top / P_bottom` that was measured at the
/// speeds `v_top` and `v_bottom` is too high by `ln v_top - ln v_bottom`. Cells of one block run in
/// random order, so their speeds differ by chance, and the interval of the ratio has that already;
/// the mean over blocks counts by what exceeds its own 95 % interval. It stays where a host is
/// switched: cells under one mechanism then always follow those under another.
fn speed(blocks: &[Block<'_>]) -> f64 {
    let of = |cell: &CellResult| cell.figures.device_speed_ln;
    let of_blocks = blocks.iter();
    let of_blocks = of_blocks.filter_map(|block| Some(of(block.top)? - of(block.bottom)?));
    beyond_chance(&of_blocks.collect::<Vec<f64>>(), 0.0)
}

/// By how much the mean of differences exceeds its 95 % interval; `within` is the least variance
/// of one of them.
fn beyond_chance(differences: &[f64], within: f64) -> f64 {
    // A single block has no spread.
    let Ok(found) = moments(differences) else {
        return 0.0;
    };
    let n = f64::from(found.n);
    let Ok(t) = student_t::two_sided_quantile(0.05, n - 1.0) else {
        return 0.0;
    };
    let half = t * (found.sd.powi(2).max(within) / n).sqrt();
    (found.mean.abs() - half).max(0.0) * found.mean.signum()
}

#[cfg(test)]
mod tests {
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
            lone_ns: Vec::new(),
            meters: Vec::new(),
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

    /// A victim that runs at 0.3 of its solo rate while the aggressor works and at the solo rate
    /// while it pauses: the bound is exactly what the pauses added. Where the victim gains less
    /// from a pause, the truth lies above the bound.
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

    /// A victim whose requests last equally long, one behind the other from the start of the
    /// window: its rate lies between the ends that its count of completions leaves.
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
                assert!(
                    (blocks(false) + blocks(true)).abs() < 1e-12,
                    "a denominator acts downwards"
                );
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
}
