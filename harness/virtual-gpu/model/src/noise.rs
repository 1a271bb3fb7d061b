//! Planted noise: a pure function of the seed and of the item it is drawn for.
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

fn normal(key: u64) -> f64 {
    let mut sum = 0.0;
    let mut state = key;
    for _ in 0..12 {
        state = mix(state);
        sum += (state >> 11) as f64 / (1u64 << 53) as f64;
    }
    sum - 6.0
}

/// What the noise applies to: each kind has independent draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Request = 1,
    /// All work of an epoch.
    Epoch = 2,
    /// All work of the session.
    Session = 3,
    /// The host time of one driver call.
    Call = 4,
    Slice = 5,
    /// The gap before one time slice.
    Gap = 6,
    /// The duration of one recovery.
    Recovery = 7,
    /// Whether one fault reaches one context.
    Escape = 8,
    Notice = 9,
}

const fn key(seed: u64, kind: Kind, what: u64) -> u64 {
    mix(seed ^ mix(kind as u64)) ^ mix(what)
}

fn draw(sd: f64, seed: u64, kind: Kind, what: u64) -> f64 {
    if sd == 0.0 { 0.0 } else { sd * normal(key(seed, kind, what)) }
}

/// Work takes at least a tenth of its time, however unlikely the draw.
fn at_least(factor: f64) -> f64 {
    factor.max(0.1)
}

pub fn factor(noise: &Noise, seed: u64, stamp_ns: u64, operation: u64) -> f64 {
    let epoch = stamp_ns / (noise.epoch_ms.max(1) * 1_000_000);
    let sum = draw(noise.request, seed, Kind::Request, operation)
        + draw(noise.epoch, seed, Kind::Epoch, epoch)
        + draw(noise.session, seed, Kind::Session, 0);
    at_least(1.0 + sum + warm_up(noise, stamp_ns))
}

/// What is left of the slow start of a device at an instant.
fn warm_up(noise: &Noise, stamp_ns: u64) -> f64 {
    let left = 1.0 - stamp_ns as f64 / (noise.warm_up_s.max(1) as f64 * 1e9);
    noise.warm_up * left.max(0.0)
}

/// A time with noise; `what` selects the draw.
pub fn spread_ns(mean_ns: u64, sd: f64, seed: u64, kind: Kind, what: u64) -> u64 {
    if sd == 0.0 {
        return mean_ns;
    }
    let factor = at_least(1.0 + draw(sd, seed, kind, what));
    (mean_ns as f64 * factor).round() as u64
}

/// A time with these 5 %, 50 % and 95 % points; `what` selects the draw. The distribution is
/// uniform between the points, and beyond them up to the ends of the lines through them.
pub fn between_ns(points_ns: [u64; 3], seed: u64, kind: Kind, what: u64) -> u64 {
    let [low, middle, high] = points_ns.map(|ns| ns as f64);
    // From 0.5 below the median to 0.5 above it; 0.45 of it is one side's point.
    let off = uniform(key(seed, kind, what)) - 0.5;
    let side = if off < 0.0 { middle - low } else { high - middle };
    (middle + side * off / 0.45).round().max(0.0) as u64
}

/// Whether an event with this probability happens; `what` selects the draw.
pub fn happens(chance: f64, seed: u64, kind: Kind, what: u64) -> bool {
    uniform(key(seed, kind, what)) < chance
}

/// A number from 0 to 1.
fn uniform(key: u64) -> f64 {
    (mix(key) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::{Kind, between_ns, factor, happens, spread_ns};
    use crate::machine::Noise;

    #[test]
    fn the_standard_deviation_is_the_planted_one() {
        let noise = Noise { request: 0.02, ..Noise::default() };
        let draws: Vec<f64> = (0..20_000).map(|i| factor(&noise, 9, 0, i) - 1.0).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.0006, "{mean}");
        assert!((variance.sqrt() - 0.02).abs() < 0.0005, "{}", variance.sqrt());
    }

    #[test]
    fn without_noise_the_factor_is_one_and_an_epoch_has_one_draw() {
        let none = Noise::default();
        assert_eq!(factor(&none, 1, 2, 3).to_bits(), 1.0f64.to_bits());
        let warming = Noise { warm_up: 0.1, warm_up_s: 60, ..Noise::default() };
        for (second, want) in [(0, 1.1), (30, 1.05), (60, 1.0), (600, 1.0)] {
            let found = factor(&warming, 1, second * 1_000_000_000, 3);
            assert!((found - want).abs() < 1e-12, "{second} s: {found}");
        }
        let epochs = Noise { epoch: 0.1, epoch_ms: 1, ..Noise::default() };
        let at = |ns| factor(&epochs, 1, ns, ns).to_bits();
        assert_eq!(at(10), at(999_999));
        assert_ne!(at(10), at(1_000_000));
    }

    #[test]
    fn kinds_have_their_own_draws_and_events_their_probability() {
        let time = |kind, what| spread_ns(1_000_000, 0.05, 4, kind, what) as f64;
        let times: Vec<f64> = (0..10_000).map(|what| time(Kind::Slice, what)).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / times.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.002, "{mean}");
        assert!((variance.sqrt() / 5e4 - 1.0).abs() < 0.05, "{}", variance.sqrt());
        assert_ne!(time(Kind::Slice, 1), time(Kind::Gap, 1));
        assert_eq!(spread_ns(7, 0.0, 1, Kind::Slice, 1), 7, "no noise, no change");
        let often = (0..10_000).filter(|&what| happens(0.3, 4, Kind::Escape, what)).count();
        assert!((2_850..=3_150).contains(&often), "{often}");
        assert!(!happens(0.0, 4, Kind::Escape, 1) && happens(1.0, 4, Kind::Escape, 1));
    }

    #[test]
    fn a_time_between_points_has_them_as_its_quantiles() {
        let points = [39_000_000, 143_000_000, 770_000_000];
        let time = |what| between_ns(points, 4, Kind::Notice, what);
        let mut times: Vec<u64> = (0..10_000).map(time).collect();
        times.sort_unstable();
        for (at, want) in [(500, points[0]), (5_000, points[1]), (9_500, points[2])] {
            let off = times[at].abs_diff(want) as f64 / want as f64;
            assert!(off < 0.05, "{at}: {} {want}", times[at]);
        }
        assert_eq!(between_ns([0; 3], 4, Kind::Notice, 1), 0);
        assert_eq!(between_ns([7; 3], 4, Kind::Notice, 1), 7, "one observation");
    }
}
