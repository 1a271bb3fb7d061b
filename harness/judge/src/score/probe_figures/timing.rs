//! Times that probes measured: until a compute cap acts, and from the call of a launch to its first
//! instruction.

use gpubench_record::{Estimate, LaunchStamp, LaunchTrials, WorkSeries};
use gpubench_stats::{Confidence, Sorted, proportion, serial};

use super::{Out, span};
use crate::figures::printed;

// How long a compute cap took to act: from the first launch of a process until every later window
// stays within the cap plus a tenth of it.
//
// A window that begins shortly before the cap acts already stays within it; the interval contains
// this error. A trial that never stayed within its cap has no time, so times are reported only
// where every trial has one.

const ENFORCEMENT: &str = "compute/sm";
/// A share above the cap by less than this part of it is within the cap, as for escapes.
const OVER: f64 = 0.10;

/// In how many trials the cap acted, and when.
pub(super) fn enforcement_figures(
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
        out.put(ENFORCEMENT, &figure, printed(found, "of the trials"));
    }
    if good < all {
        return;
    }
    if let Some(time) = time(acted_ns, &cap, limit, trials) {
        let window = span(window_ns);
        let figure = format!("{what}: time to enforce, over windows of {window}");
        out.put(ENFORCEMENT, &figure, time);
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

struct Cap {
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

    fn steps(&self, trial: &WorkSeries) -> Option<usize> {
        let steps = self.window_ns.checked_div(trial.window_ns)?;
        usize::try_from(steps).ok().filter(|&steps| steps > 0)
    }
}

// From the call of a launch to its first instruction, on one clock.
//
// Brackets relate the clocks: a device stamp lies between the host's stamps before and after it.
// The narrowest bracket of each series of the victim alone gives the offset, with half its width
// as the bound of the error. Between the two series the offset is assumed to drift linearly. The
// bound widens every interval; in the difference of two series it cancels.

const LAUNCH: &str = "compute/launch";

/// The reported quantiles of a series.
const QUANTILES: [(f64, &str); 2] = [(0.5, "median"), (0.9, "p90")];

/// How far the device's clock is ahead of the host's, with a bound of the error.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offset {
    /// Instant of the offset, by the host's clock.
    at_ns: f64,
    ahead_ns: f64,
    bound_ns: f64,
}

/// Both clocks: the offset before and after.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    before: Offset,
    after: Offset,
}

/// Latency alone and beside the neighbour, and what the neighbour adds.
pub(super) fn launch_figures(out: &mut Out<'_>, trials: &LaunchTrials) {
    let LaunchTrials { before, beside, neighbour_ns, after } = trials;
    let (Some(first), Some(last)) = (narrowest(before), narrowest(after)) else {
        return;
    };
    let clocks = Clocks { before: first, after: last };
    let alone: Vec<f64> = before.iter().chain(after).map(|s| clocks.latency_ns(s)).collect();
    // Launches that began while the neighbour worked.
    let during =
        |stamp: &&LaunchStamp| (neighbour_ns.0..=neighbour_ns.1).contains(&stamp.started_ns);
    let beside: Vec<f64> = beside.iter().filter(during).map(|s| clocks.latency_ns(s)).collect();
    for (p, name) in QUANTILES {
        let found = |values: &[f64]| {
            // In the order of their launches.
            serial::interval(values, p, Confidence::P95).ok()
        };
        let (alone, beside) = (found(&alone), found(&beside));
        for (situation, found) in [("alone", alone), ("beside a neighbour", beside)] {
            let Some(found) = found else { continue };
            let mut wide = printed(found, "ns");
            wide.lo -= clocks.bound_ns();
            wide.hi += clocks.bound_ns();
            out.put(LAUNCH, &format!("launch to start, {situation}, {name}"), wide);
        }
        if let (Some(alone), Some(beside)) = (alone, beside) {
            let mut added = printed(beside, "ns");
            added.value -= alone.value;
            added.lo -= alone.hi;
            added.hi -= alone.lo;
            out.put(LAUNCH, &format!("launch to start, added by a neighbour, {name}"), added);
        }
    }
}

/// The narrowest bracket of a series.
fn narrowest(stamps: &[LaunchStamp]) -> Option<Offset> {
    let width = |stamp: &LaunchStamp| stamp.ended_ns.saturating_sub(stamp.called_ns);
    let stamp = stamps.iter().min_by_key(|stamp| width(stamp))?;
    let middle_ns = stamp.called_ns as f64 + width(stamp) as f64 / 2.0;
    Some(Offset {
        at_ns: middle_ns,
        ahead_ns: stamp.started_ns as f64 - middle_ns,
        bound_ns: width(stamp) as f64 / 2.0,
    })
}

impl Clocks {
    fn bound_ns(&self) -> f64 {
        self.before.bound_ns.max(self.after.bound_ns)
    }

    /// From the call to the start, both by the host's clock.
    fn latency_ns(&self, stamp: &LaunchStamp) -> f64 {
        let (from, to) = (self.before, self.after);
        let called_ns = stamp.called_ns as f64;
        let elapsed = (called_ns - from.at_ns) / (to.at_ns - from.at_ns).max(1.0);
        let ahead_ns = from.ahead_ns + (to.ahead_ns - from.ahead_ns) * elapsed;
        stamp.started_ns as f64 - ahead_ns - called_ns
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::{ProbeFigure, WorkSeries};

    use super::{Out, enforcement_figures};

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
        enforcement_figures(&mut out, Some(1_000.0 / 20e6), 0.5, 1_000 * MS, trials);
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

#[cfg(test)]
mod launch_latency_tests {
    use gpubench_record::{LaunchStamp, LaunchTrials, ProbeFigure};

    use super::launch_figures;
    use crate::score::probe_figures::Out;

    /// Launches whose device clock is 5 s ahead and gains 24 parts in a million.
    fn series(from_ns: u64, count: u64, latency_ns: u64) -> Vec<LaunchStamp> {
        let device = |host_ns: u64| 5_000_000_000 + host_ns + host_ns * 24 / 1_000_000;
        let stamp = |k: u64| {
            let called_ns = from_ns + k * 4_000_000;
            LaunchStamp {
                called_ns,
                started_ns: device(called_ns + latency_ns),
                ended_ns: called_ns + latency_ns + 4_000,
            }
        };
        (0..count).map(stamp).collect()
    }

    fn figures_of(neighbour_ns: (u64, u64)) -> Vec<ProbeFigure> {
        let trials = LaunchTrials {
            before: series(0, 60, 4_000),
            beside: series(400_000_000, 60, 904_000),
            neighbour_ns,
            after: series(800_000_000, 60, 4_000),
        };
        let mut figures_of = Vec::new();
        let mut out = Out { variant: "v", figures: &mut figures_of };
        launch_figures(&mut out, &trials);
        figures_of
    }

    #[test]
    fn relates_clocks_that_drift_apart() {
        let figures = figures_of((0, u64::MAX));
        let of = |name: &str| {
            let found = figures.iter().find(|one| one.figure == name);
            found.map(|one| (one.estimate.value, one.estimate.lo, one.estimate.hi))
        };
        let alone = of("launch to start, alone, median").unwrap_or_default();
        assert!((alone.0 - 4_000.0).abs() < 30.0, "{alone:?}");
        assert!(alone.1 <= 100.0 && alone.2 >= 7_900.0, "the bound is in it: {alone:?}");
        let added = of("launch to start, added by a neighbour, median").unwrap_or_default();
        assert!((added.0 - 900_000.0).abs() < 100.0, "{added:?}");
        assert!(added.2 - added.1 < 200.0, "the bound cancels: {added:?}");
    }

    #[test]
    fn leaves_out_launches_after_the_neighbour_ended() {
        let figures = figures_of((0, 1));
        assert!(figures.iter().all(|one| one.figure.contains("alone")), "{figures:?}");
        assert_eq!(figures.len(), 2);
    }
}
