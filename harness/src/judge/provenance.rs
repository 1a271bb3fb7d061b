//! The provenance of a run: this program, this host, this clock.

use std::collections::BTreeMap;

use gpubench_record::{Plan, Provenance};
use gpubench_workloads::command::dropped;
use procfs::Current as _;

use super::timer;
use crate::run::{RunClock, rfc3339_now};
use crate::score::plans_jitter;

/// The fact of the host that names the GPUs which the same command line measured at the same time,
/// separated by commas; absent without any.
pub const OTHER_GPUS: &str = "other_gpus";

/// The provenance of a run that begins now. On the wall clock it includes the timer floor of the
/// host, which takes two seconds to measure, where the plan has jitter.
#[must_use]
pub fn of_run(clock: &RunClock, plan: &Plan) -> Provenance {
    let mut provenance = without_timer(clock);
    if !clock.is_virtual() {
        let (floor_ns, class) = if plans_jitter(plan) {
            timer::floor()
        } else {
            (BTreeMap::new(), "not measured: no jitter is planned".to_owned())
        };
        provenance.timer_floor_ns = floor_ns;
        provenance.host.insert(timer::SELF_TEST_KEY.to_owned(), class);
    }
    provenance
}

/// The same without the timer floor.
#[must_use]
pub fn without_timer(clock: &RunClock) -> Provenance {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut host = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        host.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("hostname", read("/proc/sys/kernel/hostname"));
    let cpu = procfs::CpuInfo::current().ok();
    put("cpu", cpu.and_then(|cpu| Some(cpu.model_name(0)?.to_owned())));
    let cores = std::thread::available_parallelism().ok().map(|n| n.to_string());
    put("cores", cores);
    put("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("cgroup_cpu_max", read("/sys/fs/cgroup/cpu.max"));
    Provenance {
        gpubench: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: rfc3339_now(),
        ended_at: None,
        command: std::env::args().collect(),
        host,
        labels: BTreeMap::new(),
        clock: clock.name().to_owned(),
        timer_floor_ns: BTreeMap::new(),
        dropped_variables: dropped(),
        visible_devices: None,
        victim_environment: None,
    }
}
