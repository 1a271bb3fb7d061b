//! Checks that a kernel computes on this device what its source says.
//!
//! Every check runs at a size of its own, under two million lane instructions, so that a simulator
//! can execute it in full. Checks measure no time.

use crate::driver::{DeviceBuffer, DriverError, Pod, Stream};
use crate::kernel_set::{KernelSet, Launcher};

/// Why a kernel must not be used on this device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A driver call of the check failed.
    #[error("{0}")]
    Driver(#[from] DriverError),
    /// The device computed another result.
    #[error("kernel {kernel}: {what}: expected {expected}, found {found}")]
    Mismatch { kernel: &'static str, what: String, expected: String, found: String },
}

/// One running check: the kernel's name, the kernels and a stream of its own.
pub(crate) struct Check<'a> {
    pub(crate) name: &'static str,
    pub(crate) kernels: &'a KernelSet,
    pub(crate) stream: Stream,
}

impl<'a> Check<'a> {
    pub(crate) fn new(name: &'static str, kernels: &'a KernelSet) -> Result<Self, VerifyError> {
        Ok(Self { name, kernels, stream: Stream::new(kernels.context())? })
    }

    pub(crate) fn zeros<T: Pod>(&self, len: usize) -> Result<DeviceBuffer<T>, VerifyError> {
        let buffer = DeviceBuffer::alloc(self.kernels.context(), len)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    pub(crate) fn buffer<T: Pod>(&self, values: &[T]) -> Result<DeviceBuffer<T>, VerifyError> {
        Ok(DeviceBuffer::from_slice(self.kernels.context(), values)?)
    }

    pub(crate) fn run(&self, launcher: &dyn Launcher) -> Result<(), VerifyError> {
        launcher.launch(self.kernels, &self.stream)?;
        Ok(self.stream.synchronize()?)
    }

    /// Checks that a kernel of microseconds lasted at least as long as required and ended: the
    /// upper limit allows for any neighbour on a shared device.
    pub(crate) fn lasted(
        &self,
        what: &str,
        start_ns: u64,
        end_ns: u64,
        at_least_ns: u64,
    ) -> Result<(), VerifyError> {
        const AT_MOST_NS: u64 = 10_000_000_000;
        self.holds(start_ns != 0, &format!("start of {what}"), &start_ns, &"a time")?;
        let lasted_ns = end_ns.wrapping_sub(start_ns);
        let good = (at_least_ns..=AT_MOST_NS).contains(&lasted_ns);
        let expected = format!("{at_least_ns} to {AT_MOST_NS}");
        self.holds(good, &format!("nanoseconds of {what}"), &lasted_ns, &expected)
    }

    /// Checks that a load counts the threads with a given sum as the host does, for the sums of the
    /// first, a middle and the last thread.
    pub(crate) fn counts_sums(
        &self,
        sums: &[u64],
        hits: &DeviceBuffer<u32>,
        with_trigger: &dyn Fn(u64) -> Box<dyn Launcher>,
    ) -> Result<(), VerifyError> {
        for thread in [0, sums.len() / 2 + 1, sums.len() - 1] {
            let same = sums.iter().filter(|sum| **sum == sums[thread]).count();
            let found = self.count_hits(hits, with_trigger(sums[thread]).as_ref())?;
            self.same(&format!("hits of the sum of thread {thread}"), found as usize, same)?;
        }
        Ok(())
    }

    /// The number of threads of a load that count a hit.
    pub(crate) fn count_hits(
        &self,
        hits: &DeviceBuffer<u32>,
        load: &dyn Launcher,
    ) -> Result<u32, VerifyError> {
        hits.fill(0)?;
        self.run(load)?;
        Ok(hits.to_vec()?[0])
    }

    pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        found: T,
        expected: T,
    ) -> Result<(), VerifyError> {
        self.holds(found == expected, what, &found, &expected)
    }

    /// Compares element by element and names the first that differs.
    pub(crate) fn same_slice<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        found: &[T],
        expected: &[T],
    ) -> Result<(), VerifyError> {
        self.same(&format!("length of {what}"), found.len(), expected.len())?;
        for (at, (f, e)) in found.iter().zip(expected).enumerate() {
            self.holds(f == e, &format!("{what}[{at}]"), f, e)?;
        }
        Ok(())
    }

    pub(crate) fn holds(
        &self,
        good: bool,
        what: &str,
        found: &dyn std::fmt::Debug,
        expected: &dyn std::fmt::Debug,
    ) -> Result<(), VerifyError> {
        if good {
            return Ok(());
        }
        Err(VerifyError::Mismatch {
            kernel: self.name,
            what: what.to_owned(),
            expected: format!("{expected:?}"),
            found: format!("{found:?}"),
        })
    }
}

// The pattern of `pattern_fill`, computed on the host.

/// The word that `pattern_fill` stores at `index` for `seed`.
///
/// The finaliser of MurmurHash3 (A. Appleby, MurmurHash3.cpp, fmix32) over the folded index and the
/// seed; `cuda/pattern_fill.cu` and `cuda/pattern_check.cu` compute the same.
pub fn pattern_word(index: u64, seed: u32) -> u32 {
    let [low, high] = [index, index >> 32].map(|half| (half & 0xffff_ffff) as u32);
    let mut h = low ^ high.wrapping_mul(0x9e37_79b1) ^ seed;
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values of fmix32: 0 stays 0, 1 becomes 0x514e28b7 (also the hash of the empty
    /// string under seed 1 in the reference implementation).
    #[test]
    fn pattern_words_equal_the_published_finaliser() {
        assert_eq!(pattern_word(0, 0), 0);
        assert_eq!(pattern_word(1, 0), 0x514e_28b7);
        assert_eq!(pattern_word(0, 1), 0x514e_28b7);
    }

    #[test]
    fn the_high_half_of_an_index_counts() {
        assert_eq!(pattern_word(1 << 32, 0), pattern_word(0x9e37_79b1, 0));
        assert_eq!(pattern_word(5 | 3 << 32, 9), pattern_word(5 ^ 0xdaa6_6d13, 9));
    }
}
