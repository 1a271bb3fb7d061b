//! The exponential ziggurat in the very order of draws in which NumPy makes it.
//!
//! One word decides nearly always: 8 bits choose the layer, 53 bits the place in it. Otherwise the
//! tail (layer 0) or the wedge under the curve needs a second, and a rejected wedge starts afresh.

use super::Stream;
use super::ziggurat_tables::{ACCEPT_BELOW, HEIGHT_BITS, RIGHT_EDGE_BITS, WIDTH_BITS};

/// An exponential number with mean one, as `Generator.standard_exponential()`.
#[inline]
pub(super) fn standard_exponential<S: Stream>(stream: &mut S) -> f64 {
    loop {
        let word = stream.next_bits() >> 3;
        let layer = (word & 0xFF) as usize;
        let place = word >> 8;
        let x = place as f64 * f64::from_bits(WIDTH_BITS[layer]);
        if place < ACCEPT_BELOW[layer] {
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
