//! Errors between this crate and libcuda, with the driver's own number.

use std::sync::{Mutex, PoisonError};

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
    /// The driver is older than the PTX of the kernels.
    #[error(
        "the driver speaks CUDA {}.{}, and the kernels (PTX 7.8) need 11.8: driver 520 or newer",
        found / 1000,
        found % 1000 / 10
    )]
    TooOld {
        /// Its version, as cuda.h writes it.
        found: i32,
    },
    #[error("{function} returned {code} ({name}){}", advice(*code))]
    Call {
        function: &'static str,
        /// The result of the driver, known or not.
        code: i32,
        /// Its name in cuda.h, or a text that it has none.
        name: &'static str,
    },
    /// The driver rejected a module, with a log.
    #[error(
        "cuModuleLoadDataEx returned {code} ({name}) for module {module}: {log}{}",
        advice(*code)
    )]
    Module {
        module: String,
        code: i32,
        name: &'static str,
        /// The error log of the JIT compiler on one line, or "no log".
        log: String,
    },
    /// The PTX text has no such entry point.
    #[error("module {module} has no entry {entry}")]
    NoEntry { module: String, entry: String },
    /// The arguments of a launch do not fit the parameters of the kernel.
    #[error("kernel {kernel} takes parameters of {expected:?} bytes, passed were {passed:?}")]
    Arguments {
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
        at: usize,
        count: usize,
        len: usize,
    },
    /// The SMs do not make so many groups.
    #[error("the SMs make {made} groups of one size, {wanted} are needed")]
    Groups { made: u32, wanted: u32 },
    /// All memory of an integrated device would be the memory of the host.
    #[error(
        "the device has no memory of its own (CU_DEVICE_ATTRIBUTE_INTEGRATED): taking all that it \
         has would take the host's"
    )]
    HostMemory,
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
        Self::Call { function, code, name: name(code) }
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
        self.code().is_some_and(is_sticky)
    }
}

/// Turns a result code into a `Result`; every code but zero is an error.
pub(super) fn check(function: &'static str, code: i32) -> Result<(), DriverError> {
    if code == SUCCESS { Ok(()) } else { Err(DriverError::from_code(function, code)) }
}

/// Failures of releases in destructors, which return no `Result`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropErrors {
    /// How many releases failed in this process.
    pub count: u64,
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

pub(super) fn note_drop(outcome: Result<(), DriverError>) {
    if let Err(error) = outcome {
        let mut drops = DROPS.lock().unwrap_or_else(PoisonError::into_inner);
        drops.count += 1;
        drops.last = Some(error);
    }
}

// Result codes of the driver API: plain numbers with a name table beside them.
//
// A code is never converted to a Rust enum: a newer driver, or a library that wraps the driver,
// may return any number, and the number must be kept.

pub const SUCCESS: i32 = 0;
/// No device memory is left, or a memory cap was reached.
pub const OUT_OF_MEMORY: i32 = 2;
/// This process can use no device.
pub const NO_DEVICE: i32 = 100;
/// Work is still pending. A query returns it; it is not a failure.
pub const NOT_READY: i32 = 600;
/// The MPS server is recovering and takes no client yet.
pub const MPS_SERVER_NOT_READY: i32 = 807;

/// The result of `name` for a number that is not in the table.
pub const UNKNOWN_NAME: &str = "code unknown to this version";

/// Every code of `CUresult` in cuda.h of CUDA 13.5, ascending.
const NAMES: &[(i32, &str)] = &[
    (0, "CUDA_SUCCESS"),
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (4, "CUDA_ERROR_DEINITIALIZED"),
    (5, "CUDA_ERROR_PROFILER_DISABLED"),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED"),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED"),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED"),
    (34, "CUDA_ERROR_STUB_LIBRARY"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (47, "CUDA_ERROR_MULTICAST_RESOURCE_FULL"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED"),
    (200, "CUDA_ERROR_INVALID_IMAGE"),
    (201, "CUDA_ERROR_INVALID_CONTEXT"),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT"),
    (205, "CUDA_ERROR_MAP_FAILED"),
    (206, "CUDA_ERROR_UNMAP_FAILED"),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED"),
    (208, "CUDA_ERROR_ALREADY_MAPPED"),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED"),
    (211, "CUDA_ERROR_NOT_MAPPED"),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY"),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER"),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT"),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE"),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    (218, "CUDA_ERROR_INVALID_PTX"),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT"),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY"),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC"),
    (226, "CUDA_ERROR_CONTAINED"),
    (227, "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION"),
    (300, "CUDA_ERROR_INVALID_SOURCE"),
    (301, "CUDA_ERROR_FILE_NOT_FOUND"),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND"),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (400, "CUDA_ERROR_INVALID_HANDLE"),
    (401, "CUDA_ERROR_ILLEGAL_STATE"),
    (402, "CUDA_ERROR_LOSSY_QUERY"),
    (500, "CUDA_ERROR_NOT_FOUND"),
    (600, "CUDA_ERROR_NOT_READY"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING"),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (710, "CUDA_ERROR_ASSERT"),
    (711, "CUDA_ERROR_TOO_MANY_PEERS"),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (800, "CUDA_ERROR_NOT_PERMITTED"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    (806, "CUDA_ERROR_MPS_RPC_FAILURE"),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY"),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED"),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH"),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    (907, "CUDA_ERROR_CAPTURED_EVENT"),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    (909, "CUDA_ERROR_TIMEOUT"),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED"),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
    (916, "CUDA_ERROR_KEY_ROTATION"),
    (917, "CUDA_ERROR_STREAM_DETACHED"),
    (918, "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE"),
    (919, "CUDA_ERROR_FABRIC_NOT_READY"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

/// Codes after which the process can do no further GPU work.
///
/// cuda.h (13.5) says of each but two that it "leaves the process in an inconsistent state"; of 710
/// that the context must be destroyed and its memory is lost, of 810 that the process must be
/// terminated and relaunched.
const STICKY: &[i32] = &[226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911];

/// The name of `code` in cuda.h, or `UNKNOWN_NAME`.
pub fn name(code: i32) -> &'static str {
    match NAMES.binary_search_by_key(&code, |entry| entry.0) {
        Ok(at) => NAMES[at].1,
        Err(_) => UNKNOWN_NAME,
    }
}

/// What usually causes a code that the state of the host causes, and the command that shows which.
const fn advice(code: i32) -> &'static str {
    match code {
        34 => {
            ": a stub for linking was loaded in place of the driver; LD_LIBRARY_PATH names a \
             folder called stubs"
        }
        46 => {
            ": another process has the GPU in EXCLUSIVE_PROCESS mode, a container lacks its device \
             node, or a vGPU its license; nvidia-smi -q -d COMPUTE, ls -l /dev/nvidia*, nvidia-smi \
             -q | grep -i license"
        }
        100 | 101 => {
            ": CUDA has no device here: MIG mode without an instance, CUDA_VISIBLE_DEVICES, or a \
             container without it; nvidia-smi -L; under MPS a server that does not start"
        }
        214 => {
            ": an error of the memory that ECC cannot correct; nvidia-smi -q -d ECC, then \
             nvidia-smi --gpu-reset"
        }
        222 => {
            ": the library of the driver is older than its kernel module or of another container; \
             nvidia-smi prints both versions"
        }
        304 => {
            ": the system refuses a call of the driver, as a seccomp profile or a sandbox does; \
             dmesg, or a run outside of it"
        }
        702 => {
            ": the GPU drives a display, and the watchdog of the system ends long kernels; \
             nvidia-smi -q -d DISPLAY, or a GPU without a display"
        }
        802 => {
            ": NVSwitch systems need nvidia-fabricmanager of the driver's version (systemctl \
             status nvidia-fabricmanager), and confidential computing a GPU that is set ready \
             (nvidia-smi conf-compute -srs 1)"
        }
        803 => {
            ": library and kernel module of the driver have different versions; cat \
             /proc/driver/nvidia/version, then reboot"
        }
        804 => {
            ": a forward-compatibility libcuda (cuda-compat) is loaded, which this GPU may not \
             use; take it out of LD_LIBRARY_PATH"
        }
        805 | 806 => {
            ": an MPS daemon is there and does not serve this process (another user, or it ended); \
             ls -l /tmp/nvidia-mps, end it by nvidia-cuda-mps-control"
        }
        807 => ": the MPS server starts or recovers; its log is /var/log/nvidia-mps/server.log",
        999 => {
            ": the driver does not say why; /dev/nvidia-uvm may be missing or not have survived a \
             suspend (nvidia-modprobe -c 0 -u), else dmesg | grep -i -e nvrm -e xid"
        }
        _ => "",
    }
}

/// Whether every later call of this process (or context) is expected to fail after `code`.
pub fn is_sticky(code: i32) -> bool {
    STICKY.contains(&code)
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

    #[test]
    fn the_table_is_ascending_and_without_doubles() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut names: Vec<_> = NAMES.iter().map(|entry| entry.1).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    #[test]
    fn known_codes_have_their_header_names() {
        for (code, expected) in [
            (0, "CUDA_SUCCESS"),
            (2, "CUDA_ERROR_OUT_OF_MEMORY"),
            (600, "CUDA_ERROR_NOT_READY"),
            (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
            (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
            (807, "CUDA_ERROR_MPS_SERVER_NOT_READY"),
            (999, "CUDA_ERROR_UNKNOWN"),
        ] {
            assert_eq!(name(code), expected);
        }
    }

    #[test]
    fn codes_agree_with_the_bindings_that_the_library_is_loaded_through() {
        use cudarc::driver::sys::CUresult;
        for (theirs, ours) in [
            (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as i32, 700),
            (CUresult::CUDA_ERROR_LAUNCH_TIMEOUT as i32, 702),
            (CUresult::CUDA_ERROR_ASSERT as i32, 710),
            (CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR as i32, 714),
            (CUresult::CUDA_ERROR_LAUNCH_FAILED as i32, 719),
            (CUresult::CUDA_ERROR_NOT_READY as i32, NOT_READY),
            (CUresult::CUDA_ERROR_NO_DEVICE as i32, NO_DEVICE),
            (CUresult::CUDA_ERROR_MPS_SERVER_NOT_READY as i32, MPS_SERVER_NOT_READY),
        ] {
            assert_eq!(theirs, ours);
        }
    }

    #[test]
    fn faults_are_sticky_and_refusals_are_not() {
        for code in [700, 716, 719, 710, 810] {
            assert!(is_sticky(code), "{code}");
        }
        for code in [-1, 0, 1, 2, 600, 701, 709, 801, 807, 12_345] {
            assert!(!is_sticky(code), "{code}");
        }
    }

    #[test]
    fn every_sticky_code_is_in_the_table() {
        assert!(STICKY.iter().all(|code| name(*code) != UNKNOWN_NAME));
    }
}
