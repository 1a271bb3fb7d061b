//! The state of a running warp: register frames of its calls and the fragments of its lanes.

use super::super::inst::{PredRef, Row};
use super::super::program::{Row32, Row64, Template};
use super::leap::Watches;

/// Registers of one call, of all lanes of the warp that are in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frame {
    pub function: usize,
    pub r32: Vec<Row32>,
    pub r64: Vec<Row64>,
    pub preds: Vec<u32>,
    /// Cycle at which each flat row is ready.
    pub ready: Vec<u64>,
    /// Index of the caller's frame; meaningless for the kernel itself.
    pub parent: usize,
    /// Call site in the caller.
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
    /// Makes this the frame of a fresh call.
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

    /// Lanes whose predicate holds.
    #[inline(always)]
    pub(crate) fn pred(&self, pred: PredRef) -> u32 {
        let mask = self.preds[usize::from(pred.row)];
        if pred.negated { !mask } else { mask }
    }

    /// Sets a predicate of the `active` lanes.
    #[inline(always)]
    pub(crate) fn set_pred(&mut self, row: Row, active: u32, mask: u32) {
        let old = &mut self.preds[usize::from(row)];
        *old = (*old & !active) | (mask & active);
    }

    /// Writes the `active` lanes of a 32-bit row.
    #[inline(always)]
    pub(crate) fn set32(&mut self, row: Row, active: u32, values: &Row32) {
        let old = &mut self.r32[usize::from(row)];
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

    /// Writes the `active` lanes of a 64-bit row.
    #[inline(always)]
    pub(crate) fn set64(&mut self, row: Row, active: u32, values: &Row64) {
        let old = &mut self.r64[usize::from(row)];
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

    /// One lane of the bank that `wide` names.
    #[inline(always)]
    pub(crate) fn lane(&self, wide: bool, row: Row, lane: usize) -> u64 {
        if wide {
            self.r64[usize::from(row)][lane]
        } else {
            u64::from(self.r32[usize::from(row)][lane])
        }
    }

    /// Writes all lanes of the bank that `wide` names.
    #[inline(always)]
    pub(crate) fn splat(&mut self, wide: bool, row: Row, value: u64) {
        if wide {
            self.r64[usize::from(row)] = [value; 32];
        } else {
            self.r32[usize::from(row)] = [value as u32; 32];
        }
    }

    /// Writes one lane of the bank that `wide` names.
    #[inline(always)]
    pub(crate) fn set_lane(&mut self, wide: bool, row: Row, lane: usize, value: u64) {
        if wide {
            self.r64[usize::from(row)][lane] = value;
        } else {
            self.r32[usize::from(row)][lane] = value as u32;
        }
    }
}

/// What a fragment waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it can run.
    Ready,
    /// The other lanes named by a `.sync` instruction.
    Lanes,
    /// A block-wide barrier.
    Barrier(u8),
}

/// Lanes of a warp that are at the same place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment {
    pub mask: u32,
    pub pc: u32,
    pub frame: usize,
    pub wait: Wait,
    /// Had its turn without meeting the others; the others go first.
    pub yielded: bool,
    /// Times it was picked since it last stood back.
    pub picks: u32,
    /// Runs the `.sync` instruction it stands at although lanes are missing.
    pub forced: bool,
}

/// One warp of a block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warp {
    /// Index in the block.
    pub index: u32,
    pub frames: Vec<Frame>,
    free: Vec<usize>,
    pub fragments: Vec<Fragment>,
    /// Lanes that have not exited.
    pub live: u32,
    /// Modelled cycles since the block started.
    pub cycle: u64,
    /// Local memory, lane after lane, `local_stride` bytes each.
    pub local: Vec<u8>,
    pub local_stride: u32,
    /// Loops that it is in, watched for repeating themselves.
    pub watches: Watches,
    /// Thread index of each lane.
    pub tid: [[u32; 32]; 3],
}

impl Warp {
    /// Starts the warp over with `live` lanes; the caller fills frame 0.
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
        });
        self.live = live;
        self.cycle = 0;
        self.watches.clear();
        self.local_stride = local_bytes.next_multiple_of(16);
        self.local.clear();
        self.local.resize(self.local_stride as usize * 32, 0);
    }

    /// Index of a frame to be filled.
    pub(crate) fn new_frame(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::default());
            self.frames.len() - 1
        })
    }

    /// Gives a frame back once no lane is in it.
    pub(crate) fn release_if_empty(&mut self, frame: usize) {
        if frame != 0 && self.frames[frame].live == 0 {
            self.free.push(frame);
        }
    }

    /// Makes room for `bytes` of local memory in every lane.
    pub(crate) fn grow_local(&mut self, bytes: u32) {
        if bytes <= self.local_stride {
            return;
        }
        let old = self.local_stride as usize;
        let new = bytes
            .next_multiple_of(16)
            .max(self.local_stride.saturating_mul(2)) as usize;
        let mut grown = vec![0; new * 32];
        for lane in 0..32 {
            grown[lane * new..][..old].copy_from_slice(&self.local[lane * old..][..old]);
        }
        self.local = grown;
        self.local_stride = new as u32;
    }

    /// Puts together fragments that stand at the same place, and those that gathered for a `.sync`
    /// instruction may try it again.
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
                    self.fragments.swap_remove(other);
                } else {
                    other += 1;
                }
            }
            at += 1;
        }
    }

    /// The fragment to run: the deepest call first, then the lowest address, because compilers lay
    /// code out so that lanes meet further down. A fragment that used up its turn goes last, so
    /// that lanes which wait for other lanes of their warp make progress.
    pub(crate) fn pick(&mut self) -> Option<usize> {
        let ready = |f: &Fragment| f.wait == Wait::Ready;
        if self.fragments.len() == 1 {
            return ready(&self.fragments[0]).then_some(0);
        }
        if self
            .fragments
            .iter()
            .filter(|f| ready(f))
            .all(|f| f.yielded)
        {
            self.fragments.iter_mut().for_each(|f| f.yielded = false);
        }
        let key = |f: &Fragment| (u32::MAX - self.frames[f.frame].depth, f.pc, f.frame);
        let eligible = self
            .fragments
            .iter()
            .enumerate()
            .filter(|(_, f)| ready(f) && !f.yielded);
        eligible.min_by_key(|(_, f)| key(f)).map(|(at, _)| at)
    }

    /// Lets the fragment with the lowest address pass a `.sync` whose lanes will never gather: on
    /// a device that is undefined, here it is the lanes that are there. False if none waits so.
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
