//! Shared by workloads on an arithmetic pipe: one launch of chains per request, on one block for
//! each SM of the share (victim) or with as many threads as fit (aggressor).

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DevicePtr, Grid, Pod};
use gpubench_kernels::{Cost, Launcher};
use gpubench_record::WorkloadSpec;

use super::compute::{THREADS, chain_spec};
use super::one_launch::OneLaunch;
use super::params::whole_sms;
use super::{Gpu, LoadError, Params, Prepared};

/// Parameters of a victim before calibration: one block on each SM of the share.
pub(super) fn on_whole_sms(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(chain_spec(name, whole_sms(name, props, share)?))
}

/// Parameters of an aggressor before calibration: as many threads as every SM holds.
pub(super) fn on_every_sm(
    name: &'static str,
    props: &DeviceProps,
    _share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(chain_spec(name, props.full_grid(THREADS).blocks.into()))
}

/// One launch per request; `launch` builds it from an output buffer, iterations and a shape.
pub(super) fn chain<T: Pod, L: Launcher + 'static>(
    gpu: &Gpu,
    spec: &WorkloadSpec,
    work: fn(&Cost) -> u64,
    launch: impl FnOnce(DevicePtr, u32, Grid) -> L,
) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let iterations = params.word("iterations")?;
    // Threads of a grid are at most 2^31 blocks of 2^10.
    let out = DeviceBuffer::<T>::alloc(&gpu.context, grid.total_threads() as usize)?;
    let launch = launch(out.device_ptr(), iterations, grid);
    Ok(Box::new(OneLaunch::new(gpu, launch, work, out)?))
}
