//! Self-starting CUSUM: an alarm for a series whose mean and spread are not known beforehand.
//!
//! Hawkins, "Self-starting CUSUM charts for location and scale", The Statistician 36(4), 1987: each
//! value is standardised by the mean and the deviation of those before it, and Student's t becomes
//! normal. Values of a quiet series are then independent and standard normal from the third on, so
//! a chart needs no baseline period, and no baseline that is a little off raises alarms for ever.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::estimate::{NoEstimate, require_series};
use crate::moments::moments;
use crate::student_t::two_sided_p;

/// Half of the smallest shift that the chart is tuned to, in standard deviations.
pub const ALLOWANCE: f64 = 0.5;
/// The sum at which it alarms. In 20,000 simulated quiet series of 60 values 0.5 % reach it, and
/// 1.4 % reach 7; the test below repeats a part of the simulation.
pub const DECISION: f64 = 8.0;

/// Which way a series went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Its values rose.
    Up,
    /// They fell.
    Down,
}

/// The first alarm of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// Position of the value that raised it, counted from 0.
    pub at: usize,
    /// Which way the series went.
    pub direction: Direction,
}

/// The first alarm; `None` for a quiet series, and for one of under three values.
///
/// Before the third value there is no deviation. Values equal to all before them count as 0, and a
/// first different one after equal ones as the largest score.
///
/// # Errors
/// [`NoEstimate::NotFinite`] for a bad value.
pub fn first_alarm(values: &[f64]) -> Result<Option<Alarm>, NoEstimate> {
    require_series("values", values, 0)?;
    let (mut up, mut down) = (0.0_f64, 0.0_f64);
    for at in 2..values.len() {
        let score = score(&values[..at], values[at])?;
        up = (up + score - ALLOWANCE).max(0.0);
        down = (down - score - ALLOWANCE).max(0.0);
        let direction = if up >= DECISION {
            Direction::Up
        } else if down >= DECISION {
            Direction::Down
        } else {
            continue;
        };
        return Ok(Some(Alarm { at, direction }));
    }
    Ok(None)
}

/// The normal score of a value after those before it.
fn score(before: &[f64], value: f64) -> Result<f64, NoEstimate> {
    let known = moments(before)?;
    let n = f64::from(known.n);
    let distance = value - known.mean;
    if distance == 0.0 {
        return Ok(0.0);
    }
    // The deviation of a prediction. Without spread the quotient is infinite, and p is 0.
    let t = distance / (known.sd * (1.0 + 1.0 / n).sqrt());
    let tail = (two_sided_p(t, n - 1.0)? / 2.0).max(f64::MIN_POSITIVE);
    Ok(-Normal::standard().inverse_cdf(tail) * distance.signum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleRng;

    fn normal(rng: &mut ScheduleRng) -> f64 {
        (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
    }

    #[test]
    fn at_most_one_quiet_series_in_a_hundred_alarms() {
        let mut rng = ScheduleRng::new(1);
        let alarms = (0..1000)
            .filter(|_| {
                let series: Vec<f64> = (0..60).map(|_| 5.0 + 0.01 * normal(&mut rng)).collect();
                first_alarm(&series).unwrap().is_some()
            })
            .count();
        assert!(alarms <= 10, "{alarms} of 1000");
    }

    #[test]
    fn a_step_of_three_deviations_alarms_within_a_few_values() {
        let mut rng = ScheduleRng::new(2);
        let mut late = 0;
        for _ in 0..200 {
            let series: Vec<f64> =
                (0..60).map(|at| normal(&mut rng) - if at < 30 { 0.0 } else { 3.0 }).collect();
            let alarm = first_alarm(&series).unwrap();
            let is_soon =
                alarm.is_some_and(|a| (30..38).contains(&a.at) && a.direction == Direction::Down);
            late += u32::from(!is_soon);
        }
        assert!(late <= 10, "{late} of 200");
    }

    #[test]
    fn constant_series_are_quiet_and_short_ones_have_no_alarm() {
        assert_eq!(first_alarm(&[1.0; 20]).unwrap(), None);
        assert_eq!(first_alarm(&[1.0, 9.0]).unwrap(), None);
        assert_eq!(first_alarm(&[]).unwrap(), None);
        let stepped = [1.0, 1.0, 1.0, 2.0];
        let alarm = first_alarm(&stepped).unwrap().unwrap();
        assert_eq!((alarm.at, alarm.direction), (3, Direction::Up));
        assert!(first_alarm(&[1.0, f64::NAN, 1.0]).is_err());
    }

    /// `scipy.stats.norm.isf(scipy.stats.t.sf(t, 3))` with mean and deviation of 1 to 4.
    #[test]
    fn scores_equal_scipy() {
        let actual = score(&[1.0, 2.0, 3.0, 4.0], 6.0).unwrap();
        assert!((actual - SCORE).abs() < 1e-8, "{actual}");
        assert!((score(&[1.0, 2.0, 3.0, 4.0], -1.0).unwrap() + SCORE).abs() < 1e-8);
    }

    const SCORE: f64 = 1.675_893_065_906_225_9;
}
