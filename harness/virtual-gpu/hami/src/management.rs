//! Queries to the management library (NVML).
#![expect(unsafe_code, reason = "the library is a C interface")]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::lookup;

type Plain = unsafe extern "C" fn() -> c_int;
type Handle = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int;
type Memory = unsafe extern "C" fn(*mut c_void, *mut [u64; 3]) -> c_int;
type Processes = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut Process) -> c_int;
type Utilisation = unsafe extern "C" fn(*mut c_void, *mut Sample, *mut c_uint, u64) -> c_int;

/// `nvmlProcessInfo_t` (nvml.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Process {
    pub pid: c_uint,
    pub bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlProcessUtilizationSample_t` (nvml.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Sample {
    pub pid: c_uint,
    pub time_us: u64,
    pub sm: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

const ROOM: usize = 128;

fn device() -> Option<*mut c_void> {
    static DEVICE: OnceLock<Option<usize>> = OnceLock::new();
    let found = *DEVICE.get_or_init(|| {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library's functions of these names have these signatures, and the pointer is
        // valid.
        unsafe {
            let init =
                std::mem::transmute::<*mut c_void, Option<Plain>>(lookup::nvml(c"nvmlInit_v2"))?;
            let get = std::mem::transmute::<*mut c_void, Option<Handle>>(lookup::nvml(
                c"nvmlDeviceGetHandleByIndex_v2",
            ))?;
            (init() == 0 && get(0, &raw mut handle) == 0).then_some(handle as usize)
        }
    });
    found.map(|handle| handle as *mut c_void)
}

/// Bytes in use on the device.
pub fn used() -> Option<u64> {
    let mut info = [0u64; 3];
    // SAFETY: as above; the buffer holds total, free and used.
    unsafe {
        let get = std::mem::transmute::<*mut c_void, Option<Memory>>(lookup::nvml(
            c"nvmlDeviceGetMemoryInfo",
        ))?;
        (get(device()?, &raw mut info) == 0).then_some(info[2])
    }
}

/// Processes with a context on the device, and their memory.
pub fn processes() -> Option<Vec<Process>> {
    let mut rows = [Process::default(); ROOM];
    let mut count = ROOM as c_uint;
    // SAFETY: as above; the array has room for `count` rows.
    let code = unsafe {
        let get = std::mem::transmute::<*mut c_void, Option<Processes>>(lookup::nvml(
            c"nvmlDeviceGetComputeRunningProcesses_v3",
        ))?;
        get(device()?, &raw mut count, rows.as_mut_ptr())
    };
    let listed = rows.iter().take(count as usize);
    (code == 0).then(|| listed.copied().collect())
}

/// Utilisation of one process since `since_us`, in percent, with the time of the sample.
pub fn utilisation(pid: u32, since_us: u64) -> Option<(u32, u64)> {
    let mut rows = [Sample::default(); ROOM];
    let mut count = ROOM as c_uint;
    // SAFETY: as above.
    let code = unsafe {
        let get = std::mem::transmute::<*mut c_void, Option<Utilisation>>(lookup::nvml(
            c"nvmlDeviceGetProcessUtilization",
        ))?;
        get(device()?, rows.as_mut_ptr(), &raw mut count, since_us)
    };
    let mut listed = rows.iter().take(count as usize);
    let own = listed.find(|row| row.pid == pid)?;
    (code == 0).then_some((own.sm, own.time_us))
}
