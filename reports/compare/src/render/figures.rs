//! Figures and changes in the units of their rows.

use gpubench_show::outwards;

use crate::session::Metric;

/// A change in the unit of its row.
pub(super) fn of_change(metric: Metric, change: f64) -> String {
    match metric {
        Metric::Jitter => format!("{change:+.2}"),
        Metric::Survival => format!("{:+.1} points", 100.0 * change),
        _ => format!("{:+.1} %", 100.0 * change),
    }
}

/// A figure in the unit of its row, or the upper bound of a victim that starved, which is a ratio.
pub(super) fn figure_or_bound(metric: Metric, value: f64, is_bound: bool) -> String {
    match metric {
        _ if !is_bound => figure(metric, value),
        Metric::Retention | Metric::DoseRetention | Metric::Guarantee | Metric::Efficiency => {
            format!("<{}", outwards(value, 1.0, 3))
        }
        _ => format!("<{}", figure(metric, value)),
    }
}

/// A figure in the unit of its row: latencies are kept in ns.
pub(super) fn figure(metric: Metric, value: f64) -> String {
    match metric {
        Metric::P99 | Metric::P50 => format!("{:.3} ms", value / 1e6),
        Metric::ContendedRate | Metric::SoloRate | Metric::NativeRate | Metric::AggressorRate => {
            format!("{value:.1} /s")
        }
        Metric::Jitter => format!("{value:.2} medians"),
        Metric::Retention
        | Metric::DoseRetention
        | Metric::Guarantee
        | Metric::Efficiency
        | Metric::Survival => format!("{value:.3}"),
    }
}
