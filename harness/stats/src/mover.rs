//! The interval of a ratio of two independent estimates, from their intervals alone.
//!
//! MOVER-R (Newcombe, Stat. Methods Med. Res. 25(5), 2016): the method of variance estimates
//! recovery applied to `x - r * y = 0`. Intervals may be asymmetric, such as those of quantiles;
//! for two symmetric t intervals the result is Fieller's ([`crate::fieller`]).

use crate::estimate::{Estimate, NoEstimate};

/// The ratio `x / y`; `n` is that of `x`.
///
/// # Errors
/// [`NoEstimate::Unbounded`] unless the interval of `y` lies above 0 and ends below twice its
/// value, [`NoEstimate::Overflow`] when a bound leaves the range of the float.
pub fn ratio(x: Estimate, y: Estimate) -> Result<Estimate, NoEstimate> {
    if !(y.lo > 0.0 && y.hi < 2.0 * y.value) {
        let what = "the denominator of a ratio";
        return Err(NoEstimate::Unbounded { what });
    }
    let value = x.value / y.value;
    // Each end of x is combined with the end of y that moves the ratio in the same direction.
    let lo = end(x.value, x.lo, y.value, y.hi);
    let hi = end(x.value, x.hi, y.value, y.lo);
    Estimate::new(value, lo.min(value), hi.max(value), x.n)
}

/// The root of the quadratic at an end of `x` and an end of `y`.
fn end(x: f64, x_end: f64, y: f64, y_end: f64) -> f64 {
    let (of_x, of_y) = (x_end - x, y_end - y);
    if of_y == 0.0 {
        return x_end / y;
    }
    // (x y)^2 - x_end (2 x - x_end) y_end (2 y - y_end), expanded so that nothing large cancels.
    let spread = (x * of_y).powi(2) + (of_x * y).powi(2) - (of_x * of_y).powi(2);
    let root = spread.max(0.0).sqrt().copysign(-of_y);
    (x * y + root) / (y_end * (2.0 * y - y_end))
}

#[cfg(test)]
mod tests {
    use super::ratio;
    use crate::confidence::Confidence;
    use crate::effect::Effect;
    use crate::estimate::Estimate;
    use crate::fieller;

    const A: [f64; 6] = [0.61, 0.59, 0.60, 0.64, 0.62, 0.58];
    const B: [f64; 6] = [1.02, 0.97, 1.01, 1.05, 0.96, 0.99];

    fn of(values: &[f64]) -> Estimate {
        let mean = Effect::of_mean(values).unwrap();
        mean.interval(Confidence::P95).unwrap()
    }

    #[test]
    fn symmetric_intervals_give_that_of_fieller() {
        let found = ratio(of(&A), of(&B)).unwrap();
        let fieller = fieller::independent(&A, &B, Confidence::P95).unwrap();
        let fieller = fieller.bounded().unwrap();
        for (found, fieller) in [(found.lo, fieller.lo), (found.hi, fieller.hi)] {
            assert!((found - fieller).abs() < 1e-12, "{found} {fieller}");
        }
    }

    #[test]
    fn doubt_of_the_denominator_widens_and_none_leaves_the_interval() {
        let share = Estimate::new(0.5, 0.45, 0.6, 6).unwrap();
        let exact = Estimate::new(1.0, 1.0, 1.0, 6).unwrap();
        assert_eq!(ratio(share, exact), Ok(share));
        let doubtful = Estimate::new(1.0, 0.9, 1.1, 6).unwrap();
        let wide = ratio(share, doubtful).unwrap();
        assert!(wide.lo < 0.44 && wide.hi > 0.61, "{wide:?}");
        let only_below = ratio(exact, doubtful).unwrap();
        assert!((only_below.lo - 1.0 / 1.1).abs() < 1e-12, "{only_below:?}");
        assert!((only_below.hi - 1.0 / 0.9).abs() < 1e-12, "{only_below:?}");
        let nothing = Estimate::new(0.0, 0.0, 0.0, 6).unwrap();
        assert_eq!(ratio(nothing, doubtful), Ok(nothing));
    }

    #[test]
    fn a_denominator_that_may_be_zero_has_no_ratio() {
        let x = Estimate::new(0.5, 0.4, 0.6, 6).unwrap();
        for (value, lo, hi) in [(0.1, -0.1, 0.15), (0.0, 0.0, 0.0), (1.0, 0.5, 2.0)] {
            assert!(ratio(x, Estimate::new(value, lo, hi, 6).unwrap()).is_err());
        }
    }
}
