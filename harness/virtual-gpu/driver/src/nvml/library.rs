//! The library: initialisation counted by reference, access to the device, the target of a handle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Error;
use super::history::{History, Record};
use super::mig::handles::{Kind, row_of};
use super::objects::{EventSet, Sample};
use crate::device::Device;
use crate::handles::{Handle, Slab};
use crate::process;

/// Kinds of handles, which those of libcuda are not.
const SETS: u8 = 32;
const SAMPLES: u8 = 33;

pub(super) struct Library {
    references: u64,
    pub sets: Slab<EventSet, SETS>,
    /// Samples of the performance monitor that the program allocated.
    pub samples: Slab<Option<Sample>, SAMPLES>,
    /// Earlier readings of this program, for figures over a window.
    pub history: History,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library {
    references: 0,
    sets: Slab::EMPTY,
    samples: Slab::EMPTY,
    history: History::new(),
});

/// Opens the device, or counts another reference.
pub fn initialise() -> Result<(), Error> {
    let device = process::device().map_err(|_| Error::DriverNotLoaded)?;
    catch_up(&device)?;
    let first = Record::read(&device)?;
    let mut library = any();
    if library.references == 0 {
        library.sets = Slab::EMPTY;
        library.samples = Slab::EMPTY;
        library.history = History::new();
        library.history.push(first);
    }
    library.references += 1;
    Ok(())
}

/// Takes one reference back.
pub fn shut_down() -> Result<(), Error> {
    library()?.references -= 1;
    Ok(())
}

/// Refuses before the library is initialised.
pub fn check_initialised() -> Result<(), Error> {
    library().map(drop)
}

/// The device, for an initialised library.
pub fn only_device() -> Result<Arc<Device>, Error> {
    drop(library()?);
    // The reason is on standard error.
    process::device().map_err(|_| Error::DriverNotLoaded)
}

/// Advances the model to the present. On the clock the call costs its caller time, so that a loop
/// that polls cannot hold the clock.
pub(super) fn catch_up(device: &Device) -> Result<(), Error> {
    device.charge(device.machine().host.other_ns)?;
    Ok(device.catch_up()?)
}

/// As [`catch_up`], and reaps dead processes.
pub(super) fn catch_up_with_the_living(device: &Device) -> Result<(), Error> {
    catch_up(device)?;
    Ok(device.reap_dead_processes()?)
}

/// The library, initialised or not. Never hold it across a wait.
fn any() -> MutexGuard<'static, Library> {
    // A panic while it was held is a bug that `guard` has reported; the library stays usable.
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The initialised library. Never hold it across a wait.
pub(super) fn library() -> Result<MutexGuard<'static, Library>, Error> {
    let library = any();
    if library.references == 0 { Err(Error::Uninitialized) } else { Ok(library) }
}

/// Refuses callers who may not change the device's settings.
pub fn privileged(device: &Device) -> Result<(), Error> {
    if device.session().privileged { Ok(()) } else { Err(Error::NoPermission) }
}

/// The handle of the only device: no address that a program could have by accident.
const DEVICE: usize = 0x6e76_6d6c_0010;

/// The target of a device handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The device.
    Whole,
    /// The compute instance in this row of the engines: a MIG device.
    Engine(u32),
}

/// The handle of the only device.
pub fn device_handle() -> Handle {
    DEVICE as Handle
}

pub fn target(handle: Handle) -> Result<(Arc<Device>, Target), Error> {
    let device = only_device()?;
    if handle as usize == DEVICE {
        return Ok((device, Target::Whole));
    }
    let row = device.shared().read(|state| row_of(state, Kind::Device, handle))?;
    Ok((device, Target::Engine(row.ok_or(Error::InvalidArgument)?)))
}

/// The device behind a handle that must stand for the whole of it. A MIG device has no clock, no
/// power meter, no link and no utilisation of its own.
pub fn device(handle: Handle) -> Result<Arc<Device>, Error> {
    match target(handle)? {
        (device, Target::Whole) => Ok(device),
        (_, Target::Engine(_)) => Err(Error::NotSupported),
    }
}
