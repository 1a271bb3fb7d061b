//! Launching a kernel: execute it, find out what it costs, queue it on the device.
//!
//! A launch is executed when it is made, its time passes in the model. Launches that are too large
//! to execute in full are executed on a sample of blocks; what they should have written counts as
//! unwritten, and reading it fails. An equal launch on unchanged memory is not executed again, nor
//! where it is known what it leaves there, and a sampled one not even in another context or
//! process.
//! Kernels that read `%globaltimer` are executed once more when the model knows when they ran.

mod again;
mod clocking;
mod deferred;
mod execute;
mod known;
mod ledger;
mod ranges;
mod shape;

use std::sync::Arc;

use crate::code::{self, Code};
use crate::operation::WaitPolicy;
use crate::process::{FunctionEntry, Process, StreamEntry};
use crate::submit::{charge, noisy};
use gpubench_virtual_gpu_model::state::{Op, OpKind};

pub use clocking::Clocking;
pub use deferred::{
    finish_deferred, finish_deferred_writes, is_owed, owed, owes, repeat_later, store_later,
};

use execute::execute;
pub use known::UnderWay;
use known::{note, recall, remember};
pub use shape::{blocks_per_sm, check, check_residence, kernel_of};

use crate::launch_memory::costs::{Fault, Nameless, Outcome};
use crate::launch_memory::deferred::{Deferred, Work};
use crate::launch_memory::key::Key;
use crate::launch_memory::profile::Known;
use crate::launch_memory::shape::Shape;

/// One launch as the program asked for it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The kernel.
    pub function: &'a FunctionEntry,
    /// Where to.
    pub stream: StreamEntry,
    /// Its shape.
    pub shape: Shape,
    /// The arguments, laid out.
    pub params: Vec<u8>,
}

/// Executes and queues a launch.
///
/// # Errors
/// For impossible shapes at once; faults of the kernel come back from the next call that waits.
pub fn launch(process: &Process, request: &Request<'_>, policy: WaitPolicy) -> Result<(), Code> {
    let device = &process.device;
    if request.function.context != request.stream.context {
        return Err(code::INVALID_HANDLE);
    }
    let shape = &request.shape;
    shape::check_residence(process, request.function, shape, &request.stream.seat)?;
    let properties = kernel_of(request.function)?.properties;
    // What branches on no word of memory cannot wait for other blocks.
    let together = shape.cooperative && properties.follows_data;
    if together && properties.reads_globaltimer {
        crate::diagnostics::say(&format!(
            "{}: a cooperative kernel that branches on memory and reads %globaltimer would have to \
             be executed twice, which its blocks could tell",
            request.function.name
        ));
        return Err(code::NOT_SUPPORTED);
    }
    charge(process, policy, device.machine().host.launch_ns)?;
    let key = Key {
        hash: request.function.hash,
        name: request.function.name.clone(),
        context: request.stream.context,
        seat: request.stream.seat,
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        together,
        params: request.params.clone(),
    };
    let (known, fault) = match recall(process, &key).or_else(|| again::repeat(process, &key)) {
        Some(known) => (known, None),
        None => carry_out(process, request.function, &key)?,
    };
    let fault = fault.or_else(|| execute::planted(device.machine(), shape.grid, shape.block));
    let timed = properties.reads_globaltimer;
    let alone_ns = noisy(process, request.stream.slot, known.cost.alone_ns)?;
    let op = Op {
        kind: OpKind::Kernel,
        by_clock: known.by_clock,
        fault: fault.as_ref().map_or(0, |fault| fault.code.0),
        xid: fault.as_ref().map_or(0, |fault| fault.xid),
        alone_ns,
        power_mw: known.cost.power_mw,
        sms: known.cost.sms,
        demand: known.cost.demand,
        ..Op::default()
    };
    let seq = device.submit(request.stream.slot, op)?;
    note(&known, process, (request.stream.slot, seq))?;
    if timed && fault.is_none() && !known.mute {
        let writes = known.writes.iter().map(|&(start, _)| start).collect();
        process.tables().launches.deferred.push(Deferred {
            stream: request.stream.slot,
            context: request.stream.context,
            seq,
            writes,
            pinned: known.pinned.clone(),
            work: Work::Launch {
                key: Box::new(key),
                function: request.function.clone(),
                alone_ns: (!known.by_clock).then_some(known.cost.alone_ns),
            },
        });
    }
    Ok(())
}

/// Executes a launch, unless others were seen to do the same, and remembers what came of it.
fn carry_out(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
) -> Result<(Arc<Known>, Option<Fault>), Code> {
    let properties = kernel_of(function)?.properties;
    let launch = ledger::nameless(process, function, key)?;
    let watch = again::watch(process, key, &launch.pointees, &properties);
    let outcome = {
        let _under_way = UnderWay::begin(process);
        found_out(process, function, key, &launch)?
    };
    let fault = outcome.fault.clone();
    let known = remember(process, key, launch.pointees, outcome);
    if let Some(watch) = watch {
        again::keep(process, key, watch, &known);
    }
    Ok((known, fault))
}

/// What a launch costs and touches: found out before by whoever on this device, or now.
fn found_out(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
    launch: &Nameless,
) -> Result<Outcome, Code> {
    let known = process.tables().launches.known.get(key).cloned();
    // What was executed in full here was not found in the ledger then, nor is it kept there.
    let full = known.is_some_and(|known| !known.sampled);
    if !full && let Some(outcome) = process.ledger().find(launch) {
        return Ok(outcome);
    }
    let outcome = execute(process, function, key, &launch.pointees, &Clocking::Ideal)?;
    process.ledger().keep(launch, &outcome);
    Ok(outcome)
}
