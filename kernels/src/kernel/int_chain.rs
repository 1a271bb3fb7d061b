//! `int_chain`: independent chains of 32-bit integer multiply-adds.

use crate::catalogue::Kernel;
use crate::cost::Cost;
use crate::driver::{Args, DevicePtr, Grid};
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Chains of each thread.
const CHAINS: u32 = 8;
/// Steps of each chain in one iteration.
const STEPS: u64 = 4;

/// Runs eight chains of integer multiply-adds in every thread.
#[derive(Debug, Clone, Copy)]
pub struct IntChain {
    /// One u32 per thread.
    pub out: DevicePtr,
    /// Iterations of 32 multiply-adds each.
    pub iterations: u32,
    /// x becomes x * mul + add, modulo 2^32.
    pub mul: u32,
    /// The summand of `mul`.
    pub add: u32,
    /// The launch shape.
    pub grid: Grid,
}

impl IntChain {
    /// The constants of a full-period generator (Numerical Recipes, 3rd edition, 7.1).
    pub const fn full_period(out: DevicePtr, iterations: u32, grid: Grid) -> Self {
        Self { out, iterations, mul: 1_664_525, add: 1_013_904_223, grid }
    }
}

impl Launcher for IntChain {
    fn kernel(&self) -> Kernel {
        Kernel::IntChain
    }

    fn grid(&self) -> Grid {
        self.grid
    }

    fn args(&self) -> Args {
        Args::new().ptr(self.out).u32(self.iterations).u32(self.mul).u32(self.add)
    }

    fn cost(&self) -> Cost {
        let steps = self.grid.total_threads() * u64::from(self.iterations) * STEPS;
        Cost { int_ops: 2 * steps * u64::from(CHAINS), ..Cost::default() }
    }
}

/// Equal to the host's results.
pub fn verify(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("int_chain", kernels)?;
    let grid = Grid::new(3, 64);
    for iterations in [0, 41] {
        let out = check.zeros::<u32>(grid.total_threads() as usize)?;
        let launch = IntChain::full_period(out.device_ptr(), iterations, grid);
        check.run(&launch)?;
        let expected: Vec<u32> = (0..grid.total_threads() as u32)
            .map(|thread| reference(thread % grid.threads, &launch))
            .collect();
        check.same_slice("results", &out.to_vec()?, &expected)?;
    }
    Ok(())
}

fn reference(thread_in_block: u32, launch: &IntChain) -> u32 {
    let step = |x: u32| x.wrapping_mul(launch.mul).wrapping_add(launch.add);
    let steps = u64::from(launch.iterations) * STEPS;
    let chain = |number| (0..steps).fold(thread_in_block + number, |x, _| step(x));
    (0..CHAINS).map(chain).fold(0, u32::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_counts_what_the_ptx_holds() {
        // One more computes the index of the thread.
        let in_loop = Kernel::IntChain.info().ptx.matches("mad.lo.s32").count() - 1;
        let one = IntChain::full_period(DevicePtr::NULL, 1, Grid::new(1, 1));
        assert_eq!(one.cost().int_ops, 2 * in_loop as u64);
    }

    #[test]
    fn results_differ_between_threads_and_lengths() {
        let short = IntChain::full_period(DevicePtr::NULL, 5, Grid::new(1, 1));
        let long = IntChain { iterations: 6, ..short };
        assert_ne!(reference(0, &short), reference(1, &short));
        assert_ne!(reference(0, &short), reference(0, &long));
    }
}
