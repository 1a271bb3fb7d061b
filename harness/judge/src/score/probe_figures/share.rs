//! The share of the device's arithmetic that a tenant got, in windows of several lengths.

use gpubench_record::WorkSeries;
use gpubench_stats::serial::{self, Dependence};
use gpubench_stats::{Confidence, Effect, Estimate, NoEstimate, ratio};

use super::{Out, span};
use crate::figures::printed;

const EXPLAINS: &str = "compute/sm";

/// Quantile of the upper figure: one window in twenty has more.
const UPPER: f64 = 0.95;

/// Parts of the full-device baseline whose spread gives its interval: long parts hardly depend on
/// each other, as batch means.
const PARTS: usize = 6;

/// The full-device baseline, the denominator of every share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Baseline {
    /// Work in a nanosecond, in thousandths of a request.
    pub per_ns: f64,
    relative: Estimate,
}

impl Baseline {
    /// The baseline of a series; `None` where it is too short for an interval.
    pub(super) fn of(series: &WorkSeries) -> Option<Self> {
        let windows = &series.milli_requests;
        let parts = windows.chunks_exact((windows.len() / PARTS).max(1));
        let parts: Vec<f64> = parts.map(work).collect();
        let watched_ns = series.window_ns as f64 * windows.len() as f64;
        Some(Self { per_ns: work(windows) / watched_ns, relative: relative(&parts)? })
    }
}

fn work(windows: &[u32]) -> f64 {
    windows.iter().map(|&work| f64::from(work)).sum()
}

/// The mean of positive values with its interval, over the mean.
pub(super) fn relative(values: &[f64]) -> Option<Estimate> {
    let mean = Effect::of_mean(values).ok()?;
    let found = mean.interval(Confidence::P95).ok()?;
    let over = |figure: f64| figure / mean.value;
    (mean.value > 0.0).then(|| found.map_increasing(over).ok())?
}

/// For each situation and length of window: the median share, and the share that 95 % of windows do
/// not exceed.
pub(super) fn figures(
    out: &mut Out<'_>,
    baseline: Option<Baseline>,
    configured: Option<f64>,
    windows_ns: &[u64],
    situations: [(&str, &WorkSeries); 2],
) {
    // Without the full-device baseline there are no shares.
    let Some(baseline) = baseline else {
        return;
    };
    let beside = configured.map_or_else(
        || "no share is configured".to_owned(),
        |share| format!("{share:.3} is configured"),
    );
    for (situation, series) in situations {
        let mut finer = [None; 2];
        for &window_ns in windows_ns {
            let shares = shares(series, window_ns, baseline.per_ns);
            let name = format!("SM share over {}, {situation}", span(window_ns));
            let median = format!("{name} ({beside})");
            let upper = format!("{name}, 95 % of windows below");
            for ((figure, p), finer) in [(median, 0.5), (upper, UPPER)].iter().zip(&mut finer) {
                let Ok(depends) = dependence(&shares, *p, window_ns, *finer) else {
                    continue;
                };
                *finer = Some((depends, window_ns));
                let found = serial::interval_with(&shares, *p, depends, Confidence::P95);
                // The doubt of the baseline is part of every share.
                let found = found.and_then(|found| ratio::ratio(found, baseline.relative));
                if let Ok(found) = found {
                    out.put(EXPLAINS, figure, printed(found, "of the device"));
                }
            }
        }
    }
}

/// How much windows depend on each other: estimated from them, or, where they are too few, from the
/// shorter windows that they consist of.
fn dependence(
    shares: &[f64],
    p: f64,
    window_ns: u64,
    finer: Option<(Dependence, u64)>,
) -> Result<Dependence, NoEstimate> {
    if let Some(estimated) = Dependence::of(shares, p, Confidence::P95)? {
        return Ok(estimated);
    }
    Ok(finer.map_or(Dependence::NONE, |(depends, finer_ns)| {
        let length = window_ns / finer_ns.max(1);
        depends.of_means(u32::try_from(length).unwrap_or(u32::MAX))
    }))
}

fn shares(series: &WorkSeries, window_ns: u64, device_per_ns: f64) -> Vec<f64> {
    let each = window_ns / series.window_ns.max(1);
    let windows = series.milli_requests.chunks_exact(each.max(1) as usize);
    windows.map(|window| work(window) / (device_per_ns * window_ns as f64)).collect()
}

#[cfg(test)]
mod tests {
    use gpubench_record::ProbeFigure;

    use super::{Baseline, Out, WorkSeries, figures, shares};

    fn series(milli_requests: &[u32]) -> WorkSeries {
        WorkSeries { window_ns: 10, milli_requests: milli_requests.to_vec() }
    }

    /// Figures over 10 and 40 ns of 26 windows of 10 ns with this work.
    fn figures_of(work: impl Fn(u32) -> u32) -> Vec<ProbeFigure> {
        over(&[1_000; 12], work)
    }

    fn over(baseline: &[u32], work: impl Fn(u32) -> u32) -> Vec<ProbeFigure> {
        let (alone, none) = (series(&(0..26).map(work).collect::<Vec<_>>()), series(&[]));
        let mut found = Vec::new();
        let mut out = Out { variant: "v", figures: &mut found };
        let situations = [("alone", &alone), ("beside a neighbour", &none)];
        let baseline = Baseline::of(&series(baseline));
        figures(&mut out, baseline, None, &[10, 40], situations);
        found
    }

    #[test]
    fn dependent_windows_widen_the_interval() {
        let noise = |k: u32| (k * 7) % 13;
        let widths = |figures: &[ProbeFigure]| -> Vec<f64> {
            let widths = figures.iter().map(|one| one.estimate.hi - one.estimate.lo);
            widths.collect()
        };
        let steady = figures_of(|k| 500 + noise(k));
        assert_eq!(steady.len(), 2, "{steady:?}");
        // The same values in ascending order depend on each other.
        let drifting = figures_of(|k| 500 + k / 2);
        assert_eq!(drifting.len(), 1, "six dependent windows are too few: {drifting:?}");
        assert!(widths(&drifting)[0] > 1.5 * widths(&steady)[0]);
    }

    #[test]
    fn the_doubt_of_the_baseline_is_in_every_share() {
        let work = |k: u32| 500 + (k * 7) % 13;
        let ends = |figures: &[ProbeFigure]| {
            let first = figures.first().map(|one| one.estimate.clone());
            first.map(|one| (one.value, one.lo, one.hi)).unwrap_or_default()
        };
        let (value, lo, hi) = ends(&figures_of(work));
        // The same mean from parts that differ by a tenth, and by the mean itself.
        let (same, wide_lo, wide_hi) = ends(&over(&[900, 1_100, 900, 1_100, 900, 1_100], work));
        assert!((same - value).abs() < 1e-12);
        // t of 5 degrees 2.5706, standard error 0.0447: 11.5 %.
        assert!((0.08..0.12).contains(&(1.0 - wide_lo / lo)), "{lo} {wide_lo}");
        assert!((0.10..0.14).contains(&(wide_hi / hi - 1.0)), "{hi} {wide_hi}");
        assert!(over(&[0, 2_000, 0, 2_000], work).is_empty(), "it may be zero");
        assert!(over(&[1_000], work).is_empty(), "one value has no spread");
    }

    #[test]
    fn shares_are_relative_to_the_device_alone() {
        let of = |work: &[u32]| Baseline::of(&series(work)).map(|found| found.per_ns);
        let device = of(&[1_000; 4]).unwrap_or_default();
        assert_eq!(device, 100.0);
        let tenant = series(&[1_000, 0, 500, 500, 900]);
        assert_eq!(shares(&tenant, 10, device), [1.0, 0.0, 0.5, 0.5, 0.9]);
        // An incomplete window is left out.
        assert_eq!(shares(&tenant, 20, device), [0.5, 0.5]);
        assert!(shares(&tenant, 100, device).is_empty());
        assert_eq!(of(&[]), None);
    }
}
