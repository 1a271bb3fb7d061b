//! Tests of workloads on the virtual GPU without the harness: machine files, a child process on
//! each, and the device that the child opens.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_host::device::VirtualGpu;
use gpubench_kernels::KernelSet;
use gpubench_kernels::driver::{Context, Driver, Stream, WaitMode};
use gpubench_virtual_gpu::device::{Device as Shared, DeviceError};
use gpubench_virtual_gpu::session::{ENV, TimeMode};
use gpubench_workloads::clock::{Clock, Participation};
use gpubench_workloads::load::Gpu;

use crate::support::{Error, TestResult, finish, rerun};
use serde_json::Value;

/// The share of an abiding victim.
pub const SHARE: f64 = 3.0 / 7.0;

/// Two built-in machines, and between them one whose sizes and speeds all differ from `turing`.
pub fn machines(folder: &Path) -> Result<[String; 3], Error> {
    let other = folder.join("other.toml");
    std::fs::write(&other, smaller_machine()?)?;
    Ok(["turing".to_owned(), other.to_string_lossy().into_owned(), "hopper".to_owned()])
}

/// A machine whose sizes and speeds all differ from `turing`.
fn smaller_machine() -> Result<String, Error> {
    let text = gpubench_profiles::TURING;
    let mut machine: toml::Table = text.parse()?;
    for (table, key, value) in [
        ("gpu", "sm_count", 24),
        ("gpu", "shared_per_sm_kib", 96),
        ("gpu", "l1_per_sm_kib", 128),
        ("gpu", "fp64_lanes_per_clock", 32),
        ("gpu", "sm_clock_mhz", 1200),
        ("memory", "total_mib", 6144),
        ("memory", "l2_kib", 2560),
        ("host", "launch_ns", 3000),
        ("host", "alloc_ns", 60_000),
        ("host", "module_ns", 140_000),
    ] {
        set(&mut machine, table, key, value)?;
    }
    for (table, key, value) in [
        ("memory", "dram_gb_per_s", 210.0),
        ("memory", "l2_gb_per_s", 760.0),
        ("memory", "translations_per_us", 1100.0),
        ("pcie", "to_device_gb_per_s", 9.0),
        ("pcie", "to_host_gb_per_s", 8.0),
    ] {
        set(&mut machine, table, key, value)?;
    }
    Ok(machine.to_string())
}

/// A machine whose kernels take about twenty times as long as on the others.
pub fn crawling_machine(folder: &Path) -> Result<String, Error> {
    let mut machine: toml::Table = smaller_machine()?.parse()?;
    set(&mut machine, "gpu", "sm_clock_mhz", 60)?;
    set(&mut machine, "memory", "dram_gb_per_s", 10.0)?;
    set(&mut machine, "memory", "l2_gb_per_s", 38.0)?;
    let file = folder.join("crawling.toml");
    std::fs::write(&file, machine.to_string())?;
    Ok(file.to_string_lossy().into_owned())
}

fn set(
    machine: &mut toml::Table,
    table: &str,
    key: &str,
    value: impl Into<toml::Value>,
) -> TestResult {
    let table = machine.get_mut(table).and_then(toml::Value::as_table_mut);
    table.ok_or("no such table")?.insert(key.to_owned(), value.into());
    Ok(())
}

/// Runs a test in a child process on a machine and returns its lines of JSON by their `name`.
pub fn run_again(
    machine: &str,
    test: &str,
    variables: &[(&str, &str)],
) -> Result<BTreeMap<String, Value>, Error> {
    let gpu = VirtualGpu::start(machine, TimeMode::Virtual, 1)?;
    let mut command = rerun(test)?;
    command.envs(gpu.environment()).envs(variables.iter().copied());
    let done = finish(command)?;
    assert_eq!(done.code, Some(0), "{machine}: {}", done.text());
    let lines = done.stdout.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| {
            let value: Value = serde_json::from_str(line)?;
            Ok((value["name"].as_str().unwrap_or_default().to_owned(), value))
        })
        .collect()
}

/// The virtual device of the environment with its clock.
pub struct Device {
    pub gpu: Gpu,
    pub clock: Clock,
    shared: Shared,
}

impl Device {
    pub fn of_environment() -> Result<Self, Error> {
        let clock = Clock::find()?;
        assert!(clock.is_virtual(), "the virtual device is not found");
        let shared = Shared::open(Path::new(&std::env::var(ENV)?))?;
        shared.expect(0)?;
        let participation = Participation::join(&clock, 0)?;
        let device = Driver::load()?.device(0)?;
        let context = Context::primary(&device, WaitMode::BlockingSync)?;
        let gpu = Gpu {
            kernels: KernelSet::new(&context),
            stream: Stream::new(&context)?,
            props: device.props()?,
            spin: false,
            context,
        };
        participation.leave()?;
        Ok(Self { gpu, clock, shared })
    }

    /// Announces a participant, before its thread joins the clock.
    pub fn expect(&self, id: u32) -> Result<(), DeviceError> {
        self.shared.expect(id)
    }
}
