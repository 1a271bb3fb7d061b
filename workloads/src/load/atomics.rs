//! Atomic operations in L2: `atomic`, the victim, and `atomics`. Counter: that of `atomic_add`.
//!
//! They are spread over a small part of L2: enough words that no two warps wait for the same one,
//! few enough that L2 holds them.

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps};
use gpubench_kernels::kernel::atomic_add::AtomicAdd;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::compute::THREADS;
use super::one_launch::{OneLaunch, verify_kernel};
use super::params::{spec, whole_sms};
use super::{Gpu, Knob, LoadError, More, Params, Prepared, Throttle, Workload, expected};

/// Request length in additions per thread.
const ADDITIONS_KNOB: Knob = Knob { param: "iterations", granule: 1, max: u32::MAX as u64 };

/// The words occupy this fraction of L2.
const PART_OF_L2: u64 = 64;

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "atomic",
        summary: "atomic additions in L2, from few enough SMs to keep to its share",
        role: Role::Victim,
        sub_axis: SubAxis::L2,
        resource: "atomic units of L2",
        unit: "additions",
        meets: &[],
        kernel: Some(Kernel::AtomicAdd),
        knob: Some(ADDITIONS_KNOB),
        first_guess: of_share,
        setup,
        verify,
        more: More {
            expected: expected::ATOMICS,
            saturating_sms: expected::sms_of_atomics,
            throttle: Throttle::Blocks,
            ..More::NONE
        },
    },
    Workload {
        name: "atomics",
        summary: "atomic additions in L2 from every SM",
        role: Role::Aggressor,
        sub_axis: SubAxis::L2,
        resource: "atomic units of L2",
        unit: "additions",
        meets: &["atomic"],
        kernel: Some(Kernel::AtomicAdd),
        knob: Some(ADDITIONS_KNOB),
        first_guess: of_all,
        setup,
        verify,
        more: More { expected: expected::ATOMICS, ..More::NONE },
    },
];

fn of_share(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    Ok(words_spec(name, props, whole_sms(name, props, share)?))
}

fn of_all(name: &'static str, props: &DeviceProps, _: f64) -> Result<WorkloadSpec, LoadError> {
    Ok(words_spec(name, props, props.full_grid(THREADS).blocks.into()))
}

fn words_spec(name: &str, props: &DeviceProps, blocks: u64) -> WorkloadSpec {
    // A power of two, as the kernel requires, and at least one for each thread of a block.
    let words = (props.l2_bytes / PART_OF_L2 / 4).max(u64::from(THREADS));
    spec(
        name,
        [
            ("blocks", blocks),
            ("threads", THREADS.into()),
            ("iterations", 100),
            ("words", 1 << words.ilog2()),
        ],
    )
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let slots = params.word("words")?;
    if !slots.is_power_of_two() {
        return Err(LoadError::Param {
            workload: spec.name.clone(),
            param: "words",
            found: slots.to_string(),
            accepted: "powers of two".to_owned(),
        });
    }
    let words = DeviceBuffer::<u32>::alloc(&gpu.context, slots as usize)?;
    words.fill(0)?;
    let launch = AtomicAdd {
        words: words.device_ptr(),
        slots,
        iterations: params.word("iterations")?,
        grid,
    };
    Ok(Box::new(OneLaunch::new(gpu, launch, additions, words)?))
}

fn additions(cost: &Cost) -> u64 {
    cost.atomic_ops
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::AtomicAdd)
}
