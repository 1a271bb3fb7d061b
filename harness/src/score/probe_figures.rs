//! Figures of probes that are no scores: they explain the rows of a sub-axis and move no level.
//!
//! Medians and quantiles with their order-statistic intervals. Windows, launches and calls of one
//! run depend on their neighbours, so that an interval is that of as many independent values as
//! they are worth (`gpubench_stats::serial`); fewer than 20 cannot show it, and are taken for
//! independent.

mod calls;
mod enforce;
mod escape;
mod exhaust;
mod launch;
mod share;
mod sm_placement;
mod time_slice_trace;

use gpubench_record::{Plan, ProbeFigure, ProbeFound, ProbeResult, SmNumbers};
use gpubench_stats::{Confidence, serial};

pub(super) use escape::bypass;

use super::figures::printed;

/// The figures of every probe, in the order of the probes. Unobserved values have none. A probe
/// that is not listed here does not compile.
pub(super) fn figures(plan: &Plan, probes: &[ProbeResult]) -> Vec<ProbeFigure> {
    let baseline = probes.iter().find_map(|probe| match &probe.found {
        ProbeFound::Share { alone, .. } if probe.variant == plan.reference => share::per_ns(alone),
        _ => None,
    });
    let mut figures = Vec::new();
    for probe in probes {
        let mut out = Out {
            variant: &probe.variant,
            figures: &mut figures,
        };
        match &probe.found {
            ProbeFound::TimeSliceTrace { traces, .. } => {
                time_slice_trace::figures(&mut out, traces);
            }
            ProbeFound::Exhaust { trials } => exhaust::figures(&mut out, trials),
            ProbeFound::SmPlacement { rounds, .. } => {
                sm_placement::figures(&mut out, rounds, sm_numbers(plan, &probe.variant));
            }
            // The full-device baseline itself is no share of anything.
            ProbeFound::Share { .. } if probe.variant == plan.reference => {}
            ProbeFound::Share {
                configured_ppm,
                windows_ns,
                alone,
                beside,
            } => {
                let configured = configured_ppm.map(|ppm| f64::from(ppm) / 1e6);
                let series = [("alone", alone), ("beside a neighbour", beside)];
                share::figures(&mut out, baseline, configured, windows_ns, series);
            }
            ProbeFound::Enforce {
                limit_ppm: Some(ppm),
                window_ns,
                trials,
            } => enforce::figures(
                &mut out,
                baseline,
                f64::from(*ppm) / 1e6,
                *window_ns,
                trials,
            ),
            ProbeFound::Launch(trials) => launch::figures(&mut out, trials),
            ProbeFound::Calls(trials) => calls::figures(&mut out, trials),
            ProbeFound::Escape {
                limit_bytes,
                in_use_bytes,
                limit_ppm,
                ways,
            } => escape::figures(&mut out, *limit_bytes, *in_use_bytes, *limit_ppm, ways),
            // Rows are made of these, and no figures; without a cap nothing was tried.
            ProbeFound::Capacity { .. }
            | ProbeFound::Cap { .. }
            | ProbeFound::Residue { .. }
            | ProbeFound::Visibility { .. }
            | ProbeFound::Enforce {
                limit_ppm: None, ..
            }
            | ProbeFound::Broken { .. } => {}
        }
    }
    figures
}

/// What SM numbers of two tenants of a variant tell, as the plan has it.
fn sm_numbers(plan: &Plan, variant: &str) -> SmNumbers {
    let mut planned = plan.mechanisms.iter();
    let own = planned.find(|mechanism| mechanism.variant == variant);
    own.map_or(SmNumbers::OfDevice, |own| own.properties.sm_numbers)
}

/// Where figures of one variant go.
struct Out<'a> {
    variant: &'a str,
    figures: &'a mut Vec<ProbeFigure>,
}

impl Out<'_> {
    /// The median of some values in their order; too few for an interval are no figure.
    fn median(&mut self, explains: &str, figure: &str, unit: &str, values: Vec<f64>) {
        self.quantile(explains, figure, unit, 0.5, values);
    }

    /// The same of a quantile; the values stand in the order in which they were seen.
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

/// A length of time as people write it.
fn span(ns: u64) -> String {
    if ns.is_multiple_of(1_000_000_000) {
        format!("{} s", ns / 1_000_000_000)
    } else {
        format!("{} ms", ns as f64 / 1e6)
    }
}
