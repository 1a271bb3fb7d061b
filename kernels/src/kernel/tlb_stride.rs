//! `tlb_stride`: one load from each of many pages.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::pattern::pattern_word;
use crate::verify::{Check, VerifyError};

/// Bytes between the lines of neighbouring pages.
const LINE_BYTES: u64 = 128;

/// Loads one word from each of many pages.
#[derive(Debug, Clone, Copy)]
pub struct TlbStride {
    /// The buffer: `pages` times `page_bytes`.
    pub base: DevicePtr,
    /// Number of pages, at least one.
    pub pages: u64,
    /// Bytes of a page, a power of two of at least 128.
    pub page_bytes: u64,
    /// Loads per thread.
    pub steps: u32,
    /// One u32 per thread.
    pub sums: DevicePtr,
    /// The launch shape.
    pub grid: Grid,
}

impl TlbStride {
    /// Bytes of a large page of the GPU, the largest that `cuMemAlloc` is known to map.
    pub const PAGE_BYTES: u64 = crate::sizes::PAGE_BYTES;
}

impl Launcher for TlbStride {
    fn kernel(&self) -> Kernel {
        Kernel::TlbStride
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.base).u64(self.pages).u64(self.page_bytes);
        args.u32(self.steps).ptr(self.sums)
    }

    fn cost(&self) -> Cost {
        let touches = self.grid.total_threads() * u64::from(self.steps);
        // A load of one word moves one sector of 32 bytes (Nsight Compute guide, "L2 cache").
        Cost { page_touches: touches, l2_bytes: 32 * touches, ..Cost::default() }
    }
}

/// Every thread has the host's sum.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("tlb_stride", kernels)?;
    let (pages, page_bytes, grid) = (37_u64, 1_024_u64, Grid::new(2, 32));
    let words: Vec<u32> = (0..pages * page_bytes / 4).map(|i| pattern_word(i, 3)).collect();
    let base = check.buffer(&words)?;
    let threads = grid.total_threads();
    let word = |page: u64| {
        let line = page % (page_bytes / LINE_BYTES);
        words[((page * page_bytes + line * LINE_BYTES) / 4) as usize]
    };
    for steps in [0_u32, 3, 12] {
        let sums = check.zeros::<u32>(threads as usize)?;
        check.run(&TlbStride {
            base: base.device_ptr(),
            pages,
            page_bytes,
            steps,
            sums: sums.device_ptr(),
            grid,
        })?;
        let sum = |thread: u64| {
            let visited = (0..u64::from(steps)).map(|step| (thread + step * threads) % pages);
            visited.fold(0_u32, |sum, page| sum.wrapping_add(word(page)))
        };
        check.same_slice("sums", &sums.to_vec()?, &(0..threads).map(sum).collect::<Vec<_>>())?;
    }
    Ok(())
}
