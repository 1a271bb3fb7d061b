//! `block-slots`: blocks that sleep in every slot of every SM. Counter: that of `block_slots`.

use gpubench_kernels::driver::{DeviceProps, DevicePtr};
use gpubench_kernels::kernel::block_slots::BlockSlots;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::one_launch::{OneLaunch, verify_kernel};
use super::params::spec;
use super::{Gpu, Knob, LoadError, More, Params, Prepared, Workload};

/// Request length: the time for which its blocks stay.
const STAY_KNOB: Knob = Knob { param: "stay_ns", granule: 1_000, max: 1_000_000_000 };

/// One sleep; short compared with any request.
const NAP_NS: u32 = 1_000;

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "block-slots",
    summary: "blocks of one warp that sleep in every block slot of every SM",
    role: Role::Aggressor,
    sub_axis: SubAxis::Sm,
    resource: "block slots",
    unit: "block nanoseconds",
    meets: &["compute"],
    kernel: Some(Kernel::BlockSlots),
    knob: Some(STAY_KNOB),
    first_guess,
    setup,
    verify,
    more: More::NONE,
}];

fn first_guess(name: &'static str, props: &DeviceProps, _: f64) -> Result<WorkloadSpec, LoadError> {
    // Slots may outnumber the warps that an SM holds.
    let per_sm = props.blocks_per_sm.min(props.threads_per_sm / props.warp_threads.max(1));
    Ok(spec(
        name,
        [
            ("blocks", u64::from(props.sm_count) * u64::from(per_sm)),
            ("threads", props.warp_threads.into()),
            ("stay_ns", 100_000),
        ],
    ))
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let stay_ns = params.get("stay_ns", 1..=STAY_KNOB.max)?;
    let launch = BlockSlots {
        duration_ns: stay_ns,
        budget_ns: stay_ns,
        nap_ns: NAP_NS,
        stamps: DevicePtr::NULL,
        grid: params.grid(&gpu.props)?,
    };
    Ok(Box::new(OneLaunch::new(gpu, launch, busy_ns, ())?))
}

fn busy_ns(cost: &Cost) -> u64 {
    cost.block_busy_ns
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::BlockSlots)
}
