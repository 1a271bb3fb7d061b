//! The kernels of a decode step, with a reference on the host for each.

use crate::driver::{DevicePtr, Grid};
use crate::kernel::Cost;
use crate::kernel_set::KernelSet;
use crate::verify::{Check, VerifyError, pattern_word};

// `matvec`: a matrix times a vector, one row in every block.

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
    pub rows: u32,
    /// Number of columns, a multiple of four.
    pub cols: u32,
}

launcher! {
    Matvec(self), Grid::new(self.rows, THREADS),
    [ptr self.y, ptr self.w, ptr self.x, u32 self.cols] => {
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
pub fn matvec_reference(w: &[f32], x: &[f32]) -> Vec<f32> {
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
pub fn verify_matvec(kernels: &KernelSet) -> Result<(), VerifyError> {
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
        check.same_slice("bits of y", &bits(&y.to_vec()?), &bits(&matvec_reference(&w, &x)))?;
    }
    Ok(())
}

// `matmul`: a small matrix product, one tile of 16 by 16 in every block.

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

launcher! {
    Matmul(self), Grid::new((self.m / TILE) * (self.n / TILE), TILE * TILE),
    [ptr self.c, ptr self.a, ptr self.b, u32 self.n, u32 self.k] => {
        let [m, n, k] = [self.m, self.n, self.k].map(u64::from);
        let tile = u64::from(TILE);
        // Every tile of c reads a row of tiles of a and a column of tiles of b.
        let l2_bytes = 4 * (m / tile) * (n / tile) * (2 * tile * k);
        Cost { fp32_flops: 2 * m * n * k, l2_bytes, ..Cost::default() }
    }
}

/// The kernel's computation in the same order, so that the bits are equal.
pub fn matmul_reference(a: &[f32], b: &[f32], n: usize, k: usize) -> Vec<f32> {
    let cell = |row: &[f32], col: usize| {
        (0..k).fold(0.0_f32, |sum, i| row[i].mul_add(b[i * n + col], sum))
    };
    a.chunks_exact(k).flat_map(|row| (0..n).map(move |col| cell(row, col))).collect()
}

/// Equal to the host's bits.
pub fn verify_matmul(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("matmul", kernels)?;
    let (m, n, k) = (32_u32, 48_u32, 64_u32);
    let (a, b) = (numbers(u64::from(m * k), 3), numbers(u64::from(k * n), 4));
    let (a_at, b_at) = (check.buffer(&a)?, check.buffer(&b)?);
    let c = check.zeros::<f32>((m * n) as usize)?;
    let (c_at, a_at, b_at) = (c.device_ptr(), a_at.device_ptr(), b_at.device_ptr());
    check.run(&Matmul { c: c_at, a: a_at, b: b_at, m, n, k })?;
    let expected = matmul_reference(&a, &b, n as usize, k as usize);
    check.same_slice("bits of c", &bits(&c.to_vec()?), &bits(&expected))
}

// `rmsnorm`: root-mean-square normalisation, one row in every block.

/// Normalises rows.
#[derive(Debug, Clone, Copy)]
pub struct Rmsnorm {
    /// `rows` times `cols` f32.
    pub out: DevicePtr,
    /// `rows` times `cols` f32.
    pub input: DevicePtr,
    /// `cols` f32.
    pub weight: DevicePtr,
    pub rows: u32,
    pub cols: u32,
    pub eps: f32,
}

launcher! {
    Rmsnorm(self), Grid::new(self.rows, THREADS),
    [ptr self.out, ptr self.input, ptr self.weight, u32 self.cols, f32 self.eps] => {
        let cells = u64::from(self.rows) * u64::from(self.cols);
        // The weights once and the input twice: for the sum and for the result.
        Cost { l2_bytes: 12 * cells, fp32_flops: 4 * cells, ..Cost::default() }
    }
}

/// The kernel's computation in the same order, so that the bits are equal.
pub fn rmsnorm_reference(input: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
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
pub fn verify_rmsnorm(kernels: &KernelSet) -> Result<(), VerifyError> {
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
        let expected = rmsnorm_reference(&input, &weight, eps);
        check.same_slice("bits of the rows", &bits(&out.to_vec()?), &bits(&expected))?;
    }
    Ok(())
}

// `softmax`: exponentials divided by their sum, one row per block.

/// Relative tolerance of a check: the device's exponential is exact to 2^-22 (PTX ISA, ex2.approx),
/// and argument and sum add a few roundings of 2^-24 each.
pub const TOLERANCE: f32 = 1e-5;

#[derive(Debug, Clone, Copy)]
pub struct Softmax {
    /// `rows` times `cols` f32.
    pub out: DevicePtr,
    /// `rows` times `cols` f32.
    pub input: DevicePtr,
    pub rows: u32,
    /// Number of columns, at least one.
    pub cols: u32,
}

launcher! {
    Softmax(self), Grid::new(self.rows, THREADS), [ptr self.out, ptr self.input, u32 self.cols] => {
        let cells = u64::from(self.rows) * u64::from(self.cols);
        // Reads the input twice and writes once, for the maximum, the exponentials and the
        // division.
        Cost { l2_bytes: 12 * cells, fp32_flops: 5 * cells, ..Cost::default() }
    }
}

/// The kernel's computation, in double precision.
pub fn softmax_reference(input: &[f32], cols: usize) -> Vec<f32> {
    let row = |row: &[f32]| -> Vec<f32> {
        let max = row.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f64> = row.iter().map(|x| (f64::from(*x) - f64::from(max)).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|power| (power / sum) as f32).collect()
    };
    input.chunks_exact(cols).flat_map(row).collect()
}

/// Equal to the host's within the tolerance.
pub fn verify_softmax(kernels: &KernelSet) -> Result<(), VerifyError> {
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
        let expected = softmax_reference(&input, cols as usize);
        for (at, (found, wanted)) in out.to_vec()?.iter().zip(&expected).enumerate() {
            let near = (found - wanted).abs() <= TOLERANCE * wanted;
            check.holds(near, &format!("out[{at}]"), found, wanted)?;
        }
    }
    Ok(())
}

// Shared by the checks of the numeric kernels: test numbers, and sums in the kernels' order.

/// `count` numbers in [-1, 1) from a seed, each exact in single precision.
pub(crate) fn numbers(count: u64, seed: u32) -> Vec<f32> {
    let scale = 1.0 / f32::from(1_u16 << 15);
    (0..count).map(|index| f32::from((pattern_word(index, seed) >> 16) as i16) * scale).collect()
}

/// The bits of each number: equal bits distinguish zeros and need no tolerance.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Sums the values of 128 threads in the kernels' order: one half onto the other.
pub(crate) fn tree_sum(mut parts: [f32; 128]) -> f32 {
    let mut half = parts.len() / 2;
    while half > 0 {
        for at in 0..half {
            parts[at] += parts[at + half];
        }
        half /= 2;
    }
    parts[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Launcher as _;

    #[test]
    fn the_reference_is_a_matrix_vector_product() {
        let (w, x) = (numbers(3 * 600, 1), numbers(600, 2));
        for (row, found) in w.chunks_exact(600).zip(matvec_reference(&w, &x)) {
            let exact: f64 = row.iter().zip(&x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(found) - exact).abs() < 1e-4, "{found} {exact}");
        }
    }

    #[test]
    fn the_reference_multiplies_by_rows_and_columns() {
        // [1 2; 3 4] [5 6; 7 8] by hand.
        let found = matmul_reference(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2, 2);
        assert_eq!(found, [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    fn the_grid_covers_c() {
        let null = DevicePtr::NULL;
        let launch = Matmul { c: null, a: null, b: null, m: 32, n: 48, k: 64 };
        assert_eq!(launch.grid(), Grid::new(6, 256));
        assert_eq!(launch.cost().fp32_flops, 2 * 32 * 48 * 64);
    }

    #[test]
    fn a_row_with_unit_weights_gets_a_mean_square_of_one() {
        let input = numbers(256, 8);
        let out = rmsnorm_reference(&input, &[1.0; 256], 0.0);
        let mean: f32 = out.iter().map(|x| x * x).sum::<f32>() / 256.0;
        assert!((mean - 1.0).abs() < 1e-5, "{mean}");
    }

    #[test]
    fn rows_add_up_to_one_and_keep_their_order() {
        let out = softmax_reference(&[0.0, 1.0, 2.0, -5.0, -5.0, -5.0], 3);
        assert!((out[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!(out[0] < out[1] && out[1] < out[2]);
        assert_eq!(out[3..], [1.0 / 3.0; 3]);
    }

    #[test]
    fn numbers_are_in_range_and_follow_the_seed() {
        let row = numbers(1000, 3);
        assert!(row.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(row.iter().any(|x| *x < -0.9) && row.iter().any(|x| *x > 0.9));
        assert_eq!(row, numbers(1000, 3));
        assert_ne!(row, numbers(1000, 4));
    }
}
