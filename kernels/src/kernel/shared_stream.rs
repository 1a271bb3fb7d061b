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
    /// Bytes of shared memory of each block, in whole accesses of 16.
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
    let load = SharedStream {
        bytes_per_block: 16 * 333,
        passes: 5,
        trigger: 0,
        hits: hits.device_ptr(),
        blocks: 3,
        threads: 64,
    };
    let sum = |block: u64, thread: u64| -> u64 {
        let own = elements_of(thread, u64::from(load.threads), u64::from(load.vectors()));
        own.map(|i| i + block).sum::<u64>() * u64::from(load.passes)
    };
    let threads = u64::from(load.threads);
    let sums: Vec<u64> = (0..u64::from(load.blocks))
        .flat_map(|b| (0..threads).map(move |t| (b, t)))
        .map(|(block, thread)| sum(block, thread))
        .collect();
    let count = |load: SharedStream| -> Result<usize, VerifyError> {
        hits.fill(0)?;
        check.run(&load)?;
        Ok(hits.to_vec()?[0] as usize)
    };
    for trigger in [sums[0], sums[70], sums[sums.len() - 1]] {
        let same = sums.iter().filter(|sum| **sum == trigger).count();
        check.same("hits", count(SharedStream { trigger, ..load })?, same)?;
    }
    let trigger = sums[70];
    check.same(
        "hits with a pass less",
        count(SharedStream {
            trigger,
            passes: 4,
            ..load
        })?,
        0,
    )
}
