//! The systematic part of an interval over blocks: what disturbances of the host and counts of few
//! completions can have done to its figure. More blocks do not narrow it.

#[cfg(test)]
mod tests;

use gpubench_record::{CellResult, Estimate, Gate, GateState, Parts};
use gpubench_stats::{moments::moments, student_t};

use crate::gate::CLOSED_REQUESTS;

/// Widening of an end that a row mentions, as a share.
const NAMED_MIN: f64 = 0.01;
/// Largest part of one block, a factor of 1000. It keeps an end that may be zero finite, and no
/// level depends on what lies below it.
const PART_MAX_LN: f64 = 6.907_755_278_982_137;

/// The systematic part of the interval of a ratio, as logarithms: each at least 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Systematic {
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
pub(crate) struct Block<'a> {
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
    pub(crate) fn of(blocks: &[Block<'_>]) -> Self {
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

    /// The part of a mean of logarithms of the rates of cells.
    pub(crate) fn of_rates<'a>(cells: impl Iterator<Item = &'a CellResult>) -> Self {
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
    pub(crate) fn widen(self, estimate: Estimate) -> Estimate {
        let (lo, hi) = (estimate.lo * (-self.down).exp(), estimate.hi * self.up.exp());
        self.with_ends(estimate, lo, hi)
    }

    /// The interval with these ends, and its former ends as the statistical part.
    pub(crate) fn with_ends(self, estimate: Estimate, lo: f64, hi: f64) -> Estimate {
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
    pub(crate) fn in_words(self, what: &str) -> Option<String> {
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
pub(crate) fn starved(cell: &CellResult) -> Option<f64> {
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
