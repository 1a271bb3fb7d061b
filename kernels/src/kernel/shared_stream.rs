//! `shared_stream`: reads the shared memory of its block again and again.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::{VECTOR_BYTES, elements_of};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Reads shared memory several times.
#[derive(Debug, Clone, Copy)]
pub struct SharedStream {
    /// Bytes of shared memory of each block, in whole accesses of 16. Above 48 KiB the function has
    /// to be told first, once: `Function::allow_dynamic_shared`.
    pub bytes_per_block: u32,
    /// How often they are read.
    pub passes: u32,
    /// Threads whose sum equals this add one to `hits`; any fixed number will do for a load.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    /// Blocks of this launch.
    pub blocks: u32,
    /// Threads of each block.
    pub threads: u32,
}

impl SharedStream {
    fn vectors(&self) -> u32 {
        self.bytes_per_block / VECTOR_BYTES as u32
    }
}

impl Launcher for SharedStream {
    fn kernel(&self) -> Kernel {
        Kernel::SharedStream
    }

    fn grid(&self) -> Grid {
        Grid::new(self.blocks, self.threads).with_shared(self.bytes_per_block)
    }

    fn args(&self) -> Args {
        Args::new()
            .u32(self.vectors())
            .u32(self.passes)
            .u64(self.trigger)
            .ptr(self.hits)
    }

    fn cost(&self) -> Cost {
        let reads = u64::from(self.blocks) * u64::from(self.passes) * u64::from(self.vectors());
        Cost {
            l1_bytes: reads * VECTOR_BYTES,
            ..Cost::default()
        }
    }
}

/// The sums are found as often as the host finds them, and one pass less is not.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("shared_stream", kernels)?;
    let hits = check.zeros::<u32>(1)?;
    let (blocks, threads, passes) = (3_u32, 64_u32, 5_u32);
    // One or two accesses past a round of four, three or none, and fewer than threads.
    for vectors in [333, 202, 20] {
        let load = SharedStream {
            bytes_per_block: vectors * VECTOR_BYTES as u32,
            passes,
            trigger: 0,
            hits: hits.device_ptr(),
            blocks,
            threads,
        };
        let sum = |block: u32, thread: u32| {
            let own = elements_of(u64::from(thread), u64::from(threads), u64::from(vectors));
            own.map(|i| i + u64::from(block)).sum::<u64>() * u64::from(passes)
        };
        let sums: Vec<u64> = (0..blocks * threads)
            .map(|thread| sum(thread / threads, thread % threads))
            .collect();
        check.counts_sums(&sums, &hits, &|trigger| {
            Box::new(SharedStream { trigger, ..load })
        })?;
        // No thread has the largest sum if a pass is missing.
        let trigger = sums.iter().copied().max().unwrap_or(0);
        let less = SharedStream {
            trigger,
            passes: passes - 1,
            ..load
        };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}
