//! `shared_stream`: reads the shared memory of its block repeatedly.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::{VECTOR_BYTES, elements_of};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Reads shared memory several times.
#[derive(Debug, Clone, Copy)]
pub struct SharedStream {
    /// Bytes of shared memory per block, a multiple of 16; at most 48 KiB, because more needs an
    /// opt-in of the function.
    pub bytes_per_block: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Threads with this sum add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    /// Blocks of the launch.
    pub blocks: u32,
    /// Threads per block.
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
        Args::new().u32(self.vectors()).u32(self.passes).u64(self.trigger).ptr(self.hits)
    }

    fn cost(&self) -> Cost {
        let reads = u64::from(self.blocks) * u64::from(self.passes) * u64::from(self.vectors());
        Cost { l1_bytes: reads * VECTOR_BYTES, ..Cost::default() }
    }
}

/// The device counts the host's sums, and does not with one pass less.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("shared_stream", kernels)?;
    let hits = check.zeros::<u32>(1)?;
    let (blocks, threads, passes) = (3_u32, 64_u32, 5_u32);
    // One or two accesses after rounds of four, three or none, and fewer accesses than threads.
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
        let sums: Vec<u64> =
            (0..blocks * threads).map(|thread| sum(thread / threads, thread % threads)).collect();
        check.counts_sums(&sums, &hits, &|trigger| Box::new(SharedStream { trigger, ..load }))?;
        // No thread has the largest sum if one pass is missing.
        let trigger = sums.iter().copied().max().unwrap_or(0);
        let less = SharedStream { trigger, passes: passes - 1, ..load };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}
