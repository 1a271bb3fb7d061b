//! `l2`: reads a buffer that fits in its share of L2, at most at its share of the bandwidth.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::calibrate::DEMAND_OF_SHARE;
use super::l2_reads::{L2Reads, PASSES_KNOB, buffer_bytes, reads_spec, verify_reads};
use super::params::whole_sms;
use super::{LoadError, More, Throttle, Workload, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "l2",
    summary: "reads a buffer that fits in its share of L2, from few SMs",
    role: Role::Victim,
    sub_axis: SubAxis::L2,
    resource: "L2 bandwidth and capacity",
    unit: "bytes",
    meets: &[],
    kernel: Some(Kernel::L2Stream),
    knob: Some(PASSES_KNOB),
    first_guess,
    setup: |gpu, spec| Ok(Box::new(L2Reads::new(gpu, spec)?)),
    verify: verify_reads,
    more: More {
        expected: expected::L2,
        saturating_sms: expected::sms_of_loads,
        throttle: Throttle::Blocks,
        ..More::NONE
    },
}];

fn first_guess(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    let blocks = whole_sms(name, props, share)?;
    let bytes = buffer_bytes(name, props, share, DEMAND_OF_SHARE * share)?;
    Ok(reads_spec(name, blocks, bytes))
}
