//! What the workloads on an arithmetic pipe have in common: one launch of chains a request, from
//! one block on each SM of the share (victim) or from as many threads as fit (aggressor).

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DevicePtr, Grid, Pod};
use gpubench_kernels::{Cost, Launcher};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::compute::{CHAIN_KNOB, THREADS, chain_spec};
use super::entry::{Entry, OneLaunch, lacks_nothing};
use super::params::whole_sms;
use super::{Gpu, LoadError, Params, Prepared, Throttle};

/// What is the same in all of them, for `..` in an entry.
pub(super) const VICTIM: Entry = Entry {
    name: "",
    summary: "",
    role: Role::Victim,
    sub_axis: SubAxis::Sm,
    resource: "",
    unit: "operations",
    kernel: None,
    counter: None,
    knob: Some(CHAIN_KNOB),
    throttle: Throttle::None,
    answers: &[],
    needs: "",
    lacks: lacks_nothing,
    first_guess: on_whole_sms,
    setup: nothing,
    verify: unchecked,
};

/// The same for an aggressor.
pub(super) const AGGRESSOR: Entry = Entry {
    role: Role::Aggressor,
    first_guess: on_every_sm,
    ..VICTIM
};

fn on_whole_sms(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(chain_spec(name, whole_sms(name, props, share)?))
}

fn on_every_sm(
    name: &'static str,
    props: &DeviceProps,
    _share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(chain_spec(name, props.full_grid(THREADS).blocks.into()))
}

/// One launch a request of what `launch` makes of an output buffer, iterations and a shape.
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

/// Stands in a template until an entry says how it is set up.
fn nothing(_gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    Err(LoadError::Unknown {
        name: spec.name.clone(),
        known: "entries with a setup of their own".to_owned(),
    })
}

/// Stands in a template until an entry says how it is checked.
fn unchecked(name: &'static str, _gpu: &Gpu) -> Result<(), LoadError> {
    Err(LoadError::Wrong {
        workload: name,
        what: "has no check".to_owned(),
    })
}
