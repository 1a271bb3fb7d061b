//! Counts of an execution: instructions by class, bytes, sectors, barriers, the longest warp.

/// Classes of instructions; each stands for one resource of an SM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Class {
    Fp32,
    Fp64,
    /// Integer and logic arithmetic, comparisons, selections.
    Int,
    /// Special functions: reciprocals, roots, exponentials, divisions.
    Sfu,
    Control,
    LoadGlobal,
    StoreGlobal,
    /// Loads and stores of shared memory.
    Shared,
    /// Loads and stores of local memory.
    Local,
    Atomic,
    /// Block-wide and warp-wide barriers.
    Barrier,
    Convert,
    /// Moves, parameters, constants, special registers, shuffles, votes, fences.
    Other,
    /// Products of matrices in tensor cores.
    Tensor,
}

impl Class {
    pub const COUNT: usize = 14;
}

/// Sums over executed blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lane-instructions by [`Class`].
    pub lane_instructions: [u64; Class::COUNT],
    /// Warp-instructions by [`Class`].
    pub warp_instructions: [u64; Class::COUNT],
    /// Bytes of the distinct 32-byte sectors of each warp-wide load.
    pub load_sector_bytes: u64,
    /// Bytes of the distinct 32-byte sectors of each warp-wide store.
    pub store_sector_bytes: u64,
    /// Bytes of the distinct 32-byte sectors of each warp-wide atomic.
    pub atomic_sector_bytes: u64,
    /// Of the loaded sectors, those that hit in the block's share of L1.
    pub l1_hit_bytes: u64,
    /// Most bytes that a warp had in flight when it waited for its loads: sectors of loads that
    /// missed in L1, issued since the wait before. A loop with a remainder waits for less there.
    pub most_loading_bytes: u64,
    /// Bytes that lanes moved to and from shared and local memory.
    pub shared_bytes: u64,
    /// Pages that missed in the SM's TLB.
    pub translations: u64,
    /// Lanes that performed an atomic or a reduction.
    pub atomics: u64,
    pub device_atomics: u64,
    /// Arrivals of warps at block-wide barriers.
    pub barriers: u64,
    pub blocks: u64,
    pub warps: u64,
    /// Cycles of the slowest warp without contention; a maximum, not a sum.
    pub longest_warp_cycles: u64,
    /// The word of device memory with most atomics.
    pub hot_word: HotWord,
}

/// A word of device memory and the number of atomics on it, which are serialised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HotWord {
    pub address: u64,
    pub atomics: u64,
}

impl HotWord {
    /// The hot word of several blocks: counts add up for one common word, otherwise the hotter one
    /// counts.
    fn join(self, other: Self, times: u64) -> Self {
        if self.atomics == 0 || self.address == other.address {
            let more = other.atomics.saturating_mul(times);
            return Self { address: other.address, atomics: self.atomics.saturating_add(more) };
        }
        if other.atomics > self.atomics { other } else { self }
    }
}

impl Counts {
    pub fn lanes(&self) -> u64 {
        self.lane_instructions.iter().sum()
    }

    pub fn lanes_of(&self, class: Class) -> u64 {
        self.lane_instructions[class as usize]
    }

    pub fn warps_of(&self, class: Class) -> u64 {
        self.warp_instructions[class as usize]
    }

    /// Adds `other`: sums add up, the longest warp is the maximum of both.
    pub fn add(&mut self, other: &Counts) {
        self.add_times(other, 1);
    }

    /// Adds `times` blocks like `other`.
    pub fn add_times(&mut self, other: &Counts, times: u64) {
        for (mine, theirs) in self.sums_mut().into_iter().zip(other.sums()) {
            *mine = mine.saturating_add(theirs.saturating_mul(times));
        }
        self.longest_warp_cycles = self.longest_warp_cycles.max(other.longest_warp_cycles);
        self.most_loading_bytes = self.most_loading_bytes.max(other.most_loading_bytes);
        if other.hot_word.atomics > 0 {
            self.hot_word = self.hot_word.join(other.hot_word, times);
        }
    }

    /// The difference to earlier sums; maxima are zero.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        let mut out = self.clone();
        out.subtract_times(earlier, 1);
        (out.longest_warp_cycles, out.most_loading_bytes) = (0, 0);
        out.hot_word = HotWord::default();
        out
    }

    /// Takes away `times` what `other` has; maxima stay.
    pub(crate) fn subtract_times(&mut self, other: &Counts, times: u64) {
        for (mine, theirs) in self.sums_mut().into_iter().zip(other.sums()) {
            *mine = mine.saturating_sub(theirs.saturating_mul(times));
        }
    }

    /// Every additive figure, in one fixed order.
    pub fn sums(&self) -> Vec<u64> {
        let mut copy = self.clone();
        copy.sums_mut().into_iter().map(|sum| *sum).collect()
    }

    pub(crate) fn sums_mut(&mut self) -> Vec<&mut u64> {
        let Counts {
            lane_instructions,
            warp_instructions,
            load_sector_bytes,
            store_sector_bytes,
            atomic_sector_bytes,
            l1_hit_bytes,
            most_loading_bytes: _,
            shared_bytes,
            translations,
            atomics,
            device_atomics,
            barriers,
            blocks,
            warps,
            longest_warp_cycles: _,
            hot_word: _,
        } = self;
        let mut all: Vec<&mut u64> = lane_instructions.iter_mut().collect();
        all.extend(warp_instructions.iter_mut());
        all.extend([
            load_sector_bytes,
            store_sector_bytes,
            atomic_sector_bytes,
            l1_hit_bytes,
            shared_bytes,
            translations,
            atomics,
            device_atomics,
            barriers,
            blocks,
            warps,
        ]);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_and_the_longest_warp_is_a_maximum() {
        let mut a = Counts { barriers: 2, longest_warp_cycles: 9, ..Counts::default() };
        let mut b = Counts { barriers: 3, longest_warp_cycles: 4, ..Counts::default() };
        b.lane_instructions[Class::Fp32 as usize] = 32;
        a.add_times(&b, 10);
        assert_eq!((a.barriers, a.longest_warp_cycles), (32, 9));
        assert_eq!((a.lanes(), a.lanes_of(Class::Fp32)), (320, 320));
    }

    #[test]
    fn atomics_add_up_only_on_one_common_word() {
        let hot = |address, atomics| Counts {
            hot_word: HotWord { address, atomics },
            ..Counts::default()
        };
        let mut all = Counts::default();
        all.add(&hot(64, 8));
        all.add_times(&hot(64, 8), 9);
        assert_eq!(all.hot_word, HotWord { address: 64, atomics: 80 });
        all.add_times(&hot(128, 81), 1000);
        assert_eq!(all.hot_word.atomics, 81, "one word per block");
        all.add(&Counts::default());
        assert_eq!(all.hot_word.atomics, 81);
    }
}
