//! `stream_copy`: copies a buffer once.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::VECTOR_BYTES;
use crate::kernel::pattern_check::PatternCheck;
use crate::kernel::stream_read::pattern_halves;
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Copies a buffer once.
#[derive(Debug, Clone, Copy)]
pub struct StreamCopy {
    /// The target, aligned to 16 bytes.
    pub dst: DevicePtr,
    /// The source, aligned to 16 bytes, without overlap.
    pub src: DevicePtr,
    /// Bytes to copy; a remainder below 16 bytes is not copied.
    pub bytes: u64,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for StreamCopy {
    fn kernel(&self) -> Kernel {
        Kernel::StreamCopy
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.dst).ptr(self.src).u64(self.bytes / VECTOR_BYTES)
    }

    fn cost(&self) -> Cost {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES;
        Cost { dram_read_bytes: bytes, dram_write_bytes: bytes, ..Cost::default() }
    }
}

/// The copy equals the source on the device and on the host; memory behind it is unchanged.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("stream_copy", kernels)?;
    let (grid, seed) = (Grid::new(2, 64), 23);
    let threads = grid.total_threads();
    // Rounds of four with a remainder and without, and fewer vectors than threads.
    for vectors in [threads * 6 + 7, threads * 4, 20] {
        let halves = pattern_halves(vectors, seed);
        let src = check.buffer(&halves)?;
        let dst = check.zeros::<u64>(halves.len() + 2)?;
        let bytes = vectors * VECTOR_BYTES;
        check.run(&StreamCopy { dst: dst.device_ptr(), src: src.device_ptr(), bytes, grid })?;
        let wrong = check.zeros::<u32>(1)?;
        check.run(&PatternCheck {
            src: dst.device_ptr(),
            words: bytes / 4,
            seed,
            mismatches: wrong.device_ptr(),
            grid,
        })?;
        check.same("words that differ on the device", wrong.to_vec()?[0], 0)?;
        let mut expected = halves;
        expected.extend([0, 0]);
        check.same_slice("copy", &dst.to_vec()?, &expected)?;
    }
    Ok(())
}
