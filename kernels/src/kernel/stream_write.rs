//! `stream_write`: writes a buffer once.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::VECTOR_BYTES;
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Writes a buffer once.
#[derive(Debug, Clone, Copy)]
pub struct StreamWrite {
    /// The buffer, aligned to 16 bytes.
    pub dst: DevicePtr,
    /// Bytes of the buffer; a remainder below 16 bytes is not written.
    pub bytes: u64,
    /// Vector i becomes {value ^ i, i}.
    pub value: u64,
    /// The launch shape.
    pub grid: Grid,
}

impl Launcher for StreamWrite {
    fn kernel(&self) -> Kernel {
        Kernel::StreamWrite
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.dst).u64(self.bytes / VECTOR_BYTES).u64(self.value)
    }

    fn cost(&self) -> Cost {
        let bytes = self.bytes / VECTOR_BYTES * VECTOR_BYTES;
        Cost { dram_write_bytes: bytes, ..Cost::default() }
    }
}

/// Every vector has its value, and the one behind the buffer is unchanged.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("stream_write", kernels)?;
    let guard = 0x5a5a_5a5a_5a5a_5a5a_u64;
    let value = 0x0123_4567_89ab_cdef;
    // More vectors than threads, and fewer.
    for vectors in [1_000_u64, 20] {
        let buffer = check.buffer(&vec![guard; 2 * vectors as usize + 2])?;
        let (dst, bytes) = (buffer.device_ptr(), vectors * VECTOR_BYTES);
        check.run(&StreamWrite { dst, bytes, value, grid: Grid::new(3, 96) })?;
        let mut expected: Vec<u64> = (0..vectors).flat_map(|i| [value ^ i, i]).collect();
        expected.extend([guard, guard]);
        check.same_slice("buffer", &buffer.to_vec()?, &expected)?;
    }
    Ok(())
}
