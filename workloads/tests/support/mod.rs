//! A device that completes every request at once, and a short cell of a victim.

use gpubench_record::LoadSpec;
use gpubench_workloads::clock::thread::ReaperCores;
use gpubench_workloads::generator::{CellRun, DeviceError, Reap, Submit};

pub const MS: u64 = 1_000_000;

/// Outstanding requests at most.
pub const SLOTS: u32 = 64;

/// Calls its function at every submission.
pub struct InstantSubmit<F>(pub F);

impl<F: FnMut()> Submit for InstantSubmit<F> {
    fn submit(&mut self, _slot: usize) -> Result<(), DeviceError> {
        (self.0)();
        Ok(())
    }

    fn is_idle(&mut self) -> Result<bool, DeviceError> {
        Ok(true)
    }

    fn slots(&self) -> usize {
        SLOTS as usize
    }
}

/// Calls its function on the reaping thread at its start.
pub struct InstantReap<F>(pub F);

impl<F: Fn() -> Result<(), DeviceError> + Send + Sync + 'static> Reap for InstantReap<F> {
    fn enter_thread(&self) -> Result<(), DeviceError> {
        (self.0)()
    }

    fn wait(&self, _slot: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    fn gpu_ns(&self, _slot: usize) -> Result<u64, DeviceError> {
        Ok(1)
    }
}

/// A cell that starts 5 ms after `now_ns`: a closed loop of 2 ms, then an open loop of 12 ms.
pub fn victim_cell(
    now_ns: u64,
    arrivals_ns: Vec<u64>,
    reaper_cores: Option<ReaperCores>,
) -> CellRun {
    CellRun {
        t0_ns: now_ns + 5 * MS,
        load: LoadSpec::Victim {
            warmup_end_ns: MS,
            closed_end_ns: 2 * MS,
            depth: 1,
            sparse: None,
            open_start_ns: 3 * MS,
            open_end_ns: 15 * MS,
            rate_per_s: 10_000.0,
            bursts: None,
            seed: 1,
            outstanding_max: SLOTS,
        },
        arrivals_ns,
        pauses_ns: Vec::new(),
        issuer: 1,
        reaper: 2,
        reaper_cores,
        answers: &[],
    }
}
