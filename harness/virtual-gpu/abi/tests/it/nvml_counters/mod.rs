//! Every counter that monitors and the harness read, at the C interface: idle, under load, after a
//! fault. Each changes under its load, stays constant where no load affects it, or is refused with
//! the header's code where the machine lacks the unit.
//!
//! `rows.rs` lists the counters and expectations, `read.rs` reads them.

mod read;
mod rows;

use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_model::machine::Machine;

use crate::driver_support::call;
use crate::nvml_support::{
    Error, alloc, context, function, in_virtual_time, launch_on, nvml_device, ok, quiet, stream,
};
use read::Reader;
use rows::{ROWS, Row};

const COPY: &str = Kernel::StreamCopy.info().ptx;
const TENSOR: &str = Kernel::TensorChain.info().ptx;
const FP32: &str = Kernel::Fp32Chain.info().ptx;
const FP64: &str = Kernel::Fp64Chain.info().ptx;
const INT: &str = Kernel::IntChain.info().ptx;
const TRAP: &str = Kernel::FaultTrap.info().ptx;

const MS: u64 = 1_000_000;
/// Longer than every window.
const WHILE_NS: u64 = 1_200 * MS;

/// A machine with a power cap below any load, a slow link, and memory that fails with each fatal
/// fault and then requires a reset.
fn machine(name: &str) -> Result<Machine, Error> {
    let mut machine = quiet(name)?;
    machine.memory.l2_kib = 1024;
    machine.memory.dram_gb_per_s /= 400.0;
    machine.memory.sm_dram_gb_per_s = machine.memory.dram_gb_per_s / 8.0;
    machine.pcie.to_device_gb_per_s = 0.25;
    machine.pcie.to_host_gb_per_s = 0.125;
    machine.power.cap_w =
        machine.power.idle_w + (machine.power.max_w - machine.power.idle_w) / 50.0;
    machine.memory.ecc = true;
    machine.defects.fault_recovery_action = 1;
    machine.defects.fault_ecc_corrected = 3;
    machine.defects.fault_ecc_uncorrected = 2;
    machine.defects.fault_remap_pending = true;
    Ok(machine)
}

/// Queues work of every kind, each on its own stream, for longer than the test lasts.
fn load() -> Result<(), Error> {
    let bytes = 8usize << 20;
    let (from, to) = (alloc(bytes)?, alloc(bytes)?);
    let one = u64::from(1.0f32.to_bits());
    let chain = |a: u64, b: u64| vec![to, 4_000_000, a, b];
    let both = 1.0f64.to_bits();
    for (text, name, mut args) in [
        (COPY, "stream_copy", vec![to, from, bytes as u64 / 16]),
        (TENSOR, "tensor_chain", chain(0x3e00_3e00, 0x0400_0400)),
        (FP32, "fp32_chain", chain(one, one)),
        (FP64, "fp64_chain", chain(both, both)),
        (INT, "int_chain", chain(3, 5)),
    ] {
        let (kernel, stream) = (function(text, name)?, stream()?);
        for _ in 0..250 {
            ok(launch_on(kernel, (4, 256, 0), stream, &mut args))?;
        }
    }
    let (there, back) = (stream()?, stream()?);
    let chunk = 1usize << 20;
    let mut host = null_mut();
    ok!(cuMemHostAlloc(&raw mut host, chunk, 0))?;
    for _ in 0..900 {
        ok!(cuMemcpyHtoDAsync_v2(to, host, chunk, there))?;
        ok!(cuMemcpyDtoHAsync_v2(host, from, chunk, back))?;
    }
    Ok(())
}

/// Ends a new context by a fatal fault.
fn fault() -> Result<(), Error> {
    let context = context()?;
    let kernel = function(TRAP, "fault_trap")?;
    ok(launch_on(kernel, (1, 1, 0), null_mut(), &mut [1, 16]))?;
    let code = call!(cuCtxSynchronize());
    if code != 719 {
        return Err(format!("a trap returns {code}").into());
    }
    ok!(cuCtxDestroy_v2(context))
}

/// The rows with an unexpected change from `before` to `after`.
fn complaints(
    rows: &[Row],
    machine: usize,
    phase: usize,
    ends: [&read::Answers; 2],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in rows {
        let [before, after] = ends.map(|answers| answers.get(row.name).copied());
        let (Some(before), Some(after)) = (before, after) else {
            wrong.push(format!("{}: not read", row.name));
            continue;
        };
        if let Some(complaint) = row.wants[machine][phase].complaint(before, after) {
            wrong.push(format!("{}: {complaint}", row.name));
        }
    }
    for name in ends[0].keys() {
        if !rows.iter().any(|row| row.name == *name) {
            wrong.push(format!("{name}: no row"));
        }
    }
    wrong
}

/// Reads every row when idle, under load and after a fault of the device.
fn every_row(test: &str, name: &str, at: usize) -> Result<(), Error> {
    in_virtual_time(test, &machine(name)?, |clock| {
        let device: DeviceHandle = nvml_device()?;
        let mut reader = Reader::new(device)?;
        clock.sleep_until(clock.now_ns() + WHILE_NS)?;
        let idle = reader.read(clock)?;
        context()?;
        load()?;
        clock.sleep_until(clock.now_ns() + WHILE_NS)?;
        let busy = reader.read(clock)?;
        fault()?;
        let failed = reader.read(clock)?;
        let mut wrong = complaints(ROWS, at, 0, [&idle, &busy]);
        wrong.extend(complaints(ROWS, at, 1, [&busy, &failed]));
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("on {name}:\n  {}", wrong.join("\n  ")).into())
        }
    })
}

#[test]
fn every_counter_changes_or_is_refused_on_hopper() -> Result<(), Error> {
    every_row(test_name!(), "hopper", 0)
}

#[test]
fn every_counter_changes_or_is_refused_on_turing() -> Result<(), Error> {
    every_row(test_name!(), "turing", 1)
}
