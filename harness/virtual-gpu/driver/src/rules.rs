//! Rules of the vendor's documentation. A call that breaks one is refused, and the rule is named on
//! standard error.
//!
//! A driver may answer such a call otherwise, so [`LENIENT`] gives programs of others what drivers
//! answer where that is known. The harness and all tests run without it.

use std::ffi::OsString;

use crate::code::{self, Code};
use crate::diagnostics::say_once;

/// The variable that allows what a driver is known to allow against its documentation.
pub const LENIENT: &str = "GPUBENCH_VIRTUAL_LENIENT";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    OneThread,
    DeadHandle,
    UnevenSplit,
    UnknownAttribute,
    LateVariable,
    NamedLimit,
}

impl Rule {
    /// The rule with where it stands, and the answer to a call that breaks it.
    const fn says(self) -> (&'static str, Code) {
        match self {
            Self::OneThread => (
                "a green context can be current to only one thread (cuGreenCtxCreate)",
                code::INVALID_CONTEXT,
            ),
            Self::DeadHandle => {
                ("a handle outlives its object or its context (cuCtxDestroy)", code::INVALID_HANDLE)
            }
            Self::UnevenSplit => (
                "groups have minSmPartitionSize SMs or more, in steps of smCoscheduledAlignment \
                 (CUdevSmResource)",
                code::INVALID_RESOURCE_CONFIGURATION,
            ),
            Self::UnknownAttribute => {
                ("this driver has no such attribute (CUdevice_attribute)", code::INVALID_VALUE)
            }
            Self::LateVariable => {
                ("CUDA_MPS variables have no effect after cuInit (MPS)", code::NOT_PERMITTED)
            }
            Self::NamedLimit => (
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT of this driver takes indices, no UUID (MPS)",
                code::NOT_PERMITTED,
            ),
        }
    }

    /// Names the rule; the answer to the call that breaks it.
    pub fn broken(self) -> Code {
        let (text, answer) = self.says();
        say_once(&format!("rule: {text}"));
        answer
    }
}

/// Whether calls that a driver is known to allow are refused too.
pub fn are_strict() -> bool {
    std::env::var_os(LENIENT).is_none()
}

/// The variables of MPS in the environment, which a client reads once.
pub fn mps_variables() -> Vec<(OsString, OsString)> {
    let all = std::env::vars_os();
    let mut found: Vec<_> =
        all.filter(|(name, _)| name.as_encoded_bytes().starts_with(b"CUDA_MPS_")).collect();
    found.sort();
    found
}
