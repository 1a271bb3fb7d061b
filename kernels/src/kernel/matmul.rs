//! `matmul`: a small matrix product, one tile of 16 by 16 in every block.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel::numeric::{bits, numbers};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Side of a tile; all sizes are multiples of it.
pub const TILE: u32 = 16;

/// c = a b.
#[derive(Debug, Clone, Copy)]
pub struct Matmul {
    /// `m` times `n` f32, by rows.
    pub c: DevicePtr,
    /// `m` times `k` f32, by rows.
    pub a: DevicePtr,
    /// `k` times `n` f32, by rows.
    pub b: DevicePtr,
    /// Rows of `c`.
    pub m: u32,
    /// Columns of `c`.
    pub n: u32,
    /// Columns of `a`, rows of `b`.
    pub k: u32,
}

impl Launcher for Matmul {
    fn kernel(&self) -> Kernel {
        Kernel::Matmul
    }

    fn grid(&self) -> Grid {
        Grid::new((self.m / TILE) * (self.n / TILE), TILE * TILE)
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.c).ptr(self.a).ptr(self.b).u32(self.n).u32(self.k)
    }

    fn cost(&self) -> Cost {
        let [m, n, k] = [self.m, self.n, self.k].map(u64::from);
        let tile = u64::from(TILE);
        // Every tile of c reads a row of tiles of a and a column of tiles of b.
        let l2_bytes = 4 * (m / tile) * (n / tile) * (2 * tile * k);
        Cost { fp32_flops: 2 * m * n * k, l2_bytes, ..Cost::default() }
    }
}

/// The kernel's computation in the same order, so that the bits are equal.
pub fn reference(a: &[f32], b: &[f32], n: usize, k: usize) -> Vec<f32> {
    let cell = |row: &[f32], col: usize| {
        (0..k).fold(0.0_f32, |sum, i| row[i].mul_add(b[i * n + col], sum))
    };
    a.chunks_exact(k).flat_map(|row| (0..n).map(move |col| cell(row, col))).collect()
}

/// Equal to the host's bits.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("matmul", kernels)?;
    let (m, n, k) = (32_u32, 48_u32, 64_u32);
    let (a, b) = (numbers(u64::from(m * k), 3), numbers(u64::from(k * n), 4));
    let (a_at, b_at) = (check.buffer(&a)?, check.buffer(&b)?);
    let c = check.zeros::<f32>((m * n) as usize)?;
    let (c_at, a_at, b_at) = (c.device_ptr(), a_at.device_ptr(), b_at.device_ptr());
    check.run(&Matmul { c: c_at, a: a_at, b: b_at, m, n, k })?;
    let expected = reference(&a, &b, n as usize, k as usize);
    check.same_slice("bits of c", &bits(&c.to_vec()?), &bits(&expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_multiplies_by_rows_and_columns() {
        // [1 2; 3 4] [5 6; 7 8] by hand.
        let found = reference(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2, 2);
        assert_eq!(found, [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    fn the_grid_covers_c() {
        let null = DevicePtr::NULL;
        let launch = Matmul { c: null, a: null, b: null, m: 32, n: 48, k: 64 };
        assert_eq!(launch.grid(), Grid::new(6, 256));
        assert_eq!(launch.cost().fp32_flops, 2 * 32 * 48 * 64);
    }
}
