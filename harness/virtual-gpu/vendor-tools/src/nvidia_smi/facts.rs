//! What `nvidia-smi` reports of the device: one table of figures, by the name that `--query-gpu`
//! takes and by the place that `-q` prints.

use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process;
use gpubench_virtual_gpu_driver::kernel_log::PCI_BUS;
use gpubench_virtual_gpu_driver::nvml::clocks::{Which, clock_mhz, reasons};
use gpubench_virtual_gpu_driver::nvml::library::Target;
use gpubench_virtual_gpu_driver::nvml::memory::{MemoryUse, use_of, window_bytes};
use gpubench_virtual_gpu_driver::nvml::mig::device::in_order;
use gpubench_virtual_gpu_driver::nvml::power::{Limits, instant_mw, temperature_c};
use gpubench_virtual_gpu_driver::nvml::{Error, health, identity, processes, utilization};
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::machine::Machine;

/// A figure; none where the device has none.
pub(super) struct Fact {
    /// The names that `--query-gpu` takes, separated by blanks.
    pub names: &'static str,
    /// Section and label in `-q`, separated by a slash; empty for none.
    pub place: &'static str,
    pub value: Option<String>,
    pub unit: &'static str,
}

/// A process with a context.
pub(super) struct Running {
    pub pid: u32,
    pub name: String,
    pub mib: u64,
    /// Ids of GPU instance and compute instance.
    pub instance: Option<(u32, u32)>,
}

/// The processes with a context.
pub(super) fn running(device: &Device) -> Result<Vec<Running>, Error> {
    let found = processes::compute(device, Target::Whole)?;
    let one = |found: &processes::Running| Running {
        pid: found.pid,
        name: host_process::name(found.pid).unwrap_or_else(|| "[Not Found]".to_owned()),
        mib: found.bytes >> 20,
        instance: found.instance,
    };
    Ok(found.iter().map(one).collect())
}

/// MIG devices in order: name and UUID.
pub(super) fn mig_devices(device: &Device) -> Result<Vec<(String, String)>, Error> {
    let rows = device.shared().read(in_order)?;
    let names = |row: &u32| {
        let target = Target::Engine(*row);
        let name = identity::name(device, target)?;
        let size = name.rsplit(' ').next().unwrap_or_default().to_owned();
        Ok((size, identity::uuid(device, target)?))
    };
    rows.iter().map(names).collect()
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
    machine: &'d Machine,
    memory: MemoryUse,
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
    /// Clocks of graphics, SM, memory and video, now and at most.
    clocks: [[Option<u32>; 2]; 4],
}

impl<'d> Seen<'d> {
    fn of(device: &'d Device) -> Result<Self, Error> {
        let (machine, whole) = (device.machine(), Target::Whole);
        let (mode, mig) = device.shared().read(|state| (state.compute_mode, state.mig))?;
        let has_mig = machine.mig.is_some();
        let clock = |kind, which| clock_mhz(device, kind, which).ok();
        Ok(Self {
            machine,
            memory: use_of(device, whole)?,
            window: window_bytes(device, whole)?,
            mode,
            mig: [mig.current, mig.pending].map(|on| has_mig.then_some(on)),
            busy: utilization::rates(device).ok(),
            held: reasons(device)?,
            errors: [0, 1].map(|kind| health::errors(device, whole, kind, 0).ok()),
            celsius: temperature_c(device, 0)?,
            draw_mw: instant_mw(device)?,
            limits: Limits::of(machine),
            clocks: [0, 1, 2, 3].map(|kind| [clock(kind, Which::Now), clock(kind, Which::Max)]),
        })
    }

    fn active(&self, reason: u64) -> Option<String> {
        some(if self.held & reason != 0 { "Active" } else { "Not Active" })
    }
}

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn mib(bytes: u64) -> Option<String> {
    some(bytes >> 20)
}

fn watts(milli: u32) -> Option<String> {
    Some(format!("{:.2}", f64::from(milli) / 1000.0))
}

fn on(flag: bool) -> Option<String> {
    some(if flag { "Enabled" } else { "Disabled" })
}

/// Names, place, unit and value.
type Row = (&'static str, &'static str, &'static str, fn(&Seen<'_>) -> Option<String>);

/// Every figure, in the order of `-q`.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("index", "", "", |_| some(0)),
    ("count", "", "", |_| some(1)),
    ("name gpu_name", "/Product Name", "", |s| some(&s.machine.gpu.product)),
    ("driver_version", "", "", |s| some(&s.machine.gpu.driver)),
    ("", "/Product Brand", "", |_| some("NVIDIA")),
    ("display_mode", "/Display Mode", "", |_| on(false)),
    ("display_active", "/Display Active", "", |_| on(false)),
    ("persistence_mode", "/Persistence Mode", "", |_| on(true)),
    ("mig.mode.current", "MIG Mode/Current", "", |s| s.mig[0].and_then(on)),
    ("mig.mode.pending", "MIG Mode/Pending", "", |s| s.mig[1].and_then(on)),
    ("accounting.mode", "/Accounting Mode", "", |_| on(false)),
    ("serial gpu_serial", "/Serial Number", "", |_| None),
    ("uuid gpu_uuid", "/GPU UUID", "", |s| some(s.machine.uuid())),
    ("", "/Minor Number", "", |_| some(0)),
    ("vbios_version", "/VBIOS Version", "", |_| some("00.00.virtual")),
    ("pci.bus", "PCI/Bus", "", |_| Some(format!("0x{PCI_BUS:02X}"))),
    ("pci.device", "PCI/Device", "", |_| some("0x00")),
    ("pci.domain", "PCI/Domain", "", |_| some("0x0000")),
    ("pci.bus_id gpu_bus_id", "PCI/Bus Id", "", |_| some(bus_id())),
    ("pcie.link.gen.max", "GPU Link Info/Max", "", |s| some(s.machine.pcie.generation)),
    ("pcie.link.gen.current pcie.link.gen.gpucurrent", "GPU Link Info/Current", "",
        |s| some(s.machine.pcie.generation)),
    ("pcie.link.width.max", "GPU Link Info/Max Width", "", |s| some(s.machine.pcie.width)),
    ("pcie.link.width.current", "GPU Link Info/Current Width", "", |s| some(s.machine.pcie.width)),
    ("fan.speed", "/Fan Speed", "%", |_| None),
    ("pstate", "/Performance State", "", |_| some("P0")),
    ("clocks_event_reasons.gpu_idle", "Clocks Event Reasons/Idle", "", |s| s.active(1)),
    ("clocks_event_reasons.applications_clocks_setting",
        "Clocks Event Reasons/Applications Clocks Setting", "", |s| s.active(2)),
    ("clocks_event_reasons.sw_power_cap", "Clocks Event Reasons/SW Power Cap", "", |s| s.active(4)),
    ("memory.total", "FB Memory Usage/Total", "MiB", |s| mib(s.memory.total)),
    ("memory.reserved", "FB Memory Usage/Reserved", "MiB", |s| mib(s.memory.reserved)),
    ("memory.used", "FB Memory Usage/Used", "MiB", |s| mib(s.memory.used)),
    ("memory.free", "FB Memory Usage/Free", "MiB", |s| mib(s.memory.free)),
    ("", "BAR1 Memory Usage/Total", "MiB", |s| mib(s.window)),
    ("", "BAR1 Memory Usage/Used", "MiB", |_| some(0)),
    ("", "BAR1 Memory Usage/Free", "MiB", |s| mib(s.window)),
    ("compute_mode", "/Compute Mode", "", |s| some(mode_word(s.mode))),
    ("utilization.gpu", "Utilization/GPU", "%", |s| s.busy.map(|(sm, _)| sm.to_string())),
    ("utilization.memory", "Utilization/Memory", "%", |s| s.busy.map(|(_, dram)| dram.to_string())),
    ("ecc.mode.current", "ECC Mode/Current", "", |s| s.errors[0].and_then(|_| on(true))),
    ("ecc.mode.pending", "ECC Mode/Pending", "", |s| s.errors[0].and_then(|_| on(true))),
    ("ecc.errors.corrected.volatile.total", "", "", |s| s.errors[0].and_then(some)),
    ("ecc.errors.uncorrected.volatile.total", "", "", |s| s.errors[1].and_then(some)),
    ("temperature.gpu", "Temperature/GPU Current Temp", "C", |s| some(s.celsius)),
    ("temperature.memory", "Temperature/Memory Current Temp", "C", |_| None),
    ("power.draw power.draw.average power.draw.instant",
        "GPU Power Readings/Instantaneous Power Draw", "W", |s| watts(s.draw_mw)),
    ("power.limit", "GPU Power Readings/Current Power Limit", "W", |s| watts(s.limits.current_mw)),
    ("enforced.power.limit", "GPU Power Readings/Requested Power Limit", "W",
        |s| watts(s.limits.current_mw)),
    ("power.default_limit", "GPU Power Readings/Default Power Limit", "W",
        |s| watts(s.limits.default_mw)),
    ("power.min_limit", "GPU Power Readings/Min Power Limit", "W", |s| watts(s.limits.least_mw)),
    ("power.max_limit", "GPU Power Readings/Max Power Limit", "W", |s| watts(s.limits.most_mw)),
    ("clocks.gr clocks.current.graphics", "Clocks/Graphics", "MHz",
        |s| s.clocks[0][0].and_then(some)),
    ("clocks.sm clocks.current.sm", "Clocks/SM", "MHz", |s| s.clocks[1][0].and_then(some)),
    ("clocks.mem clocks.current.memory", "Clocks/Memory", "MHz", |s| s.clocks[2][0].and_then(some)),
    ("clocks.video clocks.current.video", "Clocks/Video", "MHz", |s| s.clocks[3][0].and_then(some)),
    ("clocks.max.gr clocks.max.graphics", "Max Clocks/Graphics", "MHz",
        |s| s.clocks[0][1].and_then(some)),
    ("clocks.max.sm", "Max Clocks/SM", "MHz", |s| s.clocks[1][1].and_then(some)),
    ("clocks.max.mem clocks.max.memory", "Max Clocks/Memory", "MHz",
        |s| s.clocks[2][1].and_then(some)),
    ("", "Max Clocks/Video", "MHz", |s| s.clocks[3][1].and_then(some)),
    ("compute_cap", "", "", |s| some(&s.machine.gpu.compute_capability)),
];

/// The value of every figure.
pub(super) fn facts(device: &Device) -> Result<Vec<Fact>, Error> {
    let seen = Seen::of(device)?;
    let fact = |row: &Row| {
        let (names, place, unit, value) = *row;
        Fact { names, place, value: value(&seen), unit }
    };
    Ok(ROWS.iter().map(fact).collect())
}
