//! Chains of dependent arithmetic: single and double precision, integers, a mix of both, tensor
//! cores.

use std::fmt::Debug;

use crate::driver::{DevicePtr, Grid, Pod};
use crate::kernel::Cost;
use crate::kernel_set::{KernelSet, Launcher};
use crate::verify::{Check, VerifyError};

/// Floating-point chains of each thread.
const REAL_CHAINS: u32 = 8;

/// The chains of one precision: the launch, its check and the host's result.
macro_rules! real_chain {
    (
        $chain:ident, $real:ident, $steps:literal, $flops:ident, $name:literal, $verify:ident,
        $reference:ident
    ) => {
        /// Runs eight chains of multiply-adds in every thread.
        #[derive(Debug, Clone, Copy)]
        pub struct $chain {
            /// One number per thread.
            pub out: DevicePtr,
            #[doc = concat!("Iterations of ", $steps, " steps, each a multiply-add of each chain.")]
            pub iterations: u32,
            /// x becomes x * mul + add.
            pub mul: $real,
            /// The summand of `mul`.
            pub add: $real,
            pub grid: Grid,
        }

        impl $chain {
            /// A factor and a summand that keep the values between zero and a thousand for any
            /// length.
            pub const fn bounded(out: DevicePtr, iterations: u32, grid: Grid) -> Self {
                Self { out, iterations, mul: 0.999_755_86, add: 0.125, grid }
            }
        }

        launcher! {
            $chain(self), self.grid,
            [ptr self.out, u32 self.iterations, $real self.mul, $real self.add] => {
                let steps = self.grid.total_threads() * u64::from(self.iterations) * $steps;
                Cost { $flops: 2 * steps * u64::from(REAL_CHAINS), ..Cost::default() }
            }
        }

        /// Equal to the host's bits: an FMA rounds once in IEEE 754 on any processor.
        pub fn $verify(kernels: &KernelSet) -> Result<(), VerifyError> {
            let bits = |thread, launch: &$chain| $reference(thread, launch).to_bits();
            verify_chains($name, kernels, &[0, 37], $chain::bounded, bits)
        }

        fn $reference(thread_in_block: u32, launch: &$chain) -> $real {
            let steps = u64::from(launch.iterations) * $steps;
            let chain = |number: u32| {
                let first = (thread_in_block + number) as $real;
                (0..steps).fold(first, |x, _| x.mul_add(launch.mul, launch.add))
            };
            (1..REAL_CHAINS).map(chain).fold(chain(0), |sum, chain| sum + chain)
        }
    };
}

real_chain!(Fp32Chain, f32, 32, fp32_flops, "fp32_chain", verify_fp32_chain, fp32_reference);
real_chain!(Fp64Chain, f64, 4, fp64_flops, "fp64_chain", verify_fp64_chain, fp64_reference);

/// Checks that every thread has the host's result, for each number of iterations.
fn verify_chains<T: Pod + PartialEq + Debug, L: Launcher>(
    name: &'static str,
    kernels: &KernelSet,
    lengths: &[u32],
    launch: impl Fn(DevicePtr, u32, Grid) -> L,
    expected: impl Fn(u32, &L) -> T,
) -> Result<(), VerifyError> {
    let check = Check::new(name, kernels)?;
    let grid = Grid::new(3, 64);
    let threads = grid.total_threads() as u32;
    for &iterations in lengths {
        let out = check.zeros::<T>(threads as usize)?;
        let launch = launch(out.device_ptr(), iterations, grid);
        check.run(&launch)?;
        let all = (0..threads).map(|thread| expected(thread % grid.threads, &launch));
        check.same_slice("results", &out.to_vec()?, &all.collect::<Vec<T>>())?;
    }
    Ok(())
}

const INT_CHAINS: u32 = 8;
/// Steps of each chain in one iteration.
const INT_STEPS: u64 = 4;

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
    pub grid: Grid,
}

impl IntChain {
    /// The constants of a full-period generator (Numerical Recipes, 3rd edition, 7.1).
    pub const fn full_period(out: DevicePtr, iterations: u32, grid: Grid) -> Self {
        Self { out, iterations, mul: 1_664_525, add: 1_013_904_223, grid }
    }
}

launcher! {
    IntChain(self), self.grid, [ptr self.out, u32 self.iterations, u32 self.mul, u32 self.add] => {
        let steps = self.grid.total_threads() * u64::from(self.iterations) * INT_STEPS;
        Cost { int_ops: 2 * steps * u64::from(INT_CHAINS), ..Cost::default() }
    }
}

/// Equal to the host's results.
pub fn verify_int_chain(kernels: &KernelSet) -> Result<(), VerifyError> {
    verify_chains("int_chain", kernels, &[0, 41], IntChain::full_period, int_reference)
}

fn int_reference(thread_in_block: u32, launch: &IntChain) -> u32 {
    let step = |x: u32| x.wrapping_mul(launch.mul).wrapping_add(launch.add);
    let steps = u64::from(launch.iterations) * INT_STEPS;
    let chain = |number| (0..steps).fold(thread_in_block + number, |x, _| step(x));
    (0..INT_CHAINS).map(chain).fold(0, u32::wrapping_add)
}

/// Floating-point chains of each thread.
const MIX_REAL_CHAINS: u32 = 4;
/// Integer chains of each thread, two instructions a step.
const BIT_CHAINS: u32 = 2;
const MIX_STEPS: u64 = 4;

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
    pub grid: Grid,
}

impl IssueMix {
    /// Constants with which the values neither grow without bound nor become constant.
    pub const fn bounded(out: DevicePtr, iterations: u32, grid: Grid) -> Self {
        Self { out, iterations, mul: 0.999_755_86, add: 0.125, key: 0xa5a5_5a5a, grid }
    }
}

launcher! {
    IssueMix(self), self.grid,
    [ptr self.out, u32 self.iterations, f32 self.mul, f32 self.add, u32 self.key] => {
        let steps = self.grid.total_threads() * u64::from(self.iterations) * MIX_STEPS;
        Cost {
            fp32_flops: 2 * steps * u64::from(MIX_REAL_CHAINS),
            int_ops: 2 * steps * u64::from(BIT_CHAINS),
            ..Cost::default()
        }
    }
}

/// Equal to the host's bits.
pub fn verify_issue_mix(kernels: &KernelSet) -> Result<(), VerifyError> {
    verify_chains("issue_mix", kernels, &[0, 1, 37], IssueMix::bounded, mix_reference)
}

fn mix_reference(thread_in_block: u32, launch: &IssueMix) -> u32 {
    let steps = u64::from(launch.iterations) * MIX_STEPS;
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

/// Products per warp in one iteration.
const TENSOR_CHAINS: u64 = 4;
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
    pub a: Half,
    pub b: Half,
    /// The launch shape, in whole warps.
    pub grid: Grid,
}

launcher! {
    TensorChain(self), self.grid,
    [ptr self.out, u32 self.iterations, u32 self.a.pair(), u32 self.b.pair()] => {
        let warps = u64::from(self.grid.blocks) * u64::from(self.grid.threads / 32);
        let tensor_flops = warps * u64::from(self.iterations) * TENSOR_CHAINS * FLOPS;
        Cost { tensor_flops, ..Cost::default() }
    }
}

/// Exact: every sum is a small multiple of a power of two.
pub fn verify_tensor_chain(kernels: &KernelSet) -> Result<(), VerifyError> {
    let check = Check::new("tensor_chain", kernels)?;
    let grid = Grid::new(2, 64);
    let (a, b) = (Half::ONE_AND_A_HALF, Half::QUARTER);
    for iterations in [0_u32, 5] {
        let out = check.zeros::<f32>(grid.total_threads() as usize)?;
        check.run(&TensorChain { out: out.device_ptr(), iterations, a, b, grid })?;
        // A thread holds 8 cells of each chain; chain c starts at c and grows by 16 * 1.5 * 0.25.
        let cell = |chain: u32| chain as f32 + iterations as f32 * 16.0 * 1.5 * 0.25;
        let expected: f32 = (0..TENSOR_CHAINS as u32).map(|chain| 8.0 * cell(chain)).sum();
        let expected = vec![expected; grid.total_threads() as usize];
        check.same_slice("sums", &out.to_vec()?, &expected)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    const NULL: DevicePtr = DevicePtr::NULL;

    fn count(kernel: Kernel, instruction: &str) -> u64 {
        kernel.info().ptx.matches(instruction).count() as u64
    }

    #[test]
    fn the_costs_count_what_the_ptx_holds() {
        let one = Grid::new(1, 1);
        let fp32 = Fp32Chain::bounded(NULL, 1, one);
        assert_eq!(fp32.cost().fp32_flops, 2 * count(Kernel::Fp32Chain, "fma.rn.f32"));
        let many = Fp32Chain::bounded(NULL, 1 << 31, Grid::new(1 << 10, 1 << 10));
        assert_eq!(many.cost().fp32_flops, 512 << 51);
        let fp64 = Fp64Chain::bounded(NULL, 1, one);
        assert_eq!(fp64.cost().fp64_flops, 2 * count(Kernel::Fp64Chain, "fma.rn.f64"));
        assert_eq!(fp64.args().sizes(), [8, 4, 8, 8]);
        // One more computes the index of the thread.
        let int = IntChain::full_period(NULL, 1, one);
        assert_eq!(int.cost().int_ops, 2 * (count(Kernel::IntChain, "mad.lo.s32") - 1));
        // Two of the exclusive ors combine the results; every right shift is in the loop.
        let (mix, shifts) = (IssueMix::bounded(NULL, 1, one), count(Kernel::IssueMix, "shr.u32"));
        assert_eq!(mix.cost().fp32_flops, 2 * count(Kernel::IssueMix, "fma.rn.f32"));
        assert_eq!(mix.cost().int_ops, 2 * shifts);
        assert_eq!(shifts + 2, count(Kernel::IssueMix, "xor.b32"));
        let (a, b, grid) = (Half::SMALL, Half::SMALL, Grid::new(1, 32));
        let tensor = TensorChain { out: NULL, iterations: 1, a, b, grid };
        let in_loop = count(Kernel::TensorChain, "wmma.mma.sync");
        assert_eq!(tensor.cost().tensor_flops, in_loop * FLOPS);
        assert_eq!(Half(0x1234).pair(), 0x1234_1234);
    }

    /// Two threads, and one thread with another iteration.
    fn differ<T: PartialEq + Debug>(result: impl Fn(u32, u32) -> T) {
        assert_ne!(result(0, 37), result(1, 37));
        assert_ne!(result(0, 37), result(0, 38));
    }

    #[test]
    fn results_differ_between_threads_and_lengths() {
        let grid = Grid::new(1, 1);
        differ(|thread, length| fp32_reference(thread, &Fp32Chain::bounded(NULL, length, grid)));
        differ(|thread, length| fp64_reference(thread, &Fp64Chain::bounded(NULL, length, grid)));
        differ(|thread, length| int_reference(thread, &IntChain::full_period(NULL, length, grid)));
        differ(|thread, length| mix_reference(thread, &IssueMix::bounded(NULL, length, grid)));
        let forever = Fp32Chain::bounded(NULL, 100_000, grid);
        assert!((0.0..8_000.0).contains(&fp32_reference(63, &forever)));
    }
}
