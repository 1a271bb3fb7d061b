//! `rmsnorm`: root-mean-square normalisation, one row in every block.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::numeric::{bits, numbers, tree_sum};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Threads of a block, fixed by the kernel.
pub const THREADS: u32 = 128;

/// Normalises rows.
#[derive(Debug, Clone, Copy)]
pub struct Rmsnorm {
    /// `rows` times `cols` f32.
    pub out: DevicePtr,
    /// `rows` times `cols` f32.
    pub input: DevicePtr,
    /// `cols` f32.
    pub weight: DevicePtr,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub cols: u32,
    /// Added to the mean of the squares.
    pub eps: f32,
}

impl Launcher for Rmsnorm {
    fn kernel(&self) -> Kernel {
        Kernel::Rmsnorm
    }

    fn grid(&self) -> Grid {
        Grid::new(self.rows, THREADS)
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.out).ptr(self.input).ptr(self.weight);
        args.u32(self.cols).f32(self.eps)
    }

    fn cost(&self) -> Cost {
        let cells = u64::from(self.rows) * u64::from(self.cols);
        // The weights once and the input twice: for the sum and for the result.
        Cost { l2_bytes: 12 * cells, fp32_flops: 4 * cells, ..Cost::default() }
    }
}

/// The kernel's computation in the same order, so that the bits are equal.
pub fn reference(input: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let row = |row: &[f32]| -> Vec<f32> {
        let partial_sum = |thread: usize| {
            let own = (thread..row.len()).step_by(THREADS as usize);
            own.fold(0.0_f32, |sum, i| row[i].mul_add(row[i], sum))
        };
        let mean = tree_sum(std::array::from_fn(partial_sum)) / row.len() as f32;
        let root = (mean + eps).sqrt();
        row.iter().zip(weight).map(|(x, w)| x * w / root).collect()
    };
    input.chunks_exact(weight.len()).flat_map(row).collect()
}

/// Equal to the host's bits.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("rmsnorm", kernels)?;
    let (rows, eps) = (3_u32, 1e-5_f32);
    // Rows longer and shorter than a block.
    for cols in [200_u32, 40] {
        let (input, weight) = (numbers(u64::from(rows * cols), 5), numbers(u64::from(cols), 6));
        let (input_at, weight_at) = (check.buffer(&input)?, check.buffer(&weight)?);
        let out = check.zeros::<f32>(input.len())?;
        check.run(&Rmsnorm {
            out: out.device_ptr(),
            input: input_at.device_ptr(),
            weight: weight_at.device_ptr(),
            rows,
            cols,
            eps,
        })?;
        let expected = reference(&input, &weight, eps);
        check.same_slice("bits of the rows", &bits(&out.to_vec()?), &bits(&expected))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_unit_weights_gets_a_mean_square_of_one() {
        let input = numbers(256, 8);
        let out = reference(&input, &[1.0; 256], 0.0);
        let mean: f32 = out.iter().map(|x| x * x).sum::<f32>() / 256.0;
        assert!((mean - 1.0).abs() < 1e-5, "{mean}");
    }
}
