//! The identity of the device, as NVML reports it.

use std::collections::BTreeMap;

use gpubench_record::{CalibrationBinding, DeviceIdentity, DeviceKind};
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;

use super::nvml::{Nvml, QueryError};

/// Reads from NVML what identifies the device. The number of SMs and the size of L2 are 0 until a
/// tenant reports them from inside a context: see [`complete`].
///
/// # Errors
/// When NVML does not report name, driver, memory size or compute capability.
pub fn identify(nvml: &Nvml) -> Result<DeviceIdentity, QueryError> {
    let fact = |what| move |source| QueryError::Fact { what, source };
    let device = nvml.device().map_err(fact("device"))?;
    let driver = nvml.library().sys_driver_version().map_err(fact("driver version"))?;
    let cuda = nvml.library().sys_cuda_driver_version().map_err(fact("CUDA version"))?;
    let name = device.name().map_err(fact("name"))?;
    let memory = device.memory_info().map_err(fact("memory size"))?;
    let capability = device.cuda_compute_capability().map_err(fact("compute capability"))?;
    // A virtual device says so in its name and in its driver version.
    let kind = if name.starts_with("Virtual") || driver.contains("virtual") {
        DeviceKind::Virtual
    } else {
        DeviceKind::Real
    };
    let pci_id = device
        .pci_info()
        .ok()
        .map(|pci| format!("{:08x}:{:08x}", pci.pci_device_id, pci.pci_sub_system_id.unwrap_or(0)));
    Ok(DeviceIdentity {
        kind,
        name,
        uuid: nvml.uuid().to_owned(),
        driver,
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
        compute_capability: format!("{}.{}", capability.major, capability.minor),
        sm_count: 0,
        memory_mib: memory.total >> 20,
        l2_kib: 0,
        pci_id,
        facts: facts(&device),
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
    put("max_sm_clock_mhz", device.max_clock_info(Clock::SM).ok().map(text));
    put("max_memory_clock_mhz", device.max_clock_info(Clock::Memory).ok().map(text));
    put("power_limit_mw", device.enforced_power_limit().ok().map(text));
    put("compute_mode", device.compute_mode().ok().map(|mode| format!("{mode:?}")));
    put("ecc", device.is_ecc_enabled().ok().map(|ecc| format!("{}", ecc.currently_enabled)));
    let mig = match device.mig_mode() {
        Ok(mode) if mode.current == 0 => "off".to_owned(),
        Ok(_) => "on".to_owned(),
        Err(NvmlError::NotSupported) => "not supported".to_owned(),
        Err(error) => format!("unknown: {error}"),
    };
    put("mig_mode", Some(mig));
    put("virtualization", device.virtualization_mode().ok().map(|mode| format!("{mode:?}")));
    put("vbios", device.vbios_version().ok());
    put("pcie_generation", device.current_pcie_link_gen().ok().map(text));
    put("pcie_width", device.current_pcie_link_width().ok().map(text));
    facts
}

/// What ties a calibration to this device with these peaks.
#[must_use]
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
}
