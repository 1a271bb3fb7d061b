//! Submits work to the device: charges for host work, marks, waits between streams, transfers.

use crate::code::Code;
use crate::entries::StreamEntry;
use crate::operation::WaitPolicy;
use crate::process::{Process, process};
use gpubench_virtual_gpu_model::machine::Resident;
use gpubench_virtual_gpu_model::noise;
use gpubench_virtual_gpu_model::state::{ONE, Op, OpKind, Resource};

/// Queues a mark in a stream. Returns its sequence number, to wait for all work before it.
pub fn mark(process: &Process, stream: &StreamEntry) -> Result<u64, Code> {
    let op = Op { kind: OpKind::Marker, ..Op::default() };
    Ok(process.device.submit(stream.slot, op)?)
}

/// Makes a stream wait until another one has completed `target_seq`.
pub fn wait_for(process: &Process, stream: u32, target: u32, target_seq: u64) -> Result<(), Code> {
    let op = Op { kind: OpKind::Wait, target, target_seq, ..Op::default() };
    process.device.submit(stream, op)?;
    Ok(())
}

/// Charges the calling thread for host work, unless a graph has been charged for it already.
pub fn charge(process: &Process, policy: WaitPolicy, cost_ns: u64) -> Result<(), Code> {
    if policy != WaitPolicy::Graph {
        process.device.charge(cost_ns)?;
    }
    Ok(())
}

/// Number of operations submitted to a stream so far, to wait for all of them.
pub fn submitted(slot: u32) -> Result<u64, Code> {
    let read = process()?.device.shared().read(|s| s.streams.rows[slot as usize].submitted);
    Ok(read?)
}

/// Queues a transfer over the host link, in one direction at a given rate.
pub fn link_traffic(
    process: &Process,
    stream: &StreamEntry,
    (kind, gb_per_s): (OpKind, f64),
    bytes: u64,
) -> Result<u64, Code> {
    let latency_ns = process.device.machine().pcie.copy_latency_us * 1e3;
    let alone_ns = latency_ns + bytes as f64 / gb_per_s;
    let op = Op { kind, alone_ns: noisy(process, stream.slot, alone_ns)?, bytes, ..Op::default() };
    Ok(process.device.submit(stream.slot, op)?)
}

/// Queues traffic within device memory at full bandwidth.
pub fn device_traffic(process: &Process, stream: &StreamEntry, bytes: u64) -> Result<u64, Code> {
    let machine = process.device.machine();
    let alone_ns = 1_000.0 + bytes as f64 / machine.memory.dram_gb_per_s;
    // A kernel of the driver's own, on every SM.
    let sms = u64::from(machine.gpu.sm_count);
    let in_flight = machine.in_flight(&Resident {
        block_bytes: f64::INFINITY,
        blocks: sms,
        sms,
        bandwidth: 1.0,
    });
    let mut op = Op {
        kind: OpKind::Kernel,
        alone_ns: noisy(process, stream.slot, alone_ns)?,
        in_flight,
        power_mw: ((machine.power.max_w - machine.power.idle_w) * 500.0) as u32,
        ..Op::default()
    };
    op.demand[Resource::Dram as usize] = ONE as u32;
    op.demand[Resource::L2 as usize] = ONE as u32 / 2;
    Ok(process.device.submit(stream.slot, op)?)
}

/// A duration with the planted noise.
pub fn noisy(process: &Process, stream: u32, alone_ns: f64) -> Result<u64, Code> {
    let device = &process.device;
    let at = device.present_ns()?;
    let seq = submitted(stream)?;
    // A new stream in an old slot counts from 0 again: the instant keeps its draws its own.
    let key = (at << 24) ^ (u64::from(stream) << 12) ^ (seq & 0xfff);
    let seed = device.shared().read(|state| state.seed);
    let seed = seed?;
    let factor = noise::factor(&device.machine().noise, seed, at, key);
    Ok((alone_ns * factor).round().max(1.0) as u64)
}
