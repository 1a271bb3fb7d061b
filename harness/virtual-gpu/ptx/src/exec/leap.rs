//! Leaps over iterations that repeat the ones before: counted and timed, not executed.
//!
//! A loop of the kind that `repeats.rs` describes is watched over two iterations. If both added the
//! same to every count and to every time, and moved the values that its end depends on by the same
//! amounts, then all that follow do too: additions that gave one difference twice give it always,
//! and nothing else about an iteration depends on which one it is. How many follow is then a
//! division.

use super::super::counts::Counts;
use super::super::inst::Inst;
use super::super::module::FuncCode;
use super::super::program::{Row32, Row64};
use super::super::repeats::{Loop, counters, first_predicate, holds_for};
use super::Machine;
use super::frame::{Frame, Warp};

/// Rounds before a loop is looked at: the first ones fill caches, and short loops end anyway.
const FIRST_LOOK: u64 = 8;

/// A warp at the end of an iteration.
#[derive(Debug, Clone)]
struct Seen {
    cycle: u64,
    counts: Counts,
    touched_bytes: u64,
    r32: Vec<Row32>,
    r64: Vec<Row64>,
    preds: Vec<u32>,
    ready: Vec<u64>,
}

impl Seen {
    /// One lane of a row by its flat number.
    fn lane(&self, row: usize, lane: usize) -> u64 {
        let wide = row.wrapping_sub(self.r32.len());
        match (self.r32.get(row), self.r64.get(wide)) {
            (Some(row), _) => row[lane].into(),
            (None, Some(row)) => row[lane],
            (None, None) => (self.preds[wide - self.r64.len()] >> lane & 1).into(),
        }
    }
}

/// A loop that a warp is in.
#[derive(Debug, Clone)]
struct Watch {
    frame: usize,
    of: Loop,
    rounds: u64,
    look_at: u64,
    seen: Vec<Seen>,
}

/// The loops that a warp is in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches {
    all: Vec<Watch>,
    /// The block's counts when this warp last let others run.
    left: Option<(Counts, u64)>,
}

impl Watches {
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.left = None;
    }

    /// The warp lets others of its block run, which count in the same place.
    pub(crate) fn away(&mut self, counts: &Counts, touched_bytes: u64) {
        let looking = self.all.iter().any(|watch| !watch.seen.is_empty());
        self.left = looking.then(|| (counts.clone(), touched_bytes));
    }

    /// It is its turn again: what the others did is not its own.
    pub(crate) fn back(&mut self, counts: &Counts, touched_bytes: u64) {
        let Some((then, bytes)) = self.left.take() else {
            return;
        };
        let others = counts.since(&then);
        for seen in self.all.iter_mut().flat_map(|watch| &mut watch.seen) {
            seen.counts.add(&others);
            seen.touched_bytes += touched_bytes - bytes;
        }
    }

    fn forget(&mut self, frame: usize, back: u32) {
        self.all
            .retain(|watch| watch.frame != frame || watch.of.back != back);
    }
}

impl Machine<'_, '_, '_> {
    /// A warp is at the end of an iteration. `mask` are the lanes that go on together; without it
    /// some leave the loop, or are elsewhere.
    pub(super) fn goes_round(
        &mut self,
        warp: &mut Warp,
        frame_at: usize,
        back: u32,
        mask: Option<u32>,
    ) {
        let program = self.program;
        let func = &program.module().functions[warp.frames[frame_at].function];
        let ripe = self.leap_below.is_some_and(|below| self.budget <= below);
        let (Some(mask), true) = (mask.filter(|mask| *mask == warp.live), ripe) else {
            warp.watches.forget(frame_at, back);
            return;
        };
        let watches = &mut warp.watches.all;
        let known = (watches.iter_mut()).find(|w| w.frame == frame_at && w.of.back == back);
        let Some(watch) = known else {
            if let Ok(at) = func.loops.binary_search_by_key(&back, |of| of.back) {
                watches.push(Watch {
                    frame: frame_at,
                    of: func.loops[at],
                    rounds: 1,
                    look_at: FIRST_LOOK,
                    seen: Vec::new(),
                });
            }
            return;
        };
        watch.rounds += 1;
        if watch.rounds < watch.look_at {
            return;
        }
        let frame = &mut warp.frames[frame_at];
        watch.seen.push(Seen {
            cycle: warp.cycle,
            counts: self.counts.clone(),
            touched_bytes: self.footprint.bytes(),
            r32: frame.r32.clone(),
            r64: frame.r64.clone(),
            preds: frame.preds.clone(),
            ready: frame.ready.clone(),
        });
        if let [one, two, three] = &watch.seen[..] {
            if let Some(leap) = leap(func, watch.of, [one, two, three], mask) {
                let each = three.counts.since(&two.counts);
                self.counts.add_times(&each, leap.iterations);
                self.done.repeated_lanes += each.lanes().saturating_mul(leap.iterations);
                warp.cycle += leap.cycles;
                leap.land(frame, mask);
            }
            watch.seen.clear();
            watch.look_at = watch.rounds.saturating_mul(2);
        }
    }
}

/// Iterations that need not be executed, and what they change.
struct Leap {
    iterations: u64,
    cycles: u64,
    /// Rows whose values are ready as much later.
    later: Vec<usize>,
    /// By row, what an iteration adds in each lane.
    adds: Vec<(usize, Row64)>,
}

/// What can be told from three ends of iterations. The last iteration is left to be executed.
fn leap(func: &FuncCode, of: Loop, seen: [&Seen; 3], mask: u32) -> Option<Leap> {
    let [one, two, three] = seen;
    let each = three.counts.since(&two.counts);
    let is_steady = each == two.counts.since(&one.counts)
        && one.touched_bytes == three.touched_bytes
        && three.cycle - two.cycle == two.cycle - one.cycle;
    if !is_steady {
        return None;
    }
    let cycles = three.cycle - two.cycle;
    let mut later = Vec::new();
    for row in 0..three.ready.len() {
        let [a, b, c] = seen.map(|seen| seen.ready[row]);
        if b - a.min(b) == cycles && c - b.min(c) == cycles && cycles > 0 {
            later.push(row);
        } else if a != b || b != c || c > one.cycle {
            return None;
        }
    }
    let lanes = || super::access::lanes(mask);
    let differs = |row: usize| {
        lanes().any(|lane| {
            let [a, b, c] = seen.map(|seen| seen.lane(row, lane));
            a != b || b != c
        })
    };
    let region = of.head as usize..of.back as usize;
    let mut changed: Vec<usize> = region
        .flat_map(|at| super::super::repeats::writes(func, at))
        .filter(|&row| differs(row))
        .collect();
    changed.sort_unstable();
    changed.dedup();
    let adds = steps(counters(func, of, &changed)?, func, seen, mask)?;
    let Inst::SetP(test) = &func.code[of.test as usize] else {
        return None;
    };
    let negated = func.info[of.back as usize].guard.is_some_and(|g| g.negated);
    let is_wide = !matches!(
        test.kind,
        super::super::inst::CmpKind::U32 | super::super::inst::CmpKind::S32
    );
    let flat = |row: u16| usize::from(row) + if is_wide { three.r32.len() } else { 0 };
    let operand = |row: u16, lane: usize| {
        let row = flat(row);
        let by = adds.iter().find(|(at, _)| *at == row);
        [three.lane(row, lane), by.map_or(0, |(_, by)| by[lane])]
    };
    let lasts = lanes()
        .map(|lane| holds_for(test, negated, operand(test.a, lane), operand(test.b, lane)))
        .min()?;
    let iterations = lasts.checked_sub(1).filter(|&more| more > 0)?;
    Some(Leap {
        iterations,
        cycles: cycles.saturating_mul(iterations),
        later,
        adds,
    })
}

/// What an iteration adds to rows of counters in each lane, if it added the same twice.
fn steps(
    rows: Vec<usize>,
    func: &FuncCode,
    seen: [&Seen; 3],
    mask: u32,
) -> Option<Vec<(usize, Row64)>> {
    let mut adds = Vec::new();
    for row in rows {
        if row >= first_predicate(func) {
            return None;
        }
        let bits = if row < seen[2].r32.len() {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        let mut by: Row64 = [0; 32];
        for lane in super::access::lanes(mask) {
            let [a, b, c] = seen.map(|seen| seen.lane(row, lane));
            by[lane] = c.wrapping_sub(b) & bits;
            if b.wrapping_sub(a) & bits != by[lane] {
                return None;
            }
        }
        adds.push((row, by));
    }
    Some(adds)
}

impl Leap {
    /// Puts a frame where it is after the iterations.
    fn land(&self, frame: &mut Frame, mask: u32) {
        for &row in &self.later {
            frame.ready[row] = frame.ready[row].saturating_add(self.cycles);
        }
        let narrow = frame.r32.len();
        for (row, by) in &self.adds {
            for lane in super::access::lanes(mask) {
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
