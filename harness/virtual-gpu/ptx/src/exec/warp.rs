//! A running warp: the fragments of its lanes, its frames, its local memory.

use super::frame::Frame;
use super::spin_state::Spin;
use super::watched_loops::WatchedLoops;

/// Wait state of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Can run.
    Ready,
    /// Other lanes in the mask of a `.sync` instruction.
    Lanes,
    /// A block-wide barrier.
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
    /// Cycle at which the first load since the last wait returns; `u64::MAX` without one.
    pub load_returns: u64,
    /// Bytes of the loads since the last wait.
    pub loading_bytes: u64,
    /// Local memory, lane after lane, `local_stride` bytes each.
    pub local: Vec<u8>,
    pub local_stride: u32,
    /// Loops that it is executing, for extrapolation.
    pub loops: WatchedLoops,
    /// Whether it repeats itself.
    pub spin: Spin,
    /// Thread index of each lane.
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

    /// Index of a new frame.
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
