//! How much of a launch is executed: all of it, or a sample of its blocks and of the iterations of
//! its loops.

use std::sync::OnceLock;

use super::run::Run;
use crate::process::Process;
use gpubench_virtual_gpu_ptx::{Counts, Execution, FaultKind, KernelFault, Timer};

/// Where programs are load generators, launches of more lane-instructions than this are sampled. A
/// load generator repeats one launch thousands of times and reads no results; verification launches
/// stay below.
const LOAD_LANE_INSTRUCTIONS: u64 = 6_000_000;

/// Elsewhere launches are executed in full up to so many warp-instructions: a program reads
/// results. It takes a core of the host about ten seconds.
const FULL_WARP_INSTRUCTIONS: u64 = 312_500_000;

/// Warp-instructions after which a launch ends with a fault. A fifth more than a full execution,
/// for the sample of a launch with a first block that reaches that limit.
pub(super) const BUDGET_WARP_INSTRUCTIONS: u64 = FULL_WARP_INSTRUCTIONS / 5 * 6;

/// Launches of at most this many blocks are executed in full: a sample would be no smaller.
pub(super) const SAMPLED_BLOCKS: u64 = 8;

/// Largest relative difference between interior blocks of a launch that is sampled.
const MAX_BLOCK_SPREAD: f64 = 0.05;

/// Which launches are executed in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Small ones, because the results of others are not read: in virtual time, and in wall time if
    /// the process requests it.
    Load,
    /// All that the host can execute.
    Full,
}

impl Extent {
    /// The extent of a process's launches.
    pub(crate) fn of(process: &Process) -> Self {
        static REQUESTED: OnceLock<bool> = OnceLock::new();
        let requested = || {
            *REQUESTED.get_or_init(|| {
                std::env::var_os(crate::session::SAMPLE_ENV).is_some_and(|value| value == "1")
            })
        };
        if process.device.is_virtual_time() || requested() { Self::Load } else { Self::Full }
    }

    /// Lane-instructions of one of so many blocks after which its loops are extrapolated.
    pub(super) fn extrapolate_after(self, blocks: u64) -> u64 {
        let lanes = match self {
            Self::Load => LOAD_LANE_INSTRUCTIONS,
            Self::Full => FULL_WARP_INSTRUCTIONS * 32,
        };
        lanes / blocks + 1
    }

    /// Whether so many blocks with these counts each are executed in full.
    pub(super) fn holds(self, block: &Counts, blocks: u64) -> bool {
        match self {
            Self::Load => block.lanes().max(1).saturating_mul(blocks) <= LOAD_LANE_INSTRUCTIONS,
            Self::Full => {
                let warps: u64 = block.warp_instructions.iter().sum();
                warps.saturating_mul(blocks) <= FULL_WARP_INSTRUCTIONS
            }
        }
    }

    /// Says that a kernel is not executed in full, where programs expect results.
    pub(super) fn report(self, kernel: &str) {
        if self == Self::Full {
            crate::diagnostics::say_once(&format!(
                "{kernel} is too large to execute in full: a sample is executed, its time is \
                 extrapolated, and reading its outputs is refused"
            ));
        }
    }
}

impl Run<'_> {
    /// Executes a few blocks and scales their counts to the grid; `None` if they differ too much,
    /// or wait for others.
    pub(super) fn sample(
        &mut self,
        first: &Execution,
        blocks: u64,
        timer: &mut dyn Timer,
    ) -> Result<Option<Execution>, Box<KernelFault>> {
        let interior = [blocks / 4, blocks / 2, blocks * 3 / 4];
        let mut done = match self.blocks(interior.into_iter().chain([blocks - 1]), timer) {
            Err(fault) if matches!(fault.kind, FaultKind::Endless { .. }) => return Ok(None),
            done => done?,
        };
        if done.blocks.len() != 4 {
            return Ok(None);
        }
        let lanes: Vec<f64> =
            done.blocks[..3].iter().map(|block| block.counts.lanes() as f64).collect();
        let (min, max) = (
            lanes.iter().copied().fold(f64::MAX, f64::min),
            lanes.iter().copied().fold(0.0, f64::max),
        );
        if max > min * (1.0 + MAX_BLOCK_SPREAD) {
            return Ok(None);
        }
        let mut counts: Counts = first.counts.clone();
        counts.add(&done.blocks[3].counts);
        counts.add_times(&done.blocks[1].counts, blocks - 2);
        done.counts = counts;
        done.footprint.absorb(first.footprint.clone());
        done.blocks.extend(first.blocks.iter().cloned());
        Ok(Some(done))
    }
}
