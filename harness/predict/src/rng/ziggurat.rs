//! The exponential ziggurat, with the draws in the order of NumPy.
//!
//! About 99 % of the numbers need one word: 8 bits choose the layer, 53 bits the position in it.
//! The tail (layer 0) and the wedge under the curve need a second one; a rejected wedge starts
//! again.

use super::Stream;
use super::ziggurat_tables::{ACCEPT_BELOW, HEIGHT_BITS, RIGHT_EDGE_BITS, WIDTH_BITS};

/// An exponential number with mean one, as `Generator.standard_exponential()`.
#[inline]
pub(super) fn standard_exponential<S: Stream>(stream: &mut S) -> f64 {
    loop {
        let word = stream.next_bits() >> 3;
        let layer = (word & 0xFF) as usize;
        let position = word >> 8;
        let x = position as f64 * f64::from_bits(WIDTH_BITS[layer]);
        if position < ACCEPT_BELOW[layer] {
            return x;
        }
        if let Some(x) = unlikely(stream, layer, x) {
            return x;
        }
    }
}

#[cold]
fn unlikely<S: Stream>(stream: &mut S, layer: usize, x: f64) -> Option<f64> {
    if layer == 0 {
        // log1p(-u) of u in [0, 1) is finite; log(u) would not be at zero.
        return Some(f64::from_bits(RIGHT_EDGE_BITS) - (-stream.uniform()).ln_1p());
    }
    let low = f64::from_bits(HEIGHT_BITS[layer]);
    let high = f64::from_bits(HEIGHT_BITS[layer - 1]);
    ((high - low) * stream.uniform() + low < (-x).exp()).then_some(x)
}
