//! `matvec`: a matrix times a vector, one row in every block.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::numeric::{bits, numbers, tree_sum};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Threads of a block, fixed by the kernel.
pub const THREADS: u32 = 128;

/// y = w x.
#[derive(Debug, Clone, Copy)]
pub struct Matvec {
    /// `rows` f32.
    pub y: DevicePtr,
    /// `rows` times `cols` f32, by rows, aligned to 16 bytes.
    pub w: DevicePtr,
    /// `cols` f32, aligned to 16 bytes.
    pub x: DevicePtr,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns, a multiple of four.
    pub cols: u32,
}

impl Launcher for Matvec {
    fn kernel(&self) -> Kernel {
        Kernel::Matvec
    }

    fn grid(&self) -> Grid {
        Grid::new(self.rows, THREADS)
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.y).ptr(self.w).ptr(self.x).u32(self.cols)
    }

    fn cost(&self) -> Cost {
        let weights = u64::from(self.rows) * u64::from(self.cols);
        Cost {
            dram_read_bytes: 4 * weights,
            dram_write_bytes: 4 * u64::from(self.rows),
            fp32_flops: 2 * weights,
            ..Cost::default()
        }
    }
}

/// The kernel's computation in the same order, so that the bits are equal.
pub fn reference(w: &[f32], x: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let partial_sum = |thread: usize| {
            let groups = (4 * thread..x.len()).step_by(4 * THREADS as usize);
            let own = groups.flat_map(|from| from..from + 4);
            own.fold(0.0_f32, |sum, k| row[k].mul_add(x[k], sum))
        };
        tree_sum(std::array::from_fn(partial_sum))
    };
    w.chunks_exact(x.len()).map(row).collect()
}

/// Equal to the host's bits, for rows shorter and longer than one round of the block.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("matvec", kernels)?;
    for (rows, cols) in [(3_u32, 132_u32), (2, 1_028)] {
        let (w, x) = (numbers(u64::from(rows * cols), 1), numbers(u64::from(cols), 2));
        let (w_at, x_at) = (check.buffer(&w)?, check.buffer(&x)?);
        let y = check.zeros::<f32>(rows as usize)?;
        check.run(&Matvec {
            y: y.device_ptr(),
            w: w_at.device_ptr(),
            x: x_at.device_ptr(),
            rows,
            cols,
        })?;
        check.same_slice("bits of y", &bits(&y.to_vec()?), &bits(&reference(&w, &x)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_a_matrix_vector_product() {
        let (w, x) = (numbers(3 * 600, 1), numbers(600, 2));
        for (row, found) in w.chunks_exact(600).zip(reference(&w, &x)) {
            let exact: f64 = row.iter().zip(&x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(found) - exact).abs() < 1e-4, "{found} {exact}");
        }
    }
}
