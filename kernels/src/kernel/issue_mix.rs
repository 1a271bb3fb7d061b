//! `issue_mix`: alternating floating-point and integer instructions.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Floating-point chains of each thread.
const REAL_CHAINS: u32 = 4;
/// Integer chains of each thread, two instructions a step.
const BIT_CHAINS: u32 = 2;
/// Steps of one iteration.
const STEPS: u64 = 4;

/// Runs floating-point and integer chains side by side in every thread.
#[derive(Debug, Clone, Copy)]
pub struct IssueMix {
    /// One u32 per thread.
    pub out: DevicePtr,
    /// Iterations of 16 multiply-adds and 16 integer instructions each.
    pub iterations: u32,
    /// x becomes x * mul + add.
    pub mul: f32,
    /// The summand of `mul`.
    pub add: f32,
    /// y becomes (y >> 1) ^ key.
    pub key: u32,
    /// The launch shape.
    pub grid: Grid,
}

impl IssueMix {
    /// Constants with which the values neither grow without bound nor become constant.
    pub const fn bounded(out: DevicePtr, iterations: u32, grid: Grid) -> Self {
        Self { out, iterations, mul: 0.999_755_86, add: 0.125, key: 0xa5a5_5a5a, grid }
    }
}

impl Launcher for IssueMix {
    fn kernel(&self) -> Kernel {
        Kernel::IssueMix
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        let args = Args::new().ptr(self.out).u32(self.iterations);
        args.f32(self.mul).f32(self.add).u32(self.key)
    }

    fn cost(&self) -> Cost {
        let steps = self.grid.total_threads() * u64::from(self.iterations) * STEPS;
        Cost {
            fp32_flops: 2 * steps * u64::from(REAL_CHAINS),
            int_ops: 2 * steps * u64::from(BIT_CHAINS),
            ..Cost::default()
        }
    }
}

/// Equal to the host's bits.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("issue_mix", kernels)?;
    let grid = Grid::new(3, 64);
    for iterations in [0, 1, 37] {
        let out = check.zeros::<u32>(grid.total_threads() as usize)?;
        let launch = IssueMix::bounded(out.device_ptr(), iterations, grid);
        check.run(&launch)?;
        let expected: Vec<u32> = (0..grid.total_threads() as u32)
            .map(|thread| reference(thread % grid.threads, &launch))
            .collect();
        check.same_slice("results", &out.to_vec()?, &expected)?;
    }
    Ok(())
}

fn reference(thread_in_block: u32, launch: &IssueMix) -> u32 {
    let steps = u64::from(launch.iterations) * STEPS;
    let real = |number: u32| {
        let first = (thread_in_block + number) as f32;
        (0..steps).fold(first, |x, _| x.mul_add(launch.mul, launch.add))
    };
    let bits = |number: u32| {
        let first = thread_in_block.wrapping_mul(2_654_435_761).wrapping_add(number);
        (0..steps).fold(first, |y, _| (y >> 1) ^ launch.key)
    };
    let sum = (real(0) + real(1)) + (real(2) + real(3));
    sum.to_bits() ^ bits(0) ^ (bits(1) << 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_counts_what_the_ptx_holds() {
        let ptx = Kernel::IssueMix.info().ptx;
        let one = IssueMix::bounded(DevicePtr::NULL, 1, Grid::new(1, 1));
        assert_eq!(one.cost().fp32_flops, 2 * ptx.matches("fma.rn.f32").count() as u64);
        // Two of the exclusive ors combine the results; every right shift is in the loop.
        assert_eq!(one.cost().int_ops, 2 * ptx.matches("shr.u32").count() as u64);
        assert_eq!(ptx.matches("shr.u32").count() + 2, ptx.matches("xor.b32").count());
    }

    #[test]
    fn results_differ_between_threads_and_lengths() {
        let short = IssueMix::bounded(DevicePtr::NULL, 37, Grid::new(1, 1));
        let long = IssueMix { iterations: 38, ..short };
        assert_ne!(reference(0, &short), reference(1, &short));
        assert_ne!(reference(0, &short), reference(0, &long));
    }
}
