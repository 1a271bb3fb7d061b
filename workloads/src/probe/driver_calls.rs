//! Driver calls of a starting program: how long creating a context and loading a module take.

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{Context, Module, WaitMode};
use gpubench_record::CallTimes;
use gpubench_record::probe::step::TimeDriverCalls;

use super::{ProbeError, RunStep, StepContext};

/// A kernel of a usual size. The driver caches what it compiles at the first load, so the measured
/// loads are those of a second start.
const MODULE: Kernel = Kernel::Softmax;

impl RunStep for TimeDriverCalls {
    /// Contexts and modules are released outside the measured time.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<CallTimes, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        let mut times = CallTimes::default();
        let info = MODULE.info();
        // Fills the driver's cache.
        drop(Module::load(&gpu.context, info.name, info.ptx)?);
        for _ in 0..self.contexts {
            let from_ns = time.now_ns();
            let created = Context::create(gpu.context.device(), WaitMode::BlockingSync);
            times.contexts_ns.push((from_ns, time.now_ns()));
            drop(created?);
            // The destroyed context was current on this thread.
            gpu.context.bind()?;
        }
        for _ in 0..self.modules {
            let from_ns = time.now_ns();
            let loaded = Module::load(&gpu.context, info.name, info.ptx);
            times.modules_ns.push((from_ns, time.now_ns()));
            drop(loaded?);
        }
        Ok(times)
    }
}
