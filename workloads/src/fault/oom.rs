//! Allocates all device memory and holds it for a while. Without a memory limit the first tenant to
//! allocate gets all of it.

use gpubench_kernels::driver::{DeviceBuffer, Limit, error};
use gpubench_kernels::kernel::faults::FaultPrintf;
use gpubench_kernels::{Kernel, Launcher};

use super::hang::waits;
use super::{Answer, Armed, Class, FAULT, Fault, HostAct, InjectError, Moment, Needs, Severity};
use crate::load::{Gpu, LoadError};

/// The first piece is this fraction of the memory; after a refusal the size is halved, after a
/// success doubled up to it.
const PIECES: u64 = 16;
/// Smallest piece: a tenant cannot use less memory.
const LEAST_BYTES: u64 = 64 << 10;
/// Mean time between two attempts to take more. It varies between half of it and one and a half:
/// equal intervals can keep step with a tenant that frees and takes at a fixed rate.
const PAUSE_NS: u64 = 1_000_000;
/// Steps of the golden ratio cover the range evenly, however many there are.
const STEP_NS: u64 = 618_034;
/// Maximum number of pieces, so that it ends on any device.
const HELD_MAX: usize = 4096;

/// The entries of the catalogue.
pub(super) const OOM_FAULTS: &[Fault] = &[OOM];

/// OUT_OF_MEMORY (cuda.h).
const OOM: Fault = Fault {
    name: "oom",
    severity: Severity::Greedy,
    resource: "device memory",
    class: Class::Starvation,
    summary: "allocates all the device memory that it can get and holds it for a while",
    answer: Answer::Codes(&[error::OUT_OF_MEMORY]),
    victim: "alloc",
    // Filling the 80 GB of an H100 took 97 and 222 ms (reports/examples).
    takes_ns: 300_000_000,
    arm: |gpu, _| {
        Ok(Box::new(Hoard { first_bytes: (gpu.props.total_bytes / PIECES).max(LEAST_BYTES) }))
    },
    ..FAULT
};

struct Hoard {
    first_bytes: u64,
}

impl Armed for Hoard {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        let mut held: Vec<DeviceBuffer<u32>> = Vec::new();
        let mut refused = None;
        let (mut bytes, mut pauses) = (self.first_bytes, 0);
        loop {
            match DeviceBuffer::alloc(&gpu.context, (bytes / 4) as usize) {
                Ok(piece) => {
                    held.push(piece);
                    bytes = (2 * bytes).min(self.first_bytes);
                }
                Err(error) if error.code() == Some(error::OUT_OF_MEMORY) => {
                    moment.answered();
                    refused.get_or_insert(error);
                    bytes /= 2;
                }
                Err(error) => return Err(error.into()),
            }
            if bytes < LEAST_BYTES || held.len() >= HELD_MAX {
                // What others free meanwhile it takes too, beginning with the least.
                bytes = LEAST_BYTES;
                pauses += 1;
                let pause_ns = PAUSE_NS / 2 + pauses * STEP_NS % PAUSE_NS;
                let next_ns = moment.time.now_ns() + pause_ns;
                if next_ns >= moment.until_ns || held.len() >= HELD_MAX {
                    break;
                }
                moment.time.sleep_until(next_ns)?;
            }
        }
        moment.time.sleep_until(moment.until_ns)?;
        held.into_iter().try_for_each(DeviceBuffer::free)?;
        refused.map_or(Ok(()), |error| Err(error.into()))
    }
}

// Prints more from the device than the printf buffer holds.

/// Size of the buffer, small so that it overflows at once.
const RING_BYTES: u32 = 64 << 10;

/// The entries of the catalogue.
pub(super) const PRINTF_FAULTS: &[Fault] = &[PRINTF_FLOOD];

/// No error: the buffer is circular (CUDA C++ Programming Guide, "Formatted output").
const PRINTF_FLOOD: Fault = Fault {
    name: "printf-flood",
    class: Class::Api,
    severity: Severity::Benign,
    resource: "the printf buffer of kernels",
    summary: "prints twice as much from the device as its buffer holds",
    arm: |gpu, _| Ok(Box::new(Flood::new(gpu)?)),
    ..FAULT
};

struct Flood {
    launch: FaultPrintf,
    _done: DeviceBuffer<u32>,
}

impl Flood {
    fn new(gpu: &Gpu) -> Result<Self, LoadError> {
        gpu.context.set_limit_bytes(Limit::PrintfBytes, RING_BYTES as usize)?;
        let ring_bytes = gpu.context.limit_bytes(Limit::PrintfBytes)?;
        let ring_bytes = u32::try_from(ring_bytes).unwrap_or(RING_BYTES);
        gpu.kernels.prepare(&[Kernel::FaultPrintf])?;
        let done = DeviceBuffer::from_slice(&gpu.context, &[0_u32])?;
        Ok(Self { launch: FaultPrintf::armed(ring_bytes, done.device_ptr()), _done: done })
    }
}

impl Armed for Flood {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

// Faults of the MPS service, caused with the daemon's rights: MPS ends a client, or its server or
// its control daemon is killed. The process itself only keeps a kernel on the device.
//
// The codes are those of cuda.h for lost connections of MPS (805 to 810). The documents do not
// specify which of them applies, so several are listed.

/// The entries of the catalogue.
pub(super) const SERVICE_FAULTS: &[Fault] = &[TERMINATE_CLIENT, KILL_SERVER, KILL_DAEMON];

/// MPS_CLIENT_TERMINATED, as `terminate_client` is documented.
const TERMINATE_CLIENT: Fault = Fault {
    name: "mps-terminate-client",
    class: Class::Process,
    severity: Severity::Abrupt,
    summary: "is ended as a client by the MPS daemon while its kernel runs",
    resource: "the end of a client at work",
    needs: Needs::MpsDaemon,
    act: HostAct::TerminateClient,
    answer: Answer::Codes(&[810]),
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..FAULT
};

/// MPS_RPC_FAILURE or MPS_CONNECTION_FAILED.
const KILL_SERVER: Fault = Fault {
    name: "mps-server-kill",
    act: HostAct::KillServer,
    summary: "the MPS server is killed by SIGKILL while kernels of its clients run",
    resource: "the server that all clients share",
    xids: &[45],
    ..LOST
};

/// As for the server, which does not outlive its daemon for long.
const KILL_DAEMON: Fault = Fault {
    name: "mps-daemon-kill",
    act: HostAct::KillDaemon,
    summary: "the MPS control daemon is killed by SIGKILL; later clients run without MPS",
    resource: "the daemon that starts servers",
    ..LOST
};

/// The common values of both. If the clients of a killed daemon see no error, the trial still
/// counts.
const LOST: Fault = Fault {
    class: Class::Service,
    severity: Severity::Systemic,
    needs: Needs::MpsDaemon,
    answer: Answer::Open(&[806, 805]),
    arm: |gpu, how| waits(gpu, how.budget_ns),
    ..FAULT
};
