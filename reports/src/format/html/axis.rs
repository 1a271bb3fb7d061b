//! Axes: from values to shares of a chart, with ticks at round values.

/// How values become positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Even.
    Linear,
    /// Powers of ten are even; for positive values.
    Log,
    /// Shares below 1: 0.9, 0.99 and 0.999 are even, so that the tail is as wide as the rest.
    Tail,
    /// Linear around 0 up to this value, and logarithmic beyond.
    Around(f64),
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::Tail => -(1.0 - value).max(1e-12).log10(),
            Self::Around(unit) => (value / unit).asinh(),
        }
    }
}

/// One axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) lo: f64,
    pub(super) hi: f64,
    /// Values with their labels.
    pub(super) ticks: Vec<(f64, String)>,
    /// What it shows, with the unit; empty where the caption says it.
    pub(super) title: String,
}

impl Axis {
    /// An even axis over these values, with about `count` ticks at round values.
    pub(super) fn linear(values: impl Iterator<Item = f64>, count: f64, title: &str) -> Self {
        let (lo, hi) = ends(values).unwrap_or((0.0, 1.0));
        let step = round_step((hi - lo) / count);
        let first = (lo / step).floor();
        let last = (hi / step).ceil().max(first + 1.0);
        let decimals = usize::from(step < 1.0) + usize::from(step < 0.1) + usize::from(step < 0.01);
        let steps = (last - first) as usize;
        let ticks = (0..=steps).map(|index| {
            let value = (first + index as f64) * step;
            (value, format!("{:.decimals$}", value + 0.0))
        });
        Self {
            scale: Scale::Linear,
            lo: first * step,
            hi: last * step,
            ticks: ticks.collect(),
            title: title.to_owned(),
        }
    }

    /// An even axis from `lo` to `hi` exactly, with about `count` ticks at round values inside.
    pub(super) fn between(lo: f64, hi: f64, count: f64, title: &str) -> Self {
        let mut axis = Self::linear([lo, hi].into_iter(), count, title);
        axis.ticks.retain(|(value, _)| (lo..=hi).contains(value));
        Self { lo, hi, ..axis }
    }

    /// A logarithmic axis of times in ns, with ticks at 1, 2 and 5.
    pub(super) fn times(times_ns: impl Iterator<Item = f64>, title: &str) -> Self {
        let (lo, hi) = ends(times_ns.map(|ns| ns.max(1.0))).unwrap_or((1.0, 10.0));
        let (lo, hi) = (lo / 1.03, (hi * 1.03).max(lo * 1.6));
        let mut ticks = Vec::new();
        let steps: &[f64] = if hi / lo > 300.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        for decade in lo.log10().floor() as i32..=hi.log10().ceil() as i32 {
            for step in steps {
                let ns = step * 10f64.powi(decade);
                if (lo..=hi).contains(&ns) {
                    ticks.push((ns, time(ns)));
                }
            }
        }
        Self { scale: Scale::Log, lo, hi, ticks, title: title.to_owned() }
    }

    /// Shares of requests up to 0.999 and a little beyond.
    pub(super) fn tail(title: &str) -> Self {
        let ticks = [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")];
        Self {
            scale: Scale::Tail,
            lo: 0.0,
            hi: 0.9995,
            ticks: ticks.map(|(share, text)| (share, text.to_owned())).into(),
            title: title.to_owned(),
        }
    }

    /// The position of a value as a share of the axis; values beyond its ends are at the ends.
    pub(super) fn share(&self, value: f64) -> f64 {
        let [lo, hi, value] = [self.lo, self.hi, value].map(|value| self.scale.of(value));
        let share = (value - lo) / (hi - lo);
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }
}

/// The smallest and largest finite value.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((lo, hi)) => Some((value.min(lo), value.max(hi))),
    })
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let step = if step.is_finite() && step > 0.0 { step } else { 1.0 };
    let decade = 10f64.powf(step.log10().floor());
    let nice = [1.0, 2.0, 5.0].into_iter().find(|nice| nice * decade >= step);
    nice.unwrap_or(10.0) * decade
}

/// A round time in ns in its usual unit.
fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = units.into_iter().find(|(size, _)| ns >= 0.999 * size);
    let (size, unit) = unit.unwrap_or((1.0, "ns"));
    format!("{} {unit}", (ns / size * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::{Axis, Scale, time};

    #[test]
    fn a_tail_axis_gives_each_nine_the_same_space() {
        let axis = Axis::tail("");
        let at = [0.0, 0.9, 0.99, 0.999].map(|share| axis.share(share));
        let steps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9), "{steps:?}");
        assert!(axis.share(1.0) <= 1.0 && axis.share(1.0) > at[3]);
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        let axis = Axis::linear([0.0047, 1.02].into_iter(), 5.0, "");
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels, ["0.0", "0.5", "1.0", "1.5"]);
        let exact = Axis::between(0.0, 132.0, 6.0, "");
        assert_eq!(exact.ticks.last().map(|(value, _)| *value), Some(100.0));
        assert_eq!(exact.share(132.0), 1.0);
        let times = Axis::times([0.9e6, 12e6].into_iter(), "");
        let labels: Vec<&str> = times.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(labels, ["1 ms", "2 ms", "5 ms", "10 ms"]);
        assert_eq!([5.0, 2e3, 1e9].map(time), ["5 ns", "2 us", "1 s"]);
        let around = Axis { scale: Scale::Around(0.1), lo: -0.1, hi: 10.0, ..axis };
        assert!(around.share(f64::NAN) == 0.0 && around.share(f64::INFINITY) == 1.0);
    }
}
