//! What `nvidia-smi` reports of the device: one table of figures, by the names that `--query-gpu`
//! takes or that only `tree.txt` has.
#![expect(unsafe_code, reason = "the C library knows the time zone")]

use std::ffi::CStr;

use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::kernel_log::{PCI_BUS, PCI_ID};
use gpubench_virtual_gpu_driver::nvml::clocks::{Which, clock_mhz, reasons};
use gpubench_virtual_gpu_driver::nvml::fields::{self, Figure};
use gpubench_virtual_gpu_driver::nvml::library::Target;
use gpubench_virtual_gpu_driver::nvml::link::throughput;
use gpubench_virtual_gpu_driver::nvml::memory::{MemoryUse, use_of, window_bytes};
use gpubench_virtual_gpu_driver::nvml::power::{Limits, instant_mw, temperature_c};
use gpubench_virtual_gpu_driver::nvml::{Error, health, utilization};
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::machine::{Machine, Virtualization};

/// A figure; none where the device has none.
pub(super) struct Fact {
    /// Its names, separated by blanks.
    pub names: &'static str,
    pub value: Option<String>,
    pub unit: &'static str,
}

impl Fact {
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.split(' ').any(|known| known == name)
    }

    pub(super) fn with_unit(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(if self.unit.is_empty() { value.clone() } else { format!("{value} {}", self.unit) })
    }
}

/// The form of the time in tables.
pub(super) const LONG_TIME: &CStr = c"%a %b %e %H:%M:%S %Y";

/// The local time in a form of strftime.
pub(super) fn time(form: &CStr) -> String {
    let mut text = [0_u8; 64];
    // SAFETY: valid pointers, and a buffer with its length.
    let length = unsafe {
        let seconds = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut parts);
        libc::strftime(text.as_mut_ptr().cast(), text.len(), form.as_ptr(), &raw const parts)
    };
    String::from_utf8_lossy(&text[..length]).into_owned()
}

/// The address on the bus, as the vendor's tools print it.
pub(super) fn bus_id() -> String {
    format!("00000000:{PCI_BUS:02X}:00.0")
}

/// The words for a compute mode.
pub(super) const fn mode_word(mode: ComputeMode) -> &'static str {
    match mode {
        ComputeMode::Default => "Default",
        ComputeMode::Prohibited => "Prohibited",
        ComputeMode::ExclusiveProcess => "Exclusive_Process",
    }
}

/// What the figures are made of.
struct Seen<'d> {
    device: &'d Device,
    machine: &'d Machine,
    /// None where the caller may not read it.
    memory: Option<MemoryUse>,
    window: u64,
    mode: ComputeMode,
    /// MIG mode now and after the next reset, where there is one.
    mig: [Option<bool>; 2],
    /// Percentages in which the SMs and the DRAM were busy.
    busy: Option<(u32, u32)>,
    /// Bits of the reasons for which clocks are held back.
    held: u64,
    /// Corrected and uncorrected errors of memory.
    errors: [Option<u64>; 2],
    celsius: u32,
    draw_mw: u32,
    limits: Limits,
}

impl<'d> Seen<'d> {
    fn of(device: &'d Device) -> Result<Self, Error> {
        let (machine, whole) = (device.machine(), Target::Whole);
        let (mode, mig) = device.shared().read(|state| (state.compute_mode, state.mig))?;
        let has_mig = machine.mig.is_some();
        Ok(Self {
            device,
            machine,
            memory: readable(use_of(device, whole))?,
            window: window_bytes(device, whole)?,
            mode,
            mig: [mig.current, mig.pending].map(|on| has_mig.then_some(on)),
            busy: utilization::rates(device).ok(),
            held: reasons(device)?,
            errors: [0, 1].map(|kind| health::errors(device, whole, kind, 0).ok()),
            celsius: temperature_c(device, 0)?,
            draw_mw: instant_mw(device)?,
            limits: Limits::of(machine),
        })
    }

    fn active(&self, reason: u64) -> Option<String> {
        some(if self.held & reason != 0 { "Active" } else { "Not Active" })
    }

    /// The field of NVML with that number (`NVML_FI_DEV_...`).
    fn field(&self, number: u32) -> Option<u64> {
        match fields::field(self.device, number, 0).ok()?.0.ok()? {
            Figure::Int(value) => Some(value.into()),
            Figure::Long(value) => Some(value),
        }
    }

    fn number(&self, field: u32) -> Option<String> {
        self.field(field).and_then(some)
    }

    fn word(&self, field: u32) -> Option<String> {
        some(if self.field(field)? == 0 { "No" } else { "Yes" })
    }

    /// A clock: graphics, SM, memory, video.
    fn clock(&self, kind: u32, which: Which) -> Option<String> {
        clock_mhz(self.device, kind, which).ok().and_then(some)
    }

    /// Whether the chip averages its power (nvml.h, `nvmlDeviceGetPowerUsage`). The first reading
    /// of a process, which this is, has no earlier one to average with.
    fn has_average(&self) -> bool {
        let capability = self.machine.compute_capability();
        capability.0 >= 8 && capability != (8, 0)
    }
}

pub(super) fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

pub(super) fn mib(bytes: u64) -> Option<String> {
    some(bytes >> 20)
}

fn watts(milli: u32) -> Option<String> {
    Some(format!("{:.2}", f64::from(milli) / 1000.0))
}

fn on(flag: bool) -> Option<String> {
    some(if flag { "Enabled" } else { "Disabled" })
}

/// Names, unit and value.
type Row = (&'static str, &'static str, fn(&Seen<'_>) -> Option<String>);

/// The figures that `--query-gpu` prints.
#[rustfmt::skip]
const QUERIED: &[Row] = &[
    ("index", "", |_| some(0)),
    ("count", "", |_| some(1)),
    ("timestamp", "", |_| some(time(c"%Y/%m/%d %H:%M:%S.000"))),
    ("name gpu_name", "", |s| some(&s.machine.gpu.product)),
    ("driver_version", "", |s| some(&s.machine.gpu.driver)),
    ("display_mode", "", |_| on(false)),
    ("display_active", "", |_| on(false)),
    ("persistence_mode", "", |_| on(true)),
    ("addressing_mode", "", |_| some("None")),
    ("mig.mode.current", "", |s| s.mig[0].and_then(on)),
    ("mig.mode.pending", "", |s| s.mig[1].and_then(on)),
    ("accounting.mode", "", |_| on(false)),
    ("serial gpu_serial", "", |_| None),
    ("uuid gpu_uuid", "", |s| some(s.machine.uuid())),
    ("vbios_version", "", |_| some("00.00.virtual")),
    ("gpu_recovery_action", "", |s| some(RECOVERY.get(s.field(230)? as usize)?)),
    ("pci.bus", "", |_| Some(format!("0x{PCI_BUS:02X}"))),
    ("pci.device", "", |_| some("0x00")),
    ("pci.domain", "", |_| some("0x0000")),
    ("pci.bus_id gpu_bus_id", "", |_| some(bus_id())),
    ("pci.device_id pci.sub_device_id", "", |_| Some(format!("0x{PCI_ID:08X}"))),
    ("pcie.link.gen.max pcie.link.gen.current pcie.link.gen.gpucurrent", "",
        |s| some(s.machine.pcie.generation)),
    ("pcie.link.width.max pcie.link.width.current", "", |s| some(s.machine.pcie.width)),
    ("fan.speed", "%", |_| None),
    ("pstate", "", |_| some("P0")),
    ("clocks_event_reasons.gpu_idle", "", |s| s.active(0x1)),
    ("clocks_event_reasons.applications_clocks_setting", "", |s| s.active(0x2)),
    ("clocks_event_reasons.sw_power_cap", "", |s| s.active(0x4)),
    ("clocks_event_reasons.hw_slowdown", "", |s| s.active(0x8)),
    ("clocks_event_reasons.sync_boost", "", |s| s.active(0x10)),
    ("clocks_event_reasons.sw_thermal_slowdown", "", |s| s.active(0x20)),
    ("clocks_event_reasons.hw_thermal_slowdown", "", |s| s.active(0x40)),
    ("clocks_event_reasons.hw_power_brake_slowdown", "", |s| s.active(0x80)),
    ("clocks_event_reasons_counters.sw_power_cap", "us",
        |s| some(s.field(74)? / 1000)),
    ("clocks_event_reasons_counters.sw_thermal_slowdown", "us", |s| s.number(269)),
    ("clocks_event_reasons_counters.hw_thermal_slowdown", "us", |s| s.number(270)),
    ("clocks_event_reasons_counters.hw_power_brake_slowdown", "us",
        |s| s.number(271)),
    ("memory.total", "MiB", |s| mib(s.memory.as_ref()?.total)),
    ("memory.reserved", "MiB", |s| mib(s.memory.as_ref()?.reserved)),
    ("memory.used", "MiB", |s| mib(s.memory.as_ref()?.used)),
    ("memory.free", "MiB", |s| mib(s.memory.as_ref()?.free)),
    ("protected_memory.total protected_memory.used protected_memory.free", "MiB",
        |s| (!s.machine.circumstances.confidential_computing).then(|| "0".to_owned())),
    ("compute_mode", "", |s| some(mode_word(s.mode))),
    ("compute_cap", "", |s| some(&s.machine.gpu.compute_capability)),
    ("utilization.gpu", "%", |s| s.busy.map(|(sm, _)| sm.to_string())),
    ("utilization.memory", "%", |s| s.busy.map(|(_, dram)| dram.to_string())),
    ("ecc.mode.current", "", |s| s.errors[0].and_then(|_| on(true))),
    ("ecc.mode.pending", "", |s| s.errors[0].and_then(|_| on(true))),
    ("ecc.errors.corrected.volatile.total", "", |s| s.errors[0].and_then(some)),
    ("ecc.errors.uncorrected.volatile.total", "",
        |s| s.errors[1].and_then(some)),
    ("remapped_rows.correctable", "", |s| s.number(142)),
    ("remapped_rows.uncorrectable", "", |s| s.number(143)),
    ("remapped_rows.pending", "", |s| s.word(144)),
    ("remapped_rows.failure", "", |s| s.word(145)),
    ("temperature.gpu", "C", |s| some(s.celsius)),
    ("temperature.memory", "C", |_| None),
    ("power.draw power.draw.instant", "W", |s| watts(s.draw_mw)),
    ("power.draw.average", "W", |s| s.has_average().then(|| watts(s.draw_mw))?),
    ("power.limit enforced.power.limit", "W", |s| watts(s.limits.current_mw)),
    ("power.default_limit", "W", |s| watts(s.limits.default_mw)),
    ("power.min_limit", "W", |s| watts(s.limits.least_mw)),
    ("power.max_limit", "W", |s| watts(s.limits.most_mw)),
    ("clocks.gr clocks.current.graphics", "MHz", |s| s.clock(0, Which::Now)),
    ("clocks.sm clocks.current.sm", "MHz", |s| s.clock(1, Which::Now)),
    ("clocks.mem clocks.current.memory", "MHz", |s| s.clock(2, Which::Now)),
    ("clocks.video clocks.current.video", "MHz", |s| s.clock(3, Which::Now)),
    ("clocks.applications.graphics", "MHz",
        |s| s.clock(0, Which::Application)),
    ("clocks.applications.memory", "MHz",
        |s| s.clock(2, Which::Application)),
    ("clocks.default_applications.graphics", "MHz",
        |s| s.clock(0, Which::Default)),
    ("clocks.default_applications.memory", "MHz",
        |s| s.clock(2, Which::Default)),
    ("clocks.max.gr clocks.max.graphics", "MHz", |s| s.clock(0, Which::Max)),
    ("clocks.max.sm", "MHz", |s| s.clock(1, Which::Max)),
    ("clocks.max.mem clocks.max.memory", "MHz", |s| s.clock(2, Which::Max)),
];

/// The figures that only `-q` prints.
#[rustfmt::skip]
const PRINTED: &[Row] = &[
    ("blank", "", |_| some(" ")),
    ("cuda_version", "", |s| some(&s.machine.gpu.cuda)),
    ("kmd_instead", "", |_| some(DEPRECATED[0])),
    ("umd_instead", "", |_| some(DEPRECATED[1])),
    ("deprecated", "", |_| some(DEPRECATED[2])),
    ("architecture", "", |s| architecture(s.machine.compute_capability()).map(str::to_owned)),
    ("mig_shared", "", |s| some(if branch(&s.machine.gpu.driver) < 580 { "" } else { "Shared " })),
    ("minor_number", "", |_| some(0)),
    ("virtualization", "", |s| some(virtualization(s.machine.circumstances.virtualization))),
    ("reset_required", "", |s| some(if s.field(230)? == 0 { "No" } else { "Yes" })),
    ("domain", "", |_| some("0000")),
    ("bus", "", |_| Some(format!("{PCI_BUS:02X}"))),
    ("slot", "", |_| some("00")),
    ("device_id", "", |_| Some(format!("{PCI_ID:08X}"))),
    ("replays", "", |s| s.number(94)),
    ("replay_rollovers", "", |s| s.number(95)),
    ("pcie.tx", "KB/s", |s| throughput(s.device, 0).ok().and_then(some)),
    ("pcie.rx", "KB/s", |s| throughput(s.device, 1).ok().and_then(some)),
    ("display_clocks", "", |s| s.active(0x100)),
    ("bar1.total bar1.free", "MiB", |s| mib(s.window)),
    ("bar1.used", "MiB", |_| some(0)),
    ("clocks.max.video", "MHz", |s| s.clock(3, Which::Max)),
];

/// What the vendor prints for what it has given up.
const DEPRECATED: [&str; 3] = [
    "[Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]",
    "[Deprecated; will be removed in CUDA 14.0. Use CUDA UMD Version instead]",
    "Requested functionality has been deprecated",
];

/// `nvmlDeviceGpuRecoveryAction_t`, by number (nvidia-smi(1), "GPU Recovery Action").
const RECOVERY: [&str; 5] = ["None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"];

/// The family of a chip by its compute capability.
const fn architecture(capability: (u32, u32)) -> Option<&'static str> {
    match capability {
        (7, 0 | 2) => Some("Volta"),
        (7, 5) => Some("Turing"),
        (8, 9) => Some("Ada Lovelace"),
        (8, _) => Some("Ampere"),
        (9, _) => Some("Hopper"),
        (10 | 12, _) => Some("Blackwell"),
        _ => None,
    }
}

const fn virtualization(mode: Virtualization) -> &'static str {
    match mode {
        Virtualization::None => "None",
        Virtualization::Passthrough => "Pass-Through",
        Virtualization::Vgpu => "VGPU",
        Virtualization::HostVgpu => "Host VGPU",
        Virtualization::HostVsga => "Host VSGA",
    }
}

/// The branch of a driver's version, its first number.
pub(super) fn branch(driver: &str) -> u32 {
    driver.split('.').next().and_then(|part| part.parse().ok()).unwrap_or(0)
}

/// None for what needs a permission that the caller lacks.
pub(super) fn readable<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::NoPermission) => Ok(None),
        other => other.map(Some),
    }
}

fn values(device: &Device, tables: &[&[Row]]) -> Result<Vec<Fact>, Error> {
    let seen = Seen::of(device)?;
    let fact = |row: &Row| {
        let (names, unit, value) = *row;
        Fact { names, value: value(&seen), unit }
    };
    Ok(tables.iter().flat_map(|table| table.iter()).map(fact).collect())
}

/// The value of every figure of `--query-gpu`.
pub(super) fn queried(device: &Device) -> Result<Vec<Fact>, Error> {
    values(device, &[QUERIED])
}

/// The value of every figure of `-q`.
pub(super) fn printed(device: &Device) -> Result<Vec<Fact>, Error> {
    // The two have another form of the time.
    let stamp = Fact { names: "timestamp", value: Some(time(LONG_TIME)), unit: "" };
    let known = values(device, &[QUERIED, PRINTED])?;
    Ok([stamp].into_iter().chain(known).collect())
}
