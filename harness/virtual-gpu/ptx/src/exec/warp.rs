//! Warps: their fragments, where these split and can reconverge, and the register frames of calls.

use super::spin_state::Spin;
use super::watched_loops::WatchedLoops;
use crate::fault::FaultKind;
use crate::operands::{PredRef, Row};
use crate::program::{Row32, Row64, Template};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Ready,
    /// Other lanes in the mask of a `.sync` instruction.
    Lanes,
    Barrier(u8),
}

/// Marks a fragment that does not wait for a change of memory.
pub(super) const NEVER: u64 = u64::MAX;

/// Lanes of a warp that are at the same address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment {
    pub mask: u32,
    pub pc: u32,
    pub frame: usize,
    pub wait: Wait,
    /// Reached its limit without reconvergence; the others run first.
    pub yielded: bool,
    /// Times it was picked since it last yielded.
    pub picks: u32,
    /// Runs the `.sync` instruction at its address although lanes are missing.
    pub forced: bool,
    /// The count of changes in memory for which it repeats itself, or [`NEVER`].
    pub spins_since: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Warp {
    pub index: u32,
    pub frames: Vec<Frame>,
    free: Vec<usize>,
    pub fragments: Vec<Fragment>,
    /// Lanes that have not exited.
    pub live: u32,
    /// Modelled cycles since the block started.
    pub cycle: u64,
    /// Cycle at which the first load since the last wait returns; `u64::MAX` without one.
    pub load_returns: u64,
    /// Bytes of the loads since the last wait.
    pub loading_bytes: u64,
    /// Local memory, lane after lane, `local_stride` bytes each.
    pub local: Vec<u8>,
    pub local_stride: u32,
    pub loops: WatchedLoops,
    /// Whether it repeats itself.
    pub spin: Spin,
    pub tid: [[u32; 32]; 3],
}

impl Warp {
    /// Resets the warp with `live` lanes; the caller fills frame 0.
    pub(crate) fn reset(&mut self, index: u32, live: u32, local_bytes: u32) {
        self.index = index;
        self.free.clear();
        self.frames.truncate(1);
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        self.fragments.clear();
        self.fragments.push(Fragment {
            mask: live,
            pc: 0,
            frame: 0,
            wait: Wait::Ready,
            yielded: false,
            picks: 0,
            forced: false,
            spins_since: NEVER,
        });
        self.live = live;
        self.cycle = 0;
        self.load_returns = u64::MAX;
        self.loading_bytes = 0;
        self.loops.clear();
        self.spin = Spin::default();
        self.local_stride = local_bytes.next_multiple_of(16);
        self.local.clear();
        self.local.resize(self.local_stride as usize * 32, 0);
    }

    pub(crate) fn new_frame(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::default());
            self.frames.len() - 1
        })
    }

    /// Frees a frame once no lane is in it.
    pub(crate) fn release_if_empty(&mut self, frame: usize) {
        if frame != 0 && self.frames[frame].live == 0 {
            self.free.push(frame);
        }
    }

    /// Grows the local memory of every lane to `bytes`.
    pub(crate) fn grow_local(&mut self, bytes: u32) {
        if bytes <= self.local_stride {
            return;
        }
        let old = self.local_stride as usize;
        let new = bytes.next_multiple_of(16).max(self.local_stride.saturating_mul(2)) as usize;
        let mut grown = vec![0; new * 32];
        for lane in 0..32 {
            grown[lane * new..][..old].copy_from_slice(&self.local[lane * old..][..old]);
        }
        self.local = grown;
        self.local_stride = new as u32;
    }

    /// Merges fragments at the same address; those that wait for a `.sync` instruction retry it.
    pub(crate) fn merge(&mut self) {
        let mut at = 0;
        while at < self.fragments.len() {
            let mut other = at + 1;
            while other < self.fragments.len() {
                let (a, b) = (self.fragments[at], self.fragments[other]);
                let barrier = |w: Wait| matches!(w, Wait::Barrier(_));
                let same = a.frame == b.frame && a.pc == b.pc;
                if same && !barrier(a.wait) && !barrier(b.wait) {
                    let merged = &mut self.fragments[at];
                    merged.mask |= b.mask;
                    merged.wait = Wait::Ready;
                    merged.yielded &= b.yielded;
                    merged.forced |= b.forced;
                    merged.spins_since = NEVER;
                    self.fragments.swap_remove(other);
                } else {
                    other += 1;
                }
            }
            at += 1;
        }
    }

    /// The fragment to run: the deepest call first, then the lowest address, because compilers
    /// place reconvergence points further down. A fragment that has yielded goes last, so that
    /// lanes which wait for lanes of their own warp make progress. `changes` counts those of
    /// memory.
    pub(crate) fn pick(&mut self, changes: u64) -> Option<usize> {
        let ready = |f: &Fragment| f.wait == Wait::Ready && f.spins_since != changes;
        if self.fragments.len() == 1 {
            return ready(&self.fragments[0]).then_some(0);
        }
        if self.fragments.iter().filter(|f| ready(f)).all(|f| f.yielded) {
            self.fragments.iter_mut().for_each(|f| f.yielded = false);
        }
        let key = |f: &Fragment| (u32::MAX - self.frames[f.frame].depth, f.pc, f.frame);
        let eligible = self.fragments.iter().enumerate().filter(|(_, f)| ready(f) && !f.yielded);
        eligible.min_by_key(|(_, f)| key(f)).map(|(at, _)| at)
    }

    /// Lets the fragment with the lowest address pass a `.sync` with lanes that can never arrive.
    /// The ISA leaves this undefined; here the present lanes take part. False if no fragment waits
    /// so.
    pub(crate) fn force_one(&mut self) -> bool {
        let waiting = self.fragments.iter_mut().filter(|f| f.wait == Wait::Lanes);
        match waiting.min_by_key(|f| (f.pc, f.frame)) {
            Some(fragment) => {
                fragment.wait = Wait::Ready;
                fragment.forced = true;
                true
            }
            None => false,
        }
    }
}

/// Moves `lanes` out of fragment `at` into a new fragment at `pc`.
pub(super) fn split(warp: &mut Warp, at: usize, lanes: u32, pc: u32) {
    let old = &mut warp.fragments[at];
    old.mask &= !lanes;
    let new = Fragment { mask: lanes, pc, wait: Wait::Ready, forced: false, ..*old };
    warp.fragments.push(new);
}

/// The next address at which fragment `at` can reconverge with another one.
pub(super) fn meeting_point(warp: &Warp, at: usize) -> u32 {
    let mine = warp.fragments[at];
    let others = warp.fragments.iter().filter(|other| {
        other.frame == mine.frame && other.pc > mine.pc && !matches!(other.wait, Wait::Barrier(_))
    });
    others.map(|other| other.pc).min().unwrap_or(u32::MAX)
}

/// `brx.idx`: each lane jumps to the entry with its index.
pub(super) fn table_branch(
    warp: &mut Warp,
    at: usize,
    index: u16,
    targets: &[u32],
    active: u32,
) -> Result<(), (usize, FaultKind)> {
    let Fragment { mask, pc, frame, .. } = warp.fragments[at];
    let row = warp.frames[frame].r32[usize::from(index)];
    for lane in lanes(active) {
        if row[lane] as usize >= targets.len() {
            return Err((lane, FaultKind::InvalidPc { addr: u64::from(row[lane]) }));
        }
    }
    if mask != active {
        split(warp, at, mask & !active, pc + 1);
    }
    let first = active.trailing_zeros() as usize & 31;
    let mut left = active;
    for (index, target) in targets.iter().enumerate() {
        let going = lanes(left)
            .filter(|lane| row[*lane] as usize == index)
            .fold(0u32, |mask, lane| mask | 1 << lane);
        if going == 0 || index == row[first] as usize {
            continue;
        }
        split(warp, at, going, *target);
        left &= !going;
    }
    warp.fragments[at].pc = targets[row[first] as usize];
    Ok(())
}

/// Registers of one call, for all lanes of the warp in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub function: usize,
    pub r32: Vec<Row32>,
    pub r64: Vec<Row64>,
    pub preds: Vec<u32>,
    /// Cycle at which each flat row is ready.
    pub ready: Vec<u64>,
    /// Index of the caller's frame; unused for the kernel itself.
    pub parent: usize,
    pub site: usize,
    pub return_pc: u32,
    /// Lanes that have not returned.
    pub live: u32,
    pub depth: u32,
    /// Where this call's variables start in a lane's local memory.
    pub local_base: u32,
    /// Stack bytes of a lane up to and including this call.
    pub stack_bytes: u32,
}

impl Frame {
    pub(crate) fn reset(&mut self, function: usize, template: &Template, preds: u16, flat: usize) {
        self.function = function;
        self.r32.clone_from(&template.r32);
        self.r64.clone_from(&template.r64);
        self.preds.clear();
        self.preds.resize(usize::from(preds), 0);
        self.ready.clear();
        self.ready.resize(flat, 0);
        self.parent = 0;
        self.site = 0;
        self.return_pc = 0;
        self.live = 0;
        self.depth = 0;
        self.local_base = 0;
        self.stack_bytes = 0;
    }

    /// Whether both are the same call with the same contents, at whatever times.
    pub(crate) fn has_registers_of(&self, other: &Self) -> bool {
        let call = |f: &Self| (f.function, f.parent, f.site, f.return_pc, f.live, f.local_base);
        call(self) == call(other)
            && self.preds == other.preds
            && self.r32 == other.r32
            && self.r64 == other.r64
    }

    /// Lanes in which the predicate holds.
    #[inline(always)]
    pub(crate) fn pred(&self, pred: PredRef) -> u32 {
        let mask = self.preds[usize::from(pred.row)];
        if pred.negated { !mask } else { mask }
    }

    #[inline(always)]
    pub(crate) fn set_pred(&mut self, row: Row, active: u32, mask: u32) {
        let old = &mut self.preds[usize::from(row)];
        *old = (*old & !active) | (mask & active);
    }

    #[inline(always)]
    pub(crate) fn set32(&mut self, row: Row, active: u32, values: &Row32) {
        set_lanes(&mut self.r32[usize::from(row)], active, values);
    }

    #[inline(always)]
    pub(crate) fn set64(&mut self, row: Row, active: u32, values: &Row64) {
        set_lanes(&mut self.r64[usize::from(row)], active, values);
    }

    /// One lane of the bank that `wide` selects.
    #[inline(always)]
    pub(crate) fn lane(&self, wide: bool, row: Row, lane: usize) -> u64 {
        if wide {
            self.r64[usize::from(row)][lane]
        } else {
            u64::from(self.r32[usize::from(row)][lane])
        }
    }

    /// Writes all lanes of the bank that `wide` selects.
    #[inline(always)]
    pub(crate) fn splat(&mut self, wide: bool, row: Row, value: u64) {
        if wide {
            self.r64[usize::from(row)] = [value; 32];
        } else {
            self.r32[usize::from(row)] = [value as u32; 32];
        }
    }

    #[inline(always)]
    pub(crate) fn set_lane(&mut self, wide: bool, row: Row, lane: usize, value: u64) {
        if wide {
            self.r64[usize::from(row)][lane] = value;
        } else {
            self.r32[usize::from(row)][lane] = value as u32;
        }
    }
}

pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

#[inline(always)]
fn set_lanes<T: Copy>(old: &mut [T; 32], active: u32, values: &[T; 32]) {
    if active == u32::MAX {
        *old = *values;
    } else {
        for lane in 0..32 {
            if active >> lane & 1 == 1 {
                old[lane] = values[lane];
            }
        }
    }
}
