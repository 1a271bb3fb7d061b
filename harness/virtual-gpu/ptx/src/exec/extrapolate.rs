//! Loop extrapolation: counts and times iterations without executing them.
//!
//! A candidate loop of `analysis::loops` is compared over two iterations. If both added the same to
//! every count and every time, and changed the operands of its exit test by the same amounts, then
//! all later iterations do so too: the operands are sums, and nothing else in an iteration depends
//! on its number. A division gives the number of iterations left. The last one is executed.

use super::machine::Machine;
use super::warp::{Frame, Warp, lanes};
use super::watched_loops::{Snapshot, WatchedLoop};
use crate::analysis::loops::{exit_operands, first_predicate, iterations_left};
use crate::code::{FuncCode, Loop};
use crate::inst::Inst;
use crate::ops::CmpKind;
use crate::program::Row64;

/// Iterations before the first snapshot: the first ones fill caches, and short loops end before.
const FIRST_SNAPSHOT: u64 = 8;

impl Machine<'_, '_, '_> {
    /// Called when a warp branches back at `back`. `mask` holds the lanes that continue together;
    /// `None` if some leave the loop or have diverged.
    pub(super) fn end_of_iteration(
        &mut self,
        warp: &mut Warp,
        frame_at: usize,
        back: u32,
        mask: Option<u32>,
    ) {
        let program = self.program;
        let func = &program.module().functions[warp.frames[frame_at].function];
        let enabled = self.extrapolate_after.is_some_and(|after| self.executed >= after);
        let (Some(mask), true) = (mask.filter(|mask| *mask == warp.live), enabled) else {
            warp.loops.forget(frame_at, back);
            return;
        };
        let watches = &mut warp.loops.all;
        let known = (watches.iter_mut()).find(|w| w.frame == frame_at && w.candidate.back == back);
        let Some(watch) = known else {
            if let Ok(at) = func.loops.binary_search_by_key(&back, |known| known.back) {
                watches.push(WatchedLoop {
                    frame: frame_at,
                    candidate: func.loops[at],
                    iterations: 1,
                    snapshot_at: FIRST_SNAPSHOT,
                    snapshots: Vec::new(),
                });
            }
            return;
        };
        watch.iterations += 1;
        if watch.iterations < watch.snapshot_at {
            return;
        }
        let frame = &mut warp.frames[frame_at];
        watch.snapshots.push(Snapshot {
            cycle: warp.cycle,
            counts: self.counts.clone(),
            touched_bytes: self.footprint.bytes(),
            r32: frame.r32.clone(),
            r64: frame.r64.clone(),
            preds: frame.preds.clone(),
            ready: frame.ready.clone(),
        });
        if let [one, two, three] = &watch.snapshots[..] {
            if let Some(skipped) = extrapolate(func, watch.candidate, [one, two, three], mask) {
                let each = three.counts.since(&two.counts);
                self.counts.add_times(&each, skipped.iterations);
                self.done.extrapolated_lanes += each.lanes().saturating_mul(skipped.iterations);
                warp.cycle += skipped.cycles;
                skipped.apply(frame, mask);
            }
            watch.snapshots.clear();
            watch.snapshot_at = watch.iterations.saturating_mul(2);
        }
    }
}

/// Iterations to skip, and their effect on the warp.
struct Extrapolation {
    iterations: u64,
    cycles: u64,
    /// Rows that are ready later by `cycles`.
    later: Vec<usize>,
    /// By row, the amount that an iteration adds in each lane.
    adds: Vec<(usize, Row64)>,
}

/// Compares three snapshots; `None` if their differences are not equal.
fn extrapolate(
    func: &FuncCode,
    candidate: Loop,
    snapshots: [&Snapshot; 3],
    mask: u32,
) -> Option<Extrapolation> {
    let [one, two, three] = snapshots;
    let each = three.counts.since(&two.counts);
    let is_linear = each == two.counts.since(&one.counts)
        && one.touched_bytes == three.touched_bytes
        && three.cycle - two.cycle == two.cycle - one.cycle;
    if !is_linear {
        return None;
    }
    let cycles = three.cycle - two.cycle;
    let mut later = Vec::new();
    for row in 0..three.ready.len() {
        let [a, b, c] = snapshots.map(|snapshot| snapshot.ready[row]);
        if b - a.min(b) == cycles && c - b.min(c) == cycles && cycles > 0 {
            later.push(row);
        } else if a != b || b != c || c > one.cycle {
            return None;
        }
    }
    let active = || lanes(mask);
    let differs = |row: usize| {
        active().any(|lane| {
            let [a, b, c] = snapshots.map(|snapshot| snapshot.lane(row, lane));
            a != b || b != c
        })
    };
    let region = candidate.head as usize..candidate.back as usize;
    let mut changed: Vec<usize> = region
        .flat_map(|at| crate::analysis::loops::writes(func, at))
        .filter(|&row| differs(row))
        .collect();
    changed.sort_unstable();
    changed.dedup();
    let adds = steps(exit_operands(func, candidate, &changed)?, func, snapshots, mask)?;
    let Inst::SetP(test) = &func.code[candidate.test as usize] else { return None };
    let negated = func.info[candidate.back as usize].guard.is_some_and(|g| g.negated);
    let is_wide = !matches!(test.kind, CmpKind::U32 | CmpKind::S32);
    let flat = |row: u16| usize::from(row) + if is_wide { three.r32.len() } else { 0 };
    let operand = |row: u16, lane: usize| {
        let row = flat(row);
        let by = adds.iter().find(|(at, _)| *at == row);
        [three.lane(row, lane), by.map_or(0, |(_, by)| by[lane])]
    };
    let left = active()
        .map(|lane| iterations_left(test, negated, operand(test.a, lane), operand(test.b, lane)))
        .min()?;
    let iterations = left.checked_sub(1).filter(|&more| more > 0)?;
    Some(Extrapolation { iterations, cycles: cycles.saturating_mul(iterations), later, adds })
}

/// The amount that an iteration adds to each row in each lane, if it added the same twice.
fn steps(
    rows: Vec<usize>,
    func: &FuncCode,
    snapshots: [&Snapshot; 3],
    mask: u32,
) -> Option<Vec<(usize, Row64)>> {
    let mut adds = Vec::new();
    for row in rows {
        if row >= first_predicate(func) {
            return None;
        }
        let bits = if row < snapshots[2].r32.len() { u64::from(u32::MAX) } else { u64::MAX };
        let mut by: Row64 = [0; 32];
        for lane in lanes(mask) {
            let [a, b, c] = snapshots.map(|snapshot| snapshot.lane(row, lane));
            by[lane] = c.wrapping_sub(b) & bits;
            if b.wrapping_sub(a) & bits != by[lane] {
                return None;
            }
        }
        adds.push((row, by));
    }
    Some(adds)
}

impl Extrapolation {
    /// Advances a frame past the skipped iterations.
    fn apply(&self, frame: &mut Frame, mask: u32) {
        for &row in &self.later {
            frame.ready[row] = frame.ready[row].saturating_add(self.cycles);
        }
        let narrow = frame.r32.len();
        for (row, by) in &self.adds {
            for lane in lanes(mask) {
                let more = by[lane].wrapping_mul(self.iterations);
                if let Some(row) = frame.r32.get_mut(*row) {
                    row[lane] = row[lane].wrapping_add(more as u32);
                } else {
                    let row = &mut frame.r64[row - narrow];
                    row[lane] = row[lane].wrapping_add(more);
                }
            }
        }
    }
}
