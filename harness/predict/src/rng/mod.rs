//! Random streams: NumPy's, equal to the last bit, and a faster one.

mod fast;
mod pcg64;
mod seed_sequence;
mod ziggurat;
mod ziggurat_tables;

pub use fast::FastRng;
pub use pcg64::Pcg64;
pub use seed_sequence::SeedSequence;

use serde::{Deserialize, Serialize};

/// Which generator draws the arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RngKind {
    /// NumPy's `default_rng(seed)`: a NumPy program gives the same figures.
    Numpy,
    /// xoshiro256++, for speed: the same distributions with other draws.
    #[default]
    Fast,
}

/// A source of 64 uniform bits, and the draws of the models.
pub trait Stream {
    /// The next 64 uniform bits.
    fn next_bits(&mut self) -> u64;

    /// A uniform number in [0, 1) with 53 bits, as in NumPy.
    fn uniform(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// An exponential number with mean one.
    fn standard_exponential(&mut self) -> f64
    where
        Self: Sized,
    {
        ziggurat::standard_exponential(self)
    }

    /// A normal number with mean zero and variance one (Box and Muller 1958; one of the pair).
    fn standard_normal(&mut self) -> f64
    where
        Self: Sized,
    {
        // 1 - u lies in (0, 1], so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
