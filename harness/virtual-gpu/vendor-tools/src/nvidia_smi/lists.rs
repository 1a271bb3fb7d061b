//! Lists of which `nvidia-smi` prints a row each: processes, and MIG devices.

use super::facts::{Fact, bus_id, mib, readable, some};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::host_process;
use gpubench_virtual_gpu_driver::nvml::library::Target;
use gpubench_virtual_gpu_driver::nvml::memory::{use_of, window_bytes};
use gpubench_virtual_gpu_driver::nvml::mig::device::{attributes, in_order};
use gpubench_virtual_gpu_driver::nvml::{Error, health, identity, processes};

/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED` and `NVML_VOLATILE_ECC`.
const UNCORRECTED: u32 = 1;
const VOLATILE: u32 = 0;

/// A process with a context.
pub(super) struct Running {
    pub pid: u32,
    pub name: String,
    pub mib: u64,
    /// Ids of GPU instance and compute instance.
    pub instance: Option<(u32, u32)>,
}

/// The processes with a context. Those of the whole device need permission in MIG mode, those of
/// each MIG device do not.
pub(super) fn running(device: &Device) -> Result<Vec<Running>, Error> {
    let found = match readable(processes::compute(device, Target::Whole))? {
        Some(found) => found,
        None => {
            let rows = device.shared().read(in_order)?;
            let of = |row: &u32| processes::compute(device, Target::Engine(*row));
            rows.iter().map(of).collect::<Result<Vec<_>, Error>>()?.concat()
        }
    };
    let one = |found: &processes::Running| Running {
        pid: found.pid,
        name: host_process::name(found.pid).unwrap_or_else(|| "[Not Found]".to_owned()),
        mib: found.bytes >> 20,
        instance: found.instance,
    };
    Ok(found.iter().map(one).collect())
}

/// The figures of a process that `--query-compute-apps` prints.
pub(super) fn of_process(process: &Running, device: &Device) -> Vec<Fact> {
    let row = |names, value: String, unit| Fact { names, value: Some(value), unit };
    let machine = device.machine();
    vec![
        row("pid", process.pid.to_string(), ""),
        row("process_name name", process.name.clone(), ""),
        row("used_gpu_memory used_memory", process.mib.to_string(), "MiB"),
        row("gpu_uuid", machine.uuid(), ""),
        row("gpu_name", machine.gpu.product.clone(), ""),
        row("gpu_bus_id", bus_id(), ""),
    ]
}

/// The figures of each process in `-q`.
pub(super) fn process_rows(device: &Device) -> Result<Vec<Vec<Fact>>, Error> {
    let row = |process: Running| {
        let fact = |names, value, unit| Fact { names, value, unit };
        vec![
            fact("process.gpu_instance", process.instance.map(|ids| ids.0.to_string()), ""),
            fact("process.compute_instance", process.instance.map(|ids| ids.1.to_string()), ""),
            fact("process.pid", some(process.pid), ""),
            fact("process.name", Some(process.name), ""),
            fact("process.memory", some(process.mib), "MiB"),
        ]
    };
    Ok(running(device)?.into_iter().map(row).collect())
}

/// MIG devices in order: size and UUID.
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

/// The figures of each MIG device in `-q`.
pub(super) fn mig_rows(device: &Device) -> Result<Vec<Vec<Fact>>, Error> {
    let rows = device.shared().read(in_order)?;
    rows.iter().enumerate().map(|(index, &row)| mig_row(device, index, row)).collect()
}

fn mig_row(device: &Device, index: usize, row: u32) -> Result<Vec<Fact>, Error> {
    let target = Target::Engine(row);
    let (gpu, compute) = device.shared().read(|state| {
        let engine = &state.engines.rows[row as usize];
        (state.instances.rows[engine.instance as usize].id, engine.id)
    })?;
    let has = attributes(device, target)?;
    let errors = health::errors(device, target, UNCORRECTED, VOLATILE);
    let (memory, window) = (use_of(device, target)?, window_bytes(device, target)?);
    let count = |names, value: u32| Fact { names, value: some(value), unit: "" };
    let size = |names, bytes: u64| Fact { names, value: mib(bytes), unit: "MiB" };
    Ok(vec![
        Fact { names: "mig.index", value: some(index), unit: "" },
        count("mig.gpu_instance", gpu),
        count("mig.compute_instance", compute),
        count("mig.sms", has.sms),
        count("mig.copy_engines", has.shared.copy_engines),
        // No profile of a machine file has encoders.
        count("mig.encoders", 0),
        count("mig.decoders", has.shared.decoders),
        count("mig.ofa", has.shared.ofa),
        count("mig.jpeg", has.shared.jpeg),
        Fact { names: "mig.uncorrected", value: errors.ok().and_then(some), unit: "" },
        size("mig.memory.total", memory.total),
        size("mig.memory.reserved", memory.reserved),
        size("mig.memory.used", memory.used),
        size("mig.memory.free", memory.free),
        size("mig.bar1.total mig.bar1.free", window),
        size("mig.bar1.used", 0),
    ])
}
