//! Figures of probes that are no scores: they explain the rows of a sub-axis and move no level.
//!
//! Medians and quantiles with their order-statistic intervals. Windows, launches and calls of one
//! run depend on their neighbours, so that an interval is that of as many independent values as
//! they are worth (`gpubench_stats::serial`); fewer than 20 cannot show it, and are taken for
//! independent.

mod calls;
mod census;
mod enforce;
mod escape;
mod exhaust;
mod launch;
mod share;
mod turns;

use gpubench_record::{ProbeFigure, ProbeFound, ProbeResult};
use gpubench_stats::{Confidence, serial};

pub(super) use escape::bypass;

use super::EXCLUSIVE;
use super::figures::printed;

/// The figures of every probe, in the order of the probes. What was not seen has none.
pub(super) fn figures(probes: &[ProbeResult]) -> Vec<ProbeFigure> {
    let yardstick = probes.iter().find_map(|probe| match &probe.found {
        ProbeFound::Share { alone, .. } if probe.variant == EXCLUSIVE => share::per_ns(alone),
        _ => None,
    });
    let mut figures = Vec::new();
    for probe in probes {
        let mut out = Out {
            variant: &probe.variant,
            figures: &mut figures,
        };
        match &probe.found {
            ProbeFound::Turns { traces, .. } => turns::figures(&mut out, traces),
            ProbeFound::Exhaust { trials } => exhaust::figures(&mut out, trials),
            ProbeFound::Census { rounds, .. } => census::figures(&mut out, rounds),
            // The yardstick itself is no share of anything.
            ProbeFound::Share { .. } if probe.variant == EXCLUSIVE => {}
            ProbeFound::Share {
                configured_ppm,
                windows_ns,
                alone,
                beside,
            } => {
                let configured = configured_ppm.map(|ppm| f64::from(ppm) / 1e6);
                let series = [("alone", alone), ("beside a neighbour", beside)];
                share::figures(&mut out, yardstick, configured, windows_ns, series);
            }
            ProbeFound::Enforce {
                limit_ppm: Some(ppm),
                window_ns,
                trials,
            } => enforce::figures(
                &mut out,
                yardstick,
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
            _ => {}
        }
    }
    figures
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
