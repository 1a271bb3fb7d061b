//! What stands between this host and verdicts: states of the GPU that its driver announces, and who
//! else takes part. `plan`, `doctor` and `matrix` read the same list.

use std::path::{Path, PathBuf};

use gpubench_record::regular_file;
use gpubench_workloads::command::NO_MPS;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use serde::Serialize;

use super::elf;
use crate::device::Driver;
use crate::device::nvml::named;

/// One finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether no figure of this host could be trusted.
    pub blocks: bool,
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn new(blocks: bool, what: impl Into<String>, remedy: &str) -> Self {
        Self { blocks, what: what.into(), remedy: Some(remedy.to_owned()) }
    }
}

/// The findings in the order of their effect: what blocks first.
pub(super) fn of(nvml: &Driver) -> Vec<Finding> {
    let mut found = state(nvml);
    found.extend(interposed(Path::new("/etc/ld.so.preload")));
    found.extend(link(nvml));
    found.extend(slowed(nvml));
    found.extend(processes(nvml));
    found.extend(events(nvml));
    found.extend(cpu_quota(&own_cgroup("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")));
    found.extend(foreign_daemon());
    // The sort is stable: the order above is that of the effect.
    found.sort_by_key(|one| !one.blocks);
    found
}

/// `nvidia-smi` resets an idle GPU; where it refuses only a reboot does.
const RESET: &str = "end all processes on it, then nvidia-smi --gpu-reset, else reboot";

/// States in which the GPU or its memory is not fit for a verdict.
fn state(nvml: &Driver) -> Vec<Finding> {
    let mut found = Vec::new();
    // nvml.h, `nvmlDeviceGpuRecoveryAction_t`; 3 stops peer traffic, which no cell has.
    let action = nvml.recovery_action();
    let needed = match action {
        Some(1) => Some(("a reset", RESET)),
        Some(2) => Some(("a reboot of the node", "reboot")),
        Some(4) => Some(("a drain and a reset", RESET)),
        _ => None,
    };
    if let (Some((needed, remedy)), Some(action)) = (needed, action) {
        let what =
            format!("the driver says that the GPU needs {needed} (recovery action {action})");
        found.push(Finding::new(true, what, remedy));
    }
    let ecc = nvml.ecc();
    if ecc.remap_failed.is_some_and(|count| count > 0) {
        let what = "a row of the GPU's memory could not be remapped: the memory is faulty";
        found.push(Finding::new(true, what, "replace the GPU (nvidia-smi -q)"));
    }
    let retires = nvml.whole().and_then(|device| device.are_pages_pending_retired());
    if ecc.remap_pending.is_some_and(|count| count > 0) || retires.is_ok_and(|pending| pending) {
        let what = "faulty memory waits for a reset to be taken out of use (row remapping or page \
                    retirement is pending)";
        found.push(Finding::new(true, what, RESET));
    }
    if let Some(count) = ecc.uncorrected_volatile.filter(|count| *count > 0) {
        let what = format!("{count} uncorrected memory errors since the driver was loaded");
        found.push(Finding::new(false, what, "nvidia-smi -q, and reset the GPU"));
    }
    found
}

/// A link that is narrower than both of its ends allow. Its generation falls when it idles, and
/// says nothing.
fn link(nvml: &Driver) -> Option<Finding> {
    let device = nvml.whole().ok()?;
    let (now, most) = (device.current_pcie_link_width().ok()?, device.max_pcie_link_width().ok()?);
    let what = format!("the PCIe link has {now} of {most} lanes: copies are slower than the GPU's");
    (0 < now && now < most).then(|| Finding::new(false, what, "reseat the board, or another slot"))
}

/// Clocks that heat or power holds down already.
fn slowed(nvml: &Driver) -> Option<Finding> {
    let reasons = nvml.whole().ok()?.current_throttle_reasons().ok()?;
    let causes = [
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "heat (software)"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "heat (hardware)"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "the power brake"),
    ];
    let causes = causes.into_iter().filter(|(bit, _)| reasons.contains(*bit));
    let causes: Vec<&str> = causes.map(|(_, cause)| cause).collect();
    let what = format!("clocks are held down before any load: {}", causes.join(", "));
    (!causes.is_empty()).then(|| Finding::new(false, what, "nvidia-smi -q"))
}

/// Without a list of processes other work on the GPU stays unseen.
fn processes(nvml: &Driver) -> Option<Finding> {
    let error = named(&nvml.compute_pids().err()?);
    let what = format!(
        "NVML does not list the processes on the GPU ({error}): exclusive use cannot be proved, \
         and mechanisms with such proofs have no levels"
    );
    Some(Finding::new(false, what, "a driver or a container that lists them"))
}

/// Without events Xids come from the kernel log alone.
fn events(nvml: &Driver) -> Option<Finding> {
    let kinds = EventTypes::CRITICAL_XID_ERROR;
    let registered = nvml.library().create_event_set().and_then(|set| {
        let registered = nvml.whole()?.register_events(kinds, set);
        registered.map(drop).map_err(|error| error.error)
    });
    let error = named(&registered.err()?);
    let what = format!(
        "Xids cannot be listened to by NVML ({error}): they are read from the \
                        kernel log alone"
    );
    Some(Finding::new(false, what, "a user who can read /dev/kmsg"))
}

/// A library that every process is started with and that answers for the driver.
fn interposed(preload: &Path) -> Option<Finding> {
    let listed = std::fs::read_to_string(preload).ok()?;
    let mut libraries = listed.split([' ', ':', '\n']).filter(|name| !name.is_empty());
    let limiter = libraries.find(|name| answers_for_the_driver(Path::new(name)))?;
    let what = format!(
        "{limiter} answers for the driver in every process ({}): native would not be native",
        preload.display()
    );
    let remedy = "run in a container or on a host without it; --hami-lib measures a limiter";
    Some(Finding::new(true, what, remedy))
}

/// Longer than any library of a driver.
const LIBRARY_BYTES_MAX: u64 = 1 << 29;

/// Whether a library exports calls of the driver.
pub fn answers_for_the_driver(library: &Path) -> bool {
    let exports = regular_file::read(library, LIBRARY_BYTES_MAX)
        .ok()
        .and_then(|bytes| elf::exports(&bytes).ok());
    exports.is_some_and(|names| ["cuInit", "cuLaunchKernel"].iter().any(|n| names.contains(*n)))
}

/// The folders of the control groups of this process.
fn own_cgroup(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// A quota of CPU time of one of its control groups, version 2 or 1.
fn cpu_quota(own: &str, root: &Path) -> Option<Finding> {
    let number =
        |path: PathBuf| -> Option<f64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let cores = |group: &Path| -> Option<f64> {
        if let Ok(both) = std::fs::read_to_string(group.join("cpu.max")) {
            let (quota, period) = both.trim().split_once(' ')?;
            return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
        }
        let quota = number(group.join("cpu.cfs_quota_us")).filter(|quota| *quota > 0.0)?;
        Some(quota / number(group.join("cpu.cfs_period_us"))?)
    };
    let groups = own.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let is_cpu = controllers.split(',').any(|name| name == "cpu");
        match controllers {
            "" => Some(root.join(path)),
            _ => is_cpu.then(|| root.join("cpu").join(path)),
        }
    });
    let groups: Vec<PathBuf> = groups.collect();
    let all = groups.iter().flat_map(|group| group.ancestors());
    let least = all.take_while(|group| group.starts_with(root)).filter_map(cores);
    let least = least.min_by(f64::total_cmp)?;
    let what = format!(
        "a control group allows {least:.1} cores of CPU time: threads that poll are stopped for \
         the rest of each period, which widens intervals"
    );
    Some(Finding::new(false, what, "no CPU limit, or as many cores as plan names threads"))
}

/// An MPS daemon where every process looks for one.
fn foreign_daemon() -> Option<Finding> {
    // A daemon that this program started has a private folder.
    let mut folders = ["/tmp/nvidia-mps", "/run/nvidia-mps"].into_iter();
    let folder = folders.find(|folder| Path::new(folder).join("control").exists())?;
    let what = format!(
        "an MPS daemon has its sockets in {folder}, where processes look for one: tenants are kept \
         from it (CUDA_MPS_PIPE_DIRECTORY={NO_MPS})"
    );
    Some(Finding { what, ..Finding::default() })
}

#[cfg(test)]
mod tests {
    use super::{cpu_quota, interposed};

    #[test]
    fn the_least_quota_of_all_groups_is_named() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder"))?;
            std::fs::write(path, text)
        };
        put("pod/own/cpu.max", "max 100000\n")?;
        let said = |own: &str| cpu_quota(own, root.path()).map(|one| one.what);
        assert_eq!(said("0::/pod/own\n"), None);
        put("pod/cpu.max", "150000 100000\n")?;
        assert!(said("0::/pod/own\n").is_some_and(|text| text.contains("allows 1.5 cores")));
        put("cpu/box/cpu.cfs_quota_us", "50000\n")?;
        put("cpu/box/cpu.cfs_period_us", "100000\n")?;
        let old = "4:memory:/box\n3:cpu,cpuacct:/box\n";
        assert!(said(old).is_some_and(|text| text.contains("allows 0.5 cores")));
        put("cpu/box/cpu.cfs_quota_us", "-1\n")?;
        assert_eq!(said(old), None);
        Ok(())
    }

    #[test]
    fn a_preloaded_library_without_driver_calls_is_no_finding() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let preload = dir.path().join("ld.so.preload");
        std::fs::write(&preload, "/usr/lib/none.so\n")?;
        assert_eq!(interposed(&preload), None);
        Ok(())
    }
}
