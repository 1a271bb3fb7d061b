//! `l2_stream`: reads a buffer that fits in L2 repeatedly.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::stream_read::pattern_halves;
use crate::kernel::{VECTOR_BYTES, elements_of};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Reads a buffer several times, bypassing L1.
#[derive(Debug, Clone, Copy)]
pub struct L2Stream {
    /// The buffer, aligned to 16 bytes.
    pub src: DevicePtr,
    /// Bytes of the buffer; below the size of L2 so that reads hit in L2.
    pub bytes: u64,
    /// Passes over the buffer.
    pub passes: u32,
    /// Threads with this sum add one to `hits`; a load uses any fixed number.
    pub trigger: u64,
    /// One u32.
    pub hits: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for L2Stream {
    fn kernel(&self) -> Kernel {
        Kernel::L2Stream
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.src).u64(self.bytes / VECTOR_BYTES).u32(self.passes);
        args.u64(self.trigger).ptr(self.hits)
    }

    fn cost(&self) -> Cost {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES * u64::from(self.passes);
        Cost { l2_bytes: bytes, ..Cost::default() }
    }
}

/// The device counts the host's sums over all passes, and does not with one pass less.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("l2_stream", kernels)?;
    let grid = Grid::new(2, 64);
    let threads = grid.total_threads();
    let hits = check.zeros::<u32>(1)?;
    let passes = 3;
    // Rounds of four with a remainder and without, and fewer vectors than threads.
    for vectors in [threads * 5 + 3, threads * 4, 20] {
        let halves = pattern_halves(vectors, 31);
        let src = check.buffer(&halves)?;
        let load = L2Stream {
            src: src.device_ptr(),
            bytes: vectors * VECTOR_BYTES,
            passes,
            trigger: 0,
            hits: hits.device_ptr(),
            grid,
        };
        let pair = |i: u64| halves[2 * i as usize].wrapping_add(halves[2 * i as usize + 1]);
        let sum = |thread| {
            let once = elements_of(thread, threads, vectors).map(pair).fold(0, u64::wrapping_add);
            once.wrapping_mul(u64::from(passes))
        };
        let sums: Vec<u64> = (0..threads).map(sum).collect();
        check.counts_sums(&sums, &hits, &|trigger| Box::new(L2Stream { trigger, ..load }))?;
        let less = L2Stream { trigger: sums[0], passes: passes - 1, ..load };
        check.same("hits with a pass less", check.count_hits(&hits, &less)?, 0)?;
    }
    Ok(())
}
