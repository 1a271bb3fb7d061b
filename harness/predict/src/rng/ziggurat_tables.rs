//! Tables of the exponential ziggurat, computed when this file is compiled.
//!
//! Marsaglia and Tsang, "The Ziggurat Method for Generating Random Variables", Journal of
//! Statistical Software 5 (2000), section 3: every layer has the same area, the base layer holds
//! the tail beyond the right edge, and with that edge the layers close at x = 0. Everything is in
//! whole numbers of 2^-120 and rounded once.

const LAYERS: usize = 256;
const ONE: u128 = 1 << 120;
/// The right edge of the base layer, 7.697: with it the layers close.
const RIGHT: u128 = 0x07b2_764a_5fae_e0a5_e14b_5e26_4aea_4d11;
/// Where the tail begins.
pub(super) const RIGHT_EDGE: f64 = rounded(RIGHT);
pub(super) static TABLES: Tables = Tables::new();

/// Figures of each layer: the base layer first, then from the narrowest to the widest.
pub(super) struct Tables {
    /// A 53-bit draw under this bound lies inside the next narrower layer: accepted at once. It
    /// has 52 bits of the ratio and an empty lowest bit, as in NumPy; with a 53rd bit a draw in
    /// 2^53 would differ.
    pub accept_below: [u64; LAYERS],
    /// Layer width over 2^53.
    pub width: [f64; LAYERS],
    /// Density at the layer's edge.
    pub height: [f64; LAYERS],
}

impl Tables {
    const fn new() -> Self {
        let mut edges = [0; LAYERS];
        edges[LAYERS - 1] = RIGHT;
        // The base layer is a rectangle of this width and the density at the right edge.
        let base = RIGHT + ONE;
        let area = times(base, density(RIGHT));
        let mut layer = LAYERS - 1;
        while layer > 1 {
            let edge = edges[layer];
            edges[layer - 1] = edge_at(over(area, edge) + density(edge), edge);
            layer -= 1;
        }
        let mut tables =
            Self { accept_below: [0; LAYERS], width: [0.0; LAYERS], height: [1.0; LAYERS] };
        tables.accept_below[0] = bound(RIGHT, base);
        tables.width[0] = rounded(base) / (1_u64 << 53) as f64;
        while layer < LAYERS {
            tables.accept_below[layer] = bound(edges[layer - 1], edges[layer]);
            tables.width[layer] = rounded(edges[layer]) / (1_u64 << 53) as f64;
            tables.height[layer] = rounded(density(edges[layer]));
            layer += 1;
        }
        tables
    }
}

/// The bound of a layer above which a narrower one lies.
const fn bound(narrower: u128, wider: u128) -> u64 {
    2 * (over(narrower, wider) >> 68) as u64
}

const fn rounded(value: u128) -> f64 {
    value as f64 / ONE as f64
}

/// The product of two numbers below 16.
const fn times(a: u128, b: u128) -> u128 {
    let ([a_high, b_high], [a_low, b_low]) =
        ([a >> 64, b >> 64], [a & u64::MAX as u128, b & u64::MAX as u128]);
    ((a_high * b_high) << 8) + ((a_high * b_low + a_low * b_high) >> 56) + ((a_low * b_low) >> 120)
}

/// A quotient below 1, to which each step adds the 50 bits that floats have of its rest.
const fn over(a: u128, b: u128) -> u128 {
    let (mut quotient, mut step) = (0_u128, 0);
    while step < 4 {
        let rest = a.cast_signed() - times(quotient, b).cast_signed();
        quotient = quotient.wrapping_add_signed((rest as f64 / b as f64 * ONE as f64) as i128);
        step += 1;
    }
    quotient
}

/// exp(-x): the series for x / 256, squared eight times.
const fn density(x: u128) -> u128 {
    let (mut sum, mut term, mut n) = (0, ONE, 0);
    while term > 0 {
        sum = if n % 2 == 0 { sum + term } else { sum - term };
        n += 1;
        term = times(term, x >> 8) / n;
    }
    let mut squared = 0;
    while squared < 8 {
        sum = times(sum, sum);
        squared += 1;
    }
    sum
}

/// Where the density has this height, left of a known edge, by Newton's method.
const fn edge_at(height: u128, known: u128) -> u128 {
    let (mut x, mut step) = (known, 0);
    while step < 8 {
        let miss = density(x).cast_signed() - height.cast_signed();
        x = x.wrapping_add_signed((miss as f64 / height as f64 * ONE as f64) as i128);
        step += 1;
    }
    x
}
