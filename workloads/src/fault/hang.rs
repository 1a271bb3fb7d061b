//! Faults around a long-running kernel: its process waits for it, stops, destroys the context,
//! exits or is killed, or MPS ends it, its server or its daemon. The kernel's own deadline ends it
//! in any case.
#![expect(unsafe_code, reason = "destroys a context under its other objects")]

use gpubench_catalogue::fault::entries;
use gpubench_kernels::driver::{
    Context, DeviceBuffer, Grid, IpcHandle, IpcMapping, Stream, WaitMode,
};
use gpubench_kernels::kernel::faults::{FaultHang, FaultMisaligned};
use gpubench_kernels::{Kernel, KernelSet, Launcher};

use super::{Armed, Arming, INJECTOR, InjectError, Injector, Moment};
use crate::load::{Gpu, LoadError};

/// The kernel of a process that ends or stops runs for this fraction of the budget.
const SHORT: u64 = 4;

pub(super) const HANG_FAULTS: &[Injector] = &[
    Injector { facts: &entries::HANG, ..WAITS },
    Injector {
        facts: &entries::STOP,
        arm: |gpu, how| Ok(Box::new(Hang::new(gpu, how.budget_ns / SHORT, Then::Sleep)?)),
        ..INJECTOR
    },
    Injector {
        facts: &entries::DESTROY,
        arm: |gpu, how| Ok(Box::new(Destroy::new(gpu, how.budget_ns / SHORT)?)),
        ..INJECTOR
    },
    Injector {
        facts: &entries::EXIT,
        arm: |gpu, how| Ok(Box::new(Hang::new(gpu, how.budget_ns / SHORT, Then::Exit)?)),
        ..INJECTOR
    },
    Injector { facts: &entries::KILL, ..WAITS },
];

/// A spinning kernel and a wait for it.
const WAITS: Injector = Injector {
    arm: |gpu, how| Ok(Box::new(Hang::new(gpu, how.budget_ns, Then::Wait)?)),
    ..INJECTOR
};

/// The action of the process while the kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Wait,
    Sleep,
    Exit,
}

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
        let Some(parts) = self.parts.take() else { return Ok(()) };
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

// A process dies while it holds the lock of HAMi's shared region; another process of the same
// region is the victim.
//
// The lock is a semaphore in a mapped file that the system does not release when its holder dies.
// Other processes wait for it in steps of ten seconds before they check that the holder lives
// (HAMi-core at 8f3a89c, `multiprocess_memory_limit.c`). The library takes the lock briefly around
// every allocation, so the holder allocates and frees without a pause until it is killed. Not
// every kill happens while the lock is held.

pub(super) const LOCK_FAULTS: &[Injector] = &[Injector {
    facts: &entries::HOLDER_KILLED,
    arm: |_, _| Ok(Box::new(Waiter)),
    helper: Some(|_| Ok((Box::new(Holder), None))),
}];

const LOCK_WORDS: usize = 1 << 18;

struct Holder;

impl Armed for Holder {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        while moment.time.now_ns() < moment.until_ns {
            DeviceBuffer::<u32>::alloc(&gpu.context, LOCK_WORDS)?.free()?;
        }
        Ok(())
    }
}

struct Waiter;

impl Armed for Waiter {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        Ok(DeviceBuffer::<u32>::alloc(&gpu.context, LOCK_WORDS)?.free()?)
    }
}

// Reads another process's device memory after that process was killed.
//
// The result is undefined (CUDA driver API, `cuIpcGetMemHandle`): on some systems the memory
// remains until the importer closes it.

pub(super) const PEER_FAULTS: &[Injector] = &[Injector {
    facts: &entries::EXPORTER_EXIT,
    arm: |gpu, how| Ok(Box::new(Importer::new(gpu, how)?)),
    helper: Some(|gpu| {
        let words = DeviceBuffer::from_slice(&gpu.context, &[1_u32; PEER_WORDS])?;
        let handle = words.ipc_handle()?.to_hex();
        Ok((Box::new(Exporter { _words: words }), Some(handle)))
    }),
}];

const NAME: &str = "ipc-exporter-exit";
const PEER_WORDS: usize = 1024;
/// The second word is read, because mapping the memory may read the first one.
const OFFSET_BYTES: u32 = 4;

/// Exports memory until it is killed.
struct Exporter {
    _words: DeviceBuffer<u32>,
}

impl Armed for Exporter {
    fn inject(&mut self, _gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        Ok(moment.time.sleep_until(moment.until_ns)?)
    }
}

/// Maps the exported memory and reads it.
struct Importer {
    launch: FaultMisaligned,
    _mapping: IpcMapping,
    _out: DeviceBuffer<u32>,
}

impl Importer {
    fn new(gpu: &Gpu, how: &Arming<'_>) -> Result<Self, LoadError> {
        let handle = how.from_helper.and_then(IpcHandle::from_hex);
        let handle = handle.ok_or(LoadError::Fault {
            fault: NAME,
            what: "the exporter sent no handle of 64 bytes",
        })?;
        gpu.kernels.prepare(&[Kernel::FaultMisaligned])?;
        let mapping = IpcMapping::open(&gpu.context, handle)?;
        let out = DeviceBuffer::from_slice(&gpu.context, &[0_u32])?;
        let launch = FaultMisaligned {
            base: mapping.device_ptr(),
            offset_bytes: OFFSET_BYTES,
            out: out.device_ptr(),
        };
        Ok(Self { launch, _mapping: mapping, _out: out })
    }
}

impl Armed for Importer {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

// Faults of the MPS service, caused with the daemon's rights: MPS ends a client, or its server or
// its control daemon is killed. The process itself only keeps a kernel on the device.

pub(super) const SERVICE_FAULTS: &[Injector] = &[
    Injector { facts: &entries::TERMINATE_CLIENT, ..WAITS },
    Injector { facts: &entries::KILL_SERVER, ..WAITS },
    Injector { facts: &entries::KILL_DAEMON, ..WAITS },
];
