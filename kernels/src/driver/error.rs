//! Errors between this crate and libcuda, with the driver's own number.

use std::sync::{Mutex, PoisonError};

use super::codes;

/// A driver call that failed or could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The loader found no libcuda.
    #[error("no libcuda on this machine (tried libcuda.so and libcuda.so.1)")]
    NoLibrary,
    /// The library lacks an entry point that this call needs.
    #[error(
        "libcuda has no symbol {symbol}, which this call needs (driver too old, or a stand-in)"
    )]
    MissingSymbol { symbol: &'static str },
    /// A driver call failed.
    #[error("{function} returned {code} ({name})")]
    Call {
        /// The symbol.
        function: &'static str,
        /// The result of the driver, known or not.
        code: i32,
        /// Its name in cuda.h, or a text that it has none.
        name: &'static str,
    },
    /// The driver rejected a module, with a log.
    #[error("cuModuleLoadDataEx returned {code} ({name}) for module {module}: {log}")]
    Module {
        module: String,
        /// The result of the driver.
        code: i32,
        /// Its name in cuda.h.
        name: &'static str,
        /// The error log of the JIT compiler on one line, or "no log".
        log: String,
    },
    /// The PTX text has no such entry point.
    #[error("module {module} has no entry {entry}")]
    NoEntry {
        module: String,
        /// The missing entry.
        entry: String,
    },
    /// The arguments of a launch do not fit the parameters of the kernel.
    #[error("kernel {kernel} takes parameters of {expected:?} bytes, passed were {passed:?}")]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// Bytes of each parameter, from the PTX.
        expected: Vec<u8>,
        /// Bytes of each argument.
        passed: Vec<u8>,
    },
    /// A copy or fill beyond the end of its buffer.
    #[error("{what}: {at} + {count} elements do not fit in a buffer of {len}")]
    Range {
        /// Which operation.
        what: &'static str,
        /// First element.
        at: usize,
        /// How many elements.
        count: usize,
        /// Elements in the buffer.
        len: usize,
    },
    /// A text with a NUL byte, which the driver would cut short.
    #[error("{what} holds a NUL byte, which the driver would take for its end")]
    NulByte {
        /// Which text.
        what: &'static str,
    },
}

impl DriverError {
    /// An error from a driver answer.
    pub fn from_code(function: &'static str, code: i32) -> Self {
        Self::Call { function, code, name: codes::name(code) }
    }

    /// The driver's number, where the driver was called.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Call { code, .. } | Self::Module { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether every later call of this process is expected to fail too.
    pub fn is_sticky(&self) -> bool {
        self.code().is_some_and(codes::is_sticky)
    }
}

/// Turns a result code into a `Result`; every code but zero is an error.
pub(super) fn check(function: &'static str, code: i32) -> Result<(), DriverError> {
    if code == codes::SUCCESS { Ok(()) } else { Err(DriverError::from_code(function, code)) }
}

/// Failures of releases in destructors, which return no `Result`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropErrors {
    /// How many releases failed in this process.
    pub count: u64,
    /// The latest failure.
    pub last: Option<DriverError>,
}

static DROPS: Mutex<DropErrors> = Mutex::new(DropErrors { count: 0, last: None });

/// Failures of releases so far, process-wide.
///
/// After a sticky error every release fails, so a tenant that survives a fault reads a count above
/// zero. On a healthy context it stays zero.
pub fn drop_errors() -> DropErrors {
    DROPS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Counts the result of a release.
pub(super) fn note_drop(outcome: Result<(), DriverError>) {
    if let Err(error) = outcome {
        let mut drops = DROPS.lock().unwrap_or_else(PoisonError::into_inner);
        drops.count += 1;
        drops.last = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_function_number_and_name_on_one_line() {
        let known = DriverError::from_code("cuMemAlloc_v2", 2);
        assert_eq!(known.to_string(), "cuMemAlloc_v2 returned 2 (CUDA_ERROR_OUT_OF_MEMORY)");
        let unknown = DriverError::from_code("cuMemAllocAsync", -1);
        assert_eq!(
            unknown.to_string(),
            "cuMemAllocAsync returned -1 (code unknown to this version)"
        );
        assert_eq!(unknown.code(), Some(-1));
    }

    #[test]
    fn only_success_passes_the_check() {
        assert_eq!(check("cuInit", 0), Ok(()));
        for code in [1, 600, -1, 999, 12_345] {
            assert_eq!(check("cuInit", code).map_err(|e| e.code()), Err(Some(code)));
        }
    }

    #[test]
    fn a_failed_release_is_kept() {
        let before = drop_errors().count;
        note_drop(Ok(()));
        assert_eq!(drop_errors().count, before);
        note_drop(check("cuMemFree_v2", 700));
        let after = drop_errors();
        assert_eq!(after.count, before + 1);
        assert_eq!(after.last.and_then(|e| e.code()), Some(700));
    }
}
