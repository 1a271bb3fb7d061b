//! Coarse grids for values that no figure of the device gives: two measurements of one device that
//! differ by noise nearly always give the same value.

use super::fit::rounded;
use crate::load::Knob;

/// Ratio of neighbouring values: half a step is well within the tolerance of a length.
const STEP: f64 = 1.104;

/// Smaller values, in granules, are apart as far as the steps of the grid.
const GRANULES_MIN: u64 = 10;

/// A host link with 16 lanes of the third generation carries 12.8e9 bytes/s, and each generation
/// twice as much as the one before. Half a doubling is far from every full-width link.
const LINK_PER_S: f64 = 12.8e9;
const LINKS_PER_DOUBLING: f64 = 2.0;

/// The part of the rounded rate that keeps a victim within 0.95 of its share of the measured one.
const LINK_USED: f64 = 0.8;

/// The value of the grid around `centre` that is nearest to a measured value.
pub(super) fn nearest(value: u64, centre: u64, knob: Knob) -> u64 {
    if value < GRANULES_MIN * knob.granule {
        return value;
    }
    let centre = centre.max(1) as f64;
    let steps = (value as f64 / centre).ln() / STEP.ln();
    rounded(centre * STEP.powf(steps.round()), knob.granule, knob.max)
}

/// The largest number of blocks on the grid below `most` that is at most the wanted one, and at
/// least 1.
pub(super) fn at_most(wanted: f64, most: u64) -> u64 {
    let steps = (most as f64 / wanted.max(1.0)).ln() / STEP.ln();
    // Truncation gives fewer blocks.
    ((most as f64 * STEP.powf(-steps.ceil())) as u64).max(1)
}

/// Bytes per second over the host link that a victim with the whole link as its share uses.
pub(super) fn link_per_s(measured_per_s: f64) -> f64 {
    let doublings = (measured_per_s / LINK_PER_S).log2();
    let rounded = (doublings * LINKS_PER_DOUBLING).round() / LINKS_PER_DOUBLING;
    LINK_USED * LINK_PER_S * rounded.exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOB: Knob = Knob { param: "iterations", granule: 1, max: 1 << 40 };

    #[test]
    fn noise_does_not_change_a_value_near_a_point_of_the_grid() {
        for centre in [1_000, 12_269] {
            for k in -9..9 {
                let point = (f64::from(centre) * STEP.powi(k)).round();
                for noise in [0.96, 0.98, 1.0, 1.02, 1.04] {
                    let value = (point * noise).round() as u64;
                    assert_eq!(nearest(value, centre as u64, KNOB), point as u64);
                }
            }
        }
        // Whole steps are apart as far.
        assert_eq!(nearest(7, 1_000, KNOB), 7);
    }

    #[test]
    fn blocks_are_at_most_as_many_as_wanted() {
        for most in [1, 7, 56] {
            for wanted in 1..=most {
                let blocks = at_most(wanted as f64, most);
                assert!(blocks <= wanted && blocks as f64 > wanted as f64 / STEP - 1.0);
            }
        }
    }

    #[test]
    fn links_of_one_generation_have_one_rate_within_the_share() {
        for (generation, rates) in [(0, [11.5e9, 12.0e9, 13.2e9]), (2, [46e9, 50.8e9, 56e9])] {
            let used = LINK_USED * LINK_PER_S * f64::from(generation).exp2();
            for measured in rates {
                assert_eq!(link_per_s(measured), used);
                assert!((0.65..=0.95).contains(&(used / measured)));
            }
        }
    }
}
