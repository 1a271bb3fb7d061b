//! `softmax`: exponentials divided by their sum, one row per block.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::numeric::numbers;
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Threads of a block, fixed by the kernel.
pub const THREADS: u32 = 128;

/// Relative tolerance of a check: the device's exponential is exact to 2^-22 (PTX ISA, ex2.approx),
/// and argument and sum add a few roundings of 2^-24 each.
pub const TOLERANCE: f32 = 1e-5;

/// Softmax of rows.
#[derive(Debug, Clone, Copy)]
pub struct Softmax {
    /// `rows` times `cols` f32.
    pub out: DevicePtr,
    /// `rows` times `cols` f32.
    pub input: DevicePtr,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns, at least one.
    pub cols: u32,
}

impl Launcher for Softmax {
    fn kernel(&self) -> Kernel {
        Kernel::Softmax
    }

    fn grid(&self) -> Grid {
        Grid::new(self.rows, THREADS)
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.out).ptr(self.input).u32(self.cols)
    }

    fn cost(&self) -> Cost {
        let cells = u64::from(self.rows) * u64::from(self.cols);
        // Reads the input twice and writes once, for the maximum, the exponentials and the
        // division.
        Cost { l2_bytes: 12 * cells, fp32_flops: 5 * cells, ..Cost::default() }
    }
}

/// The kernel's computation, in double precision.
pub fn reference(input: &[f32], cols: usize) -> Vec<f32> {
    let row = |row: &[f32]| -> Vec<f32> {
        let max = row.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f64> = row.iter().map(|x| (f64::from(*x) - f64::from(max)).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|power| (power / sum) as f32).collect()
    };
    input.chunks_exact(cols).flat_map(row).collect()
}

/// Equal to the host's within the tolerance.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("softmax", kernels)?;
    let rows = 3_u32;
    // Rows longer and shorter than a block. One number of the second row is so large that its power
    // is infinite unless the maximum is subtracted.
    for (cols, largest) in [(200_u32, 101_usize), (200, 170), (40, 39)] {
        let count = u64::from(rows * cols);
        let mut input: Vec<f32> = numbers(count, 7).iter().map(|x| 8.0 * x).collect();
        input[cols as usize + largest] = 200.0;
        let input_at = check.buffer(&input)?;
        let out = check.zeros::<f32>(input.len())?;
        let (out_at, input_at) = (out.device_ptr(), input_at.device_ptr());
        check.run(&Softmax { out: out_at, input: input_at, rows, cols })?;
        let expected = reference(&input, cols as usize);
        for (at, (found, wanted)) in out.to_vec()?.iter().zip(&expected).enumerate() {
            let near = (found - wanted).abs() <= TOLERANCE * wanted;
            check.holds(near, &format!("out[{at}]"), found, wanted)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_to_one_and_keep_their_order() {
        let out = reference(&[0.0, 1.0, 2.0, -5.0, -5.0, -5.0], 3);
        assert!((out[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(out[0] < out[1] && out[1] < out[2]);
        assert_eq!(out[3..], [1.0 / 3.0; 3]);
    }
}
