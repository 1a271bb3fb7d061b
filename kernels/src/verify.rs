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
    Mismatch {
        kernel: &'static str,
        /// What was compared.
        what: String,
        expected: String,
        /// The value on the device.
        found: String,
    },
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

    /// A buffer with these values.
    pub(crate) fn buffer<T: Pod>(&self, values: &[T]) -> Result<DeviceBuffer<T>, VerifyError> {
        Ok(DeviceBuffer::from_slice(self.kernels.context(), values)?)
    }

    /// Launches and waits.
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
