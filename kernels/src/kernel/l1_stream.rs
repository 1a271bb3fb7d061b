//! `l1_stream`: every block reads its own small part of a buffer repeatedly.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::stream_read::pattern_halves;
use crate::kernel::{VECTOR_BYTES, elements_of};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Reads a small part of a buffer in every block, several times.
#[derive(Debug, Clone, Copy)]
pub struct L1Stream {
    /// The buffer, aligned to 16 bytes: as many parts as there are blocks.
    pub src: DevicePtr,
    /// Bytes of each part, a multiple of 16; below the L1 size so that reads hit in L1.
    pub bytes_per_block: u32,
    /// Passes over each part.
    pub passes: u32,
    /// Threads with this sum add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl L1Stream {
    fn vectors(&self) -> u32 {
        self.bytes_per_block / VECTOR_BYTES as u32
    }
}

impl Launcher for L1Stream {
    fn kernel(&self) -> Kernel {
        Kernel::L1Stream
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.src).u32(self.vectors()).u32(self.passes);
        args.u64(self.trigger).ptr(self.hits)
    }

    fn cost(&self) -> Cost {
        let reads =
            u64::from(self.grid.blocks) * u64::from(self.passes) * u64::from(self.vectors());
        Cost { l1_bytes: reads * VECTOR_BYTES, ..Cost::default() }
    }
}

/// The device counts the host's sums, and does not with one pass less.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("l1_stream", kernels)?;
    let (grid, passes) = (Grid::new(3, 64), 3_u32);
    let threads = u64::from(grid.threads);
    let hits = check.zeros::<u32>(1)?;
    // Two or three accesses after rounds of four, none or one, and fewer accesses than threads.
    for vectors in [150_u64, 266, 20] {
        let halves = pattern_halves(vectors * u64::from(grid.blocks), 41);
        let src = check.buffer(&halves)?;
        let load = L1Stream {
            src: src.device_ptr(),
            bytes_per_block: (vectors * VECTOR_BYTES) as u32,
            passes,
            trigger: 0,
            hits: hits.device_ptr(),
            grid,
        };
        let pair = |i: u64| halves[2 * i as usize].wrapping_add(halves[2 * i as usize + 1]);
        let sum = |thread: u64| {
            let first = thread / threads * vectors;
            let own = elements_of(thread % threads, threads, vectors).map(|i| pair(first + i));
            own.fold(0, u64::wrapping_add).wrapping_mul(u64::from(passes))
        };
        let sums: Vec<u64> = (0..grid.total_threads()).map(sum).collect();
        check.counts_sums(&sums, &hits, &|trigger| Box::new(L1Stream { trigger, ..load }))?;
        let less = L1Stream { trigger: sums[0], passes: passes - 1, ..load };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}
