//! GPM, the performance monitor of Hopper and newer: counters between two samples.
//!
//! Figures are relative to what the sample was taken of: the device, or the compute instance behind
//! a MIG device. Units of the chip that the interpreter cannot use read 0: a module
//! whose PTX uses them is refused when it is loaded. Metrics that the model does not have are not
//! supported.

use super::Error;
use super::library::{Target, catch_up, library};
use super::link::moved_by;
pub use super::objects::Sample;
use crate::code::refuse;
use crate::device::Device;
use crate::handles::Handle;
use crate::shm::QueueView;
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::state::{ONE, Resource, State, Usage};

/// First major compute capability with the monitor (nvml.h).
const SINCE: u32 = 9;
/// `NVML_GPM_METRIC_MAX` of nvml.h 13.4.
pub const METRICS: usize = 477;
/// Refresh interval of the counters (nvml.h); over a shorter time they carry no information.
const REFRESH_NS: u64 = 100_000_000;
const MIB: f64 = (1 << 20) as f64;

/// Allocates a sample, which is empty.
pub fn allocate() -> Result<Handle, Error> {
    Ok(library()?.samples.insert(None)?)
}

pub fn free(sample: Handle) -> Result<(), Error> {
    library()?.samples.remove(sample)?;
    Ok(())
}

pub fn sample(device: &Device, target: Target, sample: Handle) -> Result<(), Error> {
    keep(device, sample, |state, side| match target {
        Target::Whole => Some(of_the_device(state, side, device)),
        Target::Engine(row) => Some(of_an_engine(state, side, row)),
    })
}

/// A sample of the only compute instance of the GPU instance with that id.
pub fn sample_of_instance(device: &Device, id: u32, sample: Handle) -> Result<(), Error> {
    keep(device, sample, |state, side| {
        let (row, _) = mig::instances(state).find(|(_, row)| row.id == id)?;
        let (engine, _) = mig::engines(state, row).next()?;
        Some(of_an_engine(state, side, engine))
    })
}

/// Whether the device has the monitor.
pub fn is_supported(device: &Device) -> bool {
    device.machine().compute_capability().0 >= SINCE
}

/// Two samples of the same target.
pub fn both(handles: [Handle; 2]) -> Result<[Sample; 2], Error> {
    let library = library()?;
    let [first, second] = handles.map(|handle| {
        let sample = *library.samples.get(handle)?;
        sample.ok_or(Error::InvalidArgument)
    });
    let (first, second) = (first?, second?);
    refuse(first.of != second.of, Error::InvalidArgument)?;
    Ok([first, second])
}

/// Takes a sample and keeps it under its handle.
fn keep(
    device: &Device,
    handle: Handle,
    read: impl FnOnce(&State, &QueueView<'_>) -> Option<Sample>,
) -> Result<(), Error> {
    refuse(!is_supported(device), Error::NotSupported)?;
    library()?.samples.get_mut(handle)?;
    catch_up(device)?;
    let sample = device.transact(|state, side| read(state, side))?;
    let sample = sample.ok_or(Error::NotFound)?;
    *library()?.samples.get_mut(handle)? = Some(sample);
    Ok(())
}

fn of_the_device(state: &State, side: &QueueView<'_>, device: &Device) -> Sample {
    let mut used = Usage::default();
    for engine in state.engines.live() {
        used.add(&engine.used, 1);
    }
    let instances = state.instances.live().iter();
    let moved = instances.map(|instance| moved_by(state, side, instance));
    Sample {
        of: 0,
        at_ns: state.now_ns,
        busy_ns: state.busy_ns,
        used,
        moved: moved.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]),
        sm_count: device.machine().gpu.sm_count,
        sm_share: ONE,
        bandwidth: ONE,
    }
}

fn of_an_engine(state: &State, side: &QueueView<'_>, row: u32) -> Sample {
    let engine = &state.engines.rows[row as usize];
    let instance = &state.instances.rows[engine.instance as usize];
    Sample {
        of: engine.generation,
        at_ns: state.now_ns,
        busy_ns: engine.busy_ns,
        used: engine.used,
        moved: moved_by(state, side, instance),
        sm_count: engine.sm_count,
        sm_share: engine.sm_share,
        bandwidth: instance.bandwidth,
    }
}

/// A metric over the time between two samples.
pub fn metric(id: u32, first: &Sample, second: &Sample) -> Result<f64, Error> {
    refuse(id == 0 || id as usize >= METRICS, Error::InvalidArgument)?;
    refuse(!matches!(id, 1..=13 | 20 | 21 | 60 | 61), Error::NotSupported)?;
    let (Some(dt_ns), Some(busy_ns)) =
        (second.at_ns.checked_sub(first.at_ns), second.busy_ns.checked_sub(first.busy_ns))
    else {
        // In the wrong order.
        return Err(Error::InvalidArgument);
    };
    refuse(dt_ns < REFRESH_NS, Error::NoData)?;
    let time = dt_ns as f64;
    let share = |resource: Resource, whole: u64| {
        let at = resource as usize;
        let used = second.used.shares[at].saturating_sub(first.used.shares[at]);
        100.0 * used as f64 / (time * whole.max(1) as f64)
    };
    let sms = second.used.sms.saturating_sub(first.used.sms) as f64;
    let rate = |direction: usize| {
        let bytes = second.moved[direction].saturating_sub(first.moved[direction]);
        bytes as f64 / MIB / (time / 1e9)
    };
    Ok(match id {
        1 => 100.0 * busy_ns as f64 / time,
        2 => 100.0 * sms / (time * f64::from(second.sm_count.max(1))),
        3 => share(Resource::SmSlots, second.sm_share),
        4 => share(Resource::Int, second.sm_share),
        // Products of halves are the only ones that the interpreter knows.
        5 | 7 => share(Resource::Tensor, second.sm_share),
        // Products of doubles and of integers, and halves outside the tensor cores.
        6 | 8 | 9 | 13 => 0.0,
        10 => share(Resource::Dram, second.bandwidth),
        11 => share(Resource::Fp64, second.sm_share),
        12 => share(Resource::Fp32, second.sm_share),
        // Sent by the device is copied to the host.
        20 => rate(1),
        21 => rate(0),
        // NVLink, which the boards of Hopper have: with no second device, nothing goes over it.
        60 | 61 => 0.0,
        _ => return Err(Error::NotSupported),
    })
}
