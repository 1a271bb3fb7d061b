//! A process dies while it holds the lock of HAMi's shared region; another process of the same
//! region is the victim.
//!
//! The lock is a semaphore in a mapped file that the system does not release when its holder dies.
//! Other processes wait for it in steps of ten seconds before they check that the holder lives
//! (HAMi-core at 8f3a89c, `multiprocess_memory_limit.c`). The library takes the lock briefly around
//! every allocation, so the holder allocates and frees without a pause until it is killed. Not
//! every kill happens while the lock is held.

use gpubench_kernels::driver::DeviceBuffer;

use super::{Armed, Class, FAULT, Fault, HostAct, InjectError, Moment, Needs, Severity};
use crate::load::Gpu;

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[HOLDER_KILLED];

const HOLDER_KILLED: Fault = Fault {
    name: "hami-lock-holder-kill",
    class: Class::Process,
    severity: Severity::Abrupt,
    summary: "allocates after a process of the same HAMi region was killed while it allocated",
    resource: "the lock of the shared accounting",
    needs: Needs::AccountingLibrary,
    act: HostAct::KillHelper,
    arm: |_, _| Ok(Box::new(Waiter)),
    helper: Some(|_| Ok((Box::new(Holder), None))),
    ..FAULT
};

/// Words of each allocation.
const WORDS: usize = 1 << 18;

struct Holder;

impl Armed for Holder {
    fn inject(&mut self, gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        while moment.time.now_ns() < moment.until_ns {
            DeviceBuffer::<u32>::alloc(&gpu.context, WORDS)?.free()?;
        }
        Ok(())
    }
}

struct Waiter;

impl Armed for Waiter {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        Ok(DeviceBuffer::<u32>::alloc(&gpu.context, WORDS)?.free()?)
    }
}
