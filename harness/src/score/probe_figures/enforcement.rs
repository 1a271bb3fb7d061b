//! How long a compute cap took to act: from the first launch of a process until every later window
//! stays within the cap plus a tenth of it.
//!
//! A window that begins shortly before the cap acts already stays within it; the interval contains
//! this error. A trial that never stayed within its cap has no time, so times are reported only
//! where every trial has one.

use gpubench_record::{Estimate, WorkSeries};
use gpubench_stats::{Confidence, Sorted, proportion};

use super::{Out, span};
use crate::figures::printed;

const EXPLAINS: &str = "compute/sm";
/// A share above the cap by less than this part of it is within the cap, as for escapes.
const OVER: f64 = 0.10;

/// In how many trials the cap acted, and when.
pub(super) fn figures(
    out: &mut Out<'_>,
    device_per_ns: Option<f64>,
    limit: f64,
    window_ns: u64,
    trials: &[WorkSeries],
) {
    let Some(device_per_ns) = device_per_ns.filter(|_| !trials.is_empty()) else {
        return;
    };
    let cap = Cap { max_per_ns: limit * (1.0 + OVER) * device_per_ns, window_ns };
    let found: Vec<Option<u64>> = trials.iter().map(|trial| cap.acts_after_ns(trial)).collect();
    let acted_ns: Vec<f64> = found.iter().flatten().map(|&ns| ns as f64).collect();
    let watched_ns = trials.iter().map(|trial| cap.could_act_after_ns(trial)).min();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let (all, good) = (count(found.len()), count(acted_ns.len()));
    let of_trials = proportion::clopper_pearson(good, all, Confidence::P95);
    let what = format!("compute cap of {limit:.3}");
    if let Ok(found) = of_trials {
        let within = span(watched_ns.unwrap_or(0));
        let figure = format!("{what}: acts for good within {within} of the first launch");
        out.put(EXPLAINS, &figure, printed(found, "of the trials"));
    }
    if good < all {
        return;
    }
    if let Some(time) = time(acted_ns, &cap, limit, trials) {
        let window = span(window_ns);
        let figure = format!("{what}: time to enforce, over windows of {window}");
        out.put(EXPLAINS, &figure, time);
    }
}

/// The median time. One step earlier the cap did not act yet. It may have begun to act later than
/// the first window within it; by how much follows from the share of a tenant without a cap.
fn time(acted_ns: Vec<f64>, cap: &Cap, limit: f64, trials: &[WorkSeries]) -> Option<Estimate> {
    let step_ns = trials.iter().map(|trial| trial.window_ns).max()? as f64;
    let ahead_ns =
        if limit < 1.0 { OVER * limit / (1.0 - limit) * cap.window_ns as f64 } else { 0.0 };
    let sorted = Sorted::new(acted_ns).ok()?;
    let found = sorted.order_interval(0.5, Confidence::P95).ok()?;
    let mut time = printed(found, "ns");
    time.lo = (time.lo - step_ns).max(0.0);
    time.hi += ahead_ns;
    Some(time)
}

/// The limit of a window.
struct Cap {
    /// Thousandths of a request in a nanosecond.
    max_per_ns: f64,
    window_ns: u64,
}

impl Cap {
    /// Begin of the first window after which no window exceeds the cap; `None` if the last one
    /// does.
    fn acts_after_ns(&self, trial: &WorkSeries) -> Option<u64> {
        let steps = self.steps(trial)?;
        let max = self.max_per_ns * self.window_ns as f64;
        let exceeds = |window: &[u32]| {
            let work: u64 = window.iter().map(|&milli| u64::from(milli)).sum();
            work as f64 > max
        };
        let windows: Vec<bool> = trial.milli_requests.windows(steps).map(exceeds).collect();
        let first_good = windows.iter().rposition(|&exceeds| exceeds).map_or(0, |last| last + 1);
        (first_good < windows.len()).then(|| first_good as u64 * trial.window_ns)
    }

    /// Begin of the last complete window.
    fn could_act_after_ns(&self, trial: &WorkSeries) -> u64 {
        let steps = self.steps(trial).unwrap_or(usize::MAX);
        let last = trial.milli_requests.len().saturating_sub(steps);
        last as u64 * trial.window_ns
    }

    /// Number of steps of a series in a window.
    fn steps(&self, trial: &WorkSeries) -> Option<usize> {
        let steps = self.window_ns.checked_div(trial.window_ns)?;
        usize::try_from(steps).ok().filter(|&steps| steps > 0)
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::{ProbeFigure, WorkSeries};

    use super::{Out, figures};

    const MS: u64 = 1_000_000;

    /// The whole device for `unlimited` steps of 20 ms, then shares that alternate around a half.
    fn trial(unlimited: usize, deviation: u32) -> WorkSeries {
        let later = (0..200 - unlimited)
            .map(|step| if step % 2 == 0 { 500 + deviation } else { 500 - deviation });
        WorkSeries {
            window_ns: 20 * MS,
            milli_requests: vec![1_000; unlimited].into_iter().chain(later).collect(),
        }
    }

    fn figures_of(trials: &[WorkSeries]) -> Vec<ProbeFigure> {
        let mut found = Vec::new();
        let mut out = Out { variant: "hami", figures: &mut found };
        // The device alone completes a request in 20 ms.
        figures(&mut out, Some(1_000.0 / 20e6), 0.5, 1_000 * MS, trials);
        found
    }

    #[test]
    fn the_interval_contains_the_instant_at_which_the_cap_acts() {
        // Without a cap until 400, 420, ... 500 ms.
        let trials: Vec<WorkSeries> = (20..26).map(|steps| trial(steps, 300)).collect();
        let found = figures_of(&trials);
        assert!(found[0].figure.starts_with("compute cap of 0.500: acts for good within 3 s"));
        assert_eq!((found[0].estimate.value, found[0].estimate.n), (1.0, 6));
        let time = &found[1].estimate;
        assert!(found[1].figure.ends_with("time to enforce, over windows of 1 s"));
        assert!(time.lo <= 400e6 && time.hi >= 450e6, "{time:?}");
        assert!(time.lo > 250e6 && time.hi < 600e6, "no wider than a window's tenth: {time:?}");
        assert!((time.value - 370e6).abs() < 25e6, "{time:?}");
    }

    #[test]
    fn distinguishes_a_cap_that_acts_at_once_from_one_that_stops_acting() {
        let at_once = figures_of(&vec![trial(0, 0); 6]);
        assert_eq!((at_once[1].estimate.value, at_once[1].estimate.lo), (0.0, 0.0));
        let mut stops = trial(0, 0);
        stops.milli_requests[188..].fill(1_000);
        let mut trials = vec![trial(0, 0); 5];
        trials.push(stops);
        let found = figures_of(&trials);
        assert_eq!(found.len(), 1, "no time without one in every trial: {found:?}");
        assert!((found[0].estimate.value - 5.0 / 6.0).abs() < 1e-12);
        assert!(figures_of(&[]).is_empty());
    }
}
