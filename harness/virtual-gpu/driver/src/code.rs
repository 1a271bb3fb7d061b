//! `CUresult` by number, as cuda.h names them, and the names themselves.

/// A result that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl From<Code> for i32 {
    fn from(code: Code) -> Self {
        code.0
    }
}

/// The answer of a call that `refused` lets go no further.
pub fn refuse<E>(refused: bool, answer: E) -> Result<(), E> {
    if refused { Err(answer) } else { Ok(()) }
}

macro_rules! codes {
    ($( $name:ident = $number:literal, $text:literal; )*) => {
        $( #[doc = $text] pub const $name: Code = Code($number); )*

        /// Number, name and description of every code known here.
        pub const ALL: &[(i32, &str, &str)] =
            &[$( ($number, concat!("CUDA_ERROR_", stringify!($name)), $text) ),*];
    };
}

codes! {
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    DEVICE_UNAVAILABLE = 46, "the device is unavailable: its compute mode keeps the process out";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    MAP_FAILED = 205, "mapping of buffer object failed";
    ALREADY_MAPPED = 208, "resource already mapped";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215, "the limit is not supported on the active device";
    INVALID_PTX = 218, "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain";
    UNSUPPORTED_EXEC_AFFINITY = 224, "the requested execution affinity is not supported";
    INVALID_SOURCE = 300, "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "file not found";
    OPERATING_SYSTEM = 304, "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "invalid resource handle";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    PRIMARY_CONTEXT_ACTIVE = 708, "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    ASSERT = 710, "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the range is registered";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer is of no registered memory";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on global or shared address space";
    INVALID_PC = 718, "invalid program counter";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "operation failed after an error during capture";
    STREAM_CAPTURE_MERGE = 902, "operation would merge separate captures";
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "the legacy stream would depend on a capturing stream";
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "attempt to end a thread-local capture from another thread";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed: it violates a constraint";
    MPS_CONNECTION_FAILED = 805, "the client failed to connect to the MPS control daemon or server";
    MPS_RPC_FAILURE = 806, "the remote procedure call to the MPS server failed";
    MPS_SERVER_NOT_READY = 807, "the MPS server is not ready to accept new clients";
    MPS_MAX_CLIENTS_REACHED = 808, "the MPS server has as many clients as it can have";
    MPS_MAX_CONNECTIONS_REACHED = 809, "the MPS server has no more connections to the device";
    MPS_CLIENT_TERMINATED = 810, "the MPS client was terminated by the MPS server";
    FUNCTION_NOT_LOADED = 913, "the function is not loaded yet";
    INVALID_RESOURCE_TYPE = 914, "the resource type cannot be used for this";
    INVALID_RESOURCE_CONFIGURATION = 915, "the resource configuration is invalid";
    UNKNOWN = 999, "unknown error";
}

/// Name and description of a code, success included.
pub fn describe(number: i32) -> Option<(&'static str, &'static str)> {
    if number == 0 {
        return Some(("CUDA_SUCCESS", "no error"));
    }
    ALL.iter().find(|(known, _, _)| *known == number).map(|(_, name, text)| (*name, *text))
}

#[cfg(test)]
mod tests {
    use super::{ALL, describe};

    #[test]
    fn numbers_are_unique_and_described() {
        for (index, (number, name, _)) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|(other, _, _)| other != number), "{name}");
            assert_eq!(describe(*number).map(|(name, _)| name), Some(*name));
        }
        assert_eq!(describe(12345), None);
    }
}
