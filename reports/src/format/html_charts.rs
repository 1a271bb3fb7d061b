//! The charts of the HTML report as inline SVG: interval bars and latency curves.

use std::fmt::Write;

use gpubench_record::Estimate;

use super::figures::one_line;
use super::markup::escape;
use crate::latency::{LatencyChart, LatencyCurve};

const BAR_WIDTH: f64 = 132.0;
const BAR_HEIGHT: f64 = 12.0;
/// Space for a line end or a dot at the edge of a bar.
const BAR_MARGIN: f64 = 4.0;

const CHART_WIDTH: f64 = 720.0;
const CHART_HEIGHT: f64 = 260.0;
const CHART_LEFT: f64 = 44.0;
const CHART_BOTTOM: f64 = 30.0;
const CHART_MARGIN: f64 = 10.0;
/// Space for half of the last label of the time axis.
const CHART_RIGHT: f64 = 26.0;
/// Line styles in the style sheet; more curves reuse them from the first on.
const LINE_KINDS: usize = 6;

/// The common scale of the bars of a column, with its thresholds.
#[derive(Debug)]
pub(super) struct Scale {
    lo: f64,
    hi: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// A scale over zero, one and every bound, so that no figure is cut off.
    pub(super) fn over<'a>(estimates: impl Iterator<Item = &'a Estimate>, ticks: Vec<f64>) -> Self {
        let (mut lo, mut hi) = (0.0f64, 1.0f64);
        for estimate in estimates {
            for bound in [estimate.lo, estimate.value, estimate.hi] {
                if bound.is_finite() {
                    lo = lo.min(bound);
                    hi = hi.max(bound);
                }
            }
        }
        Self { lo, hi, ticks }
    }

    /// The position of a figure; an infinite one is at the edge.
    fn x(&self, figure: f64) -> f64 {
        let share = ((figure - self.lo) / (self.hi - self.lo)).clamp(0.0, 1.0);
        BAR_MARGIN + share * (BAR_WIDTH - 2.0 * BAR_MARGIN)
    }
}

/// An estimate as a line from `lo` to `hi` with a dot at the value.
pub(super) fn interval_bar(name: &str, estimate: &Estimate, scale: &Scale) -> String {
    if [estimate.lo, estimate.value, estimate.hi]
        .iter()
        .any(|figure| figure.is_nan())
    {
        return String::new();
    }
    let label = escape(&format!("{name}: {}", one_line(estimate, None)));
    let middle = BAR_HEIGHT / 2.0;
    let mut svg = format!(
        "<svg width=\"{BAR_WIDTH}\" height=\"{BAR_HEIGHT}\" role=\"img\" aria-label=\"{label}\">"
    );
    let (left, right) = (scale.x(f64::NEG_INFINITY), scale.x(f64::INFINITY));
    svg += &line("axis", (left, middle), (right, middle));
    for tick in &scale.ticks {
        let x = scale.x(*tick);
        svg += &line("tick", (x, 0.0), (x, BAR_HEIGHT));
    }
    svg += &line(
        "bar",
        (scale.x(estimate.lo), middle),
        (scale.x(estimate.hi), middle),
    );
    let dot = scale.x(estimate.value);
    let _ = write!(
        svg,
        "<circle class=\"value\" cx=\"{dot:.1}\" cy=\"{middle}\" r=\"3\"/></svg>"
    );
    svg
}

fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    format!(
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    )
}

/// The latency curves of a victim, time on a logarithmic axis.
pub(super) fn latency_chart(chart: &LatencyChart) -> String {
    let mut html = format!("<h2>Latency of {}, open loop</h2>\n", escape(&chart.victim));
    let times = chart
        .curves
        .iter()
        .flat_map(|c| &c.points)
        .map(|point| point.0.max(1));
    let (Some(min_ns), Some(max_ns)) = (times.clone().min(), times.max()) else {
        html += "<p class=\"soft\">No request was answered.</p>\n";
        return html;
    };
    let axis = TimeAxis::over(min_ns, max_ns);
    let _ = writeln!(
        html,
        "<svg viewBox=\"0 0 {CHART_WIDTH} {CHART_HEIGHT}\" width=\"{CHART_WIDTH}\" role=\"img\" \
         aria-label=\"share of requests answered within a time\">"
    );
    html += &grid(&axis);
    for (index, curve) in chart.curves.iter().enumerate() {
        html += &path(curve, &axis, index % LINE_KINDS);
    }
    html += "</svg>\n<ul>\n";
    for (index, curve) in chart.curves.iter().enumerate() {
        let _ = writeln!(
            html,
            "<li><svg width=\"34\" height=\"8\" aria-hidden=\"true\"><path class=\"curve k{}\" \
             d=\"M0 4H34\"/></svg> {} <span class=\"soft\">n = {} requests, {} never answered\
             </span></li>",
            index % LINE_KINDS,
            escape(&curve.label),
            curve.requests,
            curve.unanswered
        );
    }
    html += "</ul>\n";
    html
}

/// A logarithmic axis over whole decades.
struct TimeAxis {
    first_decade: i32,
    last_decade: i32,
}

impl TimeAxis {
    fn over(min_ns: u64, max_ns: u64) -> Self {
        let first_decade = decade(min_ns);
        let last_decade = decade(max_ns) + 1;
        Self {
            first_decade,
            last_decade,
        }
    }

    fn x(&self, ns: f64) -> f64 {
        let decades = f64::from(self.last_decade - self.first_decade);
        let share = (ns.max(1.0).log10() - f64::from(self.first_decade)) / decades;
        CHART_LEFT + share * (CHART_WIDTH - CHART_LEFT - CHART_RIGHT)
    }
}

fn decade(ns: u64) -> i32 {
    i32::try_from(ns.max(1).ilog10()).unwrap_or(0)
}

fn y(share: f64) -> f64 {
    CHART_MARGIN + (1.0 - share) * (CHART_HEIGHT - CHART_BOTTOM - CHART_MARGIN)
}

fn grid(axis: &TimeAxis) -> String {
    let mut svg = String::new();
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let height = y(share);
        svg += &line(
            "axis",
            (CHART_LEFT, height),
            (CHART_WIDTH - CHART_RIGHT, height),
        );
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{share}</text>",
            CHART_LEFT - 6.0,
            height + 4.0
        );
    }
    for decade in axis.first_decade..=axis.last_decade {
        let x = axis.x(10f64.powi(decade));
        svg += &line("axis", (x, y(0.0)), (x, y(1.0)));
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y(0.0) + 18.0,
            time_label(decade)
        );
    }
    svg
}

/// A power of ten of nanoseconds, in its usual unit.
fn time_label(decade: i32) -> String {
    let (unit, below) = match decade {
        ..3 => ("ns", 0),
        3..6 => ("us", 3),
        6..9 => ("ms", 6),
        _ => ("s", 9),
    };
    format!("{} {unit}", 10f64.powi(decade - below))
}

/// A step function: the share rises where a request was answered.
fn path(curve: &LatencyCurve, axis: &TimeAxis, kind: usize) -> String {
    let Some((first_ns, _)) = curve.points.first() else {
        return String::new();
    };
    let mut d = format!("M{:.1} {:.1}", axis.x(*first_ns as f64), y(0.0));
    for (ns, share) in &curve.points {
        let _ = write!(d, "H{:.1}V{:.1}", axis.x(*ns as f64), y(*share));
    }
    format!("<path class=\"curve k{kind}\" d=\"{d}\"/>\n")
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Ends, Estimate};

    use super::{BAR_MARGIN, BAR_WIDTH, Scale, interval_bar, time_label};

    #[test]
    fn every_figure_lies_on_its_scale() {
        let estimate = |lo, value, hi| Estimate {
            value,
            lo,
            hi,
            ends: Ends::Interval,
            n: 8,
            unit: "ratio".to_owned(),
        };
        let wide = [estimate(-0.5, 0.2, 0.9), estimate(1.0, 2.0, 3.5)];
        let scale = Scale::over(wide.iter(), vec![0.8]);
        assert!((scale.x(-0.5) - BAR_MARGIN).abs() < 1e-9);
        assert!((scale.x(3.5) - (BAR_WIDTH - BAR_MARGIN)).abs() < 1e-9);
        assert!((scale.x(1.5) - BAR_WIDTH / 2.0).abs() < 1e-9);
        assert_eq!(interval_bar("x", &estimate(f64::NAN, 0.0, 1.0), &scale), "");
        assert!(interval_bar("x", &wide[0], &scale).contains("x: 0.200 [-0.500, 0.900]"));
    }

    #[test]
    fn decades_have_their_usual_unit() {
        let labels: Vec<String> = [0, 2, 3, 5, 6, 8, 9, 10].map(time_label).into();
        assert_eq!(
            labels,
            [
                "1 ns", "100 ns", "1 us", "100 us", "1 ms", "100 ms", "1 s", "10 s"
            ]
        );
    }
}
