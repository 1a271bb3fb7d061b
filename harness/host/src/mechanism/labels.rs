//! Circumstances of the device that are detected and reported, and neither set up nor scored:
//! hypervisors, confidential computing, monitoring agents, processes that use the device already, a
//! MIG mode that is pending until a reset.

use std::path::Path;

use nvml_wrapper::enum_wrappers::device::GpuVirtualizationMode;
use serde::Serialize;

use crate::device::Driver;
use crate::device::mig::MigMode;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Its kind: `virtualization`, `agent`...
    pub what: &'static str,
    pub value: String,
}

/// Agents that keep a GPU open to read its counters, by their process name, of which the kernel
/// keeps 15 characters (prctl(2), `PR_SET_NAME`). While they run no MIG instance can be destroyed,
/// and their polling keeps the GPU awake: NVIDIA/DCGM issues 95 and 276, NVIDIA/mig-parted issue
/// 181.
const AGENTS: [&str; 5] =
    ["nv-hostengine", "dcgm-exporter", "nvidia-persiste", "nvsm_core", "nvidia-device-p"];

/// The circumstances of a device. A value that NVML does not report is left out.
pub(super) fn of(nvml: &Driver) -> Vec<Label> {
    let mode = nvml.device().and_then(|device| device.virtualization_mode());
    // Labels are for display; mechanisms decide by the facts.
    let value = [
        mode.ok().and_then(virtualization),
        nvml.confidential().ok().and_then(confidential),
        nvml.compute_pids().ok().and_then(|pids| processes(&pids)),
        nvml.mig_mode().ok().flatten().and_then(pending),
    ];
    let agents = agents(Path::new("/proc"));
    value.into_iter().flatten().chain(agents).collect()
}

fn label(what: &'static str, value: impl Into<String>) -> Label {
    let value = value.into();
    Label { what, value }
}

/// How the GPU is virtualized (nvml.h, `nvmlGpuVirtualizationMode_t`).
fn virtualization(mode: GpuVirtualizationMode) -> Option<Label> {
    let value = match mode {
        GpuVirtualizationMode::Bare => return None,
        GpuVirtualizationMode::PassThrough => {
            "passthrough: this virtual machine has the whole GPU, and CPU time from a hypervisor"
        }
        GpuVirtualizationMode::Vgpu => {
            "vGPU: this virtual machine has a part of a GPU, and cannot list others on that GPU"
        }
        GpuVirtualizationMode::HostVgpu => {
            "host of vGPUs: virtual machines that NVML does not list may use this GPU"
        }
        GpuVirtualizationMode::HostVsga => {
            "host of vSGA: virtual machines that NVML does not list may render on this GPU"
        }
    };
    Some(label("virtualization", value))
}

fn confidential(on: bool) -> Option<Label> {
    let value = "on: transfers are encrypted, and some mechanisms are unavailable";
    on.then(|| label("confidential computing", value))
}

fn processes(pids: &[u32]) -> Option<Label> {
    let value = || format!("on the device already: {pids:?}");
    (!pids.is_empty()).then(|| label("processes", value()))
}

fn pending(mode: MigMode) -> Option<Label> {
    let on = |on: bool| if on { "on" } else { "off" };
    let (now, then) = (on(mode.current), on(mode.pending));
    (now != then).then(|| label("MIG mode", format!("{now}, and {then} after a reset")))
}

/// Agents among the processes of a `/proc`, in the order of their process ids.
fn agents(proc: &Path) -> Vec<Label> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid
            && AGENTS.contains(&comm.trim())
        {
            found.push((pid, comm.trim().to_owned()));
        }
    }
    found.sort();
    let described = |(pid, name): (u32, String)| label("agent", format!("{name} (process {pid})"));
    found.into_iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use nvml_wrapper::enum_wrappers::device::GpuVirtualizationMode;

    use super::{AGENTS, agents, confidential, pending, processes, virtualization};
    use crate::device::mig::MigMode;

    #[test]
    fn every_virtualization_mode_but_bare_metal_is_reported() {
        for (mode, begins) in [
            (GpuVirtualizationMode::Bare, None),
            (GpuVirtualizationMode::PassThrough, Some("passthrough: ")),
            (GpuVirtualizationMode::Vgpu, Some("vGPU: ")),
            (GpuVirtualizationMode::HostVgpu, Some("host of vGPUs: ")),
            (GpuVirtualizationMode::HostVsga, Some("host of vSGA: ")),
        ] {
            let described = virtualization(mode.clone()).map(|label| label.value);
            let same = match (&described, begins) {
                (Some(described), Some(begins)) => described.starts_with(begins),
                (described, begins) => described.is_none() && begins.is_none(),
            };
            assert!(same, "{mode:?}: {described:?}");
        }
    }

    #[test]
    fn reports_only_what_is_the_case() {
        assert_eq!((confidential(false), processes(&[])), (None, None));
        assert!(confidential(true).is_some_and(|label| label.value.starts_with("on: ")));
        assert!(processes(&[7]).is_some_and(|label| label.value.ends_with("already: [7]")));
        let described = |current, pending_| {
            let mode = MigMode { current, pending: pending_ };
            pending(mode).map(|label| label.value)
        };
        assert_eq!((described(true, true), described(false, false)), (None, None));
        assert_eq!(described(false, true).as_deref(), Some("off, and on after a reset"));
    }

    #[test]
    fn agents_are_found_by_their_process_name() -> std::io::Result<()> {
        let proc = tempfile::tempdir()?;
        let put = |pid: &str, comm: &str| {
            std::fs::create_dir(proc.path().join(pid))?;
            std::fs::write(proc.path().join(pid).join("comm"), format!("{comm}\n"))
        };
        for (at, agent) in AGENTS.iter().enumerate() {
            assert!(agent.len() <= 15, "{agent} is longer than a name can be");
            put(&(20 - at).to_string(), agent)?;
        }
        put("7", "python3")?;
        put("8", "nv-hostengine-x")?;
        put("self", "nv-hostengine")?;
        let mut want = AGENTS.iter().enumerate().map(|(at, agent)| (20 - at, *agent));
        let mut want: Vec<(usize, &str)> = want.by_ref().collect();
        want.sort_unstable();
        let want: Vec<String> =
            want.iter().map(|(pid, agent)| format!("{agent} (process {pid})")).collect();
        let found: Vec<String> = agents(proc.path()).into_iter().map(|l| l.value).collect();
        assert_eq!(found, want);
        Ok(())
    }
}
