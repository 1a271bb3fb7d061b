//! Figures of probes. They are no scores: they explain the rows of a sub-axis and change no level.
//!
//! Medians and quantiles with order-statistic intervals. Windows, launches and calls of one run
//! depend on the values before them, so an interval is that of the equivalent number of independent
//! values (`gpubench_stats::serial`). Fewer than 20 values cannot show the dependence and count as
//! independent.

mod driver_calls;
mod enforcement;
mod escape;
mod launch_latency;
mod out_of_memory;
mod share;
mod sm_placement;
mod time_slice_trace;

use gpubench_record::{Plan, ProbeFigure, ProbeFound, ProbeResult, SmNumbers};
use gpubench_stats::{Confidence, serial};

pub(super) use escape::bypass;
use share::Baseline;

use crate::figures::printed;

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
                time_slice_trace::figures(&mut out, traces);
            }
            ProbeFound::OutOfMemory { trials } => out_of_memory::figures(&mut out, trials),
            ProbeFound::SmPlacement { rounds, .. } => {
                sm_placement::figures(&mut out, rounds, sm_numbers(plan, &probe.variant));
            }
            // The full-device baseline is the unit of shares and has none itself.
            ProbeFound::Share { .. } if probe.variant == plan.reference => {}
            ProbeFound::Share { configured_ppm, windows_ns, alone, beside } => {
                let configured = configured_ppm.map(|ppm| f64::from(ppm) / 1e6);
                let series = [("alone", alone), ("beside a neighbour", beside)];
                share::figures(&mut out, baseline, configured, windows_ns, series);
            }
            ProbeFound::Enforcement { limit_ppm: Some(ppm), window_ns, trials } => {
                enforcement::figures(
                    &mut out,
                    baseline.map(|baseline| baseline.per_ns),
                    f64::from(*ppm) / 1e6,
                    *window_ns,
                    trials,
                )
            }
            ProbeFound::LaunchLatency(trials) => launch_latency::figures(&mut out, trials),
            ProbeFound::CallTrials(trials) => driver_calls::figures(&mut out, trials),
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

    /// Adds a quantile of such values.
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
