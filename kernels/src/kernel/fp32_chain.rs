//! `fp32_chain`: independent chains of single-precision multiply-adds.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Chains of each thread.
const CHAINS: usize = 8;
/// Steps of each chain in one iteration.
const STEPS: u64 = 4;

/// Runs eight chains of multiply-adds in every thread.
#[derive(Debug, Clone, Copy)]
pub struct Fp32Chain {
    /// One f32 per thread.
    pub out: DevicePtr,
    /// Iterations of 32 multiply-adds each.
    pub iterations: u32,
    /// x becomes x * mul + add.
    pub mul: f32,
    /// The summand of `mul`.
    pub add: f32,
    /// The launch shape.
    pub grid: Grid,
}

impl Fp32Chain {
    /// A factor and a summand that keep the values between zero and a thousand for any length.
    pub const fn bounded(out: DevicePtr, iterations: u32, grid: Grid) -> Self {
        Self { out, iterations, mul: 0.999_755_86, add: 0.125, grid }
    }
}

impl Launcher for Fp32Chain {
    fn kernel(&self) -> Kernel {
        Kernel::Fp32Chain
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.out).u32(self.iterations).f32(self.mul).f32(self.add)
    }

    fn cost(&self) -> Cost {
        let fmas = self.grid.total_threads() * u64::from(self.iterations) * STEPS * CHAINS as u64;
        Cost { fp32_flops: 2 * fmas, ..Cost::default() }
    }
}

/// Equal to the host's bits: an FMA rounds once in IEEE 754 on any processor.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("fp32_chain", kernels)?;
    let grid = Grid::new(3, 64);
    for iterations in [0, 37] {
        let out = check.zeros::<f32>(grid.total_threads() as usize)?;
        let launch = Fp32Chain::bounded(out.device_ptr(), iterations, grid);
        check.run(&launch)?;
        let expected: Vec<u32> = (0..grid.total_threads() as u32)
            .map(|thread| reference(thread % grid.threads, &launch).to_bits())
            .collect();
        let found: Vec<u32> = out.to_vec()?.into_iter().map(f32::to_bits).collect();
        check.same_slice("bits of the sums", &found, &expected)?;
    }
    Ok(())
}

fn reference(thread_in_block: u32, launch: &Fp32Chain) -> f32 {
    let mut chains = [0.0_f32; CHAINS];
    for (number, chain) in (0_u32..).zip(&mut chains) {
        *chain = (thread_in_block + number) as f32;
        for _ in 0..u64::from(launch.iterations) * STEPS {
            *chain = chain.mul_add(launch.mul, launch.add);
        }
    }
    chains[1..].iter().fold(chains[0], |sum, chain| sum + chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_counts_what_the_ptx_holds() {
        let fmas_per_iteration = Kernel::Fp32Chain.info().ptx.matches("fma.rn.f32").count();
        let one = Fp32Chain::bounded(DevicePtr::NULL, 1, Grid::new(1, 1));
        assert_eq!(one.cost().fp32_flops, 2 * fmas_per_iteration as u64);
        let many = Fp32Chain::bounded(DevicePtr::NULL, 1 << 31, Grid::new(1 << 10, 1 << 10));
        assert_eq!(many.cost().fp32_flops, 64 << 51);
    }

    #[test]
    fn values_stay_bounded_and_differ_between_threads_and_lengths() {
        let short = Fp32Chain::bounded(DevicePtr::NULL, 37, Grid::new(1, 1));
        let long = Fp32Chain { iterations: 38, ..short };
        assert_ne!(reference(0, &short), reference(1, &short));
        assert_ne!(reference(0, &short), reference(0, &long));
        let forever = Fp32Chain { iterations: 100_000, ..short };
        assert!((0.0..8_000.0).contains(&reference(63, &forever)));
    }
}
