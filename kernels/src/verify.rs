//! Checks that a kernel does on the device at hand what its source says.
//!
//! Every check runs at a size made for it, under two million lane instructions, so that a simulator
//! can execute it in full; none of them times anything.

use crate::catalogue::CATALOGUE;
use crate::driver::{Context, DeviceBuffer, DriverError, Pod, Stream};
use crate::kernel_set::{KernelSet, Launcher};

/// Why a kernel is not to be trusted here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The driver refused a call of the check.
    #[error("{0}")]
    Driver(#[from] DriverError),
    /// The device computed something else.
    #[error("kernel {kernel}: {what}: expected {expected}, found {found}")]
    Mismatch {
        /// Which kernel.
        kernel: &'static str,
        /// What was looked at.
        what: String,
        /// What it should be.
        expected: String,
        /// What it was.
        found: String,
    },
}

/// Runs the check of every kernel in the catalogue, in its order.
pub fn verify_all(context: &Context) -> Vec<(&'static str, Result<(), VerifyError>)> {
    let kernels = KernelSet::new(context);
    CATALOGUE
        .iter()
        .map(|info| (info.name, (info.verify)(&kernels)))
        .collect()
}

/// One check under way: its kernel's name, its set and a stream of its own.
pub(crate) struct Check<'a> {
    pub(crate) name: &'static str,
    pub(crate) kernels: &'a KernelSet,
    pub(crate) stream: Stream,
}

impl<'a> Check<'a> {
    pub(crate) fn new(name: &'static str, kernels: &'a KernelSet) -> Result<Self, VerifyError> {
        Ok(Self {
            name,
            kernels,
            stream: Stream::new(kernels.context())?,
        })
    }

    /// A zeroed buffer.
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
