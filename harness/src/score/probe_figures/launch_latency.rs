//! From the call of a launch to its first instruction, on one clock.
//!
//! Brackets relate the clocks: a device stamp lies between the host's stamps before and after it.
//! The narrowest bracket of each series of the victim alone gives the offset, with half its width
//! as the bound of the error. Between the two series the offset is assumed to drift linearly. The
//! bound widens every interval; in the difference of two series it cancels.

use gpubench_record::{LaunchStamp, LaunchTrials};
use gpubench_stats::{Confidence, serial};

use super::Out;
use crate::figures::printed;

const EXPLAINS: &str = "compute/launch";

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
pub(super) fn figures(out: &mut Out<'_>, trials: &LaunchTrials) {
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
            out.put(EXPLAINS, &format!("launch to start, {situation}, {name}"), wide);
        }
        if let (Some(alone), Some(beside)) = (alone, beside) {
            let mut added = printed(beside, "ns");
            added.value -= alone.value;
            added.lo -= alone.hi;
            added.hi -= alone.lo;
            out.put(EXPLAINS, &format!("launch to start, added by a neighbour, {name}"), added);
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
    use gpubench_record::{LaunchStamp, LaunchTrials, ProbeFigure};

    use super::super::Out;
    use super::figures;

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
        figures(&mut out, &trials);
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
