//! `tensor_chain`: chains of half-precision matrix products on the tensor cores.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Products per warp in one iteration.
const CHAINS: u64 = 4;
/// Operations of one product of 16 by 16 by 16.
const FLOPS: u64 = 2 * 16 * 16 * 16;

/// A half-precision number by its bits (IEEE 754 binary16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half(pub u16);

impl Half {
    /// 1.5.
    pub const ONE_AND_A_HALF: Self = Self(0x3e00);
    /// 0.25.
    pub const QUARTER: Self = Self(0x3400);
    /// 2^-14, the smallest normal number: sums stay finite for any number of iterations.
    pub const SMALL: Self = Self(0x0400);

    /// The pair of equal halves that a fragment register holds.
    const fn pair(self) -> u32 {
        self.0 as u32 | (self.0 as u32) << 16
    }
}

/// Multiplies constant matrices repeatedly, four products in flight per warp.
#[derive(Debug, Clone, Copy)]
pub struct TensorChain {
    /// One f32 per thread.
    pub out: DevicePtr,
    /// Iterations of four products per warp.
    pub iterations: u32,
    /// The value of the first matrix.
    pub a: Half,
    /// The value of the second matrix.
    pub b: Half,
    /// The launch shape, in whole warps.
    pub grid: Grid,
}

impl Launcher for TensorChain {
    fn kernel(&self) -> Kernel {
        Kernel::TensorChain
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.out).u32(self.iterations).u32(self.a.pair()).u32(self.b.pair())
    }

    fn cost(&self) -> Cost {
        let warps = u64::from(self.grid.blocks) * u64::from(self.grid.threads / 32);
        let tensor_flops = warps * u64::from(self.iterations) * CHAINS * FLOPS;
        Cost { tensor_flops, ..Cost::default() }
    }
}

/// Exact: every sum is a small multiple of a power of two.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("tensor_chain", kernels)?;
    let grid = Grid::new(2, 64);
    let (a, b) = (Half::ONE_AND_A_HALF, Half::QUARTER);
    for iterations in [0_u32, 5] {
        let out = check.zeros::<f32>(grid.total_threads() as usize)?;
        check.run(&TensorChain { out: out.device_ptr(), iterations, a, b, grid })?;
        // A thread holds 8 cells of each chain; chain c starts at c and grows by 16 * 1.5 * 0.25.
        let cell = |chain: u32| chain as f32 + iterations as f32 * 16.0 * 1.5 * 0.25;
        let expected: f32 = (0..CHAINS as u32).map(|chain| 8.0 * cell(chain)).sum();
        let expected = vec![expected; grid.total_threads() as usize];
        check.same_slice("sums", &out.to_vec()?, &expected)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_counts_what_the_ptx_holds() {
        let in_loop = Kernel::TensorChain.info().ptx.matches("wmma.mma.sync").count() as u64;
        let (a, b, out) = (Half::SMALL, Half::SMALL, DevicePtr::NULL);
        let one = TensorChain { out, iterations: 1, a, b, grid: Grid::new(1, 32) };
        assert_eq!(one.cost().tensor_flops, in_loop * FLOPS);
        assert_eq!(Half(0x1234).pair(), 0x1234_1234);
    }
}
