//! Address translation: `tlb`, the victim, and `tlb-stride`.
//!
//! It has no public counter (see `tlb_stride.cu`): the evidence is the time of a load compared with
//! the same loads from one page. The victim's pages are its share of the aggressor's.

use gpubench_kernels::driver::{DeviceBuffer, DeviceProps};
use gpubench_kernels::kernel::tlb_stride::TlbStride;
use gpubench_kernels::{Cost, Kernel};
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::compute::THREADS;
use super::one_launch::{OneLaunch, verify_kernel};
use super::params::{SIZE_MAX, spec, whole_sms};
use super::{Gpu, Knob, LoadError, More, Params, Prepared, Throttle, Workload, expected};

/// Request length in loads per thread.
const STEPS_KNOB: Knob = Knob { param: "steps", granule: 1, max: u32::MAX as u64 };

pub(super) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "tlb",
        summary: "loads from one page after the other in its share of memory, from few SMs",
        role: Role::Victim,
        sub_axis: SubAxis::Dram,
        resource: "address translation",
        unit: "pages",
        meets: &[],
        kernel: Some(Kernel::TlbStride),
        knob: Some(STEPS_KNOB),
        first_guess: of_share,
        setup,
        verify,
        more: More {
            expected: expected::PAGES,
            saturating_sms: expected::sms_of_loads,
            throttle: Throttle::Blocks,
            ..More::NONE
        },
    },
    Workload {
        name: "tlb-stride",
        summary: "loads from more pages than any TLB covers, from every SM",
        role: Role::Aggressor,
        sub_axis: SubAxis::Dram,
        resource: "address translation",
        unit: "pages",
        meets: &["tlb"],
        kernel: Some(Kernel::TlbStride),
        knob: Some(STEPS_KNOB),
        first_guess: of_all,
        setup,
        verify,
        more: More { expected: expected::PAGES, ..More::NONE },
    },
];

fn of_share(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let blocks = whole_sms(name, props, share)?;
    // Truncation gives fewer pages.
    let bytes = (props.tlb_buffer_bytes() as f64 * share) as u64;
    Ok(pages_spec(name, blocks, bytes))
}

fn of_all(name: &'static str, props: &DeviceProps, _: f64) -> Result<WorkloadSpec, LoadError> {
    let blocks = props.full_grid(THREADS).blocks;
    Ok(pages_spec(name, blocks.into(), props.tlb_buffer_bytes()))
}

fn pages_spec(name: &str, blocks: u64, bytes: u64) -> WorkloadSpec {
    spec(
        name,
        [
            ("blocks", blocks),
            ("threads", THREADS.into()),
            ("steps", 20),
            ("pages", (bytes / TlbStride::PAGE_BYTES).max(1)),
        ],
    )
}

fn setup(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let pages = params.get("pages", 1..=SIZE_MAX / TlbStride::PAGE_BYTES)?;
    let bytes = pages * TlbStride::PAGE_BYTES;
    // The loaded values do not matter, and no page is written: a fill would take longer than a
    // cell.
    let buffer = DeviceBuffer::<u64>::alloc(&gpu.context, (bytes / 8) as usize)?;
    let sums = DeviceBuffer::<u32>::alloc(&gpu.context, grid.total_threads() as usize)?;
    let launch = TlbStride {
        base: buffer.device_ptr(),
        pages,
        page_bytes: TlbStride::PAGE_BYTES,
        steps: params.word("steps")?,
        sums: sums.device_ptr(),
        grid,
    };
    let held = (buffer, sums);
    Ok(Box::new(OneLaunch::new(gpu, launch, touches, held)?))
}

fn touches(cost: &Cost) -> u64 {
    cost.page_touches
}

fn verify(_name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    verify_kernel(gpu, Kernel::TlbStride)
}
