//! `stream`: a streaming copy that uses at most its share of DRAM bandwidth.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis, WorkloadSpec};

use super::params::whole_sms;
use super::window_copy::{COPY_KNOB, WindowCopy, copy_spec, verify_copy};
use super::{LoadError, More, Throttle, Workload, expected};

pub(super) const WORKLOADS: &[Workload] = &[Workload {
    name: "stream",
    summary: "copies through DRAM from few enough SMs that it demands no more than its share",
    role: Role::Victim,
    sub_axis: SubAxis::Dram,
    resource: "DRAM bandwidth",
    unit: "bytes",
    meets: &[],
    kernel: Some(Kernel::StreamCopy),
    knob: Some(COPY_KNOB),
    first_guess: from_sms_of_share,
    setup: |gpu, spec| Ok(Box::new(WindowCopy::new(gpu, spec)?)),
    verify: verify_copy,
    more: More {
        expected: expected::DRAM,
        saturating_sms: expected::sms_of_copies,
        throttle: Throttle::Blocks,
        ..More::NONE
    },
}];

fn from_sms_of_share(
    name: &'static str,
    props: &DeviceProps,
    share: f64,
) -> Result<WorkloadSpec, LoadError> {
    copy_spec(name, props, share, whole_sms(name, props, share)?)
}
