//! How long calls of the driver take that a starting program makes: a context, and a module.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{Context, Module, WaitMode};
use gpubench_record::{CallTimes, ProbeTold};

use super::ProbeError;
use crate::clock::Time;
use crate::load::Gpu;

/// A kernel of a usual size. After the first time the driver has what it compiled in its cache, so
/// that this is what a second start costs.
const MODULE: Kernel = Kernel::Softmax;

/// Creates contexts and loads modules, one after the other; what is made is given back outside
/// the time that counts.
pub(super) fn calls(
    gpu: &Gpu,
    time: &dyn Time,
    contexts: u32,
    modules: u32,
) -> Result<ProbeTold, ProbeError> {
    let mut times = CallTimes::default();
    let info = MODULE.info();
    // Into the cache.
    drop(Module::load(&gpu.context, info.name, info.ptx)?);
    for _ in 0..contexts {
        let from_ns = time.now_ns();
        let made = Context::create(gpu.context.device(), WaitMode::BlockingSync);
        times.contexts_ns.push((from_ns, time.now_ns()));
        drop(made?);
        // The new one was current on this thread, and went.
        gpu.context.bind()?;
    }
    for _ in 0..modules {
        let from_ns = time.now_ns();
        let loaded = Module::load(&gpu.context, info.name, info.ptx);
        times.modules_ns.push((from_ns, time.now_ns()));
        drop(loaded?);
    }
    Ok(ProbeTold::Called(times))
}
