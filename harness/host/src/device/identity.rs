//! The identity of the device, as NVML reports it.

use std::collections::BTreeMap;

use gpubench_record::{CalibrationBinding, DeviceIdentity, DeviceKind};
use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use super::nvml::{Driver, QueryError, named};

/// Reads from NVML what identifies the device. The number of SMs and the size of L2 are 0 until a
/// tenant reports them from inside a context: see [`complete`].
pub fn identify(nvml: &Driver) -> Result<DeviceIdentity, QueryError> {
    let fact = |what| move |source| QueryError::Fact { what, source };
    let device = nvml.device().map_err(fact("device"))?;
    let driver = nvml.library().sys_driver_version().map_err(fact("driver version"))?;
    let cuda = nvml.library().sys_cuda_driver_version().map_err(fact("CUDA version"))?;
    let name = device.name().map_err(fact("name"))?;
    let hidden = || matches!(nvml.mig_mode(), Ok(Some(mode)) if mode.current);
    let (memory_bytes, is_hosts) = nvml.memory_bytes().map_err(|source| match source {
        NvmlError::NoPermission if hidden() => QueryError::OnlyInstances,
        source => fact("memory size")(source),
    })?;
    let whole = nvml.whole().map_err(fact("device"))?;
    let capability = whole.cuda_compute_capability().map_err(fact("compute capability"))?;
    // A virtual device says so in its name and in its driver version.
    let kind = if name.starts_with("Virtual") || driver.contains("virtual") {
        DeviceKind::Virtual
    } else {
        DeviceKind::Real
    };
    let pci_id = whole
        .pci_info()
        .ok()
        .map(|pci| format!("{:08x}:{:08x}", pci.pci_device_id, pci.pci_sub_system_id.unwrap_or(0)));
    let mut facts = facts(&whole);
    if is_hosts {
        let word = "that of the host, which its CPUs use too: NVML reports no size";
        facts.insert("memory".to_owned(), word.to_owned());
    }
    if kind == DeviceKind::Real {
        let host = of_host(nvml.pci_address()).into_iter();
        facts.extend(host.filter_map(|(name, fact)| Some((name.to_owned(), fact?))));
        facts.extend(mapped("libnvidia-ml").map(|path| ("nvml_library".to_owned(), path)));
    }
    Ok(DeviceIdentity {
        kind,
        name,
        uuid: nvml.uuid().to_owned(),
        driver,
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
        compute_capability: format!("{}.{}", capability.major, capability.minor),
        sm_count: 0,
        memory_mib: memory_bytes >> 20,
        l2_kib: 0,
        pci_id,
        facts,
    })
}

/// Further facts. A fact that NVML does not report is absent.
fn facts(device: &nvml_wrapper::Device<'_>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.insert(name.to_owned(), value);
        }
    };
    let text = |value: u32| value.to_string();
    put("index", device.index().ok().map(text));
    put("max_sm_clock_mhz", device.max_clock_info(Clock::SM).ok().map(text));
    put("max_memory_clock_mhz", device.max_clock_info(Clock::Memory).ok().map(text));
    put("power_limit_mw", device.enforced_power_limit().ok().map(text));
    put("compute_mode", device.compute_mode().ok().map(|mode| format!("{mode:?}")));
    put("ecc", device.is_ecc_enabled().ok().map(|ecc| format!("{}", ecc.currently_enabled)));
    let mig = match device.mig_mode() {
        Ok(mode) if mode.current == 0 => "off".to_owned(),
        Ok(_) => "on".to_owned(),
        Err(NvmlError::NotSupported) => "not supported".to_owned(),
        Err(error) => format!("unknown: {}", named(&error)),
    };
    put("mig_mode", Some(mig));
    put("virtualization", device.virtualization_mode().ok().map(|mode| format!("{mode:?}")));
    put("vbios", device.vbios_version().ok());
    put("pcie_generation", device.current_pcie_link_gen().ok().map(text));
    put("pcie_width", device.current_pcie_link_width().ok().map(text));
    put(
        "gpm",
        device.gpm_support().ok().map(|is| if is { "supported" } else { "none" }.to_owned()),
    );
    let on = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    put("persistence_mode", device.is_in_persistent_mode().ok().map(on));
    let gsp = device.gsp_firmware_mode().ok().map(|mode| match device.gsp_firmware_version() {
        Ok(version) if mode.enabled => format!("on, {version}"),
        _ => on(mode.enabled),
    });
    put("gsp_firmware", gsp);
    facts
}

pub fn binding(identity: &DeviceIdentity, peaks: BTreeMap<String, f64>) -> CalibrationBinding {
    CalibrationBinding {
        uuid: identity.uuid.clone(),
        name: identity.name.clone(),
        kind: identity.kind,
        peaks,
        entries_hash: String::new(),
    }
}

/// Adds the facts that only a process with a context can read.
pub fn complete(identity: &mut DeviceIdentity, facts: &BTreeMap<String, String>) {
    let number = |name: &str| facts.get(name).and_then(|text| text.parse::<u64>().ok());
    if let Some(sms) = number("sm_count").and_then(|n| u32::try_from(n).ok()) {
        identity.sm_count = sms;
    }
    if let Some(bytes) = number("l2_bytes") {
        identity.l2_kib = bytes >> 10;
    }
    let text = |name: &str| facts.get(name).map(String::as_str);
    let integrated = text("integrated").map(|one| if one == "0" { "false" } else { "true" });
    let range = |[from, to]: [&str; 2], between: &str| {
        Some(format!("{}{between}{}", text(from)?, text(to)?))
    };
    let steps = range(["sm_partition_min", "sm_partition_multiple"], ", in multiples of ");
    let priorities = range(["stream_priority_least", "stream_priority_greatest"], " to ");
    for (name, fact) in [
        ("integrated", integrated.map(str::to_owned)),
        ("green_context_min_sms", steps),
        ("stream_priorities", priorities),
    ] {
        identity.facts.extend(fact.map(|fact| (name.to_owned(), fact)));
    }
}

/// Where the driver of this host says what module it is.
const MODULE: &str = "/proc/driver/nvidia/version";

/// Facts that the host has of a real device: its kernel module and its NUMA node.
fn of_host(pci: Option<(u32, u32, u32)>) -> [(&'static str, Option<String>); 2] {
    let module = std::fs::read_to_string(MODULE).ok().map(|text| module_flavour(&text).to_owned());
    let node = pci.and_then(|(domain, bus, device)| {
        let path = format!("/sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.0/numa_node");
        let node: i32 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
        // The kernel has -1 for a device without one.
        Some(if node < 0 { "none".to_owned() } else { node.to_string() })
    });
    [("kernel_module", module), ("numa_node", node)]
}

/// The library of this name that the loader has mapped into this process; its file has the version
/// of the driver that it belongs to.
fn mapped(name: &str) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let of_name = |path: &&str| path.rsplit('/').next().is_some_and(|file| file.starts_with(name));
    paths.find(of_name).map(str::to_owned)
}

/// The open kernel modules name themselves in the first line.
fn module_flavour(version: &str) -> &'static str {
    if version.contains("Open Kernel Module") { "open" } else { "proprietary" }
}

// The counters that telemetry records. A counter that the device does not have has no reading.

/// The metric of the reasons for reduced clocks, as a bit mask.
pub const THROTTLE_REASONS: &str = "throttle_reasons";

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub metric: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

impl Driver {
    /// The clock of the SMs now; `None` where NVML does not report it.
    pub fn sm_clock_mhz(&self) -> Option<f64> {
        let device = self.whole().ok()?;
        device.clock_info(Clock::SM).ok().map(f64::from)
    }

    /// The temperature of the GPU now; `None` where NVML does not report it.
    pub fn temperature_c(&self) -> Option<f64> {
        let device = self.whole().ok()?;
        let temperature = device.temperature(TemperatureSensor::Gpu);
        temperature.ok().map(f64::from)
    }

    /// One reading of every counter that the device has.
    pub fn readings(&self) -> Vec<Reading> {
        let mut out = Vec::new();
        let Ok(device) = self.device() else {
            return out;
        };
        let mut push = |metric, unit, read: &dyn Fn() -> Option<f64>| {
            self.is_at(metric);
            out.extend(read().map(|value| Reading { metric, value, unit }));
            self.is_at("");
        };
        let number = |value: Result<u32, NvmlError>| value.ok().map(f64::from);
        push("power", "mW", &|| number(device.power_usage()));
        push("energy", "mJ", &|| device.total_energy_consumption().ok().map(|mj| mj as f64));
        push("sm_clock", "MHz", &|| number(device.clock_info(Clock::SM)));
        push("memory_clock", "MHz", &|| number(device.clock_info(Clock::Memory)));
        push("temperature", "C", &|| self.temperature_c());
        let utilisation = std::cell::OnceCell::new();
        let utilisation = || utilisation.get_or_init(|| device.utilization_rates().ok()).as_ref();
        push("gpu_utilisation", "percent", &|| utilisation().map(|all| f64::from(all.gpu)));
        push("memory_utilisation", "percent", &|| utilisation().map(|all| f64::from(all.memory)));
        // The generation falls when the link idles, and the width does not.
        push("pcie_width", "lanes", &|| number(device.current_pcie_link_width()));
        push("memory_used", "bytes", &|| device.memory_info().ok().map(|all| all.used as f64));
        push(THROTTLE_REASONS, "bits", &|| self.throttle_reasons().ok().map(|bits| bits as f64));
        push("compute_processes", "count", &|| {
            self.compute_pids().ok().map(|all| all.len() as f64)
        });
        out
    }
}

// Device settings that a mechanism may change, and facts that decide whether it can run. Reading
// needs no privileges; writing does.

/// Every compute mode with its name, as `nvidia-smi` prints it.
const MODES: [(ComputeMode, &str); 4] = [
    (ComputeMode::Default, "DEFAULT"),
    (ComputeMode::ExclusiveThread, "EXCLUSIVE_THREAD"),
    (ComputeMode::Prohibited, "PROHIBITED"),
    (ComputeMode::ExclusiveProcess, "EXCLUSIVE_PROCESS"),
];

/// Settings of the SM clock; `None` if NVML does not report one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SmClocks {
    pub max_mhz: Option<u32>,
    pub application_mhz: Option<u32>,
    pub default_mhz: Option<u32>,
}

impl Driver {
    pub fn sm_clocks(&self) -> SmClocks {
        let Ok(device) = self.whole() else {
            return SmClocks::default();
        };
        SmClocks {
            max_mhz: device.max_clock_info(Clock::SM).ok(),
            application_mhz: device.applications_clock(Clock::SM).ok(),
            default_mhz: device.default_applications_clock(Clock::SM).ok(),
        }
    }

    /// The compute mode, by the vendor's name: which processes may have a context.
    pub fn compute_mode(&self) -> Result<&'static str, NvmlError> {
        let mode = self.whole()?.compute_mode()?;
        let known = MODES.iter().find(|(known, _)| *known == mode);
        known.map(|(_, name)| *name).ok_or(NvmlError::UnexpectedVariant(0))
    }

    pub fn set_compute_mode(&self, name: &str) -> Result<(), NvmlError> {
        let known = MODES.iter().find(|(_, known)| *known == name);
        let (mode, _) = known.ok_or(NvmlError::InvalidArg)?;
        self.device()?.set_compute_mode(*mode)
    }

    pub fn mps_client_pids(&self) -> Result<Vec<u32>, NvmlError> {
        let clients = self.device()?.mps_running_compute_processes()?;
        Ok(clients.into_iter().map(|client| client.pid).collect())
    }
}

#[cfg(test)]
mod tests {
    /// First lines of both flavours, from public logs.
    #[test]
    fn the_flavour_of_the_kernel_module_is_in_its_first_line() {
        for (line, flavour) in [
            ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "open"),
            ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01", "proprietary"),
        ] {
            assert_eq!(super::module_flavour(line), flavour);
        }
    }
}
