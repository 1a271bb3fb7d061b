//! Starts a launch: finds it in the cache or executes it, and queues it on the device.

use super::request::{Key, Request, Rerun, RerunWork, kernel_of};
use super::{cache, faults, residence};
use crate::code::{self, Code, refuse};
use crate::operation::WaitPolicy;
use crate::process::Process;
use crate::submit::{charge, noisy};
use gpubench_virtual_gpu_model::state::{Op, OpKind};

pub fn launch(process: &Process, request: &Request<'_>, policy: WaitPolicy) -> Result<(), Code> {
    let device = &process.device;
    refuse(request.function.context != request.stream.context, code::INVALID_HANDLE)?;
    let shape = &request.shape;
    residence::check_residence(process, request.function, shape, &request.stream.placement)?;
    let properties = kernel_of(request.function)?.properties;
    // A kernel that does not branch on memory cannot wait for other blocks.
    let cooperative = shape.cooperative && properties.data_dependent;
    if cooperative && properties.reads_globaltimer {
        crate::diagnostics::say(&format!(
            "{}: a cooperative kernel that branches on memory and reads %globaltimer would have to \
             be executed twice, which its blocks could detect",
            request.function.name
        ));
        return Err(code::NOT_SUPPORTED);
    }
    charge(process, policy, device.machine().host.launch_ns)?;
    let key = Key {
        hash: request.function.hash,
        name: request.function.name.clone(),
        context: request.stream.context,
        placement: request.stream.placement,
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        cooperative,
        params: request.params.clone(),
    };
    let (profile, fault) = match cache::unchanged(process, &key) {
        Some(profile) => (profile, None),
        None => cache::execute(process, request.function, &key)?,
    };
    let fault = fault.or_else(|| faults::planted(device.machine(), shape.grid, shape.block));
    let timed = properties.reads_globaltimer;
    let alone_ns = noisy(process, request.stream.slot, profile.cost.alone_ns)?;
    let op = Op {
        kind: OpKind::Kernel,
        by_clock: profile.by_clock,
        blocks_wait: profile.cost.blocks_wait,
        cause: fault,
        alone_ns,
        power_mw: profile.cost.power_mw,
        sms: profile.cost.sms,
        demand: profile.cost.demand,
        in_flight: profile.cost.in_flight,
        ..Op::default()
    };
    let seq = device.submit(request.stream.slot, op)?;
    if timed && fault.is_none() && !profile.inert {
        let writes = profile.writes.iter().map(|&(start, _)| start).collect();
        process.tables().launches.reruns.push(Rerun {
            stream: request.stream.slot,
            context: request.stream.context,
            seq,
            writes,
            work: RerunWork::Launch {
                key: Box::new(key),
                function: request.function.clone(),
                alone_ns: (!profile.by_clock).then_some(profile.cost.alone_ns),
            },
        });
    }
    Ok(())
}
