//! Faults around a long-running kernel: its process waits for it, stops, destroys the context,
//! exits or is killed. The kernel's own deadline ends it in any case.
#![expect(unsafe_code, reason = "destroys a context under its other objects")]

use gpubench_kernels::driver::{Context, DeviceBuffer, Grid, Stream, WaitMode};
use gpubench_kernels::kernel::fault_hang::FaultHang;
use gpubench_kernels::{Kernel, KernelSet, Launcher};

use super::{Answer, Armed, Class, FAULT, Fault, HostAct, InjectError, Moment, Severity};
use crate::load::{Gpu, LoadError};

/// The kernel of a process that ends or stops runs for this fraction of the budget.
const SHORT: u64 = 4;

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[HANG, STOP, DESTROY, EXIT, KILL];

const HANG: Fault = Fault {
    name: "hang",
    severity: Severity::Greedy,
    resource: "time on the device",
    class: Class::Starvation,
    summary: "runs a kernel that spins until its deadline",
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..FAULT
};

const STOP: Fault = Fault {
    name: "sigstop",
    severity: Severity::Abrupt,
    resource: "a stopped process",
    class: Class::Process,
    summary: "is stopped by SIGSTOP while its kernel runs, and continues later",
    act: HostAct::Stop,
    arm: |gpu, how| Ok(Box::new(Hang::new(gpu, how.budget_ns / SHORT, Then::Sleep)?)),
    ..FAULT
};

const DESTROY: Fault = Fault {
    name: "context-destroy",
    severity: Severity::Abrupt,
    resource: "destruction of a context at work",
    class: Class::Process,
    summary: "destroys a context while its kernel runs",
    arm: |gpu, how| Ok(Box::new(Destroy::new(gpu, how.budget_ns / SHORT)?)),
    ..FAULT
};

const EXIT: Fault = Fault {
    name: "exit-pending",
    severity: Severity::Abrupt,
    resource: "the end of a process at work",
    xids: &[45],
    class: Class::Process,
    summary: "exits while its kernel runs",
    answer: Answer::Ends,
    arm: |gpu, how| Ok(Box::new(Hang::new(gpu, how.budget_ns / SHORT, Then::Exit)?)),
    ..FAULT
};

const KILL: Fault = Fault {
    name: "sigkill",
    severity: Severity::Abrupt,
    resource: "the end of a process at work",
    xids: &[45],
    class: Class::Process,
    summary: "is killed by SIGKILL while its kernel runs",
    act: HostAct::Kill,
    answer: Answer::Ends,
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..FAULT
};

/// A spinning kernel and a wait for it.
pub(super) fn waits(gpu: &Gpu, budget_ns: u64) -> Result<Box<dyn Armed>, LoadError> {
    Ok(Box::new(Hang::new(gpu, budget_ns, Then::Wait)?))
}

/// The action of the process while the kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Wait,
    Sleep,
    Exit,
}

/// A spinning kernel.
#[derive(Debug)]
struct Hang {
    launch: FaultHang,
    then: Then,
    _flag: DeviceBuffer<u32>,
    _stamps: DeviceBuffer<u64>,
}

/// One thread: the fault tests which tenant runs on the device, not how much of it.
const ONE_THREAD: Grid = Grid::new(1, 1);

fn spinning(
    context: &Context,
    budget_ns: u64,
) -> Result<(FaultHang, DeviceBuffer<u32>, DeviceBuffer<u64>), LoadError> {
    let flag = DeviceBuffer::from_slice(context, &[0_u32])?;
    let stamps = DeviceBuffer::from_slice(context, &[0_u64; 2])?;
    let launch = FaultHang {
        flag: flag.device_ptr(),
        budget_ns,
        stamps: stamps.device_ptr(),
        grid: ONE_THREAD,
    };
    Ok((launch, flag, stamps))
}

impl Hang {
    fn new(gpu: &Gpu, budget_ns: u64, then: Then) -> Result<Self, LoadError> {
        gpu.kernels.prepare(&[Kernel::FaultHang])?;
        let (launch, flag, stamps) = spinning(&gpu.context, budget_ns)?;
        Ok(Self { launch, then, _flag: flag, _stamps: stamps })
    }
}

impl Armed for Hang {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        match self.then {
            Then::Wait => {}
            Then::Sleep => moment.time.sleep_until(moment.until_ns)?,
            // The clock of a virtual GPU must count the launch before the process exits.
            Then::Exit => {
                let soon_ns = moment.time.now_ns() + self.launch.budget_ns / 2;
                moment.time.sleep_until(soon_ns)?;
                // Ending the process with a kernel pending is the fault.
                std::process::exit(0)
            }
        }
        Ok(gpu.stream.synchronize()?)
    }
}

/// A second context with a spinning kernel.
#[derive(Debug)]
struct Destroy {
    parts: Option<Parts>,
}

#[derive(Debug)]
struct Parts {
    context: Context,
    kernels: KernelSet,
    stream: Stream,
    launch: FaultHang,
    memory: (DeviceBuffer<u32>, DeviceBuffer<u64>),
}

impl Destroy {
    fn new(gpu: &Gpu, budget_ns: u64) -> Result<Self, LoadError> {
        let context = Context::create(gpu.context.device(), WaitMode::BlockingSync)?;
        let kernels = KernelSet::new(&context);
        kernels.prepare(&[Kernel::FaultHang])?;
        let stream = Stream::new(&context)?;
        let (launch, flag, stamps) = spinning(&context, budget_ns)?;
        gpu.context.bind()?;
        Ok(Self { parts: Some(Parts { context, kernels, stream, launch, memory: (flag, stamps) }) })
    }
}

impl Armed for Destroy {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        let Some(parts) = self.parts.take() else {
            return Ok(());
        };
        parts.context.bind()?;
        parts.launch.launch(&parts.kernels, &parts.stream)?;
        moment.time.sleep_until(moment.time.now_ns() + parts.launch.budget_ns / 2)?;
        let Parts { context, kernels, stream, memory, .. } = parts;
        // The context destroys what their handles name, so nothing may be freed.
        std::mem::forget((kernels, stream, memory));
        // SAFETY: `Parts` held every object of the context, and they are forgotten.
        let destroyed = unsafe { context.destroy_under_work() };
        gpu.context.bind()?;
        Ok(destroyed?)
    }
}
