//! Figures of probes. They are no scores: they explain the rows of a sub-axis and change no level.
//!
//! Medians and quantiles with order-statistic intervals. Windows, launches and calls of one run
//! depend on the values before them, so an interval is that of the equivalent number of independent
//! values (`gpubench_stats::serial`). Fewer than 20 values cannot show the dependence and count as
//! independent.

mod escape;
mod share;
mod timing;

use gpubench_record::{
    CallTrials, ExhaustTrial, Plan, ProbeFigure, ProbeFound, ProbeResult, SmNumbers,
    SmPlacementPair, TracePair,
};
use gpubench_stats::{Confidence, proportion, serial};
use share::Baseline;

use crate::figures::printed;

pub(super) use escape::bypass;

/// The figures of every finding, in the order of the findings. Unobserved values have none.
pub(super) fn figures(plan: &Plan, probes: &[ProbeResult]) -> Vec<ProbeFigure> {
    let baseline = probes.iter().find_map(|probe| match &probe.found {
        ProbeFound::Share { alone, .. } if probe.variant == plan.reference => Baseline::of(alone),
        _ => None,
    });
    let mut figures = Vec::new();
    for probe in probes {
        let mut out = Out { variant: &probe.variant, figures: &mut figures };
        match &probe.found {
            ProbeFound::TimeSliceTrace { traces, .. } => {
                time_slice_figures(&mut out, traces);
            }
            ProbeFound::OutOfMemory { trials } => out_of_memory_figures(&mut out, trials),
            ProbeFound::SmPlacement { rounds, .. } => {
                placement_figures(&mut out, rounds, sm_numbers(plan, &probe.variant));
            }
            // The full-device baseline is the unit of shares and has none itself.
            ProbeFound::Share { .. } if probe.variant == plan.reference => {}
            ProbeFound::Share { configured_ppm, windows_ns, alone, beside } => {
                let configured = configured_ppm.map(|ppm| f64::from(ppm) / 1e6);
                let series = [("alone", alone), ("beside a neighbour", beside)];
                share::figures(&mut out, baseline, configured, windows_ns, series);
            }
            ProbeFound::Enforcement { limit_ppm: Some(ppm), window_ns, trials } => {
                timing::enforcement_figures(
                    &mut out,
                    baseline.map(|baseline| baseline.per_ns),
                    f64::from(*ppm) / 1e6,
                    *window_ns,
                    trials,
                )
            }
            ProbeFound::LaunchLatency(trials) => timing::launch_figures(&mut out, trials),
            ProbeFound::CallTrials(trials) => call_figures(&mut out, trials),
            ProbeFound::Escape { limit_bytes, in_use_bytes, limit_ppm, routes } => {
                escape::figures(&mut out, *limit_bytes, *in_use_bytes, *limit_ppm, routes)
            }
            // These make rows and no figures; without a cap there are no trials.
            ProbeFound::Capacity { .. }
            | ProbeFound::Cap { .. }
            | ProbeFound::Residue { .. }
            | ProbeFound::Visibility { .. }
            | ProbeFound::Enforcement { limit_ppm: None, .. }
            | ProbeFound::Broken { .. } => {}
        }
    }
    figures
}

/// How SM numbers of two tenants of a variant compare, by the plan.
fn sm_numbers(plan: &Plan, variant: &str) -> SmNumbers {
    let mut planned = plan.mechanisms.iter();
    let own = planned.find(|mechanism| mechanism.variant == variant);
    own.map_or(SmNumbers::OfDevice, |own| own.properties.sm_numbers)
}

/// Collects the figures of one variant.
struct Out<'a> {
    variant: &'a str,
    figures: &'a mut Vec<ProbeFigure>,
}

impl Out<'_> {
    /// Adds the median of values in the order of their observation; too few values for an interval
    /// give no figure.
    fn median(&mut self, explains: &str, figure: &str, unit: &str, values: Vec<f64>) {
        self.quantile(explains, figure, unit, 0.5, values);
    }

    fn quantile(&mut self, explains: &str, figure: &str, unit: &str, p: f64, values: Vec<f64>) {
        if let Ok(found) = serial::interval(&values, p, Confidence::P95) {
            self.put(explains, figure, printed(found, unit));
        }
    }

    fn put(&mut self, explains: &str, figure: &str, estimate: gpubench_record::Estimate) {
        self.figures.push(ProbeFigure {
            variant: self.variant.to_owned(),
            figure: figure.to_owned(),
            explains: Some(explains.to_owned()),
            verdict: None,
            estimate,
        });
    }
}

/// A duration in seconds or milliseconds.
fn span(ns: u64) -> String {
    if ns.is_multiple_of(1_000_000_000) {
        format!("{} s", ns / 1_000_000_000)
    } else {
        format!("{} ms", ns as f64 / 1e6)
    }
}

// How long creating a context and loading a module took, alone and beside a busy neighbour.

const CALLS: &str = "compute/driver";

type Call = (u64, u64);

/// Medians in each situation. Calls that began and ended while the neighbour was busy count.
fn call_figures(out: &mut Out<'_>, trials: &CallTrials) {
    let always = (0, u64::MAX);
    for (situation, times, busy_ns) in [
        ("alone", &trials.alone, always),
        ("beside kernels", &trials.beside_kernels, trials.kernels_ns),
        ("beside the same calls", &trials.beside_calls, trials.calls_ns),
    ] {
        for (what, calls) in
            [("context creation", &times.contexts_ns), ("module load", &times.modules_ns)]
        {
            let durations = durations_within(calls, busy_ns);
            out.median(CALLS, &format!("{what}, {situation}"), "ns", durations);
        }
    }
}

fn durations_within(calls: &[Call], (from, to): Call) -> Vec<f64> {
    calls
        .iter()
        .filter(|(begin, end)| from <= *begin && *end <= to)
        .map(|(begin, end)| end.saturating_sub(*begin) as f64)
        .collect()
}

// On how many SMs blocks of each tenant ran.
//
// In hardware partitions each tenant's SM numbers begin at zero. Equal numbers of two tenants are
// then different SMs, and there is no figure of SMs with blocks of both.

const PLACEMENT: &str = "compute/sm";

/// SMs of the victim, of its neighbour, and with blocks of both.
fn placement_figures(out: &mut Out<'_>, rounds: &[SmPlacementPair], numbers: SmNumbers) {
    let counts =
        |of: fn(&SmPlacementPair) -> usize| rounds.iter().map(|pair| of(pair) as f64).collect();
    let count = |out: &mut Out<'_>, what, of| out.median(PLACEMENT, what, "SMs", counts(of));
    count(out, "SMs with the victim's blocks", |pair| pair.victim_sms.len());
    count(out, "SMs with the neighbour's blocks", |pair| pair.neighbour_sms.len());
    if numbers == SmNumbers::OfDevice {
        count(out, "SMs with blocks of both", |pair| {
            let other = &pair.neighbour_sms;
            pair.victim_sms.iter().filter(|sm| other.contains(sm)).count()
        });
    }
}

// Running out of memory: how long the refusal takes, whether the context still works afterwards,
// and whether the neighbour keeps launching.

const OUT_OF_MEMORY: &str = "memory/capacity";

/// The time of a refusal, and three proportions of the trials.
fn out_of_memory_figures(out: &mut Out<'_>, trials: &[ExhaustTrial]) {
    let tenants = || trials.iter().filter_map(|trial| trial.tenant);
    let mut codes: Vec<i32> = tenants().filter_map(|tenant| tenant.refused_with).collect();
    let refused = tenants().filter(|tenant| tenant.refused_with.is_some());
    let refusals_ns: Vec<f64> = refused.map(|tenant| tenant.refusal_ns as f64).collect();
    codes.sort_unstable();
    codes.dedup();
    let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
    let refusal = format!("out of memory: refused with {}, after", codes.join(" or "));
    out.median(OUT_OF_MEMORY, &refusal, "ns", refusals_ns);
    let mut share = |what: &str, good: usize| {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (good, all) = (count(good), count(trials.len()));
        if let Ok(found) = proportion::clopper_pearson(good, all, Confidence::P95) {
            let figure = format!("out of memory: {what}");
            out.put(OUT_OF_MEMORY, &figure, printed(found, "of the trials"));
        }
    };
    let serves = tenants().filter(|tenant| tenant.serves_code == 0).count();
    let recovers = tenants().filter(|tenant| tenant.recovers_code == 0).count();
    let unharmed = trials.iter().filter(|t| t.neighbour_served.is_some_and(|n| n > 0));
    share("the context still launches and copies", serves);
    share("memory can be taken again", recovers);
    share("the neighbour goes on launching", unharmed.count());
}

// Traces of two tenants' kernels: length of a time slice, pause between two time slices, and how
// much of the time both ran.
//
// Intervals are those of medians by order statistics: of time slices and pauses over all traces
// together, of the overlap over the traces. The resolution is one read of the clock.

type Span = (u64, u64);

const TIME_SLICES: &str = "compute/sm";

/// Length of a time slice, of the pause between two, and the overlap.
fn time_slice_figures(out: &mut Out<'_>, traces: &[TracePair]) {
    let lengths: Vec<f64> = traces.iter().flat_map(time_slices).collect();
    let between: Vec<f64> = traces.iter().flat_map(pauses).collect();
    out.median(TIME_SLICES, "time slice", "ns", lengths);
    out.median(TIME_SLICES, "switch gap", "ns", between);
    let overlaps = traces.iter().filter_map(overlap).collect();
    out.median(TIME_SLICES, "overlap", "ratio", overlaps);
}

/// Lengths of the whole time slices. The first span of each tenant is left out because it may have
/// begun on an idle device, and the last because it ends with the kernel.
fn time_slices(trace: &TracePair) -> Vec<f64> {
    let whole = |spans: &[Span]| -> Vec<f64> {
        let inner = spans.get(1..spans.len().saturating_sub(1));
        let inner = inner.unwrap_or_default().iter();
        inner.map(|(from, to)| to.saturating_sub(*from) as f64).collect()
    };
    let mut slices = whole(&trace.victim_ns);
    slices.extend(whole(&trace.neighbour_ns));
    slices
}

/// From the last read of one tenant to the first of the other, at each switch between them.
fn pauses(trace: &TracePair) -> Vec<f64> {
    let of = |spans: &[Span], tenant| spans.iter().map(move |&span| (span, tenant)).collect();
    let mut all: Vec<(Span, u8)> = of(&trace.victim_ns, 0);
    all.extend::<Vec<_>>(of(&trace.neighbour_ns, 1));
    all.sort_unstable();
    let next = all.windows(2).filter(|two| two[0].1 != two[1].1);
    let pause = |two: &[(Span, u8)]| two[1].0.0.checked_sub(two[0].0.1);
    next.filter_map(pause).map(|ns| ns as f64).collect()
}

/// Time in which both ran, over the shorter run time of the two while both had a kernel.
fn overlap(trace: &TracePair) -> Option<f64> {
    let from = trace.victim_ns.first()?.0.max(trace.neighbour_ns.first()?.0);
    let to = trace.victim_ns.last()?.1.min(trace.neighbour_ns.last()?.1);
    let within = |&(begin, end): &Span| end.min(to).saturating_sub(begin.max(from));
    let busy = |spans: &[Span]| spans.iter().map(within).sum::<u64>();
    let shorter = busy(&trace.victim_ns).min(busy(&trace.neighbour_ns));
    let mut both = 0;
    for one in &trace.victim_ns {
        for other in &trace.neighbour_ns {
            both += one.1.min(other.1).saturating_sub(one.0.max(other.0));
        }
    }
    (shorter > 0).then(|| both as f64 / shorter as f64)
}

#[cfg(test)]
mod tests {
    use gpubench_record::{ExhaustTrial, Exhausted};

    use super::{
        Out, TracePair, durations_within, out_of_memory_figures, overlap, pauses, time_slices,
    };

    #[test]
    fn leaves_out_calls_that_outlast_the_neighbour() {
        let calls = [(0, 10), (10, 25), (25, 31), (31, 40)];
        assert_eq!(durations_within(&calls, (5, 31)), [15.0, 6.0]);
        assert!(durations_within(&calls, (0, 0)).is_empty());
    }

    #[test]
    fn a_dead_tenant_and_a_silent_neighbour_count_as_failures() {
        let well = ExhaustTrial {
            tenant: Some(Exhausted {
                refused_with: Some(2),
                refusal_ns: 500,
                ..Exhausted::default()
            }),
            neighbour_served: Some(9),
        };
        let mut trials = vec![well; 6];
        trials.push(ExhaustTrial::default());
        let mut found = Vec::new();
        let mut out = Out { variant: "v", figures: &mut found };
        out_of_memory_figures(&mut out, &trials);
        assert_eq!(found[0].figure, "out of memory: refused with 2, after");
        assert_eq!((found[0].estimate.value, found[0].estimate.n), (500.0, 6));
        assert_eq!(found.len(), 4);
        for one in &found[1..] {
            assert_eq!(one.estimate.value, 6.0 / 7.0, "{one:?}");
            assert!(one.estimate.lo < 0.6 && one.estimate.hi < 1.0, "{one:?}");
        }
    }

    fn trace(victim_ns: &[(u64, u64)], neighbour_ns: &[(u64, u64)]) -> TracePair {
        TracePair { victim_ns: victim_ns.to_vec(), neighbour_ns: neighbour_ns.to_vec() }
    }

    #[test]
    fn finds_whole_time_slices_and_the_pauses_between_tenants() {
        let trace =
            trace(&[(0, 150), (350, 550), (750, 900)], &[(160, 340), (560, 740), (910, 950)]);
        assert_eq!(time_slices(&trace), [200.0, 180.0]);
        assert_eq!(pauses(&trace), [10.0; 5]);
        assert_eq!(overlap(&trace), Some(0.0));
    }

    #[test]
    fn tenants_that_run_at_the_same_time_have_no_time_slices() {
        let both = trace(&[(0, 100)], &[(20, 120)]);
        assert!(time_slices(&both).is_empty() && pauses(&both).is_empty());
        assert_eq!(overlap(&both), Some(1.0));
        let half = trace(&[(0, 100), (200, 300)], &[(50, 100), (150, 200), (250, 300)]);
        assert_eq!(overlap(&half), Some(100.0 / 150.0));
        assert_eq!(overlap(&trace(&[(0, 10)], &[(20, 30)])), None);
    }
}
