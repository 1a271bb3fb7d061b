//! The library: initialisation counted by reference, and access to the device.

use std::ffi::{c_char, c_uint};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::DeviceHandle;
use super::handles::Objects;
use super::history::{History, Record};
use super::objects::{EventSet, Sample};
use super::returns::{self, Return};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::process;

/// The handle of the only device: no address that a program could have by accident.
pub(super) const DEVICE: usize = 0x6e76_6d6c_0010;

/// Kinds of handles, which those of libcuda are not.
const SETS: u8 = 32;
const SAMPLES: u8 = 33;

/// State of an initialised library.
pub(super) struct Library {
    references: u64,
    /// Event sets that the program made.
    pub sets: Objects<EventSet>,
    /// Samples of the performance monitor that the program allocated.
    pub samples: Objects<Option<Sample>>,
    /// Earlier readings of this program, for figures over a window.
    pub history: History,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library {
    references: 0,
    sets: Objects::new(SETS),
    samples: Objects::new(SAMPLES),
    history: History::new(),
});

/// The library, initialised or not. Never hold it across a wait.
fn any() -> MutexGuard<'static, Library> {
    // A panic while it was held is a bug that `guard` has reported; the library stays usable.
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The initialised library. Never hold it across a wait.
pub(super) fn library() -> Result<MutexGuard<'static, Library>, Return> {
    let library = any();
    if library.references == 0 {
        Err(returns::UNINITIALIZED)
    } else {
        Ok(library)
    }
}

/// The device, for an initialised library.
pub(super) fn only_device() -> Result<Arc<Device>, Return> {
    drop(library()?);
    Ok(process::device()?)
}

/// The handle of the only device.
pub(super) fn device_handle() -> DeviceHandle {
    DEVICE as DeviceHandle
}

/// Advances the model to the present. On the clock the call costs its caller time, so that a loop
/// that polls cannot hold the clock.
pub(super) fn catch_up(device: &Device) -> Result<(), Return> {
    device.charge(device.machine().host.other_ns)?;
    Ok(device.catch_up()?)
}

/// As [`catch_up`], and reaps dead processes.
pub(super) fn catch_up_with_the_living(device: &Device) -> Result<(), Return> {
    catch_up(device)?;
    Ok(device.reap_dead_processes()?)
}

fn initialise() -> Result<(), Return> {
    let device = process::device()?;
    catch_up(&device)?;
    let first = Record::read(&device)?;
    let mut library = any();
    if library.references == 0 {
        library.sets = Objects::new(SETS);
        library.samples = Objects::new(SAMPLES);
        library.history = History::new();
        library.history.push(first);
    }
    library.references += 1;
    Ok(())
}

entries! {
    fn nvmlInit, nvmlInit_v2() {
        initialise()
    }

    fn nvmlInitWithFlags(flags: c_uint) {
        // NO_GPUS (1) and NO_ATTACH (2) change nothing where there is always one device.
        if flags & !3 != 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        initialise()
    }

    fn nvmlShutdown() {
        library()?.references -= 1;
        Ok(())
    }
}

/// The text of a result. It is answered before initialisation too.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the vendor's name")]
pub extern "C" fn nvmlErrorString(result: i32) -> *const c_char {
    returns::text_of(result).as_ptr()
}
