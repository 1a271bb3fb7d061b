//! Planted noise: a pure function of the seed and of what is drawn for.
//!
//! Each draw is the sum of twelve uniform numbers less six, which has mean 0 and variance 1 and,
//! unlike a logarithm, the same bits on every platform.

use crate::machine::Noise;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one step, used as a hash.
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A standard normal draw for `key`.
fn normal(key: u64) -> f64 {
    let mut sum = 0.0;
    let mut state = key;
    for _ in 0..12 {
        state = mix(state);
        sum += (state >> 11) as f64 / (1u64 << 53) as f64;
    }
    sum - 6.0
}

/// The factor by which one operation takes longer than it should.
#[must_use]
pub fn factor(noise: &Noise, seed: u64, stamp_ns: u64, operation: u64) -> f64 {
    let draw = |salt: u64, what: u64, sd: f64| {
        if sd == 0.0 {
            0.0
        } else {
            sd * normal(mix(seed ^ mix(salt)) ^ mix(what))
        }
    };
    let epoch = stamp_ns / (noise.epoch_ms.max(1) * 1_000_000);
    let sum =
        draw(1, operation, noise.request) + draw(2, epoch, noise.epoch) + draw(3, 0, noise.session);
    // Work never takes less than a tenth of its time, however unlikely the draw.
    (1.0 + sum).max(0.1)
}

#[cfg(test)]
mod tests {
    use super::factor;
    use crate::machine::Noise;

    #[test]
    fn the_spread_is_the_planted_one() {
        let noise = Noise {
            request: 0.02,
            epoch: 0.0,
            epoch_ms: 1,
            session: 0.0,
        };
        let draws: Vec<f64> = (0..20_000).map(|i| factor(&noise, 9, 0, i) - 1.0).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.0006, "{mean}");
        assert!(
            (variance.sqrt() - 0.02).abs() < 0.0005,
            "{}",
            variance.sqrt()
        );
    }

    #[test]
    fn no_noise_is_exactly_one_and_epochs_are_shared() {
        let none = Noise {
            request: 0.0,
            epoch: 0.0,
            epoch_ms: 1,
            session: 0.0,
        };
        assert_eq!(factor(&none, 1, 2, 3).to_bits(), 1.0f64.to_bits());
        let epochs = Noise {
            request: 0.0,
            epoch: 0.1,
            epoch_ms: 1,
            session: 0.0,
        };
        let at = |ns| factor(&epochs, 1, ns, ns).to_bits();
        assert_eq!(at(10), at(999_999));
        assert_ne!(at(10), at(1_000_000));
    }
}
